"""Data sources: where samples come from, one at a time by position, and the caches and slices over them."""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import numpy as np

from atled.config import nnabla_config, whole_number
from atled.errors import four_parts
from atled.logger import logger
from atled.random import data_generator
from atled.utils.data_files import read_arrays, write_arrays

__all__ = [
    "DataSource",
    "DataSourceWithFileCache",
    "DataSourceWithFileCacheError",
    "DataSourceWithMemoryCache",
    "SlicedDataSource",
]

_KEPT_GENERATIONS = 15


class DataSource:
    """Base of all sources of samples.

    A subclass calls this constructor, sets `_size` (count of samples) and `_variables` (a name per array of a sample),
    and defines `_get_data(position)`, which gives the arrays of one sample, and `reset()`, which begins an epoch,
    reshuffles where `shuffle` is true, and calls this class's `reset()`. Caches, slices and iterators may call
    `_get_data` from several threads at the same time.

    Args:
        shuffle: whether the samples come in an order drawn by chance.
        rng: a numpy.random.RandomState; None: one seeded by 313, or by `atled.seed`.
    """

    def __init__(self, shuffle: bool = False, rng: np.random.RandomState | None = None) -> None:
        self._rng = data_generator() if rng is None else rng
        self._variables: Sequence[str] = ()
        self._generation = -1
        self._shuffle = shuffle
        self._position = 0
        self._size = 0
        self._closed = False
        self._order: Any = None
        self._original_order: Any = None
        self._original_source_uri: str | None = None
        # Orders that slices agree on, by number; see `_get_data_of_generation`.
        self._slice_orders: dict[int, np.ndarray] = {}
        self._slice_lock = threading.Lock()

    def _get_data(self, position: int) -> Sequence[Any]:
        """The arrays of the sample at a position of the present order."""
        raise NotImplementedError(f"{type(self).__name__} does not define _get_data(position)")

    def _get_data_of_generation(self, position: int, generation: int) -> Sequence[Any]:
        """The sample at a position of the order that all slices use in their epoch of that number."""
        self._generate_order(generation)
        order = self._slice_orders.get(generation)
        if order is None:
            raise RuntimeError(
                four_parts(
                    f"epoch {generation} of a slice",
                    f"another slice of the same data is more than {_KEPT_GENERATIONS} epochs ahead",
                    "",
                    "let the slices keep step, or give each its own data source",
                )
            )
        return self._get_data(int(order[position]))

    def _generate_order(self, generation: int) -> None:
        """Draw the order of that number, unless it is drawn already."""
        with self._slice_lock:
            if generation <= max(self._slice_orders, default=-1):
                return
            is_first = generation == 0 or not self._shuffle
            self._slice_orders[generation] = np.arange(self._size) if is_first else self._permutation()
            _drop_old(self._slice_orders)

    def _permutation(self) -> np.ndarray:
        """All positions in an order drawn by chance."""
        return self._rng.permutation(self._size)

    def __iter__(self) -> DataSource:
        return self

    def __next__(self) -> Sequence[Any]:
        return self.next()

    def __enter__(self) -> DataSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release what the source holds; a second call does nothing."""
        self._closed = True

    @property
    def order(self) -> Any:
        """The present order, where the source keeps one."""
        return self._order

    @property
    def variables(self) -> Sequence[str]:
        """The names of the arrays of a sample."""
        return self._variables

    def next(self) -> Sequence[Any]:
        """The next sample."""
        data = self._get_data(self._position)
        self._position += 1
        return data

    @property
    def position(self) -> int:
        """How many samples of the present epoch were given."""
        return self._position

    @property
    def size(self) -> int:
        """Count of samples."""
        return self._size

    @property
    def shuffle(self) -> bool:
        """Whether the order is drawn by chance."""
        return self._shuffle

    @shuffle.setter
    def shuffle(self, value: bool) -> None:
        self._shuffle = value

    def reset(self) -> None:
        """Begin an epoch."""
        self._position = 0

    def apply_order(self) -> None:
        """Called after the batch in which an epoch ended; draws a new order where `reset` draws none."""


def _drop_old(orders: dict[int, np.ndarray]) -> None:
    while len(orders) > _KEPT_GENERATIONS:
        del orders[min(orders)]


def permuted_blocks(lengths: Sequence[int], rng: np.random.RandomState) -> np.ndarray:
    """Positions of consecutive blocks of these lengths, shuffled block by block and within each block."""
    starts = np.cumsum([0, *lengths])
    order = [starts[block] + rng.permutation(lengths[block]) for block in rng.permutation(len(lengths))]
    return np.concatenate(order) if order else np.arange(0)


def _remove_cache(folder: str, process: int) -> None:
    """Remove a temporary cache, in the process that made it: those forked from it end while it still reads there."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


class DataSourceWithFileCacheError(Exception):
    """A cache could not be written."""


