"""INQAffine and INQConvolution: weights fixed to powers of two step by step, then the kernel of the plain layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from atled.plugin import ArrayDesc, Call, Prepared, Program, op_spec
from atled_cpu_numba import elementwise
from atled_cpu_numba.kernels.convolution import choice as convolution
from atled_cpu_numba.kernels.products import matmul
from atled_cpu_numba.kernels.random.random_state import RandomState, philox
from atled_cpu_numba.kernels.rows_of_kernels import Array, Rows
from atled_cpu_numba.kernels.shared.launch import (
    REALS,
    float_bits,
    kernels_by_dtype,
    launch,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout

_LAYERS = {"INQAffine": ("Affine", matmul), "INQConvolution": ("Convolution", convolution)}
_SINGLE = np.dtype(np.float32)


@layout
class Selection:
    """What the kernel reads that fixes weights and finds the range of the powers."""

    weight: int  # address
    fixed: int  # address: of the weight's dtype, 0 where a weight is free
    random_state: int  # address
    bounds: int  # address: of the smallest and the largest power
    count: int  # of weights
    smallest: int  # bits of a float64: the smallest power as a share of the largest
    at_random: int  # whether weights are drawn, not chosen by size
    iteration_count: int
    iterations: int  # the first of those forwards at which weights are fixed


@layout
class Rounding:
    """What the kernel reads that rounds the fixed weights."""

    weight: int  # address
    fixed: int  # address
    bounds: int  # address
    rounded: int  # address of the result; in place LLVM would leave out what does not change, which takes longer
    count: int


# Per dtype: the dtype of its bits, how many of these are digits, the exponent of the smallest normal number.
_BITS = {"float32": ("int32", 23, -126), "float64": ("int64", 52, -1022)}
_ELEMENTS_PER_US = 1000.0  # a cautious rate of one core for rounding, for the number of shares

_RESTORED = Program(
    ("weight", "kept", "indicator"),
    (),
    (("value", "where(kept == kept, kept, weight)"), ("fixed", "where(indicator != 0, 1, 0)")),
)
_COPY = Program(("x",), (), (("y", "x"),))
_KEPT = Program(("weight", "fixed"), ("free",), (("kept", "where(fixed > 0, weight, free)"),))


def _build_selecting(dtype: str) -> Callable[..., int]:
    from numba import types, uint64

    from atled_cpu_numba.codegen import float64_of_bits, ints32, ints64, words
    from atled_cpu_numba.kernels.shared.options import Real, inlined, kernel, piece
    from atled_cpu_numba.kernels.shared.scalars import choose

    real, (whole_name, digits, _), draw = Real(dtype), _BITS[dtype], philox()
    number, floats, size = real.kind, real.pointer, real.size
    whole, bits_at, width = getattr(types, whole_name), ints32 if size == 4 else ints64, 8 * size
    infinity = ((1 << (width - 1 - digits)) - 1) << digits  # its bits
    magnitude_mask = (1 << (width - 1)) - 1
    power = make_nearest_power(dtype)

    @inlined
    def rank(bits, fixed):
        """Greater for larger weights; 0 for NaN, which is fixed last; below that for those that are fixed."""
        magnitude = whole(bits & magnitude_mask)
        free = choose(magnitude > whole(infinity), whole(0), whole(magnitude + 1))
        return choose(fixed != number(0), whole(-1), free)

    @inlined
    def count_from(bits, fixed, count, least):
        found = 0
        for i in range(count):
            found += 1 if rank(bits[i], fixed[i]) >= least else 0
        return found

    @piece
    def fix_largest(bits, fixed, count):
        """Fix the larger half of the free weights, at least one, of equal ones the first."""
        wanted = max(1, count_from(bits, fixed, count, whole(0)) // 2)
        # The least rank of those, bit by bit from the top: counting is quick, and is done at few forwards.
        least = whole(0)
        for place in range(width - 1):
            tried = whole(least | (1 << (width - 2 - place)))
            least = tried if count_from(bits, fixed, count, tried) >= wanted else least
        equal = wanted - count_from(bits, fixed, count, whole(least + 1))
        for i in range(count):
            found = rank(bits[i], fixed[i])
            if found > least or (found == least and equal > 0):
                equal -= 1 if found == least else 0
                fixed[i] = number(1)

    @piece
    def fix_drawn(state, fixed, count):
        """Fix each free weight with probability 1/2: where the uniform number of its place is below that."""
        key, call, middle = uint64(state[RandomState.key]), uint64(state[RandomState.call]), uint64(1 << 31)
        for i in range((count + 3) // 4):
            first, second, third, fourth = draw(uint64(i), call, key)
            if first < middle:
                fixed[4 * i] = number(1)
            if second < middle and 4 * i + 1 < count:
                fixed[4 * i + 1] = number(1)
            if third < middle and 4 * i + 2 < count:
                fixed[4 * i + 2] = number(1)
            if fourth < middle and 4 * i + 3 < count:
                fixed[4 * i + 3] = number(1)

    @kernel
    def fix_weights(block, part, parts):
        w = words(block)
        bits, fixed, count = bits_at(w[Selection.weight]), floats(w[Selection.fixed]), w[Selection.count]
        bounds, state = floats(w[Selection.bounds]), ints64(w[Selection.random_state])
        listed, iterations = w[Selection.iteration_count], ints64(block + 8 * Selection.iterations)
        forwards, is_listed = state[RandomState.call], False
        for i in range(listed):
            is_listed = is_listed or iterations[i] == forwards
        if is_listed:
            if iterations[listed - 1] == forwards:
                for i in range(count):
                    fixed[i] = number(1)
            elif w[Selection.at_random]:
                fix_drawn(state, fixed, count)
            else:
                fix_largest(bits, fixed, count)
        most = whole(0)
        for i in range(count):
            most = max(most, whole(bits[i] & magnitude_mask))
        smallest, largest = number(0), number(0)
        if whole(0) < most < whole(infinity):
            bits_at(w[Selection.bounds])[0] = most
            largest = power(bounds[0])
            smallest = number(largest * float64_of_bits(w[Selection.smallest]))
        bounds[0], bounds[1] = smallest, largest
        return 0

    return fix_weights


def _build_rounding(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.scalars import choose

    real = Real(dtype)
    number, floats, nearest_power = real.kind, real.pointer, make_nearest_power(dtype)

    @kernel
    def round_fixed(block, part, parts):
        w = words(block)
        weight, fixed, bounds = floats(w[Rounding.weight]), floats(w[Rounding.fixed]), floats(w[Rounding.bounds])
        smallest, largest, least = bounds[0], bounds[1], bounds[0] * number(0.5)
        rounded, count = floats(w[Rounding.rounded]), w[Rounding.count]
        for i in range(count * part // parts, count * (part + 1) // parts):
            x = weight[i]
            size = abs(x)
            power = nearest_power(size)
            power = choose(power < smallest, smallest, power)
            power = choose(power > largest, largest, power)
            power = choose(size < least, number(0), power)
            power = choose(size == number(0), number(0), power)
            signed = choose(x < number(0), -power, power)
            signed = choose(x == x, signed, x)
            rounded[i] = choose(fixed[i] != number(0), signed, x)
        return 0

    return round_fixed


def make_nearest_power(dtype: str) -> Any:  # numba ships no types
    """numba's function nearest_power(x): of positive numbers the power of two next to them, of 1.5 times one the upper.

    0 of 0; of what is no number, or infinite, it is any number.
    """
    from llvmlite import ir
    from numba.extending import intrinsic

    _, digits, least_exponent = _BITS[dtype]
    kind, integer = (ir.FloatType(), ir.IntType(32)) if dtype == "float32" else (ir.DoubleType(), ir.IntType(64))
    half, exponents = 1 << (digits - 1), ((1 << (integer.width - 1 - digits)) - 1) << digits

    @intrinsic
    def nearest_power(typing_context, x):
        def generate(context, builder, signature, arguments):
            def power(value):
                # Half a power and more is carried into the exponent; the digits go.
                bits = builder.add(builder.bitcast(value, integer), ir.Constant(integer, half))
                return builder.bitcast(builder.and_(bits, ir.Constant(integer, exponents)), kind)

            (value,) = arguments
            up, down = (ir.Constant(kind, 2.0**exponent) for exponent in (digits + 1, -digits - 1))
            # Denormal numbers have no exponent of their own; both products are exact.
            denormal = builder.fmul(power(builder.fmul(value, up)), down)
            is_denormal = builder.fcmp_ordered("<", value, ir.Constant(kind, 2.0**least_exponent))
            return builder.select(is_denormal, denormal, power(value))

        return x(x), generate

    return nearest_power


_SELECTING = kernels_by_dtype("fix_weights", _build_selecting)
_ROUNDING = kernels_by_dtype("round_fixed_weights", _build_rounding)


def accepts(call: Call) -> bool | str:
    """Whether floats are float32 or float64, the weight is no wider than x, and the plain layer's kernel takes both."""
    refused = refuse_floats(call, REALS, floats=(0, 3), empty=False)
    x, weight, indicator = call.inputs[:3]
    assert x is not None
    assert weight is not None
    assert indicator is not None
    if not refused and weight.dtype.itemsize > x.dtype.itemsize:
        refused = f"takes no weight of {weight.dtype} beside {x.dtype}"
    for desc in (weight, indicator):
        if not refused and desc.dtype.kind in "iub":
            refused = f"takes floats, not {desc.dtype}"
    return refused or _LAYERS[call.spec.name][1].accepts(_plain(call))


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: those that are changed in place."""
    return (1, 2, 4)


def prepare(call: Call) -> Prepared:
    """INQ layers: x, weight, indicator, bias?, kept, random_state -> y; weight, indicator and kept change in place."""
    x, weight, indicator, _, kept, _ = call.inputs
    assert x is not None
    assert weight is not None
    assert indicator is not None
    assert kept is not None
    rows, plain = Rows(call), _plain(call)
    inner = _LAYERS[call.spec.name][1].prepare(plain)
    source, weights, indicators, bias, remembered, state, y = rows.arguments
    count = weight.size
    given, marks, before = (ArrayDesc((count,), desc.dtype) for desc in (weight, indicator, kept))
    numbers = ArrayDesc((count,), weight.dtype if weight.dtype.name in REALS else _SINGLE)
    dtype = numbers.dtype.name
    values = rows.between(numbers)
    rounded = weights if given.dtype == numbers.dtype else rows.between(numbers)
    fixed = indicators if marks.dtype == numbers.dtype else rows.between(numbers)
    bounds = rows.between(ArrayDesc((2,), numbers.dtype))

    restored = elementwise.prepare_program(_RESTORED, (given, before, marks), (numbers, numbers), dtype)
    rows.add(restored, weights, remembered, indicators, values, fixed)
    rows.add(_selecting(call, count, dtype), values, fixed, state, bounds)
    rows.add(_rounding(count, dtype), values, fixed, bounds, rounded)
    for made, target, desc in ((rounded, weights, given), (fixed, indicators, marks)):
        _add_copy(rows, made, numbers, target, desc)
    stored = elementwise.prepare_program(_KEPT, (given, numbers), (before,), dtype)
    rows.add(stored, weights, fixed, remembered, free=math.nan)
    wide = ArrayDesc((count,), x.dtype)
    used = weights if given.dtype == wide.dtype else rows.between(wide)
    _add_copy(rows, weights, given, used, wide)
    rows.add(inner, source, used, bias, y)
    return rows.finished(f"powers of two; {inner.note}" if inner.note else "powers of two")


def _plain(call: Call) -> Call:
    """The plain layer with a weight in the dtype of x."""
    x, weight, bias = call.inputs[0], call.inputs[1], call.inputs[3]
    assert x is not None
    assert weight is not None
    spec = op_spec(_LAYERS[call.spec.name][0])
    return Call(
        spec,
        (x, ArrayDesc(weight.shape, x.dtype), bias),
        call.outputs,
        {item.name: call.attributes.get(item.name, item.default) for item in spec.attributes},
        type_config=call.type_config,
        deterministic=call.deterministic,
        local_errors=call.local_errors,
    )


def _selecting(call: Call, count: int, dtype: str) -> Prepared:
    attributes = call.attributes
    iterations = attributes["inq_iterations"]
    words = filled(
        Selection,
        count=count,
        smallest=float_bits(2.0 ** (1 - 2 ** (attributes["num_bits"] - 2))),
        at_random=int(attributes["selection_algorithm"] == "random"),
        iteration_count=len(iterations),
    )
    arguments = (Selection.weight, Selection.fixed, Selection.random_state, Selection.bounds)
    # In one share: the range is that of all weights, and of equal weights the first are fixed.
    return launch(_SELECTING[dtype], [*words[: Selection.iterations], *iterations], arguments, parts=1)


def _rounding(count: int, dtype: str) -> Prepared:
    return launch(
        _ROUNDING[dtype],
        filled(Rounding, count=count),
        (Rounding.weight, Rounding.fixed, Rounding.bounds, Rounding.rounded),
        parts=share_count(count / _ELEMENTS_PER_US, count),
    )


def _add_copy(rows: Rows, source: Array, given: ArrayDesc, target: Array, desc: ArrayDesc) -> None:
    """A row that converts, unless both are one array."""
    if source != target:
        compute = "float64" if 8 in (given.dtype.itemsize, desc.dtype.itemsize) else "float32"
        rows.add(elementwise.prepare_program(_COPY, (given,), (desc,), compute), source, target)
