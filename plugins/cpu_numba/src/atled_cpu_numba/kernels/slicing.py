"""Slice and its gradient, where at most one axis is cut: some columns of a matrix, or some of its rows.

With the axes before the cut one merged, and those from it on, an array is rows, and the slice a part of each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.launch import (
    MOVED,
    ODD_PAIRS,
    in_floats32,
    is_brief,
    launch,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import Kernel


@layout
class Block:
    """What the kernel reads; lengths in float32, of which a float64 is two."""

    whole: int  # address
    piece: int  # address of the slice
    rows: int
    whole_length: int  # of a row of the whole
    length: int  # of a row of the slice
    begin: int  # of the slice in a row
    writes: int  # whether the whole is written, with zeros around the slice


_BYTES_PER_US = 6000.0  # a cautious rate of one core, for the number of shares


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats32, words
    from atled_cpu_numba.kernels.shared.options import kernel
    from atled_cpu_numba.kernels.shared.vectors import copy_rows

    @kernel
    def slice_rows(block, part, parts):
        w = words(block)
        rows, whole_length, length, begin = w[Block.rows], w[Block.whole_length], w[Block.length], w[Block.begin]
        first, after = rows * part // parts, rows * (part + 1) // parts
        at, piece = w[Block.whole] + 4 * (first * whole_length + begin), w[Block.piece] + 4 * first * length
        if w[Block.writes] == 0:
            copy_rows((at, whole_length, piece, length, after - first, length))
            return 0
        # The zeros between two slices, those behind one and before the next, are one stretch.
        zeros = floats32(w[Block.whole] + 4 * first * whole_length)
        for i in range(begin):
            zeros[i] = 0.0
        for row in range(after - first):
            behind = floats32(at + 4 * (row * whole_length + length))
            for i in range(whole_length - length - (begin if row == after - first - 1 else 0)):
                behind[i] = 0.0
        copy_rows((piece, length, at, whole_length, after - first, length))
        return 0

    return slice_rows


_KERNEL = Kernel("slice_rows", _build)


def _whole_shape(call: Call) -> tuple[int, ...]:
    if call.spec.name == "SliceGrad":
        shape: tuple[int, ...] = call.attributes["shape"]
        return shape
    x = call.inputs[0]
    assert x is not None
    return x.shape


def _cuts(call: Call) -> list[tuple[int, int, int, int]]:
    """Per axis that is cut: the axis, where the slice begins and ends, and its step."""
    bounds = zip(*(call.attributes[name] for name in ("start", "stop", "step")), strict=True)
    found = []
    for axis, (size, bound) in enumerate(zip(_whole_shape(call), bounds, strict=True)):
        begin, end, step = slice(*bound).indices(size)
        if (begin, end, step) != (0, size, 1):
            found.append((axis, begin, end, step))
    return found


def accepts(call: Call) -> bool | str:
    """Whether one axis is cut at most, with step 1, and the arrays are float32 or float64 and not empty."""
    refused = refuse_floats(call, MOVED, floats=(0,), empty=False, moves=True)
    if refused:
        return refused
    cuts = _cuts(call)
    if len(cuts) > 1:
        return f"takes slices that cut one axis, not {len(cuts)}"
    if cuts and cuts[0][3] != 1:
        return f"takes slices of step 1, not {cuts[0][3]}"
    return True if _lengths(call) is not None else ODD_PAIRS


def _lengths(call: Call) -> tuple[int, ...] | None:
    """Of a row of the whole, of one of its piece, and what is before that, in float32; None where one is no number."""
    shape = _whole_shape(call)
    axis, begin, end, _ = (_cuts(call) or [(0, 0, shape[0] if shape else 1, 1)])[0]
    inner, size = math.prod(shape[axis + 1 :]), shape[axis] if shape else 1
    return in_floats32(call.outputs[0].dtype, size * inner, (end - begin) * inner, begin * inner)


def prepare(call: Call) -> Prepared:
    """Slice: x -> y.  SliceGrad: gy -> gx."""
    shape = _whole_shape(call)
    axis = (_cuts(call) or [(0, 0, 0, 1)])[0][0]
    rows, lengths = math.prod(shape[:axis]), _lengths(call)
    assert lengths is not None
    whole, piece, before = lengths
    writes = call.spec.name == "SliceGrad"
    words = filled(Block, rows=rows, whole_length=whole, length=piece, begin=before, writes=int(writes))
    moved = 4 * rows * (whole if writes else 2 * piece)
    arguments = (Block.piece, Block.whole) if writes else (Block.whole, Block.piece)
    work_us = moved / _BYTES_PER_US
    return launch(_KERNEL, words, arguments, parts=share_count(work_us, rows), is_brief=is_brief(work_us, rows))
