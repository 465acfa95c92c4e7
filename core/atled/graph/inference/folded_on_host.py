"""Normalization and sums in products, computed by NumPy where the parameters are in host memory.

A plan of them would be compiled to run once: a third of the first call of a network of fifty layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.cell import ArrayCell
from atled.arrays.place import HOST
from atled.arrays.storage import HostStorage
from atled.graph.inference.fixed_graph import Folds, Leaves
from atled.graph.inference.recorded import OneCall, Operand
from atled.type_configs import compute_dtype

Arrays = tuple[np.ndarray, ...]


class Looks(Folds[np.ndarray]):
    """Arrays of the shapes and dtypes of parameters, without memory: whether and to what something is folded.

    leaves: the parameters.
    """

    def __init__(self, leaves: Leaves) -> None:
        self.shapes = np
        self._leaves = leaves

    def value(self, operand: Operand) -> np.ndarray | None:
        """See Folds."""
        if operand is None:
            return None
        assert isinstance(operand, int), "a parameter"
        return self._array(*self._leaves[operand])

    def _array(self, number: int, desc: ArrayDesc) -> np.ndarray:
        """An outside array."""
        del number
        return np.ndarray(desc.shape, desc.dtype, bytes(desc.dtype.itemsize), strides=(0,) * desc.ndim)

    def _begin(self, call: OneCall) -> None:
        """NumPy needs no Context."""

    def _times(self, weight: np.ndarray, factor: np.ndarray) -> np.ndarray:
        del factor
        return weight


class _Values(Looks):
    """The same with the values.

    cells: the outside arrays.
    made: arrays that have memory of a cell, by their identity.
    read: the outside arrays that were asked for, by number.
    """

    def __init__(self, leaves: Leaves, cells: Sequence[ArrayCell]) -> None:
        super().__init__(leaves)
        self._cells = cells
        self.read: dict[int, ArrayCell] = {}
        self._made: dict[int, tuple[np.ndarray, ArrayCell]] = {}

    def _array(self, number: int, desc: ArrayDesc) -> np.ndarray:
        cell = self.read[number] = self._cells[number]
        storage = cell.copy_at(HOST, desc.dtype)
        assert isinstance(storage, HostStorage)
        return storage.array(desc.shape, desc.dtype)

    def _times(self, weight: np.ndarray, factor: np.ndarray) -> np.ndarray:
        cell, product = _new(weight.shape, weight.dtype)
        np.multiply(weight, factor, out=product)
        self._made[id(product)] = product, cell
        return product

    def cell(self, array: np.ndarray) -> ArrayCell:
        """A cell that holds a result."""
        if id(array) in self._made:
            return self._made[id(array)][1]
        cell, copy = _new(array.shape, array.dtype)
        copy[...] = array
        return cell


def _new(shape: tuple[int, ...], dtype: np.dtype) -> tuple[ArrayCell, np.ndarray]:
    """A new array, and a view of its memory."""
    desc = ArrayDesc(shape, dtype)
    cell = ArrayCell(desc.size)
    storage = cell.output(HOST, dtype)
    assert isinstance(storage, HostStorage)
    return cell, storage.array(shape, dtype)


class FoldedOnHost:
    """What is folded into one product.

    keys: per result what it is.
    """

    def __init__(self, keys: Sequence[object], compute: Callable[[Looks], Arrays | None], leaves: Leaves) -> None:
        self.keys = tuple(keys)
        self._compute = compute
        self._leaves = leaves

    def computed(self, cells: Sequence[ArrayCell]) -> tuple[list[ArrayCell], Sequence[ArrayCell]]:
        """The results, in new arrays, and the arrays that they were computed from.

        cells: the outside arrays of the inference.
        """
        values = _Values(self._leaves, cells)
        with np.errstate(all="ignore"):  # as kernels do: a variance below 0 gives NaN
            found = self._compute(values)
        assert found is not None, "as when it was compiled"
        return [values.cell(array) for array in found], list(values.read.values())


def fits(calls: Sequence[OneCall], operands: Sequence[Operand], dtype: np.dtype, leaves: Leaves) -> bool:
    """Whether NumPy computes what the calls' backends would: of parameters, and in the dtype of all of them.

    leaves: the parameters in host memory.
    """
    return all(
        each is None or (isinstance(each, int) and each in leaves and leaves[each][1].dtype == dtype)
        for each in operands
    ) and all(compute_dtype(config) == dtype for call in calls for _, config in call.context.backends)
