"""Segments: steps of a plan in a row that run as one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from atled.arrays.place import HOST, ArrayClass, Place
from atled.graph.compile.native_errors import error_in_row
from atled.graph.compile.step import Step


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

    def queued(self, segment: DeviceSegment) -> Callable[[], None]:
        """What puts the steps of a segment into the queue of their device."""


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
        """With the count of its steps, and why those on a device are none of a program."""
        why = {reason for step in self.steps if (reason := _why_apart(step))}
        return f"{len(self.steps)} Python steps{' (' if why else ''}{'; '.join(sorted(why))}{')' if why else ''}"

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
                raise self.error_of(status, address)

        return binding.with_workspace(run)

    def error_of(self, status: int, rows_address: int) -> Exception:
        """The exception for a status of the program: the row that failed, and the code that its kernel returned.

        rows_address: of the first of all rows.
        """
        launched, row = [step for step in self.steps if step.carrier is None], (status >> 16 & 0xFFFFFF) - 1
        return error_in_row(launched[row - self.row], status, rows_address, row)


class DeviceSegment(Segment):
    """Steps of one device, of whichever backends, that only go into its queue: a program of the device's own.

    refusal: why a binding got no program, once one did not; its steps are launched one by one then.
    """

    __slots__ = ("refusal",)

    def __init__(self, first: int, row: int, steps: Sequence[Step]) -> None:
        super().__init__(first, row, steps)
        self.refusal = ""

    @property
    def place(self) -> Place:
        """The device."""
        place = self.steps[0].queue
        assert place is not None
        return place

    @property
    def text(self) -> str:
        """With the count of its steps; where they run one by one, why."""
        count, array_class, why = len(self.steps), self.place.array_class, self.refusal
        assert array_class is not None
        if type(array_class).program is ArrayClass.program:
            why = f"{array_class.name} makes no programs"
        return f"{count} queued steps ({why})" if why else f"device program of {count}"

    def bind(self, binding: Bound) -> Callable[[], None]:
        """What puts them into the queue."""
        return binding.queued(self)


def _why_apart(step: Step) -> str:
    """Why a step on a device does not only go into its queue; "" for one on the host."""
    if step.prepared is None or step.node.outputs[0].place in (None, HOST):
        return ""
    return "numbers of it change, and it has no bind" if step.prepared.queued else "not queued"


def segments_of(steps: Sequence[Step], first: int = 0, row: int = 0) -> list[Segment]:
    """The segments of steps in a row, as few as there can be; first, row: as of the first segment."""
    segments: list[Segment] = []
    for number, step in enumerate(steps, first):
        kind = _kind_of(step)
        if not segments or type(segments[-1]) is not kind or not _continues(segments[-1], step):
            segments.append(kind(number, row, ()))
        segments[-1].steps.append(step)
        row += step.carrier is None
    return segments


def _kind_of(step: Step) -> type[Segment]:
    if step.native is not None:
        return NativeSegment
    return PythonSegment if step.queue is None else DeviceSegment


def _continues(segment: Segment, step: Step) -> bool:
    """Whether a step runs with those of its kind before it."""
    last = segment.steps[-1]
    if segment.is_native:
        return last.executor is step.executor
    if step.queue is None:  # those that may be interrupted, and updates
        return last.is_update or not step.is_update
    # Between a step that may fail and one that would change arrays all the same the host looks.
    is_cut = step.waits_for_failures and any(before.culprit is not None for before in segment.steps)
    return last.queue is step.queue and not is_cut
