"""A data set of a CSV table and image files: iterators over it, caches, slices, epochs."""

import csv
import os
import tempfile

import numpy as np
from nnabla.utils.data_iterator import (
    data_iterator,
    data_iterator_cache,
    data_iterator_concat_datasets,
    data_iterator_csv_dataset,
)
from nnabla.utils.data_source import DataSource, DataSourceWithFileCache
from nnabla.utils.data_source_implements import CsvDataSource
from nnabla.utils.image_utils import imread, imsave


class Squares(DataSource):
    """A source of one's own."""

    def __init__(self, count, shuffle=False, rng=None):
        super().__init__(shuffle=shuffle, rng=rng)
        self._size = count
        self._variables = ("x", "y")
        self.reset()

    def reset(self):
        self._indexes = self._rng.permutation(self._size) if self._shuffle else np.arange(self._size)
        super().reset()

    def _get_data(self, position):
        i = self._indexes[position]
        return np.array([i]), np.array([i * i])


def write_table(folder, count):
    rng = np.random.RandomState(0)
    path = os.path.join(folder, "table.csv")
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x:image", "y:label", "z__0:width", "z__1:height", "# remark"])
        for i in range(count):
            image = rng.randint(0, 256, (6, 5, 3)).astype(np.uint8)
            image[0, 0, 0] = i
            imsave(os.path.join(folder, f"{i}.png"), image)
            assert (imread(os.path.join(folder, f"{i}.png")) == image).all()
            writer.writerow([f"{i}.png", i % 3, 5, 6, "nothing"])
    return path


def main():
    with tempfile.TemporaryDirectory() as folder:
        table = write_table(folder, 10)
        ended = []
        with data_iterator_csv_dataset(table, 4, shuffle=True, normalize=False, with_file_cache=False) as batches:
            batches.register_epoch_end_callback(ended.append)
            assert tuple(batches.variables) == ("x", "y", "z") and batches.size == 10
            x, y, z = batches.next()
            assert x.shape == (4, 3, 6, 5) and y.shape == (4, 1) and z.shape == (4, 2)
            numbers = [*x[:, 0, 0, 0]]
            while batches.epoch < 2:
                numbers.extend(batches.next()[0][:, 0, 0, 0])
        assert sorted(numbers[:10]) == list(range(10)) and ended == [0, 1]

        cache = os.path.join(folder, "cache")
        os.makedirs(cache)
        with DataSourceWithFileCache(CsvDataSource(table), cache_dir=cache):
            pass
        with data_iterator_cache(cache, 5, shuffle=True) as batches:
            x, y, z = batches.next()
            assert x.dtype == np.float32 and x.min() >= 0 and x.max() <= 1

        with data_iterator(Squares(9), 3) as whole:
            parts = [whole.slice(None, num_of_slices=3, slice_pos=number) for number in range(3)]
            assert [part.next()[1].ravel().tolist() for part in parts] == [[0, 1, 4], [9, 16, 25], [36, 49, 64]]
            for part in parts:
                part.close()
        with data_iterator_concat_datasets([Squares(3), Squares(4)], 7) as batches:
            assert batches.next()[0].ravel().tolist() == [0, 1, 2, 0, 1, 2, 3]
        with data_iterator(Squares(5), 2, stop_exhausted=True) as batches:
            assert len(list(batches)) == 2
    print("done: tables, caches, slices")


if __name__ == "__main__":
    main()
