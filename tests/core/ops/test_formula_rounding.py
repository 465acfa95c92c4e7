"""What is said of operations, that they end with no product or add no argument to others, holds of what is written."""

from __future__ import annotations

import re

import pytest

from atled.ops.formula import OPERATIONS, Expr, Program, parse_formula
from atled.ops.formula_layout import Layout
from atled.ops.formula_llvm import write_llvm
from atled.ops.formula_rounding import NO_PRODUCTS, NO_SUMS, adds, is_product, passes

DEFINITION = re.compile(r"^\s*(%[\w.]+) = (.*)$", re.MULTILINE)
STORED = re.compile(r"store float (%[\w.]+), ptr %(?!own)")
NAME = re.compile(r"%[\w.]+")


def functions(operations: frozenset[str]) -> list[str]:
    return sorted(op for op in operations if OPERATIONS[op].is_function)


def written(op: str, fused: bool) -> tuple[dict[str, str], list[str], list[str]]:
    """Of the function of one argument by itself: definitions, the names of what is loaded, and of what is stored."""
    program = Program(("x",), (), (("y", f"{op}(x)"),))
    text = write_llvm(program, Layout(("float32", "float32"), "float32", 0, (1, 1)), "f", fused_instructions=fused)
    definitions = dict(DEFINITION.findall(text))
    loaded = [name for name, value in definitions.items() if value.startswith("load float, ptr")]
    return definitions, loaded, STORED.findall(text)


def ends(definitions: dict[str, str], name: str) -> set[str]:
    """The operations from which a value may be, without the choice between them."""
    value = definitions[name]
    if not value.startswith("select"):
        return {value.split()[0]}
    chosen = [found for found in NAME.findall(value)[1:] if found in definitions]
    return set().union(*(ends(definitions, each) for each in chosen))


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "apart"])
@pytest.mark.parametrize("op", functions(NO_PRODUCTS))
def test_these_functions_end_with_no_product(op: str, fused: bool) -> None:
    definitions, loaded, stored = written(op, fused)
    assert loaded and stored
    for name in stored:
        assert "fmul" not in ends(definitions, name)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "apart"])
@pytest.mark.parametrize("op", functions(NO_SUMS))
def test_these_functions_take_their_argument_into_no_sum(op: str, fused: bool) -> None:
    definitions, loaded, _ = written(op, fused)
    for value in definitions.values():
        if value.startswith(("fadd", "fsub")):
            assert not set(loaded) & set(NAME.findall(value))


def parsed(text: str) -> Expr:
    return parse_formula(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("a * b", True), ("exp(a)", True), ("a ** b", True), ("erf(a)", True), ("a / 4", True), ("-(a * b)", True)),
        *(("where(a > 0, a * b, 0)", True), ("a * b + 0", True), ("1 * a", False), ("p / 1", True), ("abs(p)", True)),
        *(("a + b", False), ("a * b + c", False), ("a / b", False), ("tanh(a * b)", False), ("a", False)),
        *(("maximum(a, b)", False), ("maximum(a, p)", True), ("sqrt(p)", False), ("p", True)),
    ],
)
def test_what_may_end_with_a_product(text: str, expected: bool) -> None:
    given = frozenset(map(parsed, "abcp"))
    assert is_product(parsed(text), {parsed("p")}, given) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("p + a", True), ("a - p", True), ("a - abs(p)", True), ("where(a > 0, p, 0) + 1", True), ("erf(p)", True)),
        *(("tanh(p + a)", True), ("p * 1 + a", True), ("a ** p", True), ("log1p(-p)", True)),
        *(("p * a", False), ("tanh(p)", False), ("p / a + 1", False), ("sqrt(p) + a", False), ("p + 0", False)),
        *(("where(p > a, a, 0)", False), ("maximum(p, a)", False), ("sin(p)", False), ("a + 1", False)),
    ],
)
def test_what_may_take_a_product_into_a_sum(text: str, expected: bool) -> None:
    given = frozenset(map(parsed, "ap"))
    assert adds(parsed(text), parsed("p"), given) == expected


def test_what_passes_an_argument_on() -> None:
    given = frozenset(map(parsed, "ap"))
    for text in ("p", "-p", "abs(p)", "where(a > 0, a, -p)", "p * 1", "p - 0"):
        assert passes(parsed(text), parsed("p"), given), text
    for text in ("a", "p * 2", "p + a", "tanh(p)"):
        assert not passes(parsed(text), parsed("p"), given), text
