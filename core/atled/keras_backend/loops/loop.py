"""The loop that a scan makes: an expression of several parts, described with its step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.errors import four_parts
from atled.keras_backend.expressions.expression import Expression, advances_of, below, reached
from atled.keras_backend.expressions.leaves import Variable
from atled.keras_backend.expressions.needs import NeedsValueError
from atled.keras_backend.expressions.parts import Part, Several
from atled.keras_backend.loops.parts import DoneRows, rows_of
from atled.named_tuple import NamedTuple

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value

_COUNT = np.dtype(np.int64)
_KEPT_BYTES = 1 << 24


class State(NamedTuple):
    """What goes from step to step.

    inside: what it is within a step.  initial: before the first one.  new: what the step makes of it.
    """

    inside: Expression
    initial: Expression
    new: Expression


class Loop(Several):
    """A step that is done for each row of sequences, or so many times.

    sequences: the expression of a row within the step, and the sequence, each.
    passed: what else is known within the step by another expression, and that from around it.
    states: of outputs and of variables.  outputs: what the step makes, of which there is a row for each step.
    condition: what ends the loop with the step in which it is true; None for nothing.
    steps: how many; None for the rows of the shortest sequence.  backwards: whether it begins with their last rows.
    """

    __slots__ = (
        "_inside",
        "_outside",
        "backwards",
        "condition",
        "outputs",
        "parts",
        "passed",
        "sequences",
        "states",
        "steps",
    )

    def __init__(
        self,
        *,
        sequences: Mapping[Expression, Expression],
        passed: Mapping[Expression, Expression],
        states: Sequence[State],
        outputs: Sequence[Expression],
        condition: Expression | None,
        steps: int | Expression | None,
        backwards: bool,
        name: str | None,
    ) -> None:
        super().__init__(name)
        self.sequences = sequences
        self.passed = passed
        self.outputs = outputs
        self.condition = condition
        self.steps = steps
        self.backwards = backwards
        self.states = [*states, *self._drawn(states)]
        self._inside, self._outside = self._sorted_out()
        made = [(state.new.ndim, state.new.type) for state in self.states]
        made += [(each.ndim + 1, each.type) for each in outputs]
        made += [] if condition is None else [(0, _COUNT)]
        self.parts = [Part(self, number, *about, name) for number, about in enumerate(made)]

    @property
    def _results(self) -> list[Expression]:
        """What the step computes."""
        conditions = [] if self.condition is None else [self.condition]
        return [*(state.new for state in self.states), *self.outputs, *conditions]

    def _drawn(self, states: Sequence[State]) -> list[State]:
        """Variables that advance by themselves with each step, such as the rows of random generators."""
        self.states = list(states)
        known = {state.inside for state in states}
        found: dict[Variable, State] = {}
        while True:
            advances = advances_of(reached(self._results))
            more = {each: State(each, each, new) for each, new in advances.items() if each not in known}
            if more.keys() == found.keys():
                return list(more.values())
            found = more
            self.states = [*states, *found.values()]

    def _sorted_out(self) -> tuple[frozenset[Expression], list[Expression]]:
        """What differs from step to step, and what that needs from around the loop."""
        begins = {*self.sequences, *self.passed, *(state.inside for state in self.states)}
        inside: set[Expression] = set()
        for each in reached(self._results):
            if each not in begins and any(other in begins or other in inside for other in below(each)):
                inside.add(each)
        # What loops and branches within have inside they take from the step, or by `needed`.
        direct = reached(self._results, lambda each: each.needed)
        read = [other for each in direct if each in inside for other in each.needed]
        outside = dict.fromkeys([*read, *self._results])
        return frozenset(inside), [each for each in outside if each not in inside and each not in begins]

    @property
    def needed(self) -> Sequence[Expression]:
        """Sequences, what states begin with, and what the step takes from around it."""
        counts = [self.steps] if isinstance(self.steps, Expression) else []
        initial = [state.initial for state in self.states]
        return [*self.sequences.values(), *self.passed.values(), *initial, *counts, *self._outside]

    @property
    def inside(self) -> Sequence[Expression]:
        """What the step computes."""
        return self._results

    def paths_of(self, number: int) -> Sequence[Expression]:
        """Those that gradients of a part reach, through as many steps as there may be."""
        made, flowing = dict.fromkeys(self._results[number : number + 1]), dict[Expression, None]()
        while True:
            flowing = reached(made, lambda each: each.paths)
            more = dict.fromkeys(state.new for state in self.states if state.inside in flowing)
            if more.keys() <= made.keys():
                break
            made |= more
        begun = {state.inside: state.initial for state in self.states}
        within = {**self.sequences, **self.passed, **begun}
        around = [each for each in flowing if each not in within and each not in self._inside]
        return [*(outer for each, outer in within.items() if each in flowing), *around]

    @property
    def advances(self) -> Mapping[Variable, Expression]:
        """Variables that the step advances: what the last step leaves."""
        return {
            state.inside: part
            for state, part in zip(self.states, self.parts, strict=False)
            if isinstance(state.inside, Variable) and state.inside.next is not None
        }

    def last(self, number: int) -> Part:
        """A state behind the last step."""
        return self.parts[number]

    def rows(self, number: int, state: int | None) -> Expression:
        """An output, stacked.  state: the number of the state that it is, if it is one."""
        rows = self.parts[len(self.states) + number]
        if self.condition is None:
            return rows
        return DoneRows(self, rows, None if state is None else self.parts[state])

    @property
    def done(self) -> Part:
        """How many steps were done, where a condition ends the loop."""
        return self.parts[-1]

    def kept(self, into: Specialization) -> list[Expression]:
        """The parts that a function reads, for the run that tells the count of steps to give them, too.

        None where gradients go through the loop, which need all of it, or where there might be so many rows that it is
        better to do no more than there will be, in a second run.
        """
        if self._is_differentiated(into) or self._has_many_rows(into):
            return []
        return [each for each in into.reached if each in self.parts[:-1]]

    def is_better_counted(self, into: Specialization) -> bool:
        """Whether gradients would store rows for many steps that are not done, so that a run is to count them first."""
        return not into.is_within and self._is_differentiated(into) and self._has_many_rows(into)

    def _is_differentiated(self, into: Specialization) -> bool:
        return any(each.anchors and self in reached([each]) for each in into.reached)

    def _has_many_rows(self, into: Specialization) -> bool:
        """Whether the outputs have so many rows, where all steps are done, that it matters."""
        return sum(into.value(self).parts[part.number].desc.nbytes for part in self.parts) > _KEPT_BYTES

    def described(self, into: Specialization) -> Value:
        """The loop; where it is known how many steps will be done, as many, whatever the condition says."""
        d = into.description
        count = self._length(into)
        ended = self.condition is not None
        done = into.found(self.done) if ended else None
        if done is not None and done.known is not None:
            count, ended = int(done.known), False
        sequences = {row: self._begun(into, row, count) for row in self.sequences}
        first = [into.value(state.initial) for state in self.states]
        outputs: list[ArrayDesc] = []

        def step(*numbers: int) -> list[Any]:
            rows = [ArrayDesc(value.desc.shape[1:], value.desc.dtype) for value in sequences.values()]
            given = zip([*rows, *(value.desc for value in first)], numbers, strict=True)
            inside = [*self.sequences, *(state.inside for state in self.states)]
            values = {each: into.of(desc, number) for each, (desc, number) in zip(inside, given, strict=True)}
            values |= {each: into.value(outer) for each, outer in self.passed.items()}
            with into.scope(values, self._inside):
                self._add_step(into)
                outputs.extend(into.value(each).desc for each in self.outputs)
                for state, value in zip(self.states, first, strict=True):
                    self._check(state, value.desc, into.value(state.new).desc)
                made: list[Any] = [
                    [into.number(state.new) for state in self.states],
                    [into.number(each) for each in self.outputs],
                ]
                return [*made, into.number(self.condition)] if ended and self.condition is not None else made

        numbers = [value.number for value in sequences.values()]
        loop = d.loop(step, numbers, [into.number(state.initial) for state in self.states], length=count)
        parts = [into.of(value.desc, number) for value, number in zip(first, loop.states, strict=True)]
        for desc, number in zip(outputs, loop.rows, strict=True):
            parts.append(into.of(ArrayDesc((count, *desc.shape), desc.dtype), number))
        if loop.steps is not None:
            parts.append(into.of(ArrayDesc((), _COUNT), loop.steps))
        elif done is not None:
            parts.append(done)
        return into.parts(parts)

    def _add_step(self, into: Specialization) -> None:
        """Describe what the step computes.  TypeError: a size differs from step to step."""
        try:
            into.add(self._results)
        except NeedsValueError as error:
            if error.expression not in self._inside and all(
                error.expression is not each.inside for each in self.states
            ):
                raise
            wrong = f"a size within its step follows from {error.expression.shown}, which may differ from step to step"
            remedy = (
                "have sizes within a step follow from shapes, or from what is computed around the scan; of a scan that "
                "until ends take the last row, by [-1]"
            )
            raise TypeError(self._refusal(wrong, remedy)) from None

    def _length(self, into: Specialization) -> int:
        """How many steps there are at most."""
        sizes = [into.value(sequence).desc.shape[0] for sequence in self.sequences.values()]
        if self.steps is None:
            return min(sizes)
        count = into.size(self.steps)
        if count < 0:
            raise ValueError(self._refusal(f"{count} steps", "use 0 steps or more"))
        if sizes and count > min(sizes):
            wrong = f"{count} steps over a sequence of {min(sizes)} rows"
            raise ValueError(
                self._refusal(wrong, "give longer sequences, or n_steps=None for all rows of the shortest")
            )
        return count

    def _begun(self, into: Specialization, row: Expression, count: int) -> Value:
        """The rows of a sequence that are taken, in the order of the steps."""
        sequence = self.sequences[row]
        value = into.value(sequence)._replace(number=into.number(sequence))
        size = value.desc.shape[0]
        if self.backwards:
            return rows_of(into, value, size - 1, count, -1)
        return rows_of(into, value, 0, count)

    def _check(self, state: State, before: ArrayDesc, behind: ArrayDesc) -> None:
        """Refuse a state that changes its sizes; its dtype and count of axes are known to stay."""
        if before.shape != behind.shape:
            wrong = f"{state.inside!r} has shape {list(before.shape)} before a step and {list(behind.shape)} behind it"
            remedy = f"begin with the shape that the step returns, by what is written at {state.new.written}"
            raise ValueError(self._refusal(wrong, remedy))

    def _refusal(self, wrong: str, remedy: str) -> str:
        return four_parts(f"the scan at {self.written}", wrong, "", remedy)
