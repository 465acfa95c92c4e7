"""What stands for a loop in other expressions: the inputs of its step, and rows of outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from atled.array_desc import ArrayDesc
from atled.errors import four_parts
from atled.keras_backend.expressions.calls import call
from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.leaves import Placeholder
from atled.keras_backend.expressions.needs import NeedsValueError
from atled.keras_backend.expressions.parts import Part

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization, Value
    from atled.keras_backend.loops.loop import Loop


def rows_of(into: Specialization, value: Value, first: int, count: int, step: int = 1) -> Value:
    """So many rows of a value, from one on."""
    desc = value.desc
    sizes = desc.shape
    if (first, count, step) == (0, sizes[0], 1):
        return value
    end = first + count * step
    bounds = {
        "start": (first if first >= 0 else 0, *[0] * (len(sizes) - 1)),
        "stop": (end if end >= 0 else -sizes[0] - 1, *sizes[1:]),
        "step": (step, *[1] * (len(sizes) - 1)),
    }
    made = ArrayDesc((count, *sizes[1:]), desc.dtype)
    return into.of(made, into.description.call("Slice", value.number, **bounds))


class StepInput(Placeholder):
    """What the step of a loop is called with: a row of a sequence, a state, or a value from around it."""

    __slots__ = ()
    is_of_a_step = True

    def described(self, into: Specialization) -> Value:
        """Not reached: the step is described with the values of its inputs."""
        raise TypeError(
            four_parts(
                f"the value of {self!r}, an argument of the step of the scan at {self.written}",
                "it has one in each step only, and is wanted outside of the step",
                "",
                "have the step return what is computed from it",
            )
        )


class DoneRows(Expression):
    """The rows of an output for the steps that were done, where a condition ends the loop.

    rows: for all steps that there might have been, zeros where none was.
    state: the last row, where it is a state of the loop.
    """

    __slots__ = ("loop", "rows", "state")

    def __init__(self, loop: Loop, rows: Part, state: Part | None) -> None:
        super().__init__(rows.ndim, rows.type, loop.name)
        self.loop = loop
        self.rows = rows
        self.state = state

    @property
    def needed(self) -> Sequence[Expression]:
        """All rows, and how many to take."""
        return (self.rows, self.loop.done)

    @property
    def paths(self) -> Sequence[Expression]:
        """The rows."""
        return (self.rows,)

    def __getitem__(self, index: Any) -> Any:
        """Its last row is known without a run that tells how many there are."""
        if type(index) is not int or index != -1:
            return super().__getitem__(index)
        if self.state is not None:
            return LastRow(self.loop, self.rows, self.state)
        return call("Take", self.rows, call("Sub2", self.loop.done, 1), axis=0)

    def described(self, into: Specialization) -> Value:
        """A window on all rows; how many were done has to be known."""
        steps, rows = into.value(self.loop.done), into.value(self.rows)
        if steps.known is None:
            raise NeedsValueError(self.loop.done, self.loop.kept(into))
        return rows_of(into, rows._replace(number=into.number(self.rows)), 0, int(steps.known))


class LastRow(Expression):
    """The last state of a loop, as the row of the last step that was done.

    IndexError: when it is described: there is no step.
    """

    __slots__ = ("loop", "rows", "state")

    def __init__(self, loop: Loop, rows: Part, state: Part) -> None:
        super().__init__(state.ndim, state.type, state.name)
        self.loop = loop
        self.rows = rows
        self.state = state

    @property
    def needed(self) -> Sequence[Expression]:
        """The state, and the rows for their count only."""
        return (self.rows, self.state)

    @property
    def paths(self) -> Sequence[Expression]:
        """The state."""
        return (self.state,)

    def described(self, into: Specialization) -> Value:
        """The state."""
        done = into.found(self.loop.done)
        if (done is None or done.known is None) and self.loop.is_better_counted(into):
            raise NeedsValueError(self.loop.done)
        if not into.value(self.rows).desc.shape[0]:
            raise IndexError(
                four_parts(
                    f"the last row of a scan, written at {self.written}",
                    "there is no step, so it has no rows",
                    "",
                    "do one step or more",
                )
            )
        return into.value(self.state)
