"""Where callbacks write: an HDF5 file in memory, of which a path on the disk has a whole copy at any time."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from atled.structures import h5py_library, replacing

_BLOCK = 1024
"""Elements by which a series grows."""


def new_records(asked: str, name: str) -> Any:
    """An empty h5py.File in memory.  ImportError: h5py is missing."""
    return h5py_library(asked).File(name, "w", driver="core", backing_store=False)


def save_records(records: Any, path: str | os.PathLike[str]) -> None:
    """Write all to a path, in the place of what is there, in one step.  OSError: it cannot be written."""
    records.flush()
    with replacing(path) as beside, open(beside, "xb") as file:
        file.write(records.id.get_file_image())


class Series:
    """A dataset with a row for each batch, however many there will be.

    records: an h5py.File.  key: of the dataset.  row: shape of a row.
    """

    def __init__(self, records: Any, key: str, row: tuple[int, ...] = ()) -> None:
        shape, chunks = (0, *row), (_BLOCK, *row)
        self._dataset = records.create_dataset(key, shape, np.float64, chunks=chunks, maxshape=(None, *row))
        self._dataset.attrs["time_markers"] = "minibatch"
        self._row, self._zeros = np.empty(row), (0,) * len(row)
        self._one = self._dataset.id.get_space()
        self._one.set_extent_simple((1, *row))
        self._space: Any = None
        self._count = self._room = 0

    def append(self, values: Any) -> None:
        """Write a row."""
        if self._count == self._room:
            self._room += _BLOCK
            self._dataset.resize(self._room, axis=0)
            self._space = self._dataset.id.get_space()
        # h5py's own indexing takes as long as a small layer.
        self._space.select_hyperslab((self._count, *self._zeros), (1, *self._row.shape))
        self._row[...] = values
        self._dataset.id.write(self._one, self._space, self._row)
        self._count += 1

    def trim(self) -> None:
        """Drop the rows that are not written."""
        self._dataset.resize(self._count, axis=0)
        self._room = self._count


def of_epochs(records: Any, key: str, epochs: int, epoch_freq: int) -> None:
    """Make a dataset with an element for every epoch_freq-th epoch, 0 until it is written."""
    dataset = records.create_dataset(key, (epochs // epoch_freq,), np.float64)
    dataset.attrs["time_markers"] = "epoch_freq"
    dataset.attrs["epoch_freq"] = epoch_freq


def of_epoch(records: Any, key: str, epoch: int) -> float | None:
    """What a dataset made by `of_epochs` has for an epoch; None where the dataset or the element is missing."""
    dataset = records.get(key)
    if dataset is None or (epoch + 1) % dataset.attrs["epoch_freq"]:
        return None
    return float(dataset[epoch // dataset.attrs["epoch_freq"]])
