"""MRG31k3p as C, for kernels that plugins write by hand: one step of a stream, in integers of 32 bits."""

from __future__ import annotations

from atled.ops.formula_c import Dialect

# Remainders without division: modulo M1, 2^31 is 1, and modulo M2 it is 21069; sums stay below twice the modulus.
_STEP = """
{q} unsigned int mrg_reduced(unsigned int x, unsigned int modulus) {{ return x < modulus ? x : x - modulus; }}

{q} int mrg_next({p}unsigned int *x)
{{
    const unsigned int m1 = 2147483647u, m2 = 2147462579u, rest = 21069u;
    unsigned int a = ((x[1] & 511u) << 22) + (x[1] >> 9) + ((x[2] & 16777215u) << 7) + (x[2] >> 24);
    unsigned int b = mrg_reduced(((x[3] & 65535u) << 15) + rest * (x[3] >> 16), m2);
    unsigned int c = mrg_reduced(((x[5] & 65535u) << 15) + rest * (x[5] >> 16), m2);
    a = mrg_reduced(mrg_reduced(a, m1) + x[2], m1);
    b = mrg_reduced(mrg_reduced(c + x[5], m2) + b, m2);
    x[2] = x[1], x[1] = x[0], x[0] = a, x[5] = x[4], x[4] = x[3], x[3] = b;
    return (int)(a > b ? a - b : a - b + m1);
}}
"""


def write_stream_c(dialect: Dialect) -> str:
    """`int mrg_next(unsigned int *x)`: the next value of a stream, from 1 to 2^31 - 1, whose row x it advances.

    x: six numbers as `mrg31k3p` has them, in memory of one thread. float32 is the value as float, rounded to nearest,
    times 4.6566126e-10f; float64 is it times 2^-31.
    """
    return _STEP.format(q=dialect.qualifiers, p=f"{dialect.pointer} " if dialect.pointer else "")
