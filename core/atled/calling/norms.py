"""Euclidean norms of arrays, found out where their values are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.cell import FLOAT32, ArrayCell
from atled.arrays.operators import Calls
from atled.arrays.place import HOST, Place
from atled.arrays.storage import HostStorage
from atled.graph.nodes.dispatch import context_on
from atled_contexts import SelectionError, context_scope

_DOUBLE = np.dtype(np.float64)


def norms_of(cells: Sequence[ArrayCell]) -> list[float]:
    """The norm of each array. Of those on a device the numbers are read together."""
    groups: dict[tuple[Place, str], list[int]] = {}
    for index, cell in enumerate(cells):
        cell.settle()
        groups.setdefault((cell.place, "double" if cell.dtype == _DOUBLE else "float"), []).append(index)
    norms = [0.0] * len(cells)
    for (place, type_config), members in groups.items():
        group = [cells[index] for index in members]
        squares = _on_device(place, type_config, group) or map(_on_host, group)
        for index, square in zip(members, squares, strict=True):
            norms[index] = math.sqrt(square)
    return norms


def _on_device(place: Place, type_config: str, cells: Sequence[ArrayCell]) -> list[float] | None:
    """The sums of squares, computed on a device; None where no backend of it does, or they are on the host."""
    context = context_on(place, type_config)
    if context is None:
        return None
    try:
        with context_scope(context):
            arrays = [NdArray.over(cell, (cell.size,)) for cell in cells]
            sums = [Calls.functions["Sum"](Calls.functions["Square"](array)) for array in arrays]
            together: NdArray = Calls.functions["Stack"](*sums, axis=0)
    except SelectionError:  # the host computes them then, and the copy to it is counted
        return None
    return [float(square) for square in together.data]


def _on_host(cell: ArrayCell) -> float:
    dtype = _DOUBLE if cell.dtype == _DOUBLE else FLOAT32
    storage = cell.copy_at(HOST, dtype)
    assert isinstance(storage, HostStorage)
    values = storage.array((cell.size,), dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # a norm that is infinite or NaN says so itself
        return float(np.einsum("i,i->", values, values, dtype=_DOUBLE))  # in double, without a copy in double
