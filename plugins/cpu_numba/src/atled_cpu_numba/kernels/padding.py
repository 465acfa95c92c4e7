"""Pad by a constant: rows moved into longer ones, and the stretches between them filled.

An axis that is not padded is one with the axis before it: so rows are of the last padded axis, and the last two axes
are a plane. Shares are made of the rows of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atled.plugin import Call, NamedTuple, Prepared
from atled_cpu_numba.kernels.shared.launch import (
    ANY,
    REALS,
    is_brief,
    kernels_by_dtype,
    launch,
    narrow_dtypes,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of


@layout
class Block:
    """What the kernel reads; behind its words come entries of the axes before the plane, the last one first."""

    x: int  # address
    y: int  # address
    value: int  # bits of a float64
    planes: int  # of the result
    rows: int  # of a plane of x
    length: int  # of a row of x
    padded_rows: int  # of a plane of the result
    padded_length: int
    rows_before: int  # those of a plane of x
    before: int  # the elements of a row of x
    axes: int  # before the plane
    entries: int = 0  # one per axis before the plane


@layout
class Entry:
    """What the kernel reads of an axis."""

    padded: int  # its size in the result
    before: int  # the padding before it
    size: int  # in x


_ENTRY = size_of(Entry)
_BYTES_PER_US = 6000.0  # a cautious rate of one core, for the number of shares


class _Axis(NamedTuple):
    """An axis, or several as one: its size in the result, the padding before it, and its size in x."""

    padded: int
    before: int
    size: int


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import float64_of_bits, words
    from atled_cpu_numba.kernels.shared.moves import make_number, moves_of
    from atled_cpu_numba.kernels.shared.options import inlined, kernel

    elements, size, copy_rows = moves_of(dtype)
    number = make_number(dtype)

    @inlined
    def fill(at, count, value):
        y = elements(at)
        for i in range(count):
            y[i] = value

    @kernel
    def pad(block, part, parts):
        w = words(block)
        rows, length, value = w[Block.rows], w[Block.length], number(float64_of_bits(w[Block.value]))
        padded_rows, padded_length = w[Block.padded_rows], w[Block.padded_length]
        row, after = w[Block.planes] * padded_rows * part // parts, w[Block.planes] * padded_rows * (part + 1) // parts
        while row < after:
            plane = row // padded_rows
            first = row - plane * padded_rows
            end = min(padded_rows, first + after - row)
            rest, source, step, is_inside = plane, 0, 1, True
            for axis in range(w[Block.axes]):
                entry = Block.entries + _ENTRY * axis
                place = rest % w[entry + Entry.padded] - w[entry + Entry.before]
                is_inside = is_inside and 0 <= place < w[entry + Entry.size]
                source += step * place
                step *= w[entry + Entry.size]
                rest //= w[entry + Entry.padded]
            low, high = max(first, w[Block.rows_before]), min(end, w[Block.rows_before] + rows)
            y = w[Block.y] + size * row * padded_length
            row += end - first
            if not is_inside or low >= high:
                fill(y, (end - first) * padded_length, value)
                continue
            # What is behind a row and what is before the next one are one stretch.
            x = w[Block.x] + size * (source * rows + low - w[Block.rows_before]) * length
            target = y + size * ((low - first) * padded_length + w[Block.before])
            fill(y, (low - first) * padded_length + w[Block.before], value)
            copy_rows((x, length, target, padded_length, high - low, length))
            for i in range(high - low - 1):
                fill(target + size * (i * padded_length + length), padded_length - length, value)
            done = (high - 1 - first) * padded_length + w[Block.before] + length
            fill(y + size * done, (end - first) * padded_length - done, value)
        return 0

    return pad


_KERNELS = kernels_by_dtype("pad", _build, dtypes=ANY)


def _merged(shape: Sequence[int], widths: Sequence[int]) -> list[_Axis]:
    """At least two axes."""
    axes: list[_Axis] = []
    for size, before, after in zip(shape, widths[::2], widths[1::2], strict=True):
        if axes and not before and not after:
            axes[-1] = _Axis(*(size * number for number in axes[-1]))
        else:
            axes.append(_Axis(before + size + after, before, size))
    return [_Axis(1, 0, 1)] * (2 - len(axes)) + axes


def accepts(call: Call) -> bool | str:
    """Whether arrays are of floats that this processor converts, and not empty, and the padding is a constant."""
    if call.attributes["mode"] != "constant":
        return f"pads by a constant, not in mode {call.attributes['mode']!r}"
    return refuse_floats(call, (*REALS, *narrow_dtypes()), floats=(0,), empty=False) or True


def prepare(call: Call) -> Prepared:
    """Pad: x -> y."""
    x, y = call.inputs[0], call.outputs[0]
    assert x is not None
    *before, rows, columns = _merged(x.shape, call.attributes["pad_width"])
    padded_rows = y.size // columns.padded
    words = filled(
        Block,
        planes=padded_rows // rows.padded,
        rows=rows.size,
        length=columns.size,
        padded_rows=rows.padded,
        padded_length=columns.padded,
        rows_before=rows.before,
        before=columns.before,
        axes=len(before),
    )
    for axis in before[::-1]:
        words += filled(Entry, **axis._asdict())
    work_us = (x.nbytes + y.nbytes) / _BYTES_PER_US
    return launch(
        _KERNELS[x.dtype.name],
        words,
        (Block.x, Block.y),
        parts=share_count(work_us, padded_rows),
        is_brief=is_brief(work_us, padded_rows),
        attributes={"constant_value": Block.value},
        note="rows",
    )
