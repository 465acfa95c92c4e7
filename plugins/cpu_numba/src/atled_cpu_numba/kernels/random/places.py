"""RandomCrop, RandomFlip and RandomShift: elements of each sample from places that are drawn per sample and axis.

A sample's places are written into a table first, per axis of the result and in elements of x, by the rules of the op
specs; then every element is the sum of one entry per axis. Along the last axis most places follow one another, forwards
or backwards, and elements are moved in vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.random.random_state import RandomState
from atled_cpu_numba.kernels.shared.launch import (
    MOVED,
    fitting_shares,
    kernels_by_dtype,
    launch,
    moved_as,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of

# What becomes of place i of y and the number drawn.
_ADD, _REVERSE, _NEAREST, _REFLECT = range(4)


@layout
class Axis:
    """What the kernel reads of one axis of a sample."""

    size: int  # in x
    out: int  # size in y
    stride: int  # in x
    rule: int
    bound: int  # of the number drawn
    place: int  # of that number among those of the sample
    offset: int  # subtracted from it


@layout
class Block:
    """What the kernel reads."""

    x: int  # address
    random_state: int  # address
    y: int  # address
    index: int  # address
    workspace: int  # address: a table per share
    samples: int
    axis_count: int
    drawn: int  # numbers per sample
    table: int  # entries
    x_size: int  # elements of a sample in x
    y_size: int  # in y
    axes: int = 0  # an `Axis` each


_AXIS_WORDS = size_of(Axis)
_ELEMENTS_PER_US = 400.0  # a cautious rate of one core, for the number of shares


def _build(dtype: str) -> Callable[..., int]:
    from numba import uint64

    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.random.random_state import philox
    from atled_cpu_numba.kernels.shared.moves import moves_of
    from atled_cpu_numba.kernels.shared.options import kernel

    (elements, size, copy_rows), draw, half = moves_of(dtype), philox(), uint64(32)

    @kernel
    def random_places(block, part, parts):
        w = words(block)
        x, random_state, y, index = (
            elements(w[Block.x]),
            words(w[Block.random_state]),
            elements(w[Block.y]),
            ints64(w[Block.index]),
        )
        key, call = uint64(random_state[RandomState.key]), uint64(random_state[RandomState.call])
        axes, drawn, x_size, y_size = w[Block.axis_count], w[Block.drawn], w[Block.x_size], w[Block.y_size]
        table = ints64(w[Block.workspace] + 8 * part * w[Block.table])
        last_axis = Block.axes + _AXIS_WORDS * (axes - 1)
        length = w[last_axis + Axis.out]
        for sample in range(w[Block.samples] * part // parts, w[Block.samples] * (part + 1) // parts):
            at = 0
            for axis in range(axes):
                entry = Block.axes + _AXIS_WORDS * axis
                count, stride = w[entry + Axis.size], w[entry + Axis.stride]
                rule, offset = w[entry + Axis.rule], w[entry + Axis.offset]
                number = 0
                if w[entry + Axis.bound] > 1:
                    place = sample * drawn + w[entry + Axis.place]
                    w0, w1, w2, w3 = draw(uint64(place // 4), call, key)
                    lane = place % 4
                    word = w0 if lane == 0 else w1 if lane == 1 else w2 if lane == 2 else w3
                    number = int((word * uint64(w[entry + Axis.bound])) >> half)
                number -= offset
                for i in range(w[entry + Axis.out]):
                    source = i
                    if rule == _ADD:
                        source = i + number
                    elif rule == _REVERSE:
                        if number != 0:
                            source = count - 1 - i
                    elif rule == _NEAREST:
                        source = min(max(i - number, 0), count - 1)
                    else:
                        source = (i - number) % (2 * count)
                        source = min(source, 2 * count - 1 - source)
                    table[at + i] = source * stride
                at += w[entry + Axis.out]
            last = at - length
            # Elements that follow one another in x: those from `begin` to `end`.
            begin, step = 0, 0
            while begin + 1 < length and step == 0:
                difference = table[last + begin + 1] - table[last + begin]
                if difference == 1 or difference == -1:
                    step = difference
                else:
                    begin += 1
            end = begin
            if step != 0:
                end += 1
                while end < length and table[last + end] - table[last + end - 1] == step:
                    end += 1
            for row in range(y_size // length):
                rest, from_, at = row, sample * x_size, last
                for before in range(1, axes):
                    entry = Block.axes + _AXIS_WORDS * (axes - 1 - before)
                    out = w[entry + Axis.out]
                    at -= out
                    from_ += table[at + rest % out]
                    rest //= out
                to = sample * y_size + row * length
                for i in range(begin):
                    y[to + i] = x[from_ + table[last + i]]
                first = from_ + table[last + begin] - step * begin
                if step == 1:
                    from_at, to_at = w[Block.x] + size * (first + begin), w[Block.y] + size * (to + begin)
                    copy_rows((from_at, 0, to_at, 0, 1, end - begin))
                elif step == -1:
                    for i in range(begin, end):
                        y[to + i] = x[first - i]
                for i in range(end, length):
                    y[to + i] = x[from_ + table[last + i]]
                for i in range(length):
                    index[to + i] = from_ + table[last + i]
        return 0

    return random_places


_KERNELS = kernels_by_dtype("random_places", _build, dtypes=MOVED)


def accepts(call: Call) -> bool | str:
    """Whether elements of x, which are only moved, have 2, 4 or 8 bytes, and nothing is empty."""
    return refuse_floats(call, MOVED, floats=(0,), empty=False, moves=True) or True


def prepare(call: Call) -> Prepared:
    """RandomCrop, RandomFlip, RandomShift: x, random_state -> y, index."""
    x, y = call.inputs[0], call.outputs[0]
    assert x is not None
    base = call.attributes["base_axis"]
    samples = math.prod(x.shape[:base])
    axes = _axes(call, x.shape[base:], y.shape[base:]) or [filled(Axis, size=1, out=1, stride=1, rule=_ADD, bound=1)]
    table = sum(axis[Axis.out] for axis in axes)
    drawn = len(call.attributes["axes"]) if call.spec.name == "RandomFlip" else x.ndim - base
    words = filled(
        Block,
        samples=samples,
        axis_count=len(axes),
        drawn=drawn,
        table=table,
        x_size=x.size // samples,
        y_size=y.size // samples,
    )
    words += [word for axis in axes for word in axis]
    parts = fitting_shares(share_count(y.size / _ELEMENTS_PER_US, samples), 8 * table)
    arguments = (Block.x, Block.random_state, Block.y, Block.index, Block.workspace)
    return launch(_KERNELS[moved_as(x.dtype)], words, arguments, parts=parts, workspace=8 * table * parts)


def _axes(call: Call, x_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> list[list[int]]:
    """The words of each axis of a sample."""
    name, attributes = call.spec.name, call.attributes
    entries = []
    for axis, (size, out) in enumerate(zip(x_shape, y_shape, strict=True)):
        stride = math.prod(x_shape[axis + 1 :])
        if name == "RandomCrop":
            drawn = {"rule": _ADD, "bound": size - out + 1, "place": axis}
        elif name == "RandomFlip":
            flipped = attributes["axes"]
            place = axis + attributes["base_axis"]
            drawn = {"rule": _ADD, "bound": 1}
            if place in flipped:
                drawn = {"rule": _REVERSE, "bound": 2, "place": flipped.index(place)}
        else:
            far = attributes["shifts"][axis]
            mode = _NEAREST if attributes["border_mode"] == "nearest" else _REFLECT
            drawn = {"rule": mode, "bound": 2 * far + 1, "place": axis, "offset": far}
        entries.append(filled(Axis, size=size, out=out, stride=stride, **drawn))
    return entries
