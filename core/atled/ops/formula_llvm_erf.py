"""LLVM IR of the error function, without branches and calls, from polynomials for the logarithm of 1 - erf(x).

Within two units in the last place, for float64 two and a half. The polynomials are fits of our own, made like those of
`formula_llvm_angles`.
"""

from __future__ import annotations

from collections.abc import Callable

from atled.ops import formula_llvm_double
from atled.ops.formula_llvm_math import FLOAT, Real, scaled_exp

# For float32 erf(x) / x - 1 in x**2 up to 1, error 2e-9, and from 1 to where erf rounds to 1 -log(1 - erf(x)), error of
# erf 1e-9.
_NEAR = (7.806903e-05, -0.0007997853, 0.005187162, -0.026853347, 0.11283579, -0.37612626, 0.12837917)
_FAR = (-0.00018638017, 0.0029476746, -0.021838142, 0.103106916, 0.6381447, 1.1270893, 0.00034151296)
_END = 3.95
# For float64 -log(1 - erf(x)) / x - 1 from 0 to where erf rounds to 1: error 2e-17 of erf.
_LOGARITHM = (
    *(-3.572246526367609e-15, 1.6067021493931709e-13, -3.3488705330992763e-12, 4.2837576182079785e-11),
    *(-3.746254244604228e-10, 2.3520398463636276e-09, -1.0735718077811766e-08, 3.445541892321425e-08),
    *(-6.538389446545868e-08, -1.245620343009297e-08, 5.719044185924016e-07, -2.038908090167959e-06),
    *(3.1348048070469775e-06, 3.1681168079712667e-06, -2.9574644298192877e-05, 6.441995408282476e-05),
    *(2.590469775933495e-05, -0.0005901324860899177, 0.001696207681282149, -0.00020919485557530893),
    *(-0.01912844699292746, 0.10277260330130433, 0.6366197723675914, 0.12837916709551256),
)
_END_DOUBLE = 5.93


def _erf(r: Real, x: str) -> str:
    size = r.intrinsic("fabs", x)
    return r.intrinsic("copysign", (_single if r.type == FLOAT else _double)(r, size), x)


def _single(r: Real, size: str) -> str:
    """erf(|x|) of float32: a polynomial near 0, else 1 - exp(-e) of another one."""
    one, end = r.literal(1.0), r.literal(_END)
    small = r.add(r.mul(r.short_polynomial(r.mul(size, size), _NEAR), size), size)
    bounded = r.select(r.compare("ogt", size, end), end, size)
    large = r.sub(one, scaled_exp(r, r.polynomial(bounded, _FAR), 0, sign=-1))
    return r.select(r.compare("olt", size, one), small, large)


def _double(r: Real, size: str) -> str:
    """The same of float64: with the longer polynomials it takes .88 of the time to have one for all numbers."""
    end = r.literal(_END_DOUBLE)
    bounded = r.select(r.compare("ogt", size, end), end, size)
    series = r.short_polynomial(bounded, _LOGARITHM, 2)
    return formula_llvm_double.less_exp(r, r.sub(r.neg(r.mul(bounded, series)), bounded))


ERF: dict[str, Callable[[Real, str], str]] = {"erf": _erf}
"""The function by its name in the formula language, on values of a `Real` of either type."""
