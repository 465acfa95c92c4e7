"""The in-place operators of NdArrays: elementwise calls whose result goes into the array itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atled.arrays.array import NdArray
from atled.arrays.operators import Calls
from atled.calling.apply import apply
from atled.ops.spec import SPECS
from atled_contexts.surroundings import here


def put_into_itself(array: NdArray, op: str, other: Any, floats: Mapping[str, float]) -> None:
    """Have an array hold what an elementwise op gives of it, and of another array where the op takes two.

    other: an NdArray or a Variable; None: the op takes one input.
    """
    cell, calls = array.cell, here().arrays
    key: tuple[Any, ...] | None = None
    if cell.pending is None and calls is not None:
        # By itself the name of an op is the key of a call that makes an array.
        cells = [cell]
        if other is None:
            key = ("into itself", op), array.shape, cell.code
        elif _may_be_read_meanwhile(other, array):
            cells.append(other.cell)
            key = ("into itself", op), array.shape, other.shape, cell.code, other.cell.code
        call = None if key is None else calls.get(key)
        if call is not None:
            call.put(cells, cell, floats)
            return
    if SPECS[op].checks_values:
        key = None  # of the numbers some are refused, of which the key says nothing
    apply(op, (array,) if other is None else (array, other), floats, [array], key)


def _may_be_read_meanwhile(other: Any, array: NdArray) -> bool:
    """Whether an input is an NdArray with values, of which none is written before it was read."""
    if type(other) is not NdArray or other.cell.pending is not None:
        return False
    return other.cell is not array.cell or other.shape == array.shape


Calls.put_into_itself = staticmethod(put_into_itself)
