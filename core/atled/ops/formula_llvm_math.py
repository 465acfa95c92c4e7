"""LLVM IR of scalar arithmetic and mathematics, as straight-line code that LLVM's loop vectorizer accepts.

No branches and no library calls in the float32 functions (exp, exp2, expm1, log, log2, log1p, tanh; the others are in
modules of their own beside this one): about 1e-7 relative, NaN and infinity right, denormals right. float64:
`formula_llvm_double`.

Floating-point flags: `contract` only. Reciprocals (`arcp`) would turn x / y into NaN or infinity where 1 / y overflows,
`nnan` and `ninf` would drop the special cases, and the correction terms below must not be reassociated.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

FLOAT, DOUBLE = "float", "double"
INTRINSICS = {"abs": "fabs", **{op: op for op in ("sqrt", "floor", "ceil", "trunc", "round", "rint")}}


class Code:
    """Lines of one function body plus the declarations that they need.

    lines: instructions and labels.  declarations: functions used, as IR.
    fused: whether the processor computes a * b + c by one instruction.
    """

    def __init__(self, *, fused: bool = True) -> None:
        self.fused = fused
        self.lines: list[str] = []
        self.declarations: dict[str, None] = {}
        self._count = 0

    def let(self, instruction: str) -> str:
        """Adds an instruction; returns the name of its value."""
        value = f"%v{self._count}"
        self._count += 1
        self.lines.append(f"  {value} = {instruction}")
        return value

    def do(self, instruction: str) -> None:
        """Adds an instruction without a value."""
        self.lines.append(f"  {instruction}")

    def label(self, label: str) -> None:
        """Begins a block."""
        self.lines.append(f"{label}:")

    def call(self, result: str, function: str, *args: str) -> str:
        """Calls a function of `result` type on as many arguments of the same type; declares it as pure."""
        declared = f"declare {result} @{function}({', '.join([result] * len(args))})"
        # Library functions may set errno, which nobody reads: without these LLVM must keep every call in order.
        pure = "" if function.startswith("llvm.") else " nounwind willreturn memory(none)"
        self.declarations[declared + pure] = None
        return self.let(f"call contract {result} @{function}({', '.join(f'{result} {arg}' for arg in args)})")


def constant(real: str, value: float) -> str:
    """A literal of type `real`: IR writes every float as the bits of a double that it equals."""
    if real == FLOAT:
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = math.copysign(math.inf, value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class Real:
    """Arithmetic on one floating type, appended to a `Code`; values are IR names or literals.

    type: FLOAT or DOUBLE.
    """

    def __init__(self, code: Code, type: str) -> None:
        self.code = code
        self.type = type

    def literal(self, value: float) -> str:
        """The constant `value`."""
        return constant(self.type, value)

    def add(self, a: str, b: str) -> str:
        """The sum a + b."""
        return self.code.let(f"fadd contract {self.type} {a}, {b}")

    def sub(self, a: str, b: str) -> str:
        """The difference a - b."""
        return self.code.let(f"fsub contract {self.type} {a}, {b}")

    def mul(self, a: str, b: str) -> str:
        """The product a * b."""
        return self.code.let(f"fmul contract {self.type} {a}, {b}")

    def div(self, a: str, b: str) -> str:
        """The quotient a / b."""
        return self.code.let(f"fdiv {self.type} {a}, {b}")

    def neg(self, a: str) -> str:
        """The negative of a."""
        return self.code.let(f"fneg {self.type} {a}")

    def compare(self, predicate: str, a: str, b: str) -> str:
        """An i1; predicate as in IR: olt, oeq, une, uno ..."""
        return self.code.let(f"fcmp {predicate} {self.type} {a}, {b}")

    def select(self, condition: str, a: str, b: str) -> str:
        """`a` where the condition holds, else `b`."""
        return self.code.let(f"select i1 {condition}, {self.type} {a}, {self.type} {b}")

    def intrinsic(self, name: str, *args: str) -> str:
        """LLVM's own function, such as fabs."""
        return self.code.call(self.type, f"llvm.{name}.{'f32' if self.type == FLOAT else 'f64'}", *args)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """By Horner's rule, highest power first."""
        result = self.literal(coefficients[0])
        for coefficient in coefficients[1:]:
            result = self.add(self.mul(result, x), self.literal(coefficient))
        return result

    def short_polynomial(self, x: str, coefficients: Sequence[float], halvings: int = 1) -> str:
        """The same as two of half the degree in x * x: half as long a chain of operations that wait for each other.

        halvings: how many times; a quarter as long for 2.
        """
        if not halvings:
            return self.polynomial(x, coefficients)
        square = self.mul(x, x)
        last, before = coefficients[::-1][::2][::-1], coefficients[::-1][1::2][::-1]
        even, odd = (self.short_polynomial(square, part, halvings - 1) for part in (last, before))
        return self.add(self.mul(odd, x), even)

    def clamp(self, x: str, low: float, high: float) -> str:
        """The value of x limited to [low, high]; NaN stays NaN."""
        x = self.select(self.compare("olt", x, self.literal(low)), self.literal(low), x)
        return self.select(self.compare("ogt", x, self.literal(high)), self.literal(high), x)

    def convert(self, value: str, to: str) -> str:
        """`value` of this type as the type `to`."""
        if to == self.type:
            return value
        return self.code.let(f"{'fptrunc' if to == FLOAT else 'fpext'} {self.type} {value} to {to}")


