"""docs/formulas.md says what the language is: its tables against the code."""

import re
from pathlib import Path

import pytest

from atled.ops.formula import _POWERS as POWERS
from atled.ops.formula import CONDITION, CONSTANTS, NUMBER, OPERATIONS, Program, derivative, parse_formula

PAGE = (Path(__file__).parents[1] / "docs" / "formulas.md").read_text("utf-8")
OPERATORS, FUNCTIONS = (
    re.findall(r"^\| `(.*?)` \|(.*)\|$", PAGE[PAGE.index(f"## {title}") : PAGE.index(f"## {after}")], re.MULTILINE)
    for title, after in (("Operators", "Functions"), ("Functions", "Types"))
)
KINDS = {
    "a number": (NUMBER,),
    "two numbers": (NUMBER,) * 2,
    "a condition": (CONDITION,),
    "two conditions": (CONDITION,) * 2,
}


def cells(row):
    return [cell.strip().strip("`") for cell in row.split("|")]


def values(text):
    """Names of the table as expressions: p, q and c stand for conditions."""
    names = dict(zip("abxy", map(parse_formula, "abxy"), strict=True))
    conditions = {name: parse_formula(f"{name} > 0", {name: parse_formula(f"{name}_")}) for name in "pqc"}
    return parse_formula(text, {**names, **conditions})


def test_every_operation_is_listed_once():
    listed = [values(written).op for written, _ in (*OPERATORS, *FUNCTIONS)]
    assert sorted(listed) == sorted(OPERATIONS)


@pytest.mark.parametrize(("written", "row"), OPERATORS, ids=lambda text: text if " |" not in text else "")
def test_operators_take_and_give_what_the_table_says(written, row):
    takes, gives, by_a, by_b = cells(row)
    operation = OPERATIONS[values(written).op]
    assert operation.arguments == KINDS[takes]
    assert (operation.result,) == KINDS[gives]
    assert not operation.is_function
    for wrt, stated in (("a", by_a), ("b", by_b)):
        if stated:
            assert str(derivative(values(written), wrt)) == stated


@pytest.mark.parametrize(("written", "row"), FUNCTIONS, ids=lambda text: text if " |" not in text else "")
def test_functions_have_the_derivative_of_the_table(written, row):
    _, stated = cells(row)
    node = values(written)
    assert OPERATIONS[node.op].is_function
    assert len(node.args) == written.count(",") + 1
    assert derivative(node, "x") is values(stated)


def test_constants_and_exponents_are_all_there():
    (grammar,) = re.findall(r"^    literal += (.*)$", PAGE, re.MULTILINE)
    assert set(re.findall(r"[a-z]+$|(?<=\| )[a-z]+", grammar)) == set(CONSTANTS)
    (exponents,) = re.findall(r"literal exponent (.*?) is computed", PAGE)
    assert [float(number) for number in re.split(", | or ", exponents)] == sorted(POWERS)


def test_the_stated_special_values_hold():
    from atled.ops.formula_numpy import compile_numpy

    def value(text, *inputs):
        return float(compile_numpy(Program(("x", "y"), (), (("z", text),)))(*(inputs or (0.0, 0.0)))[0])

    nan, inf = float("nan"), float("inf")
    for operation in OPERATIONS.values():
        if operation.result == NUMBER and operation.name != "where":
            text = {1: f"{operation.name}(x)", 2: f"{operation.name}(x, y)"}[len(operation.arguments)]
            if not operation.is_function:
                text = "-x" if operation.name == "neg" else f"x {operation.name} y"
            assert value(text, nan, 2.0) != value(text, nan, 2.0), text
            if len(operation.arguments) == 2:
                assert value(text, 2.0, nan) != value(text, 2.0, nan), text
    assert value("x ** y", nan, 0.0) == value("x ** y", 1.0, nan) == 1
    assert value("x ** y", 0.0, -1.0) == inf
    assert value("where(x == x, 1, 0) + where(x < 1 or x >= 1, 2, 0) + where(x != x, 4, 0)", nan, 0.0) == 4
    assert value("where(x > 0, x, 1 / y)", 1.0, 0.0) == 1
    assert value("round(x) + 10 * round(y)", -0.5, 2.5) == 29
    assert value("sign(x)", -0.0, 0.0) == 0
