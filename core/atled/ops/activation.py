"""Activations that are elementwise: one formula each."""

from __future__ import annotations

from atled.ops.elementwise import Row, away, define

_OFF_ZERO = {"x": away(0.0)}

define(
    __name__,
    "activation",
    (
        Row("Sigmoid", "sigmoid", "sigmoid(x)", {"x": "gy * y * (1 - y)"}, doc="Logistic function, 1 / (1 + exp(-x))."),
        Row(
            "Swish", "swish", "x * sigmoid(x)", {"x": "gy * (sigmoid(x) + y * (1 - sigmoid(x)))"},
            doc="Swish, x / (1 + exp(-x)). Source: Ramachandran, Zoph, Le, arXiv 1710.05941.",
        ),
        Row(
            "SigmoidBase2", "", "1 / (1 + exp2(-x))", {"x": "gy * y * (1 - y) * log(2)"},
            doc="Logistic function with base 2, 1 / (1 + 2 ** -x).", brief=True,
        ),
        Row(
            "TanhBase2", "", "tanh(x * log(2))", {"x": "gy * (1 - y * y) * log(2)"},
            doc="Hyperbolic tangent with base 2, (2 ** x - 2 ** -x) / (2 ** x + 2 ** -x).", brief=True,
        ),
        Row("Tanh", "tanh", "tanh(x)", {"x": "gy * (1 - y * y)"}, doc="Hyperbolic tangent."),
        Row(
            "ReLU", "relu", "maximum(x, 0)", {"x": "where(y > 0, gy, 0)"}, {"inplace": False},
            doc="Rectifier; slope 0 at 0. inplace is a wish of the caller that does not change the result.",
            data=_OFF_ZERO,
        ),
        Row(
            "LeakyReLU", "leaky_relu", "where(x >= 0, x, alpha * x)", {"x": "where(x >= 0, gy, alpha * gy)"},
            {"alpha": 0.1},
            doc="Rectifier with slope alpha below 0; slope 1 at 0.", data=_OFF_ZERO, tried={"alpha": 0.3},
        ),
        Row(
            "ELU", "elu", "where(x >= 0, x, alpha * expm1(x))", {"x": "gy * where(x >= 0, 1, alpha * exp(x))"},
            {"alpha": 1.0},
            doc="Exponential linear unit. Source: Clevert, Unterthiner, Hochreiter, ICLR 2016.",
            data=_OFF_ZERO, tried={"alpha": 0.7},
        ),
        Row(
            "SELU", "selu", "scale * where(x >= 0, x, alpha * expm1(x))",
            {"x": "gy * scale * where(x >= 0, 1, alpha * exp(x))"},
            {"scale": 1.05070098735548, "alpha": 1.673263242354377},
            doc="Scaled exponential linear unit. Source: Klambauer and others, arXiv 1706.02515.",
            data=_OFF_ZERO, tried={"scale": 0.9, "alpha": 0.7},
        ),
    ),
)  # fmt: skip  # a table, with the formulas side by side
