"""The orders in which iterators give their samples, by scenario; the same code for atled and for NNabla.

`python orders.py > nnabla_orders.json`, run by a Python with NNabla 1.39, makes the expected ones.
"""

from __future__ import annotations

import json
import os
import tempfile

import numpy as np

SEED = 20
BATCHES = 9


def _numbers(iterator):
    with iterator:
        found = [np.ravel(iterator.next()[0]).astype(int).tolist() for _ in range(BATCHES)]
        return [found, iterator.epoch]


def _sample(i):
    return np.array([i]), np.array([10 * i])


def _table(folder, count):
    path = os.path.join(folder, "table.csv")
    with open(path, "w") as file:
        file.write("x:number,y__0,y__1\n" + "".join(f"{i},{i + 0.5},{-i}\n" for i in range(count)))
    return path


def _cache(library, folder, count):
    path = os.path.join(folder, "cache")
    os.makedirs(path)
    library.DataSourceWithFileCache(library.SimpleDataSource(_sample, count), cache_dir=path).close()
    return path


def _rng():
    return np.random.RandomState(SEED)


def orders(library, folder):
    """library: an object with NNabla's names of iterators and sources, and its configuration as `nnabla_config`."""
    library.nnabla_config.set("DATA_ITERATOR", "data_source_file_cache_size", "4")
    found = {}
    for shuffle in (False, True):
        for thread in (False, True):
            options = {"shuffle": shuffle, "rng": _rng(), "use_thread": thread}
            iterator = library.data_iterator_simple(_sample, 10, 4, **options)
            found[f"simple shuffle={shuffle} thread={thread}"] = _numbers(iterator)
    for memory in (False, True):
        for file in (False, True):
            caches = {"with_memory_cache": memory, "with_file_cache": file, "use_thread": False}
            name = f"memory={memory} file={file}"
            iterator = library.data_iterator_simple(_sample, 10, 5, shuffle=True, rng=_rng(), **caches)
            found[f"simple {name}"] = _numbers(iterator)
            table = _table(folder, 10)
            iterator = library.data_iterator_csv_dataset(table, 4, shuffle=True, rng=_rng(), **caches)
            found[f"csv {name}"] = _numbers(iterator)
            rng = _rng()
            source = library.CsvDataSource(table, shuffle=True, rng=rng)
            found[f"one generator {name}"] = _numbers(library.data_iterator(source, 3, rng=rng, **caches))
            sources = [library.SimpleDataSource(_sample, 3), library.SimpleDataSource(_sample, 5)]
            iterator = library.data_iterator_concat_datasets(sources, 3, shuffle=True, rng=_rng(), **caches)
            found[f"concat {name}"] = _numbers(iterator)
    cache = _cache(library, folder, 10)
    for shuffle in (False, True):
        for memory in (False, True):
            iterator = library.data_iterator_cache(
                cache, 4, shuffle=shuffle, rng=_rng(), with_memory_cache=memory, use_thread=False
            )
            found[f"cache shuffle={shuffle} memory={memory}"] = _numbers(iterator)
    for drop_last in (False, True):
        whole = library.data_iterator_simple(_sample, 11, 2, shuffle=True, rng=_rng(), use_thread=False)
        for number in range(3):
            part = whole.slice(None, num_of_slices=3, slice_pos=number, drop_last=drop_last)
            found[f"slice {number} of 3, drop_last={drop_last}"] = _numbers(part)
    whole = library.data_iterator_simple(_sample, 11, 2, use_thread=False)
    found["slice 3 to 8"] = _numbers(whole.slice(None, slice_start=3, slice_end=8))
    found["slice 3 to 8, cached"] = _numbers(whole.slice(_rng(), slice_start=3, slice_end=8, use_cache=True))
    return found


class Names:
    """The names of several modules as one object."""

    def __init__(self, *modules):
        for module in modules:
            self.__dict__.update({name: value for name, value in vars(module).items() if not name.startswith("__")})


if __name__ == "__main__":
    import nnabla.config
    import nnabla.utils.data_iterator
    import nnabla.utils.data_source
    import nnabla.utils.data_source_implements

    nnabla.logger.setLevel("CRITICAL")
    made = Names(
        nnabla.config, nnabla.utils.data_source, nnabla.utils.data_source_implements, nnabla.utils.data_iterator
    )
    with tempfile.TemporaryDirectory() as place:
        print("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in orders(made, place).items()) + "\n}")
