"""Comparisons and logic: results are 0 or 1, numbers other than 0 count as true; and minimum, maximum, sign."""

from __future__ import annotations

from atled.ops.elementwise import Row, define, grid
from atled.ops.spec import REQUIRED

_MEETING = {"x0": grid(), "x1": grid()}
_APART = {"x0": grid(0.1), "x1": grid()}


def _pair(name: str, function: str, condition: str, doc: str) -> Row:
    """A condition on two arrays as 0 or 1."""
    return Row(
        name, function, f"where({condition}, 1, 0)", {"x0": None, "x1": None},
        doc=f"{doc} 1 where true, else 0.", data=_MEETING, no_gradient="raises", predicate=True,
    )  # fmt: skip


def _scalar(name: str, function: str, condition: str, doc: str, default: float = 1.0) -> Row:
    """A condition on an array and a number as 0 or 1."""
    return Row(
        name, function, f"where({condition}, 1, 0)", {"x0": None}, {"val": default},
        doc=f"{doc} 1 where true, else 0.", data=_MEETING, tried={"val": 0.5}, no_gradient="raises", predicate=True,
    )  # fmt: skip


define(
    __name__,
    "logical",
    (
        Row(
            "Sign", "sign", "where(x == 0, alpha, sign(x))", {"x": "gy"}, {"alpha": 0.0},
            doc="Sign, -1 or 1, and alpha at 0; straight-through gradient.",
            data={"x": grid()}, tried={"alpha": 0.5}, surrogate=True,
        ),
        Row(
            "Minimum2", "minimum2", "minimum(x0, x1)", {"x0": "where(x0 < x1, gy, 0)", "x1": "where(x0 < x1, 0, gy)"},
            doc="The smaller one, NaN if one of them is; on a tie the gradient goes to x1.", data=_APART,
        ),
        Row(
            "Maximum2", "maximum2", "maximum(x0, x1)", {"x0": "where(x0 > x1, gy, 0)", "x1": "where(x0 > x1, 0, gy)"},
            doc="The larger one, NaN if one of them is; on a tie the gradient goes to x1.", data=_APART,
        ),
        Row(
            "MinimumTies", "", "minimum(x0, x1)", {"x0": "where(x0 <= x1, gy, 0)", "x1": "where(x1 <= x0, gy, 0)"},
            doc="The smaller one, NaN if one of them is; on a tie both get the whole gradient.", data=_APART,
            brief=True,
        ),
        Row(
            "MaximumTies", "", "maximum(x0, x1)", {"x0": "where(x0 >= x1, gy, 0)", "x1": "where(x1 >= x0, gy, 0)"},
            doc="The larger one, NaN if one of them is; on a tie both get the whole gradient.", data=_APART,
            brief=True,
        ),
        Row(
            "Where", "", "where(condition != 0, x0, x1)",
            {"condition": None, "x0": "where(condition != 0, gy, 0)", "x1": "where(condition != 0, 0, gy)"},
            doc="x0 where the condition is not 0, else x1. No gradient flows to the condition.",
            data={"condition": grid(0.0, 1.0)}, brief=True, truths=("condition",),
        ),
        Row(
            "MinimumScalar", "minimum_scalar", "minimum(x, val)", {"x": "where(x < val, gy, 0)"}, {"val": 1.0},
            doc="The smaller one of array and number; the gradient flows where x < val.",
            data={"x": grid(0.1)}, tried={"val": 0.3},
        ),
        Row(
            "MaximumScalar", "maximum_scalar", "maximum(x, val)", {"x": "where(x > val, gy, 0)"}, {"val": 1.0},
            doc="The larger one of array and number; the gradient flows where x > val.",
            data={"x": grid(0.1)}, tried={"val": 0.3},
        ),
        _pair("LogicalAnd", "logical_and", "x0 != 0 and x1 != 0", "Both are true."),
        _pair("LogicalOr", "logical_or", "x0 != 0 or x1 != 0", "One or both are true."),
        _pair(
            "LogicalXor", "logical_xor", "(x0 != 0 or x1 != 0) and not (x0 != 0 and x1 != 0)",
            "Exactly one is true.",
        ),
        _pair("Equal", "equal", "x0 == x1", "Equal."),
        _pair("NotEqual", "not_equal", "x0 != x1", "Not equal."),
        _pair("GreaterEqual", "greater_equal", "x0 >= x1", "Greater or equal."),
        _pair("Greater", "greater", "x0 > x1", "Greater."),
        _pair("LessEqual", "less_equal", "x0 <= x1", "Less or equal."),
        _pair("Less", "less", "x0 < x1", "Less."),
        _scalar("LogicalAndScalar", "logical_and_scalar", "x0 != 0 and val != 0", "Both are true.", REQUIRED),
        _scalar("LogicalOrScalar", "logical_or_scalar", "x0 != 0 or val != 0", "One or both are true.", REQUIRED),
        _scalar(
            "LogicalXorScalar", "logical_xor_scalar",
            "(x0 != 0 or val != 0) and not (x0 != 0 and val != 0)", "Exactly one is true.", REQUIRED,
        ),
        _scalar("EqualScalar", "equal_scalar", "x0 == val", "Equal."),
        _scalar("NotEqualScalar", "not_equal_scalar", "x0 != val", "Not equal."),
        _scalar("GreaterEqualScalar", "greater_equal_scalar", "x0 >= val", "Greater or equal."),
        _scalar("GreaterScalar", "greater_scalar", "x0 > val", "Greater."),
        _scalar("LessEqualScalar", "less_equal_scalar", "x0 <= val", "Less or equal."),
        _scalar("LessScalar", "less_scalar", "x0 < val", "Less."),
        Row(
            "LogicalNot", "logical_not", "where(x0 == 0, 1, 0)", {"x0": None},
            doc="1 where x0 is 0, else 0.", data=_MEETING, no_gradient="raises", predicate=True,
        ),
    ),
)  # fmt: skip  # a table, with the formulas side by side
