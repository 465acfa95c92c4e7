"""Shift and ShiftGrad: each element from, or added to, the place that a table per axis gives.

Axes before the first shifted one are merged: their elements are independent, and the shares.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from atled.plugin import Call, Prepared, shift_sources
from atled_cpu_numba.kernels.shared.launch import (
    MOVED,
    REALS,
    is_brief,
    kernels_by_dtype,
    launch,
    moved_as,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import Kernel


@layout
class Block:
    """What the kernel reads; after the sizes come the tables, one per axis: places in elements of a sample."""

    x: int  # address
    y: int  # address
    samples: int
    count: int  # elements of a sample
    axes: int
    adds: int  # whether places are added to
    sizes: int = 0  # one per axis


_BEFORE_SIZES = Block.sizes - 1  # so that the size of the last axis is `axes` words behind it
_ELEMENTS_PER_US = 500.0  # a cautious rate of one core, for the number of shares


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.moves import moves_of
    from atled_cpu_numba.kernels.shared.options import kernel

    elements, size, _ = moves_of(dtype)
    can_add = dtype != _SHORTS

    @kernel
    def shift(block, part, parts):
        w = words(block)
        count, axes, adds = w[Block.count], w[Block.axes], can_add and w[Block.adds] != 0
        length = w[_BEFORE_SIZES + axes]
        last = Block.sizes + axes - length
        for axis in range(axes):
            last += w[Block.sizes + axis]
        for sample in range(w[Block.samples] * part // parts, w[Block.samples] * (part + 1) // parts):
            x, y = elements(w[Block.x] + size * sample * count), elements(w[Block.y] + size * sample * count)
            if adds:
                for i in range(count):
                    y[i] = 0
            for row in range(count // length):
                rest, other, table = row, 0, last
                for before in range(1, axes):
                    axis_size = w[_BEFORE_SIZES + axes - before]
                    table -= axis_size
                    other += w[table + rest % axis_size]
                    rest //= axis_size
                at = row * length
                if adds:
                    for i in range(length):
                        y[other + w[last + i]] += x[at + i]
                else:
                    for i in range(length):
                        y[at + i] = x[other + w[last + i]]
        return 0

    return shift


_SHORTS = "16 bits"  # as `moved_as` has it
_KERNELS = {
    **kernels_by_dtype("shift", _build),
    _SHORTS: Kernel("shift_shorts", partial(_build, _SHORTS), parameters=(_SHORTS,)),
}


def accepts(call: Call) -> bool | str:
    """Whether x is not empty, and float32 or float64, or of elements of as many bytes or two that are only moved."""
    moves = call.spec.name == "Shift"
    return refuse_floats(call, MOVED if moves else REALS, floats=(0,), empty=False, moves=moves) or True


def prepare(call: Call) -> Prepared:
    """Shift: x -> y.  ShiftGrad: gy -> gx."""
    x, shifts = call.inputs[0], call.attributes["shifts"]
    assert x is not None
    first = next((axis for axis, shift in enumerate(shifts) if shift), x.ndim)
    samples, sizes = math.prod(x.shape[:first]), x.shape[first:] or (1,)
    shifts = shifts[first:] or (0,)
    adds = int(call.spec.name == "ShiftGrad")
    words = filled(Block, samples=samples, count=math.prod(sizes), axes=len(sizes), adds=adds)
    words += sizes
    for axis, (size, shift) in enumerate(zip(sizes, shifts, strict=True)):
        words += (shift_sources(size, shift, call.attributes["border_mode"]) * math.prod(sizes[axis + 1 :])).tolist()
    work_us = x.size / _ELEMENTS_PER_US
    arguments, parts = (Block.x, Block.y), share_count(work_us, samples)
    return launch(_KERNELS[moved_as(x.dtype)], words, arguments, parts=parts, is_brief=is_brief(work_us))
