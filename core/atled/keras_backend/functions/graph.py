"""Functions of the graph itself: gradients, and branches of which one is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.expressions.branches import Branch
from atled.keras_backend.expressions.calls import call, operand
from atled.keras_backend.expressions.expression import Expression, below, reached
from atled.keras_backend.expressions.gradients import Gradients
from atled.keras_backend.expressions.leaves import Constant
from atled.keras_backend.expressions.messages import counted
from atled.keras_backend.expressions.parts import Part
from atled.keras_backend.settings import floatx, intx


def gradients(loss: Expression, variables: Any) -> Any:
    """The gradients of a loss, of each variable's shape and dtype; expressions, which have gradients themselves.

    loss: () float.
    variables: variables, placeholders, or any expressions that the loss is computed from, of floats; a list gives a
        list, one gives one.
    TypeError: a loss with axes or of another dtype; what is no expression.
    ValueError: the loss does not depend on one of them, or only through `stop_gradient` or sizes.
    """
    _check_loss(loss)
    is_single = not isinstance(variables, list | tuple)
    wanted: list[Expression] = [variables] if is_single else list(variables)
    for each in wanted:
        _check_wanted(each)
    flowing = reached([loss], lambda each: each.paths)
    for each in wanted:
        if each not in flowing:
            raise ValueError(_unreached(loss, each))
    group = Gradients(loss, wanted)
    found = [Part(group, position, each.ndim, each.type) for position, each in enumerate(wanted)]
    return found[0] if is_single else found


def stop_gradient(variables: Any) -> Any:
    """The same values, through which no gradient flows.

    variables: an expression, or a list of them, which gives a list.
    """
    if isinstance(variables, list | tuple):
        return [stop_gradient(each) for each in variables]
    return call("Unlink", _as_expression(variables))


def ifelse(condition: Any, then_expression: Any, else_expression: Any) -> Any:
    """One of two values; what only the other one needs is not computed.

    condition: (), 0 or False for the second one.
    then_expression, else_expression: of one dtype and count of axes; or lists of them, as long as each other, which
        give a list.
    TypeError: dtypes or counts of axes differ, a condition with axes.  ValueError: lists of different lengths.
    """
    chosen = _as_expression(condition)
    if chosen.ndim:
        asked = f"ifelse with the condition {chosen!r}"
        raise TypeError(four_parts(asked, "it has axes", "", "give one truth value: any() or all() of them, maybe"))
    is_list = isinstance(then_expression, list | tuple)
    if is_list != isinstance(else_expression, list | tuple):
        raise TypeError(four_parts("ifelse", "one side is a list, the other is none", "", "give two lists, or none"))
    pairs = [(then_expression, else_expression)]
    if is_list:
        if len(then_expression) != len(else_expression):
            asked = f"ifelse with lists of {len(then_expression)} and {len(else_expression)}"
            raise ValueError(four_parts(asked, "they are not of one length", "", "give one value for each other"))
        pairs = list(zip(then_expression, else_expression, strict=True))
    sides = [_sides(*pair) for pair in pairs]
    branch = Branch(chosen, [first for first, _ in sides], [second for _, second in sides])
    found = [Part(branch, position, each.ndim, each.type) for position, (each, _) in enumerate(sides)]
    return found if is_list else found[0]


def _as_expression(x: Any, beside: Expression | None = None) -> Expression:
    """An expression of what is given; a Python number has the dtype of what it stands beside."""
    given = operand(x)
    if isinstance(given, Expression):
        return given
    if given is None:
        raise TypeError(four_parts("None as a value", "it is no expression", "", "give an expression or a number"))
    if beside is not None and np.can_cast(type(given), beside.type, "same_kind"):
        return Constant(np.asarray(given, beside.type))
    return Constant(np.asarray(given, {float: floatx(), int: intx(), bool: "bool"}[type(given)]))


def _sides(first: Any, second: Any) -> tuple[Expression, Expression]:
    """Both values of a branch; TypeError where they are not of one kind."""
    one = _as_expression(first, second if isinstance(second, Expression) else None)
    other = _as_expression(second, one)
    if (one.ndim, one.type) != (other.ndim, other.type):
        wrong = f"one has {counted(one.ndim)} of {one.dtype}, the other {other.ndim} of {other.dtype}"
        remedy = "cast() one of them" if one.ndim == other.ndim else "give them as many axes, by reshape()"
        raise TypeError(four_parts(f"ifelse of {one.shown} and {other.shown}", wrong, "", remedy))
    return one, other


def _check_loss(loss: Any) -> None:
    if not isinstance(loss, Expression):
        asked = f"gradients of a loss of type {type(loss).__name__}"
        raise TypeError(four_parts(asked, "it is no expression", "", "give what is computed from the variables"))
    if loss.ndim:
        asked = f"gradients of the loss {loss.shown}"
        raise TypeError(four_parts(asked, f"it is no scalar, it has {loss.ndim} axes", "", "give its sum() or mean()"))
    if loss.type.kind != "f":
        asked = f"gradients of the loss {loss.shown}"
        raise TypeError(four_parts(asked, f"it is {loss.dtype}", "", "give a loss of floats: cast() it, maybe"))


def _check_wanted(wanted: Any) -> None:
    if not isinstance(wanted, Expression):
        asked = f"gradients with respect to {type(wanted).__name__}"
        raise TypeError(four_parts(asked, "it is no expression", "", "give variables, or what the loss depends on"))
    if wanted.type.kind != "f":
        asked = f"gradients with respect to {wanted.shown}"
        raise TypeError(four_parts(asked, f"it is {wanted.dtype}", "", "give an expression of floats"))


def _unreached(loss: Expression, wanted: Expression) -> str:
    """The text for a loss that does not depend on something, with why."""
    depending, flowing = _ways(loss, wanted)
    if wanted not in depending:
        wrong, remedy = "the loss is not computed from it", "leave it out, or have the loss depend on it"
    else:
        # The first on a way down to it through which no gradient flows.
        ends = dict.fromkeys(each for each in depending if each not in flowing)
        stops = [each for each in ends if not any(other in ends for other in each.paths)]
        stops = [other for each in stops for other in _stopping(each)]
        is_stop = any(getattr(each, "op", None) == "Unlink" for each in stops)
        through = "stop_gradient" if is_stop else "sizes, or what has no gradient"
        where = ", ".join(dict.fromkeys(each.written for each in stops))
        wrong = f"the loss depends on it through {through} alone ({where})"
        remedy = f"take {'stop_gradient' if is_stop else 'that'} out of one way to it, or leave it out"
    return four_parts(f"gradients of {loss.shown} with respect to {wanted.shown}", wrong, "", remedy)


def _stopping(each: Expression) -> Sequence[Expression]:
    """It, or what stops gradients within it, where it is the result of a scan or a branch."""
    inside = reached(each.of.inside) if isinstance(each, Part) else ()
    return [other for other in inside if getattr(other, "op", None) == "Unlink"] or [each]


def _ways(loss: Expression, wanted: Expression) -> tuple[dict[Expression, None], set[Expression]]:
    """All from a loss down that depend on something, in order, and those of them to which gradients flow from it."""
    depending, flowing = dict[Expression, None](), set[Expression]()
    for each in reached([loss]):
        if each is wanted or any(other in depending for other in below(each)):
            depending[each] = None
        if each is wanted or any(other in flowing for other in each.paths):
            flowing.add(each)
    return depending, flowing
