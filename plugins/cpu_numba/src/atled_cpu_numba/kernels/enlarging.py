"""Unpooling: each row of elements made longer, and written as often as its windows are high.

An array is rows along the last spatial axis; where channels lie behind, an element is all of them. A row of the result
that has the same source as the one before is a copy of that, unless each number stands there twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.launch import (
    MOVED,
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
class Block:
    """What the kernel reads; behind its words come entries of the axes before the last spatial one, the last first."""

    x: int  # address
    y: int  # address
    rows: int  # of the result
    length: int  # elements of a row of x
    repeats: int  # of each of them
    inner: int  # numbers of an element
    axes: int  # before the last spatial one
    entries: int = 0  # one per axis before the last spatial one


@layout
class Entry:
    """What the kernel reads of an axis."""

    size: int  # in the result
    repeats: int


_ENTRY = size_of(Entry)
_BYTES_PER_US = 6000.0  # a cautious rate of one core, for the number of shares


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.doubling import make_double_row
    from atled_cpu_numba.kernels.shared.moves import moves_of
    from atled_cpu_numba.kernels.shared.options import inlined, kernel

    elements, size, copy_rows = moves_of(dtype)
    double_row = make_double_row(size)

    @inlined
    def lengthen(x_at, y_at, length, repeats, inner):
        if inner > 1:
            for r in range(repeats):
                copy_rows((x_at, inner, y_at + size * r * inner, repeats * inner, length, inner))
            return
        if repeats == 2:  # as most are
            double_row((x_at, y_at, length))
            return
        x, y = elements(x_at), elements(y_at)
        for j in range(length):
            for r in range(repeats):
                y[j * repeats + r] = x[j]

    @kernel
    def enlarge(block, part, parts):
        w = words(block)
        length, repeats, inner = w[Block.length], w[Block.repeats], w[Block.inner]
        row_size = length * repeats * inner
        first, after = w[Block.rows] * part // parts, w[Block.rows] * (part + 1) // parts
        high = w[Block.entries + Entry.repeats] if w[Block.axes] == 1 else 1  # rows of one source, of planes
        following, turn = first // high, first % high
        # A copy would wait until what has just been stored can be read.
        before, is_doubled = -1, repeats == 2 and inner == 1
        for row in range(first, after):
            source = following
            if w[Block.axes] > 1:
                rest, source, step = row, 0, 1
                for axis in range(w[Block.axes]):
                    entry = Block.entries + _ENTRY * axis
                    place = rest % w[entry + Entry.size]
                    source += step * (place // w[entry + Entry.repeats])
                    step *= w[entry + Entry.size] // w[entry + Entry.repeats]
                    rest //= w[entry + Entry.size]
                source += step * rest
            turn += 1
            if turn == high:  # counted: divisions would take as long as a short row
                following, turn = following + 1, 0
            y = w[Block.y] + size * row * row_size
            if source == before and not is_doubled:
                copy_rows((y - size * row_size, row_size, y, row_size, 1, row_size))
            else:
                lengthen(w[Block.x] + size * source * length * inner, y, length, repeats, inner)
            before = source
        return 0

    return enlarge


_SHORTS = "16 bits"  # as `moved_as` has it
_KERNELS = {
    **kernels_by_dtype("enlarge", _build),
    _SHORTS: Kernel("enlarge_shorts", partial(_build, _SHORTS), parameters=(_SHORTS,)),
}


def accepts(call: Call) -> bool | str:
    """Whether elements have 2, 4 or 8 bytes and there are some."""
    return refuse_floats(call, MOVED, floats=(0,), empty=False, moves=True) or True


def prepare(call: Call) -> Prepared:
    """Unpooling: x -> y."""
    x, y, kernel = call.inputs[0], call.outputs[0], call.attributes["kernel"]
    assert x is not None
    end = x.ndim - 1 if call.attributes.get("channel_last") else x.ndim
    inner = math.prod(x.shape[end:])
    before = range(end - len(kernel), end - 1)
    rows = y.size // (y.shape[end - 1] * inner)
    words = filled(Block, rows=rows, length=x.shape[end - 1], repeats=kernel[-1], inner=inner, axes=len(before))
    for axis, repeats in list(zip(before, kernel[:-1], strict=True))[::-1]:
        words += filled(Entry, size=y.shape[axis], repeats=repeats)
    work_us = (x.nbytes + y.nbytes) / _BYTES_PER_US
    return launch(
        _KERNELS[moved_as(x.dtype)],
        words,
        (Block.x, Block.y),
        parts=share_count(work_us, rows),
        is_brief=is_brief(work_us, rows),
        note="rows",
    )