def call_function(r: Real, op: str, args: Sequence[str]) -> str:
    """A function that is not written here: LLVM's own, or the C library's of float64."""
    if op in INTRINSICS:
        return r.intrinsic(INTRINSICS[op], *args)
    wide = [r.convert(arg, DOUBLE) for arg in args]
    result = r.code.call(DOUBLE, "pow" if op == "**" else op, *wide)
    return Real(r.code, DOUBLE).convert(result, r.type)


# --- float16 ----------------------------------------------------------------------------------------------------

# After Fabian Giesen, "half_to_float_fast4" and "float_to_half_fast3_rtne" (public domain).
HALF_INFINITY = 0x7C00
HALF_OVERFLOW = (127 + 16) << 23  # bits of the first float32 beyond the exponents of float16
HALF_MIN_NORMAL = (127 - 14) << 23
# Added to a float32 that is a float16 denormal, it moves the digits that stay to the lowest bits, rounded to even.
HALF_DENORMAL = (127 - 15 + 23 - 10 + 1) << 23


def half_to_float(r: Real, half: str) -> str:
    """The float of an i16 that holds a float16, by integer arithmetic."""
    let = r.code.let
    bits = let(f"zext i16 {half} to i32")
    magnitude = let(f"and i32 {bits}, 32767")
    shifted = let(f"shl i32 {magnitude}, 13")
    scaled = r.mul(let(f"bitcast i32 {shifted} to float"), r.literal(2.0**112))  # exact, denormals included
    special = let(f"bitcast i32 {let(f'or i32 {shifted}, {0xFF << 23}')} to float")
    is_special = let(f"icmp uge i32 {magnitude}, {HALF_INFINITY}")
    value = let(f"bitcast float {r.select(is_special, special, scaled)} to i32")
    sign = let(f"shl i32 {let(f'and i32 {bits}, 32768')}, 16")
    return let(f"bitcast i32 {let(f'or i32 {value}, {sign}')} to float")


