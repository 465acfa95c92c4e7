"""Flip: rows moved in the order of another axis, or each reversed.

Neighbouring axes that are both flipped, or both not, are one: so flipped ones and others alternate. The last two are a
plane, of which either the rows come in reversed order or the elements of each row do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import Kernel


@layout
class Block:
    """What the kernel reads; behind its words come the sizes of the axes before the plane, the last one first."""

    x: int  # address
    y: int  # address
    planes: int
    rows: int  # of a plane
    length: int  # of a row
    reverses: int  # whether the elements of a row are reversed; else its rows are
    axes: int  # before the plane
    sizes: int = 0  # one per axis before the plane; flipped is the last if the elements are reversed, and so on


_BYTES_PER_US = 6000.0  # a cautious rate of one core, for the number of shares


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.moves import moves_of
    from atled_cpu_numba.kernels.shared.options import kernel

    elements, size, copy_rows = moves_of(dtype)

    @kernel
    def flip(block, part, parts):
        w = words(block)
        rows, length, reverses, axes = w[Block.rows], w[Block.length], w[Block.reverses] != 0, w[Block.axes]
        row, after = w[Block.planes] * rows * part // parts, w[Block.planes] * rows * (part + 1) // parts
        while row < after:
            plane = row // rows
            first = row - plane * rows
            count = min(rows - first, after - row)
            # Which plane it comes from: with the places along the flipped axes counted from the end.
            rest, source, step = plane, 0, 1
            for axis in range(axes):
                axis_size = w[Block.sizes + axis]
                place = rest % axis_size
                if (axis % 2 == 0) == reverses:
                    place = axis_size - 1 - place
                source += step * place
                step *= axis_size
                rest //= axis_size
            x, y = w[Block.x] + size * source * rows * length, w[Block.y] + size * row * length
            if reverses:
                for i in range(count):
                    last, target = elements(x + size * ((first + i + 1) * length - 1)), elements(y + size * i * length)
                    for j in range(length):
                        target[j] = last[-j]
            else:
                copy_rows((x + size * (rows - 1 - first) * length, -length, y, length, count, length))
            row += count
        return 0

    return flip


_SHORTS = "16 bits"  # as `moved_as` has it
_KERNELS = {
    **kernels_by_dtype("flip", _build),
    _SHORTS: Kernel("flip_shorts", partial(_build, _SHORTS), parameters=(_SHORTS,)),
}


def _merged(shape: Sequence[int], axes: Sequence[int]) -> tuple[list[int], bool]:
    """The sizes of alternating axes, at least two, and whether the last one is flipped."""
    sizes: list[int] = []
    was_flipped = False
    for axis, axis_size in enumerate(shape):
        is_flipped = axis in axes
        if axis_size == 1:
            continue
        if sizes and is_flipped == was_flipped:
            sizes[-1] *= axis_size
        else:
            sizes.append(axis_size)
        was_flipped = is_flipped
    return [1] * (2 - len(sizes)) + sizes, was_flipped


def accepts(call: Call) -> bool | str:
    """Whether elements have 2, 4 or 8 bytes and there are some."""
    return refuse_floats(call, MOVED, floats=(0,), empty=False, moves=True) or True


def prepare(call: Call) -> Prepared:
    """Flip: x -> y."""
    x = call.inputs[0]
    assert x is not None
    (*before, rows, length), reverses = _merged(x.shape, call.attributes["axes"])
    planes = x.size // (rows * length)
    words = filled(Block, planes=planes, rows=rows, length=length, reverses=int(reverses), axes=len(before))
    words += before[::-1]
    work_us = 2 * x.nbytes / _BYTES_PER_US
    parts, brief = share_count(work_us, planes * rows), is_brief(work_us, planes * rows)
    note = "reversed rows" if reverses else "rows in reversed order"
    return launch(_KERNELS[moved_as(x.dtype)], words, (Block.x, Block.y), parts=parts, is_brief=brief, note=note)
