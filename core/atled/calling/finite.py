"""Whether arrays hold infinities or NaN, found out where their values are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.cell import FLOAT32, ArrayCell
from atled.arrays.place import HOST, Place
from atled.arrays.storage import HostStorage
from atled.calling.apply import apply
from atled.graph.nodes.dispatch import context_on
from atled_contexts import SelectionError, context_scope

_DOUBLE = np.dtype(np.float64)


class Test(NamedTuple):
    """A test of elements: by NumPy, and by ops, which give 1 or 0 for each."""

    on_host: Callable[[np.ndarray], np.ndarray]
    by_ops: Callable[[NdArray], NdArray]


def _is_infinite(x: NdArray) -> NdArray:
    found: NdArray = apply("EqualScalar", [apply("Abs", [x], {})], {"val": float("inf")})
    return found


def _is_nan(x: NdArray) -> NdArray:
    found: NdArray = apply("NotEqual", [x, x], {})
    return found


INF = Test(np.isinf, _is_infinite)
NAN = Test(np.isnan, _is_nan)
INF_OR_NAN = Test(lambda values: ~np.isfinite(values), lambda x: _is_nan(apply("Sub2", [x, x], {})))


def holds_any(cells: Sequence[ArrayCell], test: Test) -> bool:
    """Whether any element of the arrays passes a test. Of what is on a device one number is read, for all arrays."""
    totals: dict[tuple[Place, str], NdArray] = {}
    for cell in cells:
        cell.settle()
        key = cell.place, "double" if cell.dtype == _DOUBLE else "float"
        total = _added(cell, test, key, totals.get(key))
        if total is not None:
            totals[key] = total
        elif _holds_on_host(cell, test):
            return True
    return any(float(total.data) for total in totals.values())


def _added(cell: ArrayCell, test: Test, key: tuple[Place, str], total: NdArray | None) -> NdArray | None:
    """The total with the count of elements that pass; None where no backend of their device computes it."""
    context = context_on(*key)
    if context is None:
        return None
    try:
        with context_scope(context):
            count: NdArray = apply("Sum", [test.by_ops(NdArray.over(cell, (cell.size,)))], {})
            return count if total is None else apply("Add2", [total, count], {})
    except SelectionError:  # the host computes it then, and the copy to it is counted
        return None


def _holds_on_host(cell: ArrayCell, test: Test) -> bool:
    dtype = cell.dtype or FLOAT32
    storage = cell.copy_at(HOST, dtype)
    assert isinstance(storage, HostStorage)
    return bool(test.on_host(storage.array((cell.size,), dtype)).any())
