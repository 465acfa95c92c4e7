"""Randn: the normal numbers of `atled.ops.philox`, by Box and Muller in float64 until they are stored.

A share is a range of blocks of four words, taken by pieces: first the words of a piece, then the pairs of numbers that
they make. Both loops are for vectors, without what a library would ask of any number: the logarithm is that of a whole
number up to 2**24 over 2**24, and the angle a whole number of 2**-24 turns, whose quarter and rest are
exact in integers.
"""

from __future__ import annotations

from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.random.random_state import RandomState, philox
from atled_cpu_numba.kernels.shared.launch import REALS, kernels_by_dtype, launch, refuse_floats, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout


@layout
class Block:
    """What the kernel reads."""

    random_state: int  # address
    y: int  # address
    workspace: int  # address
    count: int  # elements of y
    mu: int  # bits of a float64
    sigma: int  # bits of a float64


_PIECE = 256  # blocks of words: 512 pairs, whose words take 4 KiB
_PIECE_BYTES = 16 * _PIECE
_ELEMENTS_PER_US = 200.0  # a cautious rate of one core, for the number of shares
_DIGITS = 24  # of a uniform number
# Polynomials of our own, least maximal relative error (Remez), from the lowest power up.
# sin(2 pi b) / b in b**2 for |b| <= 1/4: error 3e-19. For whole numbers of 2**-24 turns.
_SINE = tuple(
    value * 2.0 ** (-_DIGITS * (2 * power + 1))
    for power, value in enumerate(
        (
            *(6.283185307179586, -41.341702240399755, 81.60524927607341, -76.70585975279852, 42.0586939237862),
            *(-15.094641620535937, 3.8199270508561303, -0.7177235828855183, 0.10085633821217842),
        )
    )
)
# (log((1 + s) / (1 - s)) - 2 s) / s**3 in s**2 for a quotient between sqrt(1/2) and sqrt(2): error 3e-18.
_LOG_OF_QUOTIENT = (
    *(0.6666666666666734, 0.3999999999941491, 0.28571428742344757, 0.22222198577043184),
    *(0.18183564145458433, 0.15314054786864878, 0.1479591043251655),
)
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_MANTISSA_BITS = (1 << 52) - 1
# A float64 of so many has its whole part in its low bits.
_ROUNDER, _ROUNDER_BITS = 1.5 * 2.0**52, 0x4338000000000000


def _build(dtype: str) -> Callable[..., int]:
    import math

    from numba import float64, int32, int64, uint64

    from atled_cpu_numba.codegen import float64_of_bits, ints32, ints64, words
    from atled_cpu_numba.kernels.random.recurrence import bits64
    from atled_cpu_numba.kernels.shared.options import Real, inlined, kernel
    from atled_cpu_numba.kernels.shared.scalars import LOG_2_PARTS

    draw, real = philox(), Real(dtype)
    number, pointer, size = real.kind, real.pointer, real.size
    sine, quotient, (log_2, log_2_rest) = _SINE, _LOG_OF_QUOTIENT, LOG_2_PARTS[True]
    least = uint64((1024 << 52) - _SQRT_HALF_BITS)
    digits, whole, half, quarter = uint64(8), int32(1 << _DIGITS), int32(1 << (_DIGITS - 1)), int32(1 << (_DIGITS - 2))
    upper = uint64(32)

    @inlined
    def radius(u):
        """sqrt(-2 log(1 - u * 2**-24))."""
        # As v * 2**k with v from sqrt(1/2) to sqrt(2); log(v) = t - t**2 / 2 + s (t**2 / 2 + ...), s = t / (t + 2).
        from_least = uint64(bits64(float64(int32(whole - u)))) + least
        exponent = int64(from_least >> uint64(52)) + (_ROUNDER_BITS - 1024)
        k = float64_of_bits(exponent) - (_ROUNDER + _DIGITS)
        t = float64_of_bits(int64(from_least & uint64(_MANTISSA_BITS)) + _SQRT_HALF_BITS) - 1.0
        s = t / (t + 2.0)
        square, half_square = s * s, 0.5 * t * t
        fourth = square * square
        even = (quotient[6] * fourth + quotient[4]) * fourth + quotient[2]
        odd = (quotient[5] * fourth + quotient[3]) * fourth + quotient[1]
        series = ((even * fourth + quotient[0]) + odd * square) * square + half_square
        small = (s * series + k * log_2_rest) - half_square
        return math.sqrt(-2.0 * (k * log_2 + (t + small)))

    @inlined
    def sine_of(b):
        """sin(2 pi b 2**-24) of a whole number, up to a quarter turn."""
        angle = float64(b)
        x = angle * angle
        p = ((sine[8] * x + sine[7]) * x + sine[6]) * x + sine[5]
        p = (((p * x + sine[4]) * x + sine[3]) * x + sine[2]) * x + sine[1]
        return (p * x + sine[0]) * angle

    @inlined
    def pair(u, v):
        """The two normal numbers of the words u and v, of 24 digits."""
        r = radius(u)
        # numba adds 32-bit numbers as 64-bit ones, which few processors convert in vectors.
        from_half = int32(v - half)
        below = int32(abs(from_half) - quarter)  # cos(2 pi v) is the sine of it
        rest = int32(quarter - abs(below))
        return r * sine_of(below), r * sine_of(rest if from_half < int32(0) else int32(-rest))

    @kernel
    def normal(block, part, parts):
        w = words(block)
        random_state, y, count = words(w[Block.random_state]), pointer(w[Block.y]), w[Block.count]
        key, call = uint64(random_state[RandomState.key]), uint64(random_state[RandomState.call])
        mu, sigma = float64_of_bits(w[Block.mu]), float64_of_bits(w[Block.sigma])
        at = w[Block.workspace] + part * _PIECE_BYTES
        both_first, both_second = ints64(at), ints64(at + _PIECE_BYTES // 2)
        first, second = ints32(at), ints32(at + _PIECE_BYTES // 2)
        blocks = (count + 3) // 4
        for start in range(blocks * part // parts, blocks * (part + 1) // parts, _PIECE):
            drawn = min(_PIECE, blocks * (part + 1) // parts - start)
            for i in range(drawn):
                w0, w1, w2, w3 = draw(uint64(start + i), call, key)
                both_first[i] = int64((w0 >> digits) | (w2 >> digits) << upper)
                both_second[i] = int64((w1 >> digits) | (w3 >> digits) << upper)
            target = pointer(w[Block.y] + 4 * size * start)
            left = count - 4 * start
            for i in range(min(2 * drawn, left // 2)):
                a, b = pair(first[i], second[i])
                target[2 * i] = number(mu + sigma * a)
                target[2 * i + 1] = number(mu + sigma * b)
            if left < 4 * drawn and left % 2 == 1:
                a, b = pair(first[left // 2], second[left // 2])
                y[count - 1] = number(mu + sigma * a)
        return 0

    return normal


_KERNELS = kernels_by_dtype("normal", _build)


def accepts(call: Call) -> bool | str:
    """Whether the result is float32 or float64."""
    return refuse_floats(call, REALS, floats=()) or True


def prepare(call: Call) -> Prepared:
    """Randn: random_state -> y."""
    y = call.outputs[0]
    parts = share_count(y.size / _ELEMENTS_PER_US, max(1, y.size // 4))
    return launch(
        _KERNELS[y.dtype.name],
        filled(Block, count=y.size),
        (Block.random_state, Block.y, Block.workspace),
        parts=parts,
        workspace=_PIECE_BYTES * parts,
        attributes={"mu": Block.mu, "sigma": Block.sigma},
        note="philox",
    )
