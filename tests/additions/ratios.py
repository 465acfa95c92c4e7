"""Elementwise ops that are ratios: the file of a family of ops; see `test_touched_files.py`."""

from __future__ import annotations

from atled.ops.elementwise import Row, away, define

define(
    __name__,
    "activation",
    (
        Row(
            "SoftSign", "soft_sign", "x / (1 + abs(x))", {"x": "gy / (1 + abs(x)) ** 2"},
            doc="x / (1 + abs(x)). Source: Bergstra and others, AISTATS 2009.", data={"x": away(0.0)},
        ),
    ),
)  # fmt: skip
