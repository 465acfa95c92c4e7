"""Elementwise ops whose results jump, with gradients that are zero where others refuse them or pass them on."""

from __future__ import annotations

from atled.ops.elementwise import Row, away, define, grid, within

_MEETING = {"x0": grid(), "x1": grid()}


_COMPARISONS = (
    ("Equal", "==", "equal to x1"),
    ("NotEqual", "!=", "not equal to x1"),
    ("Less", "<", "less than x1"),
    ("LessEqual", "<=", "less than x1 or equal"),
    ("Greater", ">", "greater than x1"),
    ("GreaterEqual", ">=", "greater than x1 or equal"),
)


def _comparison(name: str, operator: str, doc: str, *, predicate: bool) -> Row:
    """A comparison of two arrays as 0 or 1, through which no gradient flows."""
    dtype = "" if predicate else " of the operands' dtype"
    return Row(
        name, "", f"where(x0 {operator} x1, 1, 0)", {"x0": None, "x1": None},
        doc=f"Whether x0 is {doc}: 1{dtype} where it is, else 0; the gradients are zero.", data=_MEETING,
        no_gradient="stops", brief=True, predicate=predicate,
    )  # fmt: skip


define(
    __name__,
    "logical",
    (
        *(_comparison(f"Is{name}", operator, doc, predicate=True) for name, operator, doc in _COMPARISONS),
        *(_comparison(f"OneWhere{name}", operator, doc, predicate=False) for name, operator, doc in _COMPARISONS),
        Row(
            "IsFinite", "", "where(abs(x) < inf, 1, 0)", {"x": None},
            doc="Whether x is a number and not infinite: 1 where it is, else 0; the gradient is zero.",
            no_gradient="stops", brief=True, predicate=True,
        ),
        Row(
            "OneWhereFinite", "", "where(abs(x) < inf, 1, 0)", {"x": None},
            doc="1 of the dtype of x where that is a number and not infinite, else 0; the gradient is zero.",
            no_gradient="stops", brief=True,
        ),
        Row(
            "IsClose", "", "where(x0 == x1 or (abs(x0 - x1) <= atol + rtol * abs(x1) and abs(x1) < inf), 1, 0)",
            {"x0": None, "x1": None}, {"rtol": 1e-5, "atol": 1e-8},
            doc="Whether x0 is within a distance of x1: 1 where it is, else 0; NaN is near nothing, an infinity near "
            "itself alone. The gradients are zero.",
            data=_MEETING, tried={"rtol": 0.1, "atol": 0.2}, no_gradient="stops", brief=True, predicate=True,
        ),
        Row(
            "Binarize", "", "where(x >= 0, 1, -1)", {"x": None},
            doc="1 from 0 on, else -1; the gradient is zero.", data={"x": grid()}, no_gradient="stops", brief=True,
        ),
        Row(
            "Sgn", "", "sign(x)", {"x": None},
            doc="Sign: 1, 0 or -1; the gradient is zero.", data={"x": grid()}, no_gradient="stops", brief=True,
        ),
        Row(
            "Rint", "", "rint(x)", {"x": None},
            doc="Nearest whole number, halves to the even one; the gradient is zero.",
            data={"x": away(-1.5, -0.5, 0.5, 1.5)}, no_gradient="stops", brief=True,
        ),
        Row(
            "FloorDivide", "", "floor(x0 / x1)", {"x0": None, "x1": None},
            doc="The largest whole number that is not above x0 / x1; the gradients are zero. Of integers exact up to "
            "2**53, as a float.",
            data={"x0": within(2.3, 2.6), "x1": within(1.0, 1.1)}, no_gradient="stops", brief=True,
        ),
        Row(
            "Modulo", "", "x0 - x1 * floor(x0 / x1)", {"x0": "gy", "x1": "-gy * floor(x0 / x1)"},
            doc="What is left of x0 behind whole multiples of x1; it has the sign of x1. Of integers exact up to "
            "2**53, as a float.",
            data={"x0": within(2.3, 2.6), "x1": within(1.0, 1.1)}, brief=True,
        ),
        Row(
            "Trunc", "", "trunc(x)", {"x": None},
            doc="The whole number next to x towards 0; the gradient is zero.", data={"x": away(0.0)},
            no_gradient="stops", brief=True,
        ),
    ),
)  # fmt: skip  # a table, with the formulas side by side
