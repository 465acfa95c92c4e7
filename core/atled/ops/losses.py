"""Losses that are elementwise: one formula each."""

from __future__ import annotations

from atled.ops.elementwise import Row, define, grid, within
from atled.ops.spec import REQUIRED

# Differences 0.4 k + 0.1: off 0 and, for the values tried, off the point where the formula changes.
_APART = {"x0": grid(0.1, 0.4), "x1": grid(0.0, 0.4)}

define(
    __name__,
    "loss",
    (
        Row(
            "SquaredError", "squared_error", "(x0 - x1) * (x0 - x1)",
            {"x0": "2 * gy * (x0 - x1)", "x1": "2 * gy * (x1 - x0)"},
            doc="Squared difference.",
        ),
        Row(
            "AbsoluteError", "absolute_error", "abs(x0 - x1)",
            {"x0": "where(x0 > x1, gy, -gy)", "x1": "where(x0 > x1, -gy, gy)"},
            doc="Absolute difference; at equality the slope is -1 for x0 and 1 for x1.", data=_APART,
        ),
        Row(
            "HuberLoss", "huber_loss",
            "where(abs(x0 - x1) < delta, (x0 - x1) * (x0 - x1), delta * (2 * abs(x0 - x1) - delta))",
            {
                "x0": "2 * gy * where(abs(x0 - x1) < delta, x0 - x1, delta * sign(x0 - x1))",
                "x1": "2 * gy * where(abs(x0 - x1) < delta, x1 - x0, delta * sign(x1 - x0))",
            },
            {"delta": 1.0},
            doc="Squared difference up to delta, then straight on; without the factor 1/2 that others have.",
            data=_APART, tried={"delta": 0.6},
        ),
        Row(
            "EpsilonInsensitiveLoss", "epsilon_insensitive_loss", "maximum(abs(x0 - x1) - epsilon, 0)",
            {
                "x0": "where(x0 - x1 > epsilon, gy, where(x1 - x0 > epsilon, -gy, 0))",
                "x1": "where(x0 - x1 > epsilon, -gy, where(x1 - x0 > epsilon, gy, 0))",
            },
            {"epsilon": REQUIRED},
            doc="Absolute difference beyond epsilon; 0 up to it.", data=_APART, tried={"epsilon": 0.6},
        ),
        Row(
            "SigmoidCrossEntropy", "sigmoid_cross_entropy", "maximum(x, 0) - x * target + log1p(exp(-abs(x)))",
            {"x": "gy * (sigmoid(x) - target)", "target": None},
            doc="Cross entropy of sigmoid(x) with target, in a form that does not overflow.",
            data={"target": within(0.0, 1.0)}, raises=("target",),
        ),
        # 1.17549435e-38 is the smallest normal float32: no logarithm of 0, no division by it.
        Row(
            "BinaryCrossEntropy", "binary_cross_entropy",
            "-(target * log(maximum(x, 1.17549435e-38)) + (1 - target) * log(maximum(1 - x, 1.17549435e-38)))",
            {
                "x": "gy * (x - target) / maximum(x * (1 - x), 1.17549435e-38)",
                "target": "gy * (log(maximum(1 - x, 1.17549435e-38)) - log(maximum(x, 1.17549435e-38)))",
            },
            doc="Cross entropy of the probability x with target.",
            data={"x": within(0.1, 0.9), "target": within(0.0, 1.0)},
        ),
    ),
)  # fmt: skip  # a table, with the formulas side by side
