"""`scan`: a loop whose step is described by a function of the program."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from atled.errors import did_you_mean, four_parts
from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.leaves import Variable
from atled.keras_backend.loops.loop import Loop, State
from atled.keras_backend.loops.parts import StepInput
from atled.keras_backend.loops.returned import Returned, as_expression, returned

_KNOWN = ("sequences", "non_sequences", "go_backwards", "truncate_gradient", "strict", "mode", "profile")


def scan(
    function: Callable[..., Any],
    outputs_info: Any = None,
    n_steps: Any = None,
    name: str | None = None,
    **kwargs: Any,
) -> tuple[Any, OrderedDict[Variable, Expression]]:
    """A loop: `function(*rows of sequences, *states, *non_sequences)` describes a step, and is called once.

    It returns the new outputs: an expression, or a list of them; also a dictionary of updates of variables, also
    `until(condition)`, which ends the loop with the step in which the condition is true; several of these as a tuple.
    Random nodes draw anew in each step, and so do those that the step reaches by itself, not through an argument.

    outputs_info: per output what it is before the first step: an expression, variable, array or number,
        `{"initial": it, "taps": [-1]}`, or None for an output that no step reads. One alone need be in no list.
    n_steps: whole number or expression, 0 or more; None for the rows of the shortest sequence.
    sequences: their rows are taken in order, from the last one on with go_backwards; all begin together.
    non_sequences: what the step is given besides.  strict, mode, profile: mean nothing here.

    Returns the outputs, stacked on a new first axis in the order of the steps (one alone, several as a list, None where
    there is none), and the updates, which function is to be given: the values behind the last step.

    TypeError: a state that changes its dtype or count of axes, keywords that there are not.
    ValueError: as many outputs as there are not, neither n_steps nor sequences, other taps, truncate_gradient; at the
    call: negative steps, more than a sequence has rows.
    """
    asked = f"scan of {getattr(function, '__name__', 'a function')}"
    if not callable(function):
        raise TypeError(four_parts(f"scan of {function!r}", "it is no function", "", "give what describes a step"))
    _check_keywords(asked, kwargs)
    sequences = [_sequence(asked, each) for each in _listed(kwargs.get("sequences"))]
    infos = [_initial(asked, each) for each in _listed(outputs_info)]
    steps = _steps(asked, n_steps)
    if steps is None and not sequences:
        raise ValueError(
            four_parts(asked, "nothing tells how many steps it has", "", "give n_steps, or sequences whose rows count")
        )
    rows: dict[Expression, Expression] = {StepInput(each.ndim - 1, each.type, each.name): each for each in sequences}
    inputs = [None if each is None else StepInput(each.ndim, each.type, each.name) for each in infos]
    others = [as_expression(each) for each in _listed(kwargs.get("non_sequences"))]
    # What is drawn outside is the same in all steps where it is an argument: the step does not see what made it.
    within = [StepInput(each.ndim, each.type, each.name) if each.needed else each for each in others]
    made = returned(function(*rows, *(each for each in inputs if each is not None), *within))
    if infos and len(infos) != len(made.outputs):
        wrong = f"its step returns {len(made.outputs)} outputs, outputs_info has {len(infos)}"
        raise ValueError(four_parts(asked, wrong, "", "give an entry for each output, None for one without a state"))
    infos, inputs = infos or [None] * len(made.outputs), inputs or [None] * len(made.outputs)
    states = [
        State(inside, initial, _checked(asked, number, inside, made.outputs[number]))
        for number, (inside, initial) in enumerate(zip(inputs, infos, strict=True))
        if inside is not None and initial is not None
    ]
    loop = Loop(
        sequences=rows,
        passed={inside: outer for inside, outer in zip(within, others, strict=True) if inside is not outer},
        states=[*states, *(State(each, each, new) for each, new in made.updates.items())],
        outputs=made.outputs,
        condition=made.condition,
        steps=steps,
        backwards=bool(kwargs.get("go_backwards")),
        name=name,
    )
    return _results(loop, made, inputs, len(states))


def _results(
    loop: Loop, made: Returned, inputs: Sequence[Expression | None], states: int
) -> tuple[Any, OrderedDict[Variable, Expression]]:
    """What a scan gives.  inputs: per output the argument that it is in the next step.  states: those of outputs."""
    numbers = iter(range(states))
    outputs = [loop.rows(n, None if inside is None else next(numbers)) for n, inside in enumerate(inputs)]
    updates = OrderedDict[Variable, Expression]()
    for number, each in enumerate(made.updates):
        updates[each] = loop.last(states + number)
    return (None if not outputs else outputs[0] if len(outputs) == 1 else outputs), updates


def _listed(given: Any) -> list[Any]:
    """Several, as they are; one, as a list of it."""
    return [] if given is None else list(given) if isinstance(given, list | tuple) else [given]


def _check_keywords(asked: str, given: Mapping[str, Any]) -> None:
    for each in given:
        if each not in _KNOWN:
            remedy = did_you_mean(each, _KNOWN, f"use some of {', '.join(_KNOWN)}")
            raise TypeError(four_parts(asked, f"it has no keyword {each!r}", "", remedy))
    if given.get("truncate_gradient", -1) not in (-1, None):
        raise ValueError(
            four_parts(
                asked,
                f"truncate_gradient={given['truncate_gradient']!r}: gradients go through all steps",
                "",
                "leave it away, or stop_gradient what the step is given where they should end",
            )
        )


def _sequence(asked: str, given: Any) -> Expression:
    if isinstance(given, Mapping):
        given = _entry(asked, given, "input", [0])
    made = as_expression(given)
    if not made.ndim:
        wrong = f"the sequence {made!r} has no axes, so no rows"
        raise TypeError(four_parts(asked, wrong, "", "give it to non_sequences if it is the same in all steps"))
    return made


def _initial(asked: str, given: Any) -> Expression | None:
    """What an output is before the first step; None for one without a state."""
    if isinstance(given, Mapping):
        given = _entry(asked, given, "initial", [-1])
    return None if given is None else as_expression(given)


def _entry(asked: str, given: Mapping[str, Any], name: str, taps: list[int]) -> Any:
    """What a dictionary names: only the step before, or this row, can be had."""
    for each in given:
        if each not in (name, "taps"):
            remedy = f"give {{{name!r}: ..., 'taps': {taps}}}"
            raise TypeError(four_parts(asked, f"{each!r} in a dictionary means nothing to it", "", remedy))
    wanted = given.get("taps", taps)
    if wanted is not None and list(np.atleast_1d(wanted)) != taps:
        remedy = "pass what earlier steps made on by further outputs, which are states of their own"
        raise ValueError(four_parts(asked, f"taps={wanted!r}", f"only {taps} can be had", remedy))
    return given.get(name)


def _steps(asked: str, given: Any) -> int | Expression | None:
    if given is None or (isinstance(given, Expression) and given.type.kind in "iu" and not given.ndim):
        return given
    if not isinstance(given, Expression):
        values = np.asarray(given)
        if values.dtype.kind in "iu" and not values.ndim:
            return int(values)
    remedy = "give a whole number, an expression of one without axes, or None"
    raise TypeError(four_parts(asked, f"n_steps={given!r} is no whole number", "", remedy))


def _checked(asked: str, number: int, before: Expression, new: Expression) -> Expression:
    """The new value of a state; TypeError where it has another dtype or count of axes."""
    if (new.ndim, new.type) != (before.ndim, before.type):
        raise TypeError(
            four_parts(
                f"{asked}, whose output {number} is written at {new.written}",
                f"it has {before.ndim} axes and {before.dtype} before a step, {new.ndim} and {new.dtype} behind it",
                "",
                f"begin with what the step returns, or cast that to {before.dtype}",
            )
        )
    return new
