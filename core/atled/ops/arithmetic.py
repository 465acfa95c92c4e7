"""Arithmetic: two arrays, or an array and a number."""

from __future__ import annotations

from atled.ops.elementwise import Row, away, define, within

_POSITIVE = within(0.3, 2.0)
_OFF_ZERO = away(0.0)

define(
    __name__,
    "arithmetic",
    (
        Row(
            "Add2", "add2", "x0 + x1", {"x0": "gy", "x1": "gy"}, {"inplace": False},
            doc="Sum. inplace is a wish of the caller that does not change the result.",
        ),
        Row(
            "BcAdd2", "bc_add2", "x0 + x1", {"x0": "gy", "x1": "gy"},
            doc="Sum of arrays of equal shape.", equal_shapes=True,
        ),
        Row("Sub2", "sub2", "x0 - x1", {"x0": "gy", "x1": "-gy"}, doc="Difference."),
        Row("Mul2", "mul2", "x0 * x1", {"x0": "gy * x1", "x1": "gy * x0"}, doc="Product."),
        Row(
            "Div2", "div2", "x0 / x1", {"x0": "gy / x1", "x1": "-gy * y / x1"},
            doc="Quotient.", data={"x1": _OFF_ZERO},
        ),
        Row(
            "Pow2", "pow2", "x0 ** x1", {"x0": "gy * x1 * x0 ** (x1 - 1)", "x1": "gy * y * log(x0)"},
            doc="Power; the gradient with respect to x1 needs a positive x0.", data={"x0": _POSITIVE},
        ),
        Row(
            "AddScalar", "add_scalar", "x + val", {"x": "gy"}, {"val": 1.0},
            doc="Sum with a number.", tried={"val": -0.5},
        ),
        Row(
            "MulScalar", "mul_scalar", "x * val", {"x": "gy * val"}, {"val": 1.0},
            doc="Product with a number.", tried={"val": -0.5},
        ),
        Row(
            "PowScalar", "pow_scalar", "x ** val", {"x": "gy * val * x ** (val - 1)"}, {"val": 1.0},
            doc="Power with a number as exponent.", data={"x": _POSITIVE}, tried={"val": 2.5},
        ),
        Row(
            "RSubScalar", "r_sub_scalar", "val - x", {"x": "-gy"}, {"val": 1.0},
            doc="A number minus the array.", tried={"val": -0.5},
        ),
        Row(
            "RDivScalar", "r_div_scalar", "val / x", {"x": "-gy * y / x"}, {"val": 1.0},
            doc="A number divided by the array.", data={"x": _OFF_ZERO}, tried={"val": -0.5},
        ),
        Row(
            "RPowScalar", "r_pow_scalar", "val ** x", {"x": "gy * y * log(val)"}, {"val": 1.0},
            doc="A number to the power of the array; the gradient needs a positive number.", tried={"val": 2.5},
        ),
        Row(
            "Clip", "", "minimum(maximum(x, low), high)",
            {
                "x": "where(x >= low and x <= high, gy, 0)",
                "low": "where(x < low and low <= high, gy, 0)",
                "high": "where(x > high or low > high, gy, 0)",
            },
            doc="Values below low become that, then those above high that; on the bounds the gradient goes to x.",
            data={"low": within(-1.0, -0.3), "high": within(0.3, 1.0), "x": away(-2.0)}, brief=True,
        ),
        Row(
            "ShiftByExponent", "", "x * exp2(k)", {"x": "gy * exp2(k)", "k": None},
            doc="Product with a power of two, of which k is the exponent. No gradient flows to k.", brief=True,
        ),
        Row(
            "ShiftByValue", "", "x * sign(b) * exp2(rint(log2(maximum(abs(b), exp(-50)))))",
            {"x": "gy * sign(b) * exp2(rint(log2(maximum(abs(b), exp(-50)))))", "b": None},
            doc="Product with b rounded to a power of two, its exponent to the nearest whole number; 0 where b is 0. "
            "No gradient flows to b.",
            data={"b": within(0.8, 1.3)}, brief=True,
        ),
    ),
)  # fmt: skip  # a table, with the formulas side by side
