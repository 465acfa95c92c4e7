"""What the step of a scan returns: outputs, updates and a condition, in the forms that programs use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atled.errors import four_parts
from atled.keras_backend.compiling.arguments import new_value
from atled.keras_backend.expressions.calls import expression
from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.leaves import Variable
from atled.keras_backend.loops.until import until
from atled.named_tuple import NamedTuple


class Returned(NamedTuple):
    """outputs, new values of variables, and what ends the loop, if anything does."""

    outputs: list[Expression]
    updates: dict[Variable, Expression]
    condition: Expression | None


def returned(given: Any) -> Returned:
    """What a step returned: an expression, a list of them, updates, `until(...)`, or a tuple of these.

    TypeError: for anything else.
    """
    outputs: list[Expression] = []
    updates: dict[Variable, Expression] = {}
    conditions: list[Expression] = []
    for part in given if isinstance(given, tuple) and not _is_updates(given) else (given,):
        if isinstance(part, until):
            conditions.append(part.condition)
        elif _is_updates(part):
            for variable, value in part.items() if isinstance(part, Mapping) else part:
                updates[variable] = new_value(variable, value)
        elif isinstance(part, list | tuple):
            outputs += [as_expression(each) for each in part]
        elif part is not None:
            outputs.append(as_expression(part))
    if len(conditions) > 1:
        raise TypeError(_refusal(given, "it has several conditions", "join them by one expression"))
    return Returned(outputs, updates, conditions[0] if conditions else None)


def as_expression(given: Any) -> Expression:
    """An expression as it is, numbers and arrays as constants."""
    if isinstance(given, until):
        raise TypeError(_refusal(given, "until(...) is in a list of outputs", "return (outputs, until(...))"))
    if given is None or isinstance(given, str | bytes | Mapping):
        raise TypeError(_refusal(given, "it is no expression", "return expressions, numbers or arrays"))
    return expression(given)


def _is_updates(given: Any) -> bool:
    """Whether it is a dictionary, or pairs of variables and new values."""
    if isinstance(given, Mapping):
        for each in given:
            if not isinstance(each, Variable):
                raise TypeError(_refusal(given, f"{each!r} is no variable", "update variables"))
        return True
    return isinstance(given, list | tuple) and len(given) > 0 and all(_is_pair(each) for each in given)


def _is_pair(given: Any) -> bool:
    return isinstance(given, list | tuple) and len(given) == 2 and isinstance(given[0], Variable)


def _refusal(given: Any, wrong: str, remedy: str) -> str:
    return four_parts(f"the step of a scan, which returned {given!r}", wrong, "", remedy)
