"""Casts of arrays that calls read one at a time: kept from the second read on, as long as nobody writes the array."""

from __future__ import annotations

import weakref

import numpy as np

from atled.arrays.cell import ArrayCell, Storage, Use
from atled.arrays.place import HOST

# What has been read once, and the number of its last write then. Most arrays that are cast are results, which nobody
# reads again: a copy of them would only take memory.
_READ: weakref.WeakKeyDictionary[ArrayCell, int] = weakref.WeakKeyDictionary()
_WRITTEN = Use.WRITTEN


def kept_cast(cell: ArrayCell | None, dtype: np.dtype) -> ArrayCell | None:
    """An array that holds the values of one in host memory with another dtype, not to be written; None: cast anew.

    It is kept as a copy of the array. What others may be writing, a plan or the holder of a view, has none.
    """
    if cell is None or cell.use is _WRITTEN or cell.has_live_view:
        return None
    copy = cell.copies.get((HOST, dtype))
    if copy is None or not copy[1]:
        if _READ.get(cell) != cell.last_write:
            _READ[cell] = cell.last_write
            return None
        _READ.pop(cell, None)
    return _over(cell.copy_at(HOST, dtype), dtype, cell.size)


def _over(storage: Storage, dtype: np.dtype, size: int) -> ArrayCell:
    cell = ArrayCell(size)
    cell.dtype, cell.storage, cell.pending = dtype, storage, None
    return cell
