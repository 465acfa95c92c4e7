"""Elementary functions of one array: exponential, logarithm, trigonometric, rounding."""

from __future__ import annotations

from atled.ops.elementwise import Row, away, define, within

_INSIDE_ONE = {"x": within(-0.9, 0.9)}
# Where the functions that round jump: at whole numbers, or half way between them.
_OFF_WHOLE = {"x": away(-2.0, -1.0, 0.0, 1.0, 2.0)}
_OFF_HALVES = {"x": away(-1.5, -0.5, 0.5, 1.5)}

define(
    __name__,
    "math",
    (
        Row("Exp", "exp", "exp(x)", {"x": "gy * y"}, doc="Exponential function."),
        Row(
            "Log", "log", "log(x)", {"x": "gy / x"},
            doc="Natural logarithm, not clipped: -inf at 0, NaN below.", data={"x": within(0.3, 3.0)},
        ),
        Row("Exp2", "", "exp2(x)", {"x": "gy * y * log(2)"}, doc="2 to the power of x.", brief=True),
        Row(
            "Log2", "", "log2(x)", {"x": "gy / (x * log(2))"},
            doc="Logarithm to base 2: -inf at 0, NaN below.", data={"x": within(0.3, 3.0)}, brief=True,
        ),
        Row(
            "SafeLog", "", "log(maximum(x, exp(-50)))", {"x": "where(x > exp(-50), gy / x, 0)"},
            doc="Natural logarithm of x, but -50 below exp(-50), where the gradient is zero.",
            data={"x": within(0.3, 3.0)}, brief=True,
        ),
        Row("Neg", "", "-x", {"x": "-gy"}, doc="x with the other sign.", brief=True),
        Row("Square", "", "x * x", {"x": "2 * gy * x"}, doc="Square.", brief=True),
        Row(
            "Sqrt", "", "sqrt(x)", {"x": "0.5 * gy / y"},
            doc="Square root, NaN below 0; the gradient is infinite at 0.", data={"x": within(0.3, 3.0)}, brief=True,
        ),
        Row(
            "SqrtClipped", "", "sqrt(maximum(x, 0))", {"x": "where(x < 0, 0, 0.5 * gy / y)"},
            doc="Square root of what is above 0, 0 below; the gradient is 0 below 0 and infinite at 0.",
            data={"x": away(0.0)}, brief=True,
        ),
        Row(
            "LogDiffExp", "",
            "where(low == high and high < inf, -inf, high + log(-expm1(low - high)))",
            {
                "low": "-gy * exp(low - high) / abs(expm1(low - high))",
                "high": "gy / abs(expm1(low - high))",
            },
            doc="log(exp(high) - exp(low)) without overflow: -inf where they are equal, NaN where low is above high.",
            data={"low": within(-2.0, -0.5), "high": within(0.5, 2.0)}, brief=True,
        ),
        Row(
            "Abs", "abs", "abs(x)", {"x": "where(x >= 0, gy, -gy)"},
            doc="Absolute value; slope 1 at 0.", data={"x": away(0.0)},
        ),
        Row("Magnitude", "", "abs(x)", {"x": "gy * sign(x)"}, doc="Absolute value; slope 0 at 0.", brief=True),
        Row("Sin", "sin", "sin(x)", {"x": "gy * cos(x)"}, doc="Sine."),
        Row("Cos", "cos", "cos(x)", {"x": "-gy * sin(x)"}, doc="Cosine."),
        Row("Tan", "tan", "tan(x)", {"x": "gy * (1 + y * y)"}, doc="Tangent.", data={"x": within(-1.2, 1.2)}),
        Row("Sinh", "sinh", "sinh(x)", {"x": "gy * cosh(x)"}, doc="Hyperbolic sine."),
        Row("Cosh", "cosh", "cosh(x)", {"x": "gy * sinh(x)"}, doc="Hyperbolic cosine."),
        Row(
            "ASin", "asin", "asin(x)", {"x": "gy / sqrt(1 - x * x)"},
            doc="Inverse sine; NaN outside [-1, 1].", data=_INSIDE_ONE,
        ),
        Row(
            "ACos", "acos", "acos(x)", {"x": "-gy / sqrt(1 - x * x)"},
            doc="Inverse cosine; NaN outside [-1, 1].", data=_INSIDE_ONE,
        ),
        Row("ATan", "atan", "atan(x)", {"x": "gy / (1 + x * x)"}, doc="Inverse tangent."),
        Row("ASinh", "asinh", "asinh(x)", {"x": "gy / sqrt(1 + x * x)"}, doc="Inverse hyperbolic sine."),
        Row(
            "ACosh", "acosh", "acosh(x)", {"x": "gy / sqrt(x * x - 1)"},
            doc="Inverse hyperbolic cosine; NaN below 1.", data={"x": within(1.3, 4.0)},
        ),
        Row(
            "ATanh", "atanh", "atanh(x)", {"x": "gy / (1 - x * x)"},
            doc="Inverse hyperbolic tangent; NaN outside [-1, 1].", data=_INSIDE_ONE,
        ),
        Row(
            "Round", "round", "round(x)", {"x": "gy"},
            doc="Nearest whole number, halves away from zero; straight-through gradient.",
            data=_OFF_HALVES, surrogate=True,
        ),
        Row(
            "Ceil", "ceil", "ceil(x)", {"x": "gy"},
            doc="Smallest whole number that is not below x; straight-through gradient.",
            data=_OFF_WHOLE, surrogate=True,
        ),
        Row(
            "Floor", "floor", "floor(x)", {"x": "gy"},
            doc="Largest whole number that is not above x; straight-through gradient.",
            data=_OFF_WHOLE, surrogate=True,
        ),
    ),
)  # fmt: skip  # a table, with the formulas side by side
