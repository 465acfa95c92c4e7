"""Shift and ShiftGrad: each element from, or added to, the place that a table per axis gives.

Axes before the first shifted one are merged: their elements are independent, and the shares.

Block (64-bit words):
    0 x, 1 y, 2 samples, 3 elements of a sample, 4 axes, 5 whether places are added to
    6 ...: the sizes of the axes, then per axis its table: places in elements of a sample
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from atled.plugin import Call, Prepared, shift_sources
from atled_cpu_numba.kernels.shared.launch import has_empty, launch, refuse_floats, share_count
from atled_cpu_numba.store import Kernel

_ELEMENTS_PER_US = 500.0  # a cautious rate of one core, for the number of shares


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def shift(block, part, parts):
        w = words(block)
        count, axes, adds = w[3], w[4], w[5] != 0
        length = w[6 + axes - 1]
        last = 6 + axes - length
        for axis in range(axes):
            last += w[6 + axis]
        for sample in range(w[2] * part // parts, w[2] * (part + 1) // parts):
            x, y = floats(w[0] + size * sample * count), floats(w[1] + size * sample * count)
            if adds:
                for i in range(count):
                    y[i] = number(0)
            for row in range(count // length):
                rest, other, table = row, 0, last
                for before in range(1, axes):
                    axis_size = w[6 + axes - 1 - before]
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


_KERNELS = {
    dtype: Kernel(f"shift_{dtype}", partial(_build, dtype), parameters=(dtype,)) for dtype in ("float32", "float64")
}


def accepts(call: Call) -> bool | str:
    """Whether x is float32 or float64 and not empty."""
    refused = refuse_floats(call, tuple(_KERNELS), floats=(0,))
    if refused:
        return refused
    return "an array is empty" if has_empty(call) else True


def prepare(call: Call) -> Prepared:
    """Shift: x -> y.  ShiftGrad: gy -> gx."""
    x, shifts = call.inputs[0], call.attributes["shifts"]
    assert x is not None
    first = next((axis for axis, shift in enumerate(shifts) if shift), x.ndim)
    samples, sizes = math.prod(x.shape[:first]), x.shape[first:] or (1,)
    shifts = shifts[first:] or (0,)
    words = [0, 0, samples, math.prod(sizes), len(sizes), int(call.spec.name == "ShiftGrad"), *sizes]
    for axis, (size, shift) in enumerate(zip(sizes, shifts, strict=True)):
        words += (shift_sources(size, shift, call.attributes["border_mode"]) * math.prod(sizes[axis + 1 :])).tolist()
    parts = share_count(x.size / _ELEMENTS_PER_US, samples)
    return launch(_KERNELS[x.dtype.name], words, (0, 1), parts=parts)
