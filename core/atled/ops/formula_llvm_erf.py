"""LLVM IR of the error function, without branches and calls: a polynomial near 0, else 1 - exp(-e) of another one.

Within two units in the last place. The polynomials are fits of our own, made like those of `formula_llvm_angles`.
"""

from __future__ import annotations

from collections.abc import Callable

from atled.ops import formula_llvm_double
from atled.ops.formula_llvm_math import FLOAT, Real, scaled_exp

# erf(x) / x - 1 in x**2 up to 1, errors 2e-9 and 2e-17.
_NEAR = (7.806903e-05, -0.0007997853, 0.005187162, -0.026853347, 0.11283579, -0.37612626, 0.12837917)
_NEAR_DOUBLE = (
    *(-7.678515108751898e-10, 1.3654628267395827e-08, -1.6192714222103312e-07, 1.6445274493352478e-06),
    *(-1.4924554619249225e-05, 0.00012055284963402944, -0.0008548325626640892, 0.005223977599473569),
    *(-0.026866170642257037, 0.11283791670938487, -0.37612638903183365, 0.12837916709551256),
)
# From 1 to where erf rounds to 1: -log(1 - erf(x)), and for float64 that less x**2. Errors of erf: 1e-9 and 1e-16.
_FAR = (-0.00018638017, 0.0029476746, -0.021838142, 0.103106916, 0.6381447, 1.1270893, 0.00034151296)
_FAR_DOUBLE = (
    *(3.472763424377203e-11, -9.740065417826966e-10, 1.0318173983377453e-08, -2.5683577701226477e-08),
    *(-5.831781488000309e-07, 8.437382133370237e-06, -6.221381134035784e-05, 0.0003060254343428749),
    *(-0.0010492082458939036, 0.0022707914187698112, -0.0007598548931519672, -0.01873010954060096),
    *(0.10256185764717747, -0.36330325557941506, 1.1283618234361619, 1.8161678971306995e-06),
)
_END, _END_DOUBLE = 3.95, 6.0


def _complement(r: Real, size: str) -> str:
    """1 - erf(size) for 1 <= size <= _END."""
    if r.type == FLOAT:
        return scaled_exp(r, r.polynomial(size, _FAR), 0, sign=-1)
    exponent = r.add(r.mul(size, size), r.short_polynomial(size, _FAR_DOUBLE, 2))
    return formula_llvm_double.scaled_exp(r, r.neg(exponent), few=True)


def _erf(r: Real, x: str) -> str:
    near, end = (_NEAR, _END) if r.type == FLOAT else (_NEAR_DOUBLE, _END_DOUBLE)
    size, one = r.intrinsic("fabs", x), r.literal(1.0)
    small = r.add(r.mul(r.short_polynomial(r.mul(size, size), near), size), size)
    bounded = r.select(r.compare("ogt", size, r.literal(end)), r.literal(end), size)
    large = r.sub(one, _complement(r, bounded))
    return r.intrinsic("copysign", r.select(r.compare("olt", size, one), small, large), x)


ERF: dict[str, Callable[[Real, str], str]] = {"erf": _erf}
"""The function by its name in the formula language, on values of a `Real` of either type."""
