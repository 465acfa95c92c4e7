"""Views as operands of products: how a matrix is stored whose rows, or columns, are contiguous but lie apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from atled.plugin import ArrayDesc, Call

_NEAR = 2**30  # elements of a matrix: places within it are counted in 32 bits


class Stored(NamedTuple):
    """by_columns: whether columns are contiguous, not rows.  pitch: elements from one of them to the next."""

    by_columns: bool
    pitch: int


def stored(call: Call) -> list[Stored] | None:
    """How a, b and y of an Affine or BatchMatmul are stored; None where one is no single matrix of that kind."""
    found = []
    for place, desc in enumerate((*call.inputs[:2], call.outputs[0])):
        assert desc is not None
        axis = desc.ndim - 1
        if call.spec.name == "Affine":
            axis = 1 if place == 1 else call.attributes["base_axis"]
        elif math.prod(desc.shape[:-2]) != 1:
            return None
        one = _stored(desc, axis)
        if one is None:
            return None
        found.append(one)
    return found


def _stored(desc: ArrayDesc, axis: int) -> Stored | None:
    """Axes before `axis` are rows, the others columns."""
    groups = slice(0, axis), slice(axis, None)
    rows, columns = (math.prod(desc.shape[group]) for group in groups)
    if desc.strides is None:
        return Stored(False, max(columns, 1))
    row, column = (_stride(desc.shape[group], desc.strides[group]) for group in groups)
    if row is None or column is None:
        return None
    if columns == 1 or column == 1:
        found, length, count = Stored(False, row if rows > 1 else columns), columns, rows
    elif rows == 1 or row == 1:
        found, length, count = Stored(True, column), rows, columns
    else:
        return None
    return found if found.pitch >= length and found.pitch * count < _NEAR else None


def _stride(sizes: Sequence[int], strides: Sequence[int]) -> int | None:
    """The stride of axes that lie one within the other; None where they do not."""
    axes = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size != 1]
    if any(outer[1] != size * stride for outer, (size, stride) in itertools.pairwise(axes)):
        return None
    return axes[-1][1] if axes else 1