def float_to_half(r: Real, value: str) -> str:
    """The i16 that holds a float rounded to float16, to nearest and even, by integer arithmetic."""
    let = r.code.let
    bits = let(f"bitcast float {value} to i32")
    magnitude = let(f"and i32 {bits}, {0x7FFFFFFF}")
    is_odd = let(f"and i32 {let(f'lshr i32 {magnitude}, 13')}, 1")
    rebased = let(f"add i32 {magnitude}, {((15 - 127) << 23) + 0xFFF}")
    result = let(f"lshr i32 {let(f'add i32 {rebased}, {is_odd}')}, 13")
    moved = r.add(let(f"bitcast i32 {magnitude} to float"), r.literal(2.0 ** (HALF_DENORMAL // 2**23 - 127)))
    denormal = let(f"sub i32 {let(f'bitcast float {moved} to i32')}, {HALF_DENORMAL}")
    is_denormal = let(f"icmp ult i32 {magnitude}, {HALF_MIN_NORMAL}")
    result = let(f"select i1 {is_denormal}, i32 {denormal}, i32 {result}")
    is_nan = let(f"icmp ugt i32 {magnitude}, {0xFF << 23}")
    special = let(f"select i1 {is_nan}, i32 {HALF_INFINITY | 0x200}, i32 {HALF_INFINITY}")
    result = let(f"select i1 {let(f'icmp uge i32 {magnitude}, {HALF_OVERFLOW}')}, i32 {special}, i32 {result}")
    sign = let(f"and i32 {let(f'lshr i32 {bits}, 16')}, 32768")
    return let(f"trunc i32 {let(f'or i32 {result}, {sign}')} to i16")


# --- exp and relatives ------------------------------------------------------------------------------------------

LOG2E = math.log2(math.e)
# ln 2 in two parts (Cephes, expf.c): a small integer times the first is exact in float32.
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
# (exp(r) - 1 - r) / r**2 on |r| <= ln(2) / 2: error 3e-9 of exp(r). By least squares on Chebyshev nodes, the weights
# raised where the error was largest.
EXP = (0.001381454058, 0.008368745446, 0.04166838899, 0.1666652113, 0.4999999404)
# Adding 1.5 * 2**23 rounds to an integer and leaves it in the low bits; unlike fptosi that is defined for NaN.
ROUNDER = 12582912.0
ROUNDER_BITS = 0x4B400000


def _reduce(r: Real, x: str, sign: int = 1) -> tuple[str, str]:
    """(k, q) for sign * x = k * ln 2 + r: k an i32, q = exp(r) - 1 to full relative accuracy; sign 1 or -1."""
    code = r.code
    shifted = r.add(r.mul(x, r.literal(sign * LOG2E)), r.literal(ROUNDER))
    k_float = r.sub(shifted, r.literal(ROUNDER))
    k = code.let(f"sub i32 {code.let(f'bitcast float {shifted} to i32')}, {ROUNDER_BITS}")
    rest = _rest(r, x, k_float, sign)
    powers = range(len(EXP) - 1, -1, -1)
    series = r.polynomial(rest, [sign**power * value for power, value in zip(powers, EXP, strict=True)])
    product = r.mul(series, r.mul(rest, rest))
    return k, r.add(product, rest) if sign > 0 else r.sub(product, rest)


def _rest(r: Real, x: str, k: str, sign: int) -> str:
    """sign * r for sign * x = k * ln 2 + r: the sign goes into the constants, or it would cost an operation."""
    return r.sub(r.sub(x, r.mul(k, r.literal(sign * LN2_HIGH))), r.mul(k, r.literal(sign * LN2_LOW)))


def power_of_two(code: Code, k: str, bias: int = 127) -> str:
    """2 ** (k + bias - 127) as a float, for an i32 k and a result that is normal or 0."""
    exponent = code.let(f"shl i32 {code.let(f'add i32 {k}, {bias}')}, 23")
    return code.let(f"bitcast i32 {exponent} to float")


def scaled_exp(r: Real, x: str, exponent: int, sign: int = 1) -> str:
    """exp(sign * x) times 2 ** exponent, where that is normal and the power of two nearest to it too; sign 1 or -1."""
    k, q = _reduce(r, x, sign)
    scale = power_of_two(r.code, k, 127 + exponent)
    return r.add(scale, r.mul(scale, q))


def _times_power(r: Real, q: str, k: str) -> str:
    """(1 + q) * 2 ** k for an i32 k up to 250 either way: in two steps, as 2 ** 128 and 2 ** -127 are not normal."""
    half = r.code.let(f"ashr i32 {k}, 1")
    rest = r.code.let(f"sub i32 {k}, {half}")
    power = power_of_two(r.code, half)
    return r.mul(r.add(power, r.mul(power, q)), power_of_two(r.code, rest))


def _exp(r: Real, x: str) -> str:
    # Beyond the limits the result is 0 or infinity by underflow or overflow of the last product.
    k, q = _reduce(r, r.clamp(x, -105.0, 89.0))
    return _times_power(r, q, k)


def _expm1(r: Real, x: str) -> str:
    k, q = _reduce(r, r.clamp(x, -20.0, 89.0))
    return expm1_of(r, q, power_of_two(r.code, k, bias=126), r.code.let(f"icmp eq i32 {k}, 0"))


def expm1_of(r: Real, q: str, half_power: str, is_small: str) -> str:
    """(1 + q) * 2 ** k - 1; half_power: 2 ** (k - 1).  is_small: whether k is 0."""
    # Doubled at the end: the largest power of two would overflow before its time.
    result = r.add(r.mul(half_power, q), r.sub(half_power, r.literal(0.5)))
    result = r.add(result, result)
    # For k = 0 the result is q; going through q / 2 would lose the last bit of denormals.
    return r.select(is_small, q, result)


def _sigmoid(r: Real, x: str) -> str:
    # 1 / (1 + exp(-x)) with both terms scaled down, so that exp(-x) stays finite where the result is denormal; beyond
    # the limits the result is 0 or 1.
    exponent = -32
    bounded = r.clamp(x, -104.0, 60.0)
    # Counted from here, the low bits of a rounded number are those of the exponent of a float.
    zero = r.literal(ROUNDER + 127 + exponent)
    shifted = r.add(r.mul(bounded, r.literal(-LOG2E)), zero)
    rest = _rest(r, bounded, r.sub(shifted, zero), sign=-1)
    bits = r.code.let(f"shl i32 {r.code.let(f'bitcast float {shifted} to i32')}, 23")
    scale = r.code.let(f"bitcast i32 {bits} to float")
    # Full relative accuracy of exp(-x) - 1, as by `_reduce`, would be lost in the sum: this is one operation less.
    powers = range(len(EXP) + 1, -1, -1)
    series = r.polynomial(rest, [(-1) ** power * value for power, value in zip(powers, (*EXP, 1.0, 1.0), strict=True)])
    one = r.literal(2.0**exponent)
    return r.div(one, r.add(r.mul(scale, series), one))


# tanh(x) / x as a quotient of polynomials in x ** 2, for |x| <= 9.01, where tanh rounds to 1: relative error 1.3e-9. By
# least squares on Chebyshev nodes in extended precision, the weights raised where the error was largest.
TANH_ABOVE = (
    *(-1.222430078072976e-11, 3.061304070683327e-08, 2.801908546740567e-05, 0.003868903243507391),
    *(0.1368037415008938, 0.9999999987113088),
)
TANH_BELOW = (1.2881797240547375e-06, 0.0003939646299032797, 0.027247944392743226, 0.4701370622716148, 1.0)
# Where x is limited: just beyond 9.01, at a number whose quotient is above 1 with and without fused operations, so that
# all from here on, infinity too, have a tanh of exactly 1 and a slope of 0. That of 9.01 itself is 6e-8 to 2e-7 below.
TANH_END = 9.017034


def _tanh(r: Real, x: str) -> str:
    bounded = r.clamp(x, -TANH_END, TANH_END)
    square = r.mul(bounded, bounded)
    quotient = r.div(r.mul(r.polynomial(square, TANH_ABOVE), bounded), r.polynomial(square, TANH_BELOW))
    # Rounding may have gone beyond 1, where 1 - tanh(x) ** 2 would be negative.
    return r.clamp(quotient, -1.0, 1.0)


# --- log and relatives ------------------------------------------------------------------------------------------

# (log(1 + t) - t + t**2 / 2) / t**3 on sqrt(1/2) - 1 <= t <= sqrt(2) - 1: Cephes, logf.c.
LOG = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
SQRT_HALF_BITS = 0x3F3504F3
MIN_NORMAL = 2.0**-126


def exponent(code: Code, x: str) -> tuple[str, str]:
    """(k, m) for x = m * 2 ** k with sqrt(1/2) <= m < sqrt(2), x positive and normal; k an i32."""
    bits = code.let(f"bitcast float {x} to i32")
    k = code.let(f"ashr i32 {code.let(f'sub i32 {bits}, {SQRT_HALF_BITS}')}, 23")
    mantissa = code.let(f"sub i32 {bits}, {code.let(f'shl i32 {k}, 23')}")
    return k, code.let(f"bitcast i32 {mantissa} to float")


def _log_sum(r: Real, t: str, k: str) -> str:
    """log(1 + t) + k * ln 2, smallest terms first; k a float."""
    square = r.mul(t, t)
    result = r.mul(r.mul(r.polynomial(t, LOG), t), square)
    result = r.add(result, r.mul(k, r.literal(LN2_LOW)))
    result = r.sub(result, r.mul(square, r.literal(0.5)))
    return r.add(r.add(t, result), r.mul(k, r.literal(LN2_HIGH)))


def log_edges(r: Real, x: str, result: str) -> str:
    """`result`, but log(x) for x that is not positive and finite."""
    result = r.select(r.compare("olt", x, r.literal(math.inf)), result, x)
    result = r.select(r.compare("oeq", x, r.literal(0.0)), r.literal(-math.inf), result)
    return r.select(r.compare("olt", x, r.literal(0.0)), r.literal(math.nan), result)


def exponent_of_any(r: Real, x: str) -> tuple[str, str]:
    """(k, m) as `exponent` gives them, k a float, for any positive x, denormals included."""
    is_denormal = r.compare("olt", x, r.literal(MIN_NORMAL))
    k, mantissa = exponent(r.code, r.select(is_denormal, r.mul(x, r.literal(2.0**23)), x))
    shift = r.select(is_denormal, r.literal(-23.0), r.literal(0.0))
    return r.add(r.code.let(f"sitofp i32 {k} to float"), shift), mantissa


def _log(r: Real, x: str) -> str:
    k, mantissa = exponent_of_any(r, x)
    return log_edges(r, x, _log_sum(r, r.sub(mantissa, r.literal(1.0)), k))


def log2_of(r: Real, x: str, k: str, t: str, rest: str) -> str:
    """log2(x) = k + log2(1 + t), of log(1 + t) = t + rest."""
    # (t + rest) / ln 2 with the larger term, t, whole: only the fraction of 1 / ln 2 is rounded in the product.
    fraction = r.literal(LOG2E - 1.0)
    low = r.add(r.add(r.mul(t, fraction), r.mul(rest, fraction)), rest)
    return log_edges(r, x, r.add(r.add(t, low), k))


def _log2(r: Real, x: str) -> str:
    k, mantissa = exponent_of_any(r, x)
    t = r.sub(mantissa, r.literal(1.0))
    return log2_of(r, x, k, t, r.sub(_log_sum(r, t, r.literal(0.0)), t))


def _log1p(r: Real, x: str) -> str:
    one = r.literal(1.0)
    u = r.add(x, one)
    lost = r.sub(x, r.sub(u, one))  # what rounding 1 + x lost, exactly
    k, mantissa = exponent(r.code, u)
    # Where k is large nothing was lost, but 2 ** -128 would come out as -infinity.
    is_large = r.code.let(f"icmp sgt i32 {k}, 99")
    bounded = r.code.let(f"select i1 {is_large}, i32 99, i32 {k}")
    scale = power_of_two(r.code, r.code.let(f"sub i32 0, {bounded}"))
    t = r.add(r.sub(mantissa, one), r.mul(lost, scale))
    return log_edges(r, u, _log_sum(r, t, r.code.let(f"sitofp i32 {k} to float")))


# --- exp2 -------------------------------------------------------------------------------------------------------

# (2**r - 1) / r on |r| <= 1/2, error 3e-9 of 2**r: a fit of our own, made like those of `formula_llvm_angles`.
EXP2 = (0.00015326463, 0.0013390806, 0.009618506, 0.0555036, 0.24022648, 0.6931472)


def _exp2(r: Real, x: str) -> str:
    x = r.clamp(x, -160.0, 140.0)  # beyond these as in `_exp`
    shifted = r.add(x, r.literal(ROUNDER))
    rest = r.sub(x, r.sub(shifted, r.literal(ROUNDER)))
    k = r.code.let(f"sub i32 {r.code.let(f'bitcast float {shifted} to i32')}, {ROUNDER_BITS}")
    return _times_power(r, r.mul(r.polynomial(rest, EXP2), rest), k)


FLOAT_FUNCTIONS: dict[str, Callable[..., str]] = {
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "log": _log,
    "log2": _log2,
    "log1p": _log1p,
}
"""Functions of float32 by their names, in operations without calls."""
