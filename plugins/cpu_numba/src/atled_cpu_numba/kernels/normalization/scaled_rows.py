"""Intrinsics that scale and shift rows of floats of any dtype, in vectors: narrow ones convert in registers.

Written out, because LLVM runs no loop in vectors of which it cannot tell whether the row is changed in place.
Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.narrow_writer import NarrowWriter, memory_intrinsic

_FLAGS = ("contract", "nsz")


def make_scale_row(dtype: str) -> Any:
    """An intrinsic scale_row((x, y, middle, scale, addend, count)): y[j] = (x[j] - middle) * scale + addend.

    x, y: addresses of rows, which may be one.  middle, scale, addend: addresses of numbers that are computed with.
    """

    def scaled(builder: Any, values: list[Any], numbers: list[Any]) -> Any:
        (x,), (middle, scale, addend) = values, numbers
        product = builder.fmul(builder.fsub(x, middle, flags=_FLAGS), scale, flags=_FLAGS)
        return builder.fadd(product, addend, flags=_FLAGS)

    def generate(w: Any, x: Any, y: Any, middle: Any, scale: Any, addend: Any, count: Any) -> None:
        _over_row(w, (x,), y, (middle, scale, addend), count, scaled)

    return memory_intrinsic("scale_row", 6, generate, "A row scaled and shifted; see make_scale_row.", dtype)


def make_propagate_row(dtype: str) -> Any:
    """An intrinsic propagate_row((x, gy, gx, middle, a, b, c, count)): gx[j] = gy[j] * a + ((x[j] - middle) * b + c).

    x, gy, gx: addresses of rows; gx may be one of the others.  middle, a, b, c: as those of `make_scale_row`.
    """

    def propagated(builder: Any, values: list[Any], numbers: list[Any]) -> Any:
        (x, gy), (middle, a, b, c) = values, numbers
        product = builder.fmul(builder.fsub(x, middle, flags=_FLAGS), b, flags=_FLAGS)
        rest = builder.fadd(product, c, flags=_FLAGS)
        return builder.fadd(builder.fmul(gy, a, flags=_FLAGS), rest, flags=_FLAGS)

    def generate(w: Any, x: Any, gy: Any, gx: Any, middle: Any, a: Any, b: Any, c: Any, count: Any) -> None:
        _over_row(w, (x, gy), gx, (middle, a, b, c), count, propagated)

    return memory_intrinsic("propagate_row", 8, generate, "A row of gradients; see make_propagate_row.", dtype)


def _over_row(
    w: Any,
    sources: Sequence[Any],
    target: Any,
    numbers: Sequence[Any],
    count: Any,
    formula: Callable[[Any, list[Any], list[Any]], Any],
) -> None:
    """Write the formula of each element of the sources to the target: whole vectors, then single elements.

    Of bfloat16 the vectors are taken in pairs, which are quicker to convert.
    """
    builder = w.builder
    pointers, goal = [w.pointer(source) for source in sources], w.pointer(target)
    scalars = [builder.load(builder.inttoptr(number, w.float.as_pointer()), typ=w.float) for number in numbers]
    if isinstance(w, NarrowWriter):
        scalars = [_with_plain_nan(builder, number) for number in scalars]
    one = ir.VectorType(w.float, 1)
    singles, vectors = [builder.bitcast(number, one) for number in scalars], [w.splat(number) for number in scalars]
    done = w.number(0)
    if isinstance(w, NarrowWriter) and w.has_pairs:
        whole = builder.sdiv(count, w.number(2 * w.width))
        with w.counted(whole, []) as (i, _, _following):
            at = builder.mul(i, w.number(2 * w.width))
            pairs = [w.load_pairs(w.at(pointer, at), None) for pointer in pointers]
            even, odd = (formula(builder, [pair[n] for pair in pairs], vectors) for n in (0, 1))
            w.store_pairs(even, odd, w.at(goal, at), None)
        done = builder.mul(whole, w.number(2 * w.width))
    whole = builder.sdiv(builder.sub(count, done), w.number(w.width))
    with w.counted(whole, []) as (i, _, _following):
        at = builder.add(done, builder.mul(i, w.number(w.width)))
        values = [w.load(w.at(pointer, at)) for pointer in pointers]
        w.store(formula(builder, values, vectors), w.at(goal, at))
    done = builder.add(done, builder.mul(whole, w.number(w.width)))
    with w.counted(builder.sub(count, done), []) as (i, _, _following):
        at = builder.add(done, i)
        values = [w.load_lanes(w.at(pointer, at), 1) for pointer in pointers]
        w.store_lanes(formula(builder, values, singles), w.at(goal, at), 1)


def _with_plain_nan(builder: Any, number: Any) -> Any:
    """The number, but for a NaN the one whose digits bfloat16 has, too.

    All NaN of a row are then like those that come of the narrow elements alone: none is looked for when they are
    rounded.
    """
    return builder.select(builder.fcmp_unordered("uno", number, number), ir.Constant(number.type, math.nan), number)
