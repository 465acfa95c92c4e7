"""The ops that random trees are made of: as a call of the backend, and in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

SMALLEST = np.exp(-50.0)


class Op(NamedTuple):
    """call: of the backend, with trees.  formula: the same in NumPy.  is_smooth: whether it has a derivative."""

    name: str
    call: Callable[..., Any]
    formula: Callable[..., Any]
    is_smooth: bool = True


def _between(a: Any) -> Any:
    """From 1/2 to 3/2, in NumPy."""
    return 1 + np.tanh(a) / 2


UNARY = (
    Op("neg", lambda be, a: -a, np.negative),
    Op("abs", lambda be, a: be.absolute(be.tanh(a) + 1.5), lambda a: np.abs(np.tanh(a) + 1.5)),
    Op("tanh", lambda be, a: be.tanh(a), np.tanh),
    Op("sig", lambda be, a: be.sig(a), lambda a: 1 / (1 + np.exp(-a))),
    Op("sig2", lambda be, a: be.sig2(a), lambda a: 1 / (1 + np.exp2(-a))),
    Op("tanh2", lambda be, a: be.tanh2(a), lambda a: (np.exp2(2 * a) - 1) / (np.exp2(2 * a) + 1)),
    Op("exp", lambda be, a: be.exp(be.tanh(a)), lambda a: np.exp(np.tanh(a))),
    Op("exp2", lambda be, a: be.exp2(be.sig(a)), lambda a: np.exp2(1 / (1 + np.exp(-a)))),
    Op("log", lambda be, a: be.log(1 + be.tanh(a) / 2), lambda a: np.log(_between(a))),
    Op("log2", lambda be, a: be.log2(1 + be.tanh(a) / 2), lambda a: np.log2(_between(a))),
    Op("sqrt", lambda be, a: be.sqrt(1 + be.tanh(a) / 2), lambda a: np.sqrt(_between(a))),
    Op("square", lambda be, a: be.square(be.tanh(a)), lambda a: np.square(np.tanh(a))),
    Op("safelog", lambda be, a: be.safelog(1.5 + be.tanh(a)), lambda a: np.log(np.maximum(1.5 + np.tanh(a), SMALLEST))),
    Op("reciprocal", lambda be, a: be.reciprocal(1 + be.tanh(a) / 2), lambda a: 1 / _between(a)),
    Op("pow", lambda be, a: (1 + be.tanh(a) / 2) ** 2.5, lambda a: _between(a) ** 2.5),
)
BINARY = (
    Op("add", lambda be, a, b: a + b, np.add),
    Op("sub", lambda be, a, b: a - b, np.subtract),
    Op("mul", lambda be, a, b: be.multiply(a, b), np.multiply),
    Op("div", lambda be, a, b: a / (1 + be.tanh(b) / 2), lambda a, b: a / _between(b)),
    Op("maximum", lambda be, a, b: be.maximum(a, b), np.maximum),
    Op("minimum", lambda be, a, b: be.minimum(a, b), np.minimum),
    Op("pow", lambda be, a, b: be.power(1 + be.tanh(a) / 2, b), lambda a, b: _between(a) ** b),
)
# Of leaves only: where what was computed is rounded in another way, they would be other steps.
STEPS = (
    Op("gt", lambda be, a, b: a > b, lambda a, b: np.greater(a, b), False),
    Op("ge", lambda be, a, b: be.greater_equal(a, b), np.greater_equal, False),
    Op("lt", lambda be, a, b: a < b, np.less, False),
    Op("le", lambda be, a, b: be.less_equal(a, b), np.less_equal, False),
    Op("eq", lambda be, a, b: a == b, np.equal, False),
    Op("ne", lambda be, a, b: a != b, np.not_equal, False),
    Op("sgn", lambda be, a, b: be.sgn(a) - b, lambda a, b: np.sign(a) - b, False),
    Op("rint", lambda be, a, b: be.rint(a * 2) + b, lambda a, b: np.rint(a * 2) + b, False),
    Op("finite", lambda be, a, b: be.finite(a) * b, lambda a, b: np.isfinite(a) * b, False),
    Op("binarize", lambda be, a, b: be.binarize(a, stochastic=False) + b, lambda a, b: 2.0 * (a >= 0) - 1 + b, False),
    Op(
        "shift",
        lambda be, a, b: be.shift(a, b),
        lambda a, b: a * np.sign(b) * np.exp2(np.rint(np.log2(np.maximum(np.abs(b), SMALLEST)))),
        False,
    ),
    Op("clip", lambda be, a, b: be.clip(a, -0.5, 0.75) + b, lambda a, b: np.clip(a, -0.5, 0.75) + b, False),
)
REDUCTIONS = (
    Op("sum", lambda be, a, **axes: be.sum(a, **axes), np.sum),
    Op("mean", lambda be, a, **axes: be.mean(a, **axes), np.mean),
    Op("var", lambda be, a, **axes: be.var(a, **axes), np.var),
    Op("max", lambda be, a, **axes: be.max(a, **axes), np.max),
    Op("min", lambda be, a, **axes: be.min(a, **axes), np.min),
)
