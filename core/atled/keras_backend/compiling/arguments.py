"""What `function` is given: inputs, outputs, updates and givens, checked where the function is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from atled.errors import did_you_mean, four_parts
from atled.keras_backend.compiling.constants import Constants
from atled.keras_backend.expressions.calls import call, operand
from atled.keras_backend.expressions.expression import Expression, advances_of, below, reached
from atled.keras_backend.expressions.leaves import Constant, Placeholder, Variable
from atled.keras_backend.expressions.messages import counted
from atled.named_tuple import NamedTuple

_IGNORED = ("on_unused_input", "allow_input_downcast", "mode", "profile")
"""Options of the original that say how it is to compile, or what it is to refuse."""


class Wanted(NamedTuple):
    """What a function computes, all of it expressions.

    updates: by variable its new value, in its dtype; those of random generators as well.
    replaced: by expression what stands for it.  reached: all that is computed, each behind what it needs.
    constants: what of it depends on nothing, as it is computed.
    """

    inputs: list[Expression]
    outputs: list[Expression]
    updates: dict[Variable, Expression]
    replaced: dict[Expression, Expression]
    reached: list[Expression]
    constants: Constants


def wanted(inputs: Any, outputs: Sequence[Any], updates: Any, options: Mapping[str, Any]) -> Wanted:
    """What a function is to compute; see `function` for the errors."""
    for name in options:
        if name not in ("givens", *_IGNORED):
            known = did_you_mean(
                name, ("givens", *_IGNORED), "leave it out; givens is the one that changes what it does"
            )
            raise TypeError(four_parts(f"function({name}=...)", "it has no such argument", "", known))
    listed = _inputs(inputs)
    found = [_output(each) for each in outputs]
    assigned = _updates(updates)
    replaced = _givens(options.get("givens"))
    while True:
        computed = _reached([*found, *assigned.values()], listed, replaced)
        advanced = {each: new for each, new in advances_of(computed).items() if each not in assigned}
        if not advanced:
            break
        assigned |= {each: new_value(each, new) for each, new in advanced.items()}
    missing = [each for each in computed if type(each) is Placeholder and each not in listed and each not in replaced]
    if missing:
        names = ", ".join(each.shown for each in missing)
        asked = f"a function of {counted(len(listed), 'input')}"
        raise ValueError(
            four_parts(asked, f"it needs {names}, which is none of them", "", "list it, or replace it by givens")
        )
    constants = Constants(each for each in computed if each not in replaced)
    return Wanted(listed, found, assigned, _cut(replaced, computed), computed, constants)


def pairs_of(given: Any, what: str) -> list[tuple[Any, Any]]:
    """The pairs that a list or a dictionary has.  TypeError: for anything else."""
    if given is None:
        return []
    listed = list(given.items()) if isinstance(given, Mapping) else given
    if isinstance(listed, Iterable) and not isinstance(listed, str | Expression):
        pairs = list(listed)
        if all(isinstance(each, list | tuple) and len(each) == 2 for each in pairs):
            return [(first, second) for first, second in pairs]
    raise TypeError(
        four_parts(f"{what} of type {type(given).__name__}", "they are no pairs", "", "give a list of pairs")
    )


def _inputs(given: Any) -> list[Expression]:
    """Inputs: expressions that stand for a value, each once."""
    if isinstance(given, Expression) or not isinstance(given, Iterable):
        asked = f"function with inputs of type {type(given).__name__}"
        raise TypeError(four_parts(asked, "they are no list", "", "give a list of placeholders"))
    inputs: list[Expression] = []
    for each in given:
        if not isinstance(each, Expression) or isinstance(each, Variable | Constant):
            wrong = "it has a value of its own" if isinstance(each, Expression) else "it is no expression"
            asked = f"{each!r} as an input of a function"
            raise TypeError(four_parts(asked, wrong, "", "give a placeholder; a variable is no input, use set_value()"))
        if each in inputs:
            asked = f"{each.shown} as an input of a function"
            raise ValueError(four_parts(asked, "it is there twice", "", "list it once"))
        inputs.append(each)
    return inputs


def _output(given: Any) -> Expression:
    """An output: an expression, or what is a constant."""
    if given is None or isinstance(given, str | bytes | Mapping):
        asked = f"an output of type {type(given).__name__}"
        raise TypeError(four_parts(asked, "it is no expression", "", "give expressions, numbers or arrays"))
    found = operand(given)
    return found if isinstance(found, Expression) else Constant(found)


def _updates(given: Any) -> dict[Variable, Expression]:
    found: dict[Variable, Expression] = {}
    for variable, value in pairs_of(given, "updates"):
        if not isinstance(variable, Variable):
            shown = variable.shown if isinstance(variable, Expression) else type(variable).__name__
            asked = f"an update of {shown}"
            raise TypeError(four_parts(asked, "it is no variable", "", "update what variable() or zeros() gave"))
        if variable in found:
            asked = f"two updates of {variable.shown}"
            raise ValueError(four_parts(asked, "a function assigns once to a variable", "", "give it one new value"))
        found[variable] = new_value(variable, value)
    return found


def new_value(variable: Variable, value: Any) -> Expression:
    """The new value of a variable, in its dtype."""
    return _fitting(variable, value, f"an update of {variable.shown}")


def _fitting(old: Expression, value: Any, asked: str) -> Expression:
    """What may stand where an expression stands: with its ndim, and its dtype or a narrower one, which is cast."""
    given = operand(value)
    if given is None:
        raise TypeError(four_parts(asked, "the new value is None", "", "give an expression, a number or an array"))
    if not isinstance(given, Expression):
        given = Constant(np.asarray(given))
    if isinstance(given, Constant) and given.type != old.type:  # what has no dtype that the program chose
        if not np.can_cast(given.type, old.type, "same_kind"):
            wrong = f"it is {old.dtype}, the new value {given.dtype}"
            raise TypeError(four_parts(asked, wrong, "", f"give what {old.dtype} holds"))
        given = Constant(given.value.astype(old.type))
    asked = f"{asked} by {given.shown}"
    if given.ndim != old.ndim:
        wrong = f"it has {old.ndim} axes, the new value {given.ndim}"
        raise TypeError(four_parts(asked, wrong, "", "give it as many axes, by reshape() or a sum over fewer axes"))
    if given.type == old.type:
        return given
    if not np.can_cast(given.type, old.type):
        wrong = f"it is {old.dtype}, the new value {given.dtype}"
        raise TypeError(four_parts(asked, wrong, "", f"cast(value, {old.dtype!r}) says that you mean it"))
    return call("Cast", given, dtype=old.type)


def _givens(given: Any) -> dict[Expression, Expression]:
    found: dict[Expression, Expression] = {}
    for old, new in pairs_of(given, "givens"):
        if not isinstance(old, Expression):
            asked = f"givens for {type(old).__name__}"
            raise TypeError(
                four_parts(asked, "it is no expression", "", "replace placeholders, variables or expressions")
            )
        if old in found:
            asked = f"givens for {old.shown}"
            raise ValueError(four_parts(asked, "there are two", "", "give one"))
        found[old] = _fitting(old, new, f"givens for {old.shown}")
    return found


def _reached(
    roots: Sequence[Expression], inputs: Sequence[Expression], replaced: Mapping[Expression, Expression]
) -> list[Expression]:
    """All that is computed for some expressions, each behind what it needs; what is replaced is there without it."""
    given = {*inputs, *replaced}
    seen = reached(roots, lambda each: () if each in given else below(each))
    used = [replaced[each] for each in seen if each in replaced]
    listed = set(inputs)
    first = reached(used, lambda each: () if each in listed else below(each))
    return list(first | seen)


def _cut(replaced: dict[Expression, Expression], computed: Sequence[Expression]) -> dict[Expression, Expression]:
    """Replacements without gradients: those are of what was written, where nothing was replaced."""
    sources = {other for each in computed for other in each.anchors}
    return {
        old: call("Unlink", new) if not sources.isdisjoint(reached([new])) else new for old, new in replaced.items()
    }
