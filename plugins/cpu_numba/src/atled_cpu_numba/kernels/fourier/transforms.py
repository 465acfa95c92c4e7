"""FFT and IFFT by one kernel per axis, of sizes that are products of small primes.

Sixteen lines are transformed at once, side by side in the workspace: gathered, taken apart into real and imaginary
parts, a stage per factor, and back. The inverse is the transform with both parts exchanged, before and behind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.rows_of_kernels import Rows
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import (
    REALS,
    fitting_shares,
    float_bits,
    in_lines,
    kernels_by_dtype,
    launch,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of

_LINES = 16  # at once
_RADICES = (4, 2, 3, 5, 7)
_MOST_FACTORS = 16
_MOST_SIZE = 1 << 14  # of an axis: so many elements of as many lines are 4 MiB of workspace in float32
_MOST_ALONE = 1 << 11  # of one or two lines, which leave most of the sixteen empty: beyond, NumPy is quicker
_POINTS_PER_US = 100.0  # a cautious rate of one core, for the number of shares


@layout
class Block:
    """What the kernel reads; behind it are the roots of unity, pairs of float64."""

    x: int  # address
    y: int  # address; may be x
    lines: int
    size: int  # points of a line
    inner: int  # points from one of a line to the next, and lines that lie side by side
    is_inverse: int  # whether the parts are exchanged
    scale: int  # of the results: bits of a float64
    factor_count: int
    factors: int = _MOST_FACTORS
    workspace: int = 1  # address
    share_bytes: int = 1  # of it, per share
    roots: int = 1  # the first word of theirs


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import float64_of_bits, ints64, words
    from atled_cpu_numba.kernels.fourier.butterflies import make_stage
    from atled_cpu_numba.kernels.shared.options import Real, inlined, kernel

    real = Real(dtype)
    number, floats, point = real.kind, real.pointer, 2 * real.size
    units = point // 8  # words of a point
    fours, twos, threes, fives, sevens = (make_stage(radix, dtype) for radix in _RADICES)

    @inlined
    def walk(lines, first, count, size, inner, beside, gathers):
        """Points of `count` lines from the first one on, those of as many lines side by side: gathered or scattered.

        lines, beside: addresses of the array, and of the points side by side.
        """
        outer = first // inner
        offset = first - outer * inner
        if inner > 1 and offset + count <= inner:
            at = lines + point * (outer * size * inner + offset)
            for k in range(size):
                one, other = ints64(at + point * k * inner), ints64(beside + point * k * _LINES)
                source, target = (one, other) if gathers else (other, one)
                for e in range(units * count):
                    target[e] = source[e]
            return
        points = ints64(beside)
        for j in range(count):
            outer = (first + j) // inner
            line = ints64(lines + point * (outer * size * inner + first + j - outer * inner))
            for k in range(size):
                for e in range(units):
                    if gathers:
                        points[units * (k * _LINES + j) + e] = line[units * k * inner + e]
                    else:
                        line[units * k * inner + e] = points[units * (k * _LINES + j) + e]

    @kernel
    def transform(block, part, parts):
        w = words(block)
        x, y, lines, size, inner = w[Block.x], w[Block.y], w[Block.lines], w[Block.size], w[Block.inner]
        is_inverse, scale = w[Block.is_inverse] != 0, number(float64_of_bits(w[Block.scale]))
        roots, factor_count = block + 8 * w[Block.roots], w[Block.factor_count]
        plane = point // 2 * size * _LINES
        one = w[Block.workspace] + part * w[Block.share_bytes]
        groups = (lines + _LINES - 1) // _LINES
        for group in range(groups * part // parts, groups * (part + 1) // parts):
            first = group * _LINES
            count = min(_LINES, lines - first)
            source, target = one, one + 2 * plane
            pairs = floats(target)
            if count < _LINES:  # lanes without a line are 0
                for t in range(2 * size * _LINES):
                    pairs[t] = number(0)
            walk(x, first, count, size, inner, target, True)
            reals, imaginaries = (
                floats(source + plane if is_inverse else source),
                floats(source if is_inverse else source + plane),
            )
            for t in range(size * _LINES):
                reals[t] = pairs[2 * t]
                imaginaries[t] = pairs[2 * t + 1]
            hop = 1
            for stage in range(factor_count):
                radix = w[Block.factors + stage]
                butterflies, run = size // (hop * radix), hop * _LINES
                planes = (source, source + plane, target, target + plane, roots, butterflies, run, hop)
                if radix == 4:
                    fours(planes)
                elif radix == 2:
                    twos(planes)
                elif radix == 3:
                    threes(planes)
                elif radix == 5:
                    fives(planes)
                else:
                    sevens(planes)
                source, target = target, source
                hop *= radix
            pairs = floats(target)
            reals, imaginaries = (
                floats(source + plane if is_inverse else source),
                floats(source if is_inverse else source + plane),
            )
            for t in range(size * _LINES):
                pairs[2 * t] = scale * reals[t]
                pairs[2 * t + 1] = scale * imaginaries[t]
            walk(y, first, count, size, inner, target, False)
        return 0

    return transform


_KERNELS = kernels_by_dtype("fourier_transform", _build)


def accepts(call: Call) -> bool | str:
    """Whether x is float32 or float64, and the sizes of all signal axes have kernels."""
    refused = refuse_floats(call, REALS, floats=(0,))
    if refused:
        return refused
    for size in _signal(call):
        if size > _MOST_SIZE or _factors(size) is None:
            return f"transforms sizes up to {_MOST_SIZE} without prime factors above {max(_RADICES)}, not {size}"
        if size > _MOST_ALONE and call.outputs[0].size <= 4 * size:
            return f"transforms lines of more than {_MOST_ALONE} points from three on"
    return True


def prepare(call: Call) -> Prepared:
    """FFT, IFFT: x -> y."""
    sizes = _signal(call)
    if len(sizes) == 1:
        return _along(call, 0, _scale(call))
    rows = Rows(call)
    source, target = rows.arguments
    for axis in range(len(sizes)):
        rows.add(
            _along(call, axis, _scale(call) if axis == len(sizes) - 1 else 1.0), target if axis else source, target
        )
    return rows.finished(f"{len(sizes)} axes")


def _signal(call: Call) -> Sequence[int]:
    """The sizes of the axes that are transformed."""
    (x,) = call.inputs
    assert x is not None
    return x.shape[-1 - call.attributes["signal_ndim"] : -1]


def _scale(call: Call) -> float:
    count = math.prod(_signal(call))
    if call.attributes["normalized"]:
        return 1 / math.sqrt(count)
    return 1 / count if call.spec.name == "IFFT" else 1.0


def _along(call: Call, axis: int, scale: float) -> Prepared:
    """Along one of the signal axes."""
    (x,) = call.inputs
    assert x is not None
    sizes, dtype = _signal(call), x.dtype.name
    size, points = sizes[axis], x.size // 2
    factors = _factors(size)
    assert factors is not None
    lines, share_bytes = points // size, in_lines(4 * SIZES[dtype] * size * _LINES)
    words = filled(
        Block,
        lines=lines,
        size=size,
        inner=math.prod(sizes[axis + 1 :]),
        is_inverse=int(call.spec.name == "IFFT"),
        scale=float_bits(scale),
        factor_count=len(factors),
        share_bytes=share_bytes,
        roots=size_of(Block),
    )
    words[Block.factors : Block.factors + len(factors)] = factors
    roots = np.exp(-2j * np.pi * np.arange(size) / size)
    words += roots.view(np.int64).tolist()
    parts = share_count(points / _POINTS_PER_US, max(1, -(-lines // _LINES)))
    parts = fitting_shares(parts, share_bytes)
    return launch(
        _KERNELS[dtype],
        words,
        (Block.x, Block.y, Block.workspace),
        parts=parts,
        workspace=parts * share_bytes,
        note="sixteen lines at once",
    )


def _factors(size: int) -> list[int] | None:
    """The radices of the stages; None where there are none that make up the size."""
    found = []
    for radix in _RADICES:
        while size % radix == 0:
            found.append(radix)
            size //= radix
    return found if size == 1 else None
