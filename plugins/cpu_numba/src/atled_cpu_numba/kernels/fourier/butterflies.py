"""numba intrinsics for the stages of Fourier transforms of several lines at once, which lie side by side in vectors.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Real and imaginary parts are in planes of their own. A stage is one of Stockham's algorithm: its results come in the
order of the next one, and need no reversal of digits at the end.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.vectors import Writer, vector_intrinsic

_DOUBLE = ir.DoubleType()
_FLAGS = ("contract",)

_Complex = tuple[Any, Any]  # two vectors


def _add(w: Writer, a: _Complex, b: _Complex) -> _Complex:
    return w.builder.fadd(a[0], b[0]), w.builder.fadd(a[1], b[1])


def _subtract(w: Writer, a: _Complex, b: _Complex) -> _Complex:
    return w.builder.fsub(a[0], b[0]), w.builder.fsub(a[1], b[1])


def _turned(a: _Complex, b: _Complex, w: Writer) -> tuple[_Complex, _Complex]:
    """a - i b and a + i b."""
    builder = w.builder
    less = builder.fadd(a[0], b[1]), builder.fsub(a[1], b[0])
    more = builder.fsub(a[0], b[1]), builder.fadd(a[1], b[0])
    return less, more


def _times(w: Writer, a: _Complex, b: _Complex) -> _Complex:
    builder = w.builder

    def product(x: Any, y: Any) -> Any:
        return builder.fmul(x, y, flags=_FLAGS)

    real = builder.fsub(product(a[0], b[0]), product(a[1], b[1]), flags=_FLAGS)
    return real, builder.fadd(product(a[0], b[1]), product(a[1], b[0]), flags=_FLAGS)


def _weighted(w: Writer, weights: list[float], values: list[_Complex], begin: _Complex | None) -> _Complex:
    """The sum of values times numbers, and of `begin`."""
    builder, parts = w.builder, []
    for part in range(2):
        total = None if begin is None else begin[part]
        for weight, value in zip(weights, values, strict=True):
            term = builder.fmul(value[part], w.constant(weight), flags=_FLAGS)
            total = term if total is None else builder.fadd(total, term, flags=_FLAGS)
        parts.append(total)
    return parts[0], parts[1]


def _transformed(w: Writer, a: list[_Complex]) -> list[_Complex]:
    """The transform of 2, 4 or an odd number of values: y[j] is the sum of a[k] exp(-2 pi i j k / count)."""
    count = len(a)
    if count == 2:
        return [_add(w, *a), _subtract(w, *a)]
    if count == 4:
        even, odd = _add(w, a[0], a[2]), _add(w, a[1], a[3])
        second, fourth = _turned(_subtract(w, a[0], a[2]), _subtract(w, a[1], a[3]), w)
        return [_add(w, even, odd), second, _subtract(w, even, odd), fourth]
    half = count // 2
    sums = [_add(w, a[k], a[count - k]) for k in range(1, half + 1)]
    differences = [_subtract(w, a[k], a[count - k]) for k in range(1, half + 1)]
    y = [a[0]] * count
    for each in sums:
        y[0] = _add(w, y[0], each)
    for j in range(1, half + 1):
        angles = [2 * math.pi * (j * k % count) / count for k in range(1, half + 1)]
        cosines = _weighted(w, list(map(math.cos, angles)), sums, a[0])
        sines = _weighted(w, list(map(math.sin, angles)), differences, None)
        y[j], y[count - j] = _turned(cosines, sines, w)
    return y


def make_stage(radix: int, dtype: str) -> Any:
    """An intrinsic stage((real, imaginary, to_real, to_imaginary, roots, count, run, hop)) of a transform.

    radix: 2, 4 or an odd number.
    real, imaginary, to_real, to_imaginary: addresses of the planes before and behind it; they do not overlap.
    roots: address of pairs of float64: exp(-2 pi i k / n) for k from 0 on, n being the whole transform's length.
    count: of butterflies on a run of elements.  run: elements, whole vectors.  hop: the n-th root that count-th are of.
    """

    def generate(w, real, imaginary, to_real, to_imaginary, roots, count, run, hop):
        builder = w.builder
        sources, targets = [[w.pointer(at) for at in pair] for pair in ((real, imaginary), (to_real, to_imaginary))]
        roots = builder.inttoptr(roots, _DOUBLE.as_pointer())

        def root(number: Any) -> _Complex:
            parts = []
            for part in range(2):
                at = builder.add(builder.mul(number, w.number(2)), w.number(part))
                value = builder.load(builder.gep(roots, [at]), typ=_DOUBLE)
                parts.append(w.splat(value if w.float == _DOUBLE else builder.fptrunc(value, w.float)))
            return parts[0], parts[1]

        with w.counted(count, []) as (p, _, _unused):
            step = builder.mul(p, hop)
            turns = [root(builder.mul(step, w.number(j))) for j in range(1, radix)]
            rows = [builder.mul(builder.add(p, builder.mul(count, w.number(k))), run) for k in range(radix)]
            first = builder.mul(builder.mul(p, w.number(radix)), run)
            results = [builder.add(first, builder.mul(run, w.number(j))) for j in range(radix)]
            with w.counted(builder.sdiv(run, w.number(w.width)), []) as (t, _, _unused):
                at = builder.mul(t, w.number(w.width))
                a = [tuple(w.load(w.at(plane, builder.add(row, at))) for plane in sources) for row in rows]
                y = _transformed(w, a)
                y = [y[0], *(_times(w, value, turn) for value, turn in zip(y[1:], turns, strict=True))]
                for value, row in zip(y, results, strict=True):
                    for part, plane in zip(value, targets, strict=True):
                        w.store(part, w.at(plane, builder.add(row, at)))

    return vector_intrinsic("stage", 8, generate, "One stage of Fourier transforms; see make_stage.", dtype)
