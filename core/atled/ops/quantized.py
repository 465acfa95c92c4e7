"""Binarized activations: steps forward, a straight-through estimator backward."""

from __future__ import annotations

from atled.ops.elementwise import Row, away, define

_OFF_JUMPS = {"x": away(-1.0, 0.0, 1.0)}

define(
    __name__,
    "quantized",
    (
        Row(
            "BinarySigmoid", "binary_sigmoid", "where(x > 0, 1, 0)", {"x": "where(abs(x) < 1, 0.5 * gy, 0)"},
            doc="1 above 0, else 0; straight-through gradient within (-1, 1).", data=_OFF_JUMPS, surrogate=True,
        ),
        Row(
            "BinaryTanh", "binary_tanh", "where(x > 0, 1, -1)", {"x": "where(abs(x) < 1, gy, 0)"},
            doc="1 above 0, else -1; straight-through gradient within (-1, 1).", data=_OFF_JUMPS, surrogate=True,
        ),
    ),
)  # fmt: skip  # a table, with the formulas side by side
