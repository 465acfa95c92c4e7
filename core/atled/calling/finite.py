"""Whether arrays hold infinities or NaN, found out where their values are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.cell import FLOAT32, ArrayCell
from atled.arrays.operators import Calls
from atled.arrays.place import HOST, Place
from atled.arrays.storage import HostStorage
from atled.graph.nodes.dispatch import context_on
from atled.named_tuple import NamedTuple
from atled_contexts import SelectionError, context_scope

_DOUBLE = np.dtype(np.float64)


class Test(NamedTuple):
    """A test of elements: by NumPy, and by ops, which give 1 or 0 for each."""

    on_host: Callable[[np.ndarray], np.ndarray]
    by_ops: Callable[[NdArray], NdArray]


def _is_infinite(x: NdArray) -> NdArray:
    found: NdArray = Calls.functions["EqualScalar"](Calls.functions["Abs"](x), val=float("inf"))
    return found


def _is_nan(x: NdArray) -> NdArray:
    found: NdArray = Calls.functions["NotEqual"](x, x)
    return found


INF = Test(np.isinf, _is_infinite)
NAN = Test(np.isnan, _is_nan)
INF_OR_NAN = Test(lambda values: ~np.isfinite(values), lambda x: _is_nan(Calls.functions["Sub2"](x, x)))


def holds_any(cells: Sequence[ArrayCell], test: Test) -> bool:
    """Whether any element of the arrays passes a test. Of what is on a device one number is read, for all arrays."""
    groups: dict[tuple[Place, str], list[ArrayCell]] = {}
    for cell in cells:
        cell.settle()
        groups.setdefault((cell.place, "double" if cell.dtype == _DOUBLE else "float"), []).append(cell)
    totals = [(_total(place, type_config, group, test), group) for (place, type_config), group in groups.items()]
    if any(_holds_on_host(cell, test) for total, group in totals if total is None for cell in group):
        return True
    return any(float(total.data) for total, _ in totals if total is not None)


def _total(place: Place, type_config: str, cells: Sequence[ArrayCell], test: Test) -> NdArray | None:
    """How many elements pass, computed on a device; None where no backend of it does, or they are on the host."""
    context = context_on(place, type_config)
    if context is None:
        return None
    try:
        with context_scope(context):
            counts = [Calls.functions["Sum"](test.by_ops(NdArray.over(cell, (cell.size,)))) for cell in cells]
            total: NdArray = functools.reduce(Calls.functions["Add2"], counts)
    except SelectionError:  # the host computes it then, and the copy to it is counted
        return None
    return total


def _holds_on_host(cell: ArrayCell, test: Test) -> bool:
    dtype = cell.dtype or FLOAT32
    storage = cell.copy_at(HOST, dtype)
    assert isinstance(storage, HostStorage)
    return bool(test.on_host(storage.array((cell.size,), dtype)).any())
