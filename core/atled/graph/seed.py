"""The gradient from which a backward starts: the root's own, or one that is lent to the root for the run."""

from __future__ import annotations

import math

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell
from atled.arrays.place import HOST
from atled.arrays.storage import HostStorage
from atled.dtypes import is_float
from atled.graph.backward_plan import Backward
from atled.graph.record.roots import Roots
from atled.graph.record.value import Value
from atled.limits.caches import register_cache


def seed_of(roots: Roots, position: int, root: Value, grad: float | np.ndarray | NdArray | None) -> ArrayCell:
    """The cell that holds the gradient of a root for one backward; `grad` is lent to it, None takes its present one.

    position: of the root among `roots`.
    """
    if grad is None:
        root.grad.cell.settle()
        return root.grad.cell
    is_number = isinstance(grad, int | float)
    shape = (1,) if is_number else root.shape
    lent: Seed | None = roots.seeds[position]
    if lent is None or lent.array.shape != shape:
        lent = roots.seeds[position] = Seed(shape)
        # A graph with a pattern is built again at every step, as a rule, and has a seed of its own each time.
        if is_number and grad == 1 and root.pattern is not None and len(roots.seeds) == 1:
            lent.be_one(root.data.dtype)
    if isinstance(grad, NdArray) and lent.was_given(grad.cell) and _may_be_read(roots, root, grad):
        return grad.cell
    lent.set(grad, root.data.dtype)
    return lent.array.cell


def _may_be_read(roots: Roots, root: Value, grad: NdArray) -> bool:
    """Whether the last plan can read the gradient given for a root in its own memory, so that no copy is needed."""
    planned: Backward | None = roots.backward
    return (
        planned is not None
        and planned.is_current()
        and grad.shape == root.shape
        and grad.dtype == root.data.dtype
        and id(grad.cell) not in planned.written
    )


_LARGEST_INTEGER = 1 << 63  # NumPy has no number for those beyond, and `data` says so


_ONES: dict[np.dtype, ArrayCell] = {}
register_cache("seeds", _ONES.__len__, _ONES.clear)


class Seed:
    """The gradient that `backward(grad)` lends to a root for one run.

    array: of the root's shape, or of one element that stands for all.
    """

    __slots__ = ("_is_shared", "_last", "_number", "array")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.array = NdArray.over(ArrayCell(math.prod(shape)), shape)
        self._is_shared = False
        self._number: float | None = None
        self._last: ArrayCell | None = None

    def be_one(self, dtype: np.dtype) -> None:
        """Have the number 1, in the array that all graphs have for it, which is on each device already."""
        if is_float(dtype):
            cell = _ONES.get(dtype)
            if cell is None:
                cell = ArrayCell(1)
                cell.fill(1)
                cell.cast(dtype)
                cell = _ONES.setdefault(dtype, cell)
            self.array = NdArray.over(cell, (1,))
            self._is_shared = True
            self._number = 1.0

    def was_given(self, cell: ArrayCell) -> bool:
        """Whether the last backward was given this array, too: it is worth binding then."""
        is_last, self._last = cell is self._last, cell
        return is_last

    def set(self, grad: float | np.ndarray | NdArray, dtype: np.dtype) -> None:
        """Take the values of `grad`, broadcast; a number equal to the last one costs nothing."""
        number = grad if isinstance(grad, int | float) else None
        if number is not None and number == self._number and self.array.cell.dtype == dtype:
            return
        if self._is_shared:
            self.array = NdArray.over(ArrayCell(1), (1,))
            self._is_shared = False
        is_number = type(grad) is float or (type(grad) is int and abs(grad) < _LARGEST_INTEGER)
        with np.errstate(over="ignore"):  # a loss scale beyond float16 is infinite, which those who scale look for
            if is_number and is_float(dtype):
                # A graph that is built again at every step comes here at every step: without the checks of `data`.
                storage = self.array.cell.output(HOST, dtype)
                assert isinstance(storage, HostStorage)
                storage.array(self.array.shape, dtype).fill(grad)
            else:
                # Not the array's own cast: that hands out a view, and the memory could not be used again.
                self.array.cell.cast(dtype)
                self.array.data = grad
        self._number = number
