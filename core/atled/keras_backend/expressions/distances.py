"""How far apart two whole-number expressions are, where that follows from how they are written."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.keras_backend.expressions.calls import Call
from atled.keras_backend.expressions.expression import Expression, reached
from atled.keras_backend.expressions.leaves import Constant

_SUMS = ("Add2", "Cast", "Mul2", "Neg", "Sub2")
_Sum = dict[Expression | None, int]
"""Expressions by which numbers they are multiplied; None stands for 1."""


def distance(first: Any, second: Any) -> int | None:
    """`second - first`: 2 for i and i + 2, n for i * n and (i + 1) * n; None where it does not follow."""
    terms = _added(_terms(second), _terms(first), -1)
    length = terms.pop(None, 0)
    return length if not any(terms.values()) else None


def _terms(x: Any) -> _Sum:
    """An expression as a sum of multiples of others."""
    if not isinstance(x, Expression):
        return _number(x)
    found: dict[Expression, _Sum] = {}
    for each in reached([x], _summands):
        found[each] = _joined(each, found)
    return found[x]


def _summands(x: Expression) -> list[Expression]:
    """The operands of a sum, a product or a cast of whole numbers."""
    if not isinstance(x, Call) or x.op not in _SUMS or not _is_whole(x) or not all(map(_is_whole, x.operands)):
        return []
    return [each for each in x.operands if isinstance(each, Expression)]


def _joined(x: Expression, found: dict[Expression, _Sum]) -> _Sum:
    """The sum that an expression is, by those of its operands."""
    if isinstance(x, Constant) and not x.ndim:
        return _number(x.value)
    if not isinstance(x, Call) or not _summands(x):
        return {x: 1}
    parts = [found[each] if isinstance(each, Expression) else _number(each) for each in x.operands]
    if x.op == "Cast":
        return parts[0]
    if x.op == "Neg":
        return _added({}, parts[0], -1)
    if x.op != "Mul2":
        return _added(parts[0], parts[1], 1 if x.op == "Add2" else -1)
    for part, other in (parts, parts[::-1]):
        if set(part) <= {None}:
            return _added({}, other, part.get(None, 0))
    return {x: 1}


def _number(x: Any) -> _Sum:
    return {None: int(x)}


def _is_whole(x: Any) -> bool:
    if isinstance(x, Expression):
        return not x.ndim and x.type.kind in "iu"
    return isinstance(x, int | np.integer)


def _added(one: _Sum, other: _Sum, times: int) -> _Sum:
    """A sum and a multiple of another one."""
    found = dict(one)
    for each, count in other.items():
        found[each] = found.get(each, 0) + times * count
    return found
