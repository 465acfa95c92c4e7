"""RandomCrop, RandomFlip and RandomShift: elements of each sample from places that are drawn per sample and axis.

A sample's places are written into a table first, per axis of the result and in elements of x, by the rules of the op
specs; then every element is the sum of one entry per axis.

Block (64-bit words):
    0 x, 1 stream, 2 y, 3 index, 4 workspace, 5 samples, 6 axes, 7 numbers drawn per sample
    8 length of a table, 9 elements of a sample in x, 10 in y
    11 ...: per axis: size in x, size in y, stride in x, rule, bound of the number drawn, its place among them, offset
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.launch import fitting_shares, has_empty, launch, refuse_floats, share_count
from atled_cpu_numba.store import Kernel

# What becomes of place i of y and the number drawn.
_ADD, _REVERSE, _NEAREST, _REFLECT = range(4)
_ELEMENTS_PER_US = 400.0  # a cautious rate of one core, for the number of shares


def _build(dtype: str) -> Callable[..., int]:
    from numba import uint64

    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.random.random_state import philox
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    floats, draw, half = Real(dtype).pointer, philox(), uint64(32)

    @kernel
    def random_places(block, part, parts):
        w = words(block)
        x, stream, y, index = floats(w[0]), words(w[1]), floats(w[2]), ints64(w[3])
        key, call = uint64(stream[0]), uint64(stream[1])
        axes, drawn, x_size, y_size = w[6], w[7], w[9], w[10]
        table = ints64(w[4] + 8 * part * w[8])
        length = w[11 + 7 * (axes - 1) + 1]
        for sample in range(w[5] * part // parts, w[5] * (part + 1) // parts):
            at = 0
            for axis in range(axes):
                entry = 11 + 7 * axis
                size, stride, rule, offset = w[entry], w[entry + 2], w[entry + 3], w[entry + 6]
                number = 0
                if w[entry + 4] > 1:
                    place = sample * drawn + w[entry + 5]
                    w0, w1, w2, w3 = draw(uint64(place // 4), call, key)
                    lane = place % 4
                    word = w0 if lane == 0 else w1 if lane == 1 else w2 if lane == 2 else w3
                    number = int((word * uint64(w[entry + 4])) >> half)
                number -= offset
                for i in range(w[entry + 1]):
                    source = i
                    if rule == _ADD:
                        source = i + number
                    elif rule == _REVERSE:
                        if number != 0:
                            source = size - 1 - i
                    elif rule == _NEAREST:
                        source = min(max(i - number, 0), size - 1)
                    else:
                        source = (i - number) % (2 * size)
                        source = min(source, 2 * size - 1 - source)
                    table[at + i] = source * stride
                at += w[entry + 1]
            last = at - length
            for row in range(y_size // length):
                rest, from_, at = row, sample * x_size, last
                for before in range(1, axes):
                    size = w[11 + 7 * (axes - 1 - before) + 1]
                    at -= size
                    from_ += table[at + rest % size]
                    rest //= size
                to = sample * y_size + row * length
                for i in range(length):
                    source = from_ + table[last + i]
                    index[to + i] = source
                    y[to + i] = x[source]
        return 0

    return random_places


_KERNELS = {
    dtype: Kernel(f"random_places_{dtype}", partial(_build, dtype), parameters=(dtype,))
    for dtype in ("float32", "float64")
}


def accepts(call: Call) -> bool | str:
    """Whether x is float32 or float64 and nothing is empty."""
    refused = refuse_floats(call, tuple(_KERNELS), floats=(0,))
    if refused:
        return refused
    return "an array is empty" if has_empty(call) else True


def prepare(call: Call) -> Prepared:
    """RandomCrop, RandomFlip, RandomShift: x, stream -> y, index."""
    x, y = call.inputs[0], call.outputs[0]
    assert x is not None
    base = call.attributes["base_axis"]
    samples = math.prod(x.shape[:base])
    axes = _axes(call, x.shape[base:], y.shape[base:]) or [(1, 1, 1, _ADD, 1, 0, 0)]
    table = sum(axis[1] for axis in axes)
    drawn = len(call.attributes["axes"]) if call.spec.name == "RandomFlip" else x.ndim - base
    words = [0, 0, 0, 0, 0, samples, len(axes), drawn, table, x.size // samples, y.size // samples]
    words += [number for axis in axes for number in axis]
    parts = fitting_shares(share_count(y.size / _ELEMENTS_PER_US, samples), 8 * table)
    return launch(_KERNELS[x.dtype.name], words, (0, 1, 2, 3, 4), parts=parts, workspace=8 * table * parts)


def _axes(call: Call, x_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The entries of the block for each axis of a sample."""
    name, attributes = call.spec.name, call.attributes
    entries: list[tuple[int, ...]] = []
    for axis, (size, out) in enumerate(zip(x_shape, y_shape, strict=True)):
        stride = math.prod(x_shape[axis + 1 :])
        if name == "RandomCrop":
            rule = (_ADD, size - out + 1, axis, 0)
        elif name == "RandomFlip":
            flipped = attributes["axes"]
            place = axis + attributes["base_axis"]
            rule = (_REVERSE, 2, flipped.index(place), 0) if place in flipped else (_ADD, 1, 0, 0)
        else:
            far = attributes["shifts"][axis]
            mode = _NEAREST if attributes["border_mode"] == "nearest" else _REFLECT
            rule = (mode, 2 * far + 1, axis, far)
        entries.append((size, out, stride, *rule))
    return entries
