"""Segments: steps of a plan in a row that run as one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from atled.graph.compile.step import Step, native_error


class Bound(Protocol):
    """A plan with its arrays, as a segment needs them.

    rows_address: of the rows of the native program.
    """

    @property
    def rows_address(self) -> int: ...

    def launch(self, step: Step) -> Callable[[], None]:
        """What runs a step in Python."""

    def with_workspace(self, launch: Callable[[], None]) -> Callable[[], None]:
        """The same, with the workspace to itself."""


class Segment(ABC):
    """Steps in a row that run as one.

    first, row: number of the first step, and of the first of the rows that run them.  steps: all of them.
    It does not refer to the plan, nor what `bind` gives to the binding: memory would wait for a garbage collection.
    """

    __slots__ = ("first", "row", "steps")

    is_native: ClassVar[bool] = False

    def __init__(self, first: int, row: int, steps: Sequence[Step]) -> None:
        self.first = first
        self.row = row
        self.steps = list(steps)

    @property
    @abstractmethod
    def text(self) -> str:
        """How listings call it."""

    @abstractmethod
    def bind(self, binding: Bound) -> Callable[[], None]:
        """What runs it on the arrays of a binding."""


class PythonSegment(Segment):
    """Steps that Python launches one by one."""

    __slots__ = ()

    @property
    def text(self) -> str:
        """With the count of its steps."""
        return f"{len(self.steps)} Python steps"

    def bind(self, binding: Bound) -> Callable[[], None]:
        """A loop over what launches each step."""
        launches = [binding.launch(step) for step in self.steps]

        def run() -> None:
            for launch in launches:
                launch()

        return run


class NativeSegment(Segment):
    """A program: native steps of one backend, which a loop of that backend walks without Python."""

    __slots__ = ()

    is_native = True

    @property
    def text(self) -> str:
        """With the count of its steps, the carried ones included."""
        return f"native program of {len(self.steps)}"

    @property
    def rows(self) -> tuple[int, int]:
        """The rows that run it, the second one excluded."""
        return self.row, self.row + sum(step.carrier is None for step in self.steps)

    def bind(self, binding: Bound) -> Callable[[], None]:
        """A call of the backend's loop, which raises the error of the step that failed."""
        # Its method is looked up at each run: at its first one it may put a quicker one in its place.
        executor = self.steps[0].executor
        address = binding.rows_address
        start, stop = self.rows

        def run() -> None:
            status = executor.run_program(address, start, stop)
            if status:
                raise self.error_of(status)

        return binding.with_workspace(run)

    def error_of(self, status: int) -> Exception:
        """The exception for a status of the program: the row that failed, and the code that its kernel returned."""
        launched = [step for step in self.steps if step.carrier is None]
        return native_error(launched[(status >> 16) - 1 - self.row], status)


def segments_of(steps: Sequence[Step], first: int = 0, row: int = 0) -> list[Segment]:
    """The segments of steps in a row, as few as there can be; first, row: as of the first segment."""
    segments: list[Segment] = []
    for number, step in enumerate(steps, first):
        if not segments or not _continues(segments[-1], step):
            segments.append((PythonSegment if step.native is None else NativeSegment)(number, row, ()))
        segments[-1].steps.append(step)
        row += step.carrier is None
    return segments


def _continues(segment: Segment, step: Step) -> bool:
    """Whether a step runs with those before it."""
    is_native = step.native is not None
    return segment.is_native is is_native and (not is_native or segment.steps[-1].executor is step.executor)