class DataSourceWithFileCache(DataSource):
    """A source whose samples are written to files once, and read from there.

    The cache is in NNabla's format: `cache_index.csv` lists files and their counts of samples; `cache_info.csv` names
    the variables, for `.npy` files; `order.csv` and a copy of the original table come with them. `CacheDataSource`
    reads it.

    Args:
        data_source: what to cache; read by several threads at the same time.
        cache_dir: folder to write to, kept; None: a temporary one, removed when the source is closed or forgotten.
        cache_file_name_prefix: how names of files begin.
        shuffle: files, and samples within a file, come in an order drawn by chance.
        rng: a numpy.random.RandomState; None: one seeded by 313, or by `atled.seed`.

    Raises:
        DataSourceWithFileCacheError: samples differ in shape.
        OSError: the folder cannot be written to.
    """

    def __init__(
        self,
        data_source: DataSource,
        cache_dir: str | None = None,
        cache_file_name_prefix: str = "cache",
        shuffle: bool = False,
        rng: np.random.RandomState | None = None,
    ) -> None:
        super().__init__(shuffle=shuffle, rng=rng)
        self._data_source = data_source
        self._size = data_source.size
        self._variables = data_source.variables
        self._prefix = cache_file_name_prefix
        self._cache_size = whole_number("DATA_ITERATOR", "data_source_file_cache_size", least=1)
        self._suffix = nnabla_config.get("DATA_ITERATOR", "cache_file_format")
        self._lock = threading.Lock()
        self._current: tuple[int, Sequence[np.ndarray]] = (-1, ())
        self._remove = None
        if cache_dir is None:
            place = nnabla_config.get("DATA_ITERATOR", "data_source_file_cache_location") or None
            cache_dir = tempfile.mkdtemp(prefix="atled-cache-", dir=place)
            # Not `atexit`, which would keep the source and its data alive until the program ends.
            self._remove = weakref.finalize(self, _remove_cache, cache_dir, os.getpid())
        os.makedirs(cache_dir, exist_ok=True)
        self._cache_dir = cache_dir
        lengths = self._write_cache()
        self._file_order = list(range(len(lengths)))
        self._data_orders = [list(range(length)) for length in lengths]
        self._original_order = list(range(self._size))
        self._place_samples()

    def _write_cache(self) -> list[int]:
        """Write everything; the count of samples of each file."""
        threads = whole_number("DATA_ITERATOR", "data_source_file_cache_num_of_threads", least=1)
        starts = range(0, self._size, self._cache_size)
        lengths = [min(self._cache_size, self._size - start) for start in starts]
        self._files = [
            f"{self._prefix}_{start:08d}_{start + length - 1:08d}{self._suffix}"
            for start, length in zip(starts, lengths, strict=True)
        ]
        logger.debug("writing %d files of samples to %s", len(lengths), self._cache_dir)
        with ThreadPoolExecutor(threads, thread_name_prefix="atled-cache") as pool:
            for start, length, name in zip(starts, lengths, self._files, strict=True):
                samples = list(pool.map(self._data_source._get_data, range(start, start + length)))
                columns = {
                    variable: self._column(variable, [sample[number] for sample in samples], start)
                    for number, variable in enumerate(self._variables)
                }
                write_arrays(os.path.join(self._cache_dir, name), columns)
        self._write_tables(lengths)
        return lengths

    def _column(self, variable: str, values: Sequence[Any], start: int) -> np.ndarray:
        arrays = [value if isinstance(value, np.ndarray) else np.asarray(value, np.float32) for value in values]
        for number, array in enumerate(arrays):
            if array.shape != arrays[0].shape:
                raise DataSourceWithFileCacheError(
                    four_parts(
                        f"caching variable {variable!r} in {self._cache_dir!r}",
                        f"sample {start + number} has shape {array.shape}, sample {start} has shape {arrays[0].shape}",
                        "",
                        "bring all samples to one shape",
                    )
                )
        return np.stack(arrays)

    def _write_tables(self, lengths: Sequence[int]) -> None:
        self._table("cache_index.csv", zip(self._files, lengths, strict=True))
        if self._suffix == ".npy":
            self._table("cache_info.csv", ((variable,) for variable in self._variables))
        source = self._data_source
        if source._original_source_uri is not None:
            shutil.copyfile(source._original_source_uri, os.path.join(self._cache_dir, "original.csv"))
        if source._order is not None and source._original_order is not None:
            self._table("order.csv", zip(source._original_order, source._order, strict=True))

    def _table(self, name: str, rows: Any) -> None:
        with open(os.path.join(self._cache_dir, name), "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)

    def _place_samples(self) -> None:
        """Take the present orders of files and within files as the order of samples."""
        places = [(file, index) for file in self._file_order for index in self._data_orders[file]]
        self._places = places
        self._order = [file * self._cache_size + index for file, index in places]

    def _get_data(self, position: int) -> Sequence[Any]:
        file, index = self._places[position]
        with self._lock:
            if self._current[0] != file:
                path = os.path.join(self._cache_dir, self._files[file])
                self._current = (file, read_arrays(path, self._variables, len(self._data_orders[file])))
            columns = self._current[1]
        return [column[index] for column in columns]

    def _permutation(self) -> np.ndarray:
        return permuted_blocks([len(self._data_orders[file]) for file in self._file_order], self._rng)

    def reset(self) -> None:
        """Begin an epoch, in a new order of files and within files where it shuffles."""
        if self._shuffle:
            self._file_order = list(self._rng.permutation(self._file_order))
            self._data_orders = [list(self._rng.permutation(order)) for order in self._data_orders]
        self._place_samples()
        self._data_source.reset()
        self._generation += 1
        super().reset()

    def close(self) -> None:
        """Close the source beneath too, and remove a temporary folder."""
        if not self._closed:
            if self._remove is not None:
                self._remove()
            self._data_source.close()
        super().close()


class DataSourceWithMemoryCache(DataSource):
    """A source whose samples are kept in memory when they are first read, if all of them fit.

    They fit below `data_source_buffer_max_size` bytes of the configuration, by the size of the first sample. The order
    of the source stays for two epochs, as in NNabla; from then on the samples in memory are shuffled.

    Args:
        data_source: what to keep.
        shuffle: whether the order changes from epoch to epoch.
        rng: a numpy.random.RandomState; None: one seeded by 313, or by `atled.seed`.
    """

    def __init__(
        self, data_source: DataSource, shuffle: bool = False, rng: np.random.RandomState | None = None
    ) -> None:
        super().__init__(shuffle=shuffle, rng=rng)
        self._data_source = data_source
        self._size = data_source.size
        self._variables = data_source.variables
        self._order = np.arange(self._size)
        self._cache: dict[int, Sequence[Any]] = {}
        limit = whole_number("DATA_ITERATOR", "data_source_buffer_max_size")
        first = data_source._get_data(0) if self._size else ()
        nbytes = sum(np.asarray(value, None if isinstance(value, np.ndarray) else np.float32).nbytes for value in first)
        self._on_memory = nbytes * self._size < limit

    def _get_data(self, position: int) -> Sequence[Any]:
        if not self._on_memory:
            return self._data_source._get_data(position)
        index = int(self._order[position])
        data = self._cache.get(index)
        if data is None:
            data = self._cache[index] = self._data_source._get_data(index)
        return data

    def reset(self) -> None:
        """Begin an epoch."""
        if self._on_memory:
            self._generation += 1
            is_shuffled = self._shuffle and self._generation > 0
            self._order = self._rng.permutation(self._size) if is_shuffled else np.arange(self._size)
            if self._position == 0:
                self._generation = -1
            elif len(self._cache) == self._size:
                # Only for its generator, which may be ours too and goes on as NNabla's does. Not before all samples
                # are here: their positions would change under those still to be read.
                self._data_source.reset()
        else:
            self._data_source.reset()
            self._generation = self._data_source._generation
        super().reset()

    def apply_order(self) -> None:
        """Passed on to the source, unless the samples are in memory."""
        if not self._on_memory:
            self._data_source.apply_order()

    def close(self) -> None:
        """Close the source beneath too."""
        if not self._closed:
            self._data_source.close()
        super().close()


class SlicedDataSource(DataSource):
    """A part of a source: positions slice_start to slice_end, end excluded, of an order that all its slices share.

    Where the source shuffles, the order changes from epoch to epoch, for all slices alike: in each epoch they are
    disjoint if their ranges are.

    Args:
        data_source: what to take a part of. It is not reset.
        shuffle, rng: as of every source; the order is that of `data_source`.
        slice_start, slice_end: the range of positions.

    Raises ValueError for a range outside of the source.
    """

    def __init__(
        self,
        data_source: DataSource,
        shuffle: bool = False,
        rng: np.random.RandomState | None = None,
        slice_start: int | None = None,
        slice_end: int | None = None,
    ) -> None:
        super().__init__(shuffle=shuffle, rng=rng)
        start = 0 if slice_start is None else slice_start
        end = data_source.size if slice_end is None else slice_end
        if not 0 <= start < end <= data_source.size:
            raise ValueError(
                four_parts(
                    f"slice {start} to {end} of {data_source.size} samples",
                    "it is empty, or reaches outside",
                    "",
                    f"use 0 <= slice_start < slice_end <= {data_source.size}",
                )
            )
        self._data_source = data_source
        self._variables = data_source.variables
        self._slice_start = start
        self._size = end - start
        # Every slice begins with the first order, also one made later; where that is dropped, with the earliest kept.
        self._generation = min(data_source._slice_orders, default=0)

    def _get_data(self, position: int) -> Sequence[Any]:
        return self._data_source._get_data_of_generation(self._slice_start + position, self._generation)

    def apply_order(self) -> None:
        """Go on to the next of the orders that the slices share."""
        self._generation += 1
        self._data_source._generate_order(self._generation)


def __dir__() -> list[str]:
    return sorted(__all__)
