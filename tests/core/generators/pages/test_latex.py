"""Formulas as LaTeX: what a reader sees must be what is computed."""

import pytest

from atled.generators.pages.latex import name_latex, to_latex
from atled.ops.elementwise import Elementwise
from atled.ops.formula import parse_formula
from atled.ops.spec import FUNCTIONS


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("x0 + x1", "x_{0} + x_{1}"),
        ("x - (y - z)", r"x - \left(y - z\right)"),
        ("x - y - z", "x - y - z"),
        ("(x + 1) * y", r"\left(x + 1\right) \cdot y"),
        ("x / (1 + y)", r"\frac{x}{1 + y}"),
        ("(x * y) ** val", r"\left(x \cdot y\right)^{\mathrm{val}}"),
        ("alpha * expm1(x)", r"\alpha \cdot \left(e^{x} - 1\right)"),
        ("-x * 0.5", r"-x \cdot 0.5"),
        ("where(x > 0, x, 0)", r"\begin{cases} x & \text{if } x > 0 \\ 0 & \text{else} \end{cases}"),
        ("where(x > 0 and not y > 0, 1, 0)", r"x > 0 \land \lnot \left(y > 0\right)"),
        ("abs(x) <= 1", r"\lvert x \rvert \le 1"),
        ("maximum(x, 0)", r"\max\left(x, 0\right)"),
        ("gy * sigmoid(x)", r"g_y \cdot \operatorname{sigmoid}\left(x\right)"),
        ("log1p(x)", r"\log\left(1 + x\right)"),
    ],
)
def test_what_a_formula_looks_like(formula, expected):
    assert expected in to_latex(parse_formula(formula))


def test_cases_within_cases_are_one_list():
    text = to_latex(parse_formula("where(x > 0, 1, where(x < 0, -1, 0))"))
    assert text.count(r"\begin{cases}") == 1 and text.count(r"\\") == 2


def test_names_of_more_than_a_letter_are_upright():
    assert name_latex("val") == r"\mathrm{val}"
    assert name_latex("clip_norm") == r"\mathrm{clip\_norm}"


@pytest.mark.parametrize("name", [name for name, spec in FUNCTIONS.items() if isinstance(spec, Elementwise)])
def test_every_formula_of_the_tables_has_balanced_braces(name):
    for _, formula in FUNCTIONS[name].program.outputs:
        text = to_latex(formula)
        assert text.count("{") == text.count("}") and text.count(r"\left(") == text.count(r"\right)")
