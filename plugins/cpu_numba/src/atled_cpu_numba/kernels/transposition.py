"""Transpose: axes in another order.

Axes that stay together are merged, those of one element dropped. If the last axis stays the last one, rows are copied.
Else one axis of y, the crossing one, has stride 1 in x: over it and the last one, y is a transposed matrix, moved in
square blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from atled.plugin import Call, NamedTuple, Prepared
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
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of
from atled_cpu_numba.store import Kernel


@layout
class Axis:
    """What the kernel reads of an outer axis: elements, strides in x and in y, in elements."""

    size: int
    x: int
    y: int


@layout
class Block:
    """What the kernel reads; strides in elements. Crossing is also the axis next to the last one, if there is none."""

    x: int  # address
    y: int  # address
    outer_axes: int
    length: int  # of the last axis
    stride: int  # of it in x
    crossing: int  # elements
    crossing_y: int  # its stride in y
    crossing_x: int  # and in x
    outer: int = 0  # an `Axis` each, the outermost first


_AXIS_WORDS = size_of(Axis)
_SHORTS = "16 bits"  # as `moved_as` has it
_ELEMENTS_PER_US = 1000.0  # a cautious rate of one core, for the number of shares
_BLOCK = 16  # the crossing axis is divided between shares in such pieces


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.lanes import lanes_of
    from atled_cpu_numba.kernels.shared.options import Real, inlined, kernel
    from atled_cpu_numba.kernels.shared.vectors import copy_rows, make_transpose_block

    if dtype == _SHORTS:
        from atled_cpu_numba.kernels.shared import shorts

        size, side, move_short, transpose_shorts = 2, shorts.SIDE, shorts.make_move_shorts(1), shorts.transpose_shorts

        @inlined
        def move(source, target):
            move_short((source, target))

        @inlined
        def transpose_block(source, source_row, target, target_row):
            transpose_shorts((source, source_row, target, target_row))

        @inlined
        def copy(source, step, target, to_step, rows, length):
            for row in range(rows):
                for i in range(length):
                    move_short((source + 2 * (step * row + i), target + 2 * (to_step * row + i)))

    else:
        real = Real(dtype)
        floats, size = real.pointer, real.size
        side, transpose_reals = lanes_of(dtype).vector, make_transpose_block(dtype)

        @inlined
        def move(source, target):
            floats(target)[0] = floats(source)[0]

        @inlined
        def transpose_block(source, source_row, target, target_row):
            transpose_reals((source, source_row, side, target, target_row))

        @inlined
        def copy(source, step, target, to_step, rows, length):
            # As float32, of which a float64 is two.
            words = size // 4
            copy_rows((source, words * step, target, words * to_step, rows, words * length))

    @kernel
    def transpose(block, part, parts):
        w = words(block)
        outer_axes, length, stride = w[Block.outer_axes], w[Block.length], w[Block.stride]
        crossing, crossing_stride = w[Block.crossing], w[Block.crossing_y]
        outer = 1
        for axis in range(outer_axes):
            outer *= w[Block.outer + _AXIS_WORDS * axis + Axis.size]
        pieces = (crossing + _BLOCK - 1) // _BLOCK
        for unit in range(outer * pieces * part // parts, outer * pieces * (part + 1) // parts):
            rest = unit // pieces
            first = (unit - rest * pieces) * _BLOCK
            after = min(crossing, first + _BLOCK)
            source, target = w[Block.x], w[Block.y]
            for i in range(outer_axes):
                at = Block.outer + _AXIS_WORDS * (outer_axes - 1 - i)
                place = rest % w[at + Axis.size]
                rest //= w[at + Axis.size]
                source += size * place * w[at + Axis.x]
                target += size * place * w[at + Axis.y]
            if stride == 1:
                source += size * first * w[Block.crossing_x]
                target += size * first * crossing_stride
                copy(source, w[Block.crossing_x], target, crossing_stride, after - first, length)
                continue
            whole = length - length % side
            c = first
            while c + side <= after:
                for j in range(0, whole, side):
                    from_, to = source + size * (j * stride + c), target + size * (c * crossing_stride + j)
                    transpose_block(from_, stride, to, crossing_stride)
                for i in range(c, c + side):
                    for j in range(whole, length):
                        move(source + size * (j * stride + i), target + size * (i * crossing_stride + j))
                c += side
            for i in range(c, after):
                for j in range(length):
                    move(source + size * (j * stride + i), target + size * (i * crossing_stride + j))
        return 0

    return transpose


_KERNELS = {
    **kernels_by_dtype("transpose", _build),
    _SHORTS: Kernel("transpose_shorts", partial(_build, _SHORTS), parameters=(_SHORTS,)),
}


class _Axis(NamedTuple):
    """An axis of y after merging: elements, strides in x and in y."""

    size: int
    x: int
    y: int


def accepts(call: Call) -> bool | str:
    """Whether x has elements of 16, 32 or 64 bits."""
    return refuse_floats(call, MOVED, floats=(0,), moves=True) or True


def prepare(call: Call) -> Prepared:
    """Transpose: x -> y."""
    x = call.inputs[0]
    assert x is not None
    axes, kernel = _merged(x.shape, call.attributes["axes"]), moved_as(x.dtype)
    pairs = None if kernel in REALS else _in_pairs(axes)
    if pairs is not None:
        axes, kernel = pairs, "float32"
    last = axes.pop()
    if last.x == 1:
        crossing = axes.pop() if axes else _Axis(1, 0, 0)
    else:
        crossing = axes.pop(next(i for i, axis in enumerate(axes) if axis.x == 1))
    words = filled(
        Block,
        outer_axes=len(axes),
        length=last.size,
        stride=last.x,
        crossing=crossing.size,
        crossing_y=crossing.y,
        crossing_x=crossing.x,
    )
    for axis in axes:
        words += filled(Axis, **axis._asdict())
    units = math.prod(axis.size for axis in axes) * -(-crossing.size // _BLOCK)
    work_us = x.size / _ELEMENTS_PER_US
    note = "rows" if last.x == 1 else "blocks"
    parts, brief = share_count(work_us, units), is_brief(work_us)
    return launch(_KERNELS[kernel], words, (Block.x, Block.y), parts=parts, is_brief=brief, note=note)


def _in_pairs(axes: list[_Axis]) -> list[_Axis] | None:
    """The axes of an array of pairs of elements; None where pairs do not stay together."""
    *outer, last = axes
    if last.x != 1 or any(count % 2 for count in (last.size, *(n for axis in outer for n in (axis.x, axis.y)))):
        return None
    return [*(_Axis(axis.size, axis.x // 2, axis.y // 2) for axis in outer), last._replace(size=last.size // 2)]


def _merged(shape: tuple[int, ...], order: tuple[int, ...]) -> list[_Axis]:
    """The axes of y, at least one; neighbours that are neighbours in x as well are one axis."""
    if math.prod(shape) == 0:
        return [_Axis(0, 1, 1)]
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    merged: list[_Axis] = []
    y_stride = math.prod(shape)
    for axis in order:
        size, stride = shape[axis], strides[axis]
        y_stride //= size
        if size == 1:
            continue
        if merged and merged[-1].x == size * stride:
            merged[-1] = _Axis(merged[-1].size * size, stride, y_stride)
        else:
            merged.append(_Axis(size, stride, y_stride))
    return merged or [_Axis(1, 1, 1)]
