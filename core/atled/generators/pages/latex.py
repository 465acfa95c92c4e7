"""Formulas of elementwise ops in LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable

from atled.ops.formula import Apply, Expr, Name, Number

_GREEK = ("alpha", "beta", "gamma", "delta", "epsilon", "sigma", "mu")
_OPERATORS = {"+": "+", "-": "-", "<": "<", "<=": r"\le", ">": ">", ">=": r"\ge", "==": "=", "!=": r"\ne"}
_OPERATORS |= {"and": r"\land", "or": r"\lor"}
_NAMED = ("exp", "log", "tanh", "sin", "cos", "tan", "sinh", "cosh")
_OTHER_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "minimum": "min", "maximum": "max"}
_AROUND = {
    "abs": r"\lvert {} \rvert",
    "floor": r"\lfloor {} \rfloor",
    "ceil": r"\lceil {} \rceil",
    "sqrt": r"\sqrt{{{}}}",
}
# How tightly operators bind, as in Python; atoms and calls bind tightest.
_LEVELS = {"or": 1, "and": 2, "not": 3, "<": 4, "<=": 4, ">": 4, ">=": 4, "==": 4, "!=": 4, "+": 5, "-": 5, "*": 6}
_LEVELS |= {"neg": 6, "**": 8}
_ATOM = 9


def to_latex(formula: Expr) -> str:
    """The LaTeX of a formula, for a display."""
    return _text(formula)[0]


def name_latex(identifier: str) -> str:
    """A name of a formula: Greek letters, indices, `gy` for the gradient that comes in."""
    if identifier == "gy":
        return "g_y"
    match = re.fullmatch(r"([a-z]+?)(\d*)", identifier)
    base, index = (match[1], match[2]) if match else (identifier, "")
    if base in _GREEK:
        base = rf"\{base}"
    elif base == "eps":
        base = r"\epsilon"
    elif len(base) > 1:
        base = rf"\mathrm{{{base}}}".replace("_", r"\_")
    return f"{base}_{{{index}}}" if index else base


def _text(node: Expr) -> tuple[str, int]:
    """The text of a node, and how tightly it binds."""
    if isinstance(node, Number):
        value = node.value
        return (f"{value:g}" if value == float(f"{value:g}") else repr(value)), _ATOM if value >= 0 else 6
    if isinstance(node, Name):
        return name_latex(node.id), _ATOM
    assert isinstance(node, Apply)
    return _SPECIAL.get(node.op, _plain)(node), _LEVELS.get(node.op, _ATOM)


def _within(node: Expr, least: int) -> str:
    """The text of a node, in parentheses unless it binds at least so tightly."""
    text, level = _text(node)
    return text if level >= least else rf"\left({text}\right)"


def _plain(node: Apply) -> str:
    if node.op in _OPERATORS:
        level = _LEVELS[node.op]
        # Of `a - (b - c)` the right side needs its parentheses.
        right = level + (node.op == "-" or level == 4)
        return f"{_within(node.args[0], level)} {_OPERATORS[node.op]} {_within(node.args[1], right)}"
    inside = ", ".join(_text(argument)[0] for argument in node.args)
    if node.op in _AROUND:
        return _AROUND[node.op].format(inside)
    name = _OTHER_NAMES.get(node.op, node.op)
    known = node.op in _NAMED or node.op in _OTHER_NAMES
    command = rf"\{name}" if known else rf"\operatorname{{{name}}}"
    return rf"{command}\left({inside}\right)"


def _times(node: Apply) -> str:
    return rf"{_within(node.args[0], 6)} \cdot {_within(node.args[1], 6)}"


def _over(node: Apply) -> str:
    return rf"\frac{{{_text(node.args[0])[0]}}}{{{_text(node.args[1])[0]}}}"


def _raised(node: Apply) -> str:
    return f"{_within(node.args[0], _ATOM)}^{{{_text(node.args[1])[0]}}}"


def _cases(node: Apply) -> str:
    rows = []
    rest: Expr = node
    while isinstance(rest, Apply) and rest.op == "where":
        condition, value, rest = rest.args
        rows.append(rf"{_text(value)[0]} & \text{{if }} {_text(condition)[0]}")
    rows.append(rf"{_text(rest)[0]} & \text{{else}}")
    lines = r" \\ ".join(rows)
    return rf"\begin{{cases}} {lines} \end{{cases}}"


_SPECIAL: dict[str, Callable[[Apply], str]] = {
    "*": _times,
    "/": _over,
    "**": _raised,
    "where": _cases,
    "neg": lambda node: f"-{_within(node.args[0], 6)}",
    "not": lambda node: rf"\lnot {_within(node.args[0], 5)}",
    "expm1": lambda node: rf"\left(e^{{{_text(node.args[0])[0]}}} - 1\right)",
    "exp2": lambda node: rf"2^{{{_text(node.args[0])[0]}}}",
    "log2": lambda node: rf"\log_2\left({_text(node.args[0])[0]}\right)",
    "log1p": lambda node: rf"\log\left(1 + {_text(node.args[0])[0]}\right)",
}
