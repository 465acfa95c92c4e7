"""Device programs: queued steps bound to their arrays, which the device runs as one where its array class can."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections.abc import Callable, Sequence
from functools import partial

from atled.errors import four_parts, in_words
from atled.graph.compile.segments import DeviceSegment
from atled.graph.compile.step import Step
from atled.graph.run.launching import Arrays, arguments_of, expected_of, fail, launch_on, running
from atled.graph.run.words import Table
from atled.limits.caches import register_cache
from atled_contexts import PluginWarning, lock_across_forks
from atled_contexts.fallback import user_level
from atled_contexts.signals import is_of_a_handler

_LIMIT = 256
_WAIT = 64  # runs of a loop after which it may become a program again
_USES = itertools.count(1)


class QueuedSteps:
    """What runs a device segment of a binding.

    The first run calls the implementations (`Prepared.run`), which may build what is built at first use. Then the steps
    are bound to their arrays, and their launches become a program, or stay a loop.

    has_run: whether a first run has ended well.  used: when the program ran last, a number that grows.
    """

    __slots__ = (
        "__weakref__",
        "_arguments",
        "_calls",
        "_drops",
        "_expected",
        "_floats",
        "_launches",
        "_looks",
        "_program",
        "_segment",
        "_table",
        "_wait",
        "has_run",
        "used",
    )

    def __init__(
        self,
        bound: Arrays,
        segment: DeviceSegment,
        table: Table | None,
        arguments: Sequence[list[object]] | None = None,
    ) -> None:
        """arguments: of each step, where they are not those that `bound` has."""
        self._segment = segment
        self._table = table
        self._floats = bound.floats
        steps = segment.steps
        self._arguments = [arguments_of(bound, step) for step in steps] if arguments is None else list(arguments)
        self._calls = [launch_on(bound, *pair) for pair in zip(segment.steps, self._arguments, strict=True)]
        self._expected = expected_of(bound, segment.steps)
        self._looks = any(step.waits_for_failures for step in segment.steps)
        self._launches: list[Callable[[], object]] | None = None
        self._program: Callable[[], object] | None = None
        self._wait = 0  # runs until a program is tried; -1: no more
        self._drops = 0
        self.has_run = False
        self.used = 0

    def __call__(self) -> None:
        """Put all steps into the queue."""
        program = self._program
        if program is not None and not (self._looks or self._expected):
            # `_run`, in line: this is all that most plans of few steps do.
            self.used = next(_USES)
            try:
                program()
            except Exception as error:
                fail(error, self._in_words())
            return
        if self._launches is None:
            for call in self._calls:
                call()
            self.has_run = True
            return
        if self._looks:
            self._segment.place.failures.look()
        try:
            self._put()
        finally:
            if self._expected:
                self._segment.place.failures.expect(self._expected)

    def _put(self) -> None:
        """Run the program, or else the loop."""
        assert self._launches is not None
        program = self._program
        if program is None and self._wait >= 0:
            program = self._made()
        if program is None:
            self._loop(self._launches)
            return
        self._run(program)

    def _run(self, program: Callable[[], object]) -> None:
        self.used = next(_USES)
        try:
            program()
        except Exception as error:
            fail(error, self._in_words())

    def bind(self) -> None:
        """Bind all steps to their arrays."""
        steps = self._segment.steps
        self._launches = [self._bound(*pair) for pair in zip(steps, self._arguments, strict=True)]
        self._calls = []  # the arguments stay: launches need not keep their arrays alive

    def drop(self) -> None:
        """Give the program up for a while: the loop runs."""
        self._wait = _WAIT << min(self._drops, 16)
        self._drops += 1
        self._program = None

    def _bound(self, step: Step, arguments: list[object]) -> Callable[[], object]:
        prepared = step.prepared
        assert prepared is not None and prepared.run is not None
        if prepared.bind is None:
            # They never change: the plan made no part of a program of it otherwise.
            return partial(prepared.run, *arguments, *(float(self._floats[number]) for number in step.floats))
        if step.random_slot >= 0:
            arguments[step.input_count - 1] = None
        table = self._table
        first = -1 if table is None else table.layout.first.get(step, -1)
        try:
            return prepared.bind(arguments, None if table is None or first < 0 else table.array, first)
        except Exception as error:
            fail(error, f"{running(step)}, binding it to its arrays")

    def _loop(self, launches: Sequence[Callable[[], object]]) -> None:
        launch = None
        try:
            for launch in launches:
                launch()
        except Exception as error:
            number = next(number for number, one in enumerate(launches) if one is launch)
            fail(error, running(self._segment.steps[number]))

    def _made(self) -> Callable[[], object] | None:
        """The program, if it is time for it, and the device makes one."""
        if self._wait:
            self._wait -= 1
            return None
        self._wait = -1
        place, launches = self._segment.place, self._launches
        assert place.array_class is not None and launches is not None
        try:
            program = place.array_class.program(launches, place.device_id)
        except Exception as error:  # third-party code: the loop does the same, and the reason is told
            if is_of_a_handler(error):
                self._wait = 0  # the next run tries again
                raise
            self._segment.refusal = f"{place.array_class.name}.program failed: {in_words(error)}"
            _tell(place.array_class.name, self._in_words(), self._segment.refusal)
            return None
        if program is None:
            self._segment.refusal = f"{place.array_class.name}.program made none of them"
            return None
        self._program = program
        PROGRAMS.add(self)
        return program

    def _in_words(self) -> str:
        steps = self._segment.steps
        some = ", ".join(step.label for step in steps[:4])
        return f"{self._segment.place} ran a program of {len(steps)} steps: {some}{', ...' if len(steps) > 4 else ''}"


class Readiness:
    """What comes before the steps of a run: those that are to be bound are bound, and the tables are up to date."""

    __slots__ = ("_steps", "_tables")

    def __init__(self, steps: Sequence[QueuedSteps], tables: Sequence[Table]) -> None:
        self._steps = list(steps)
        self._tables = tables

    def __call__(self) -> bool:
        """See the class; whether nothing comes before further runs.

        A failure leaves all for the next run, before anything was computed.
        """
        if self._steps:
            if not all(steps.has_run for steps in self._steps):
                return False
            for steps in self._steps:
                steps.bind()
            self._steps = []
        for table in self._tables:
            table.put()
        return not self._tables


class Programs:
    """All programs of the process; beyond a number of them those that were not used lately are dropped.

    limit: that number. Programs are gone with their bindings.
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        self.limit = limit
        self._users: weakref.WeakSet[QueuedSteps] = weakref.WeakSet()
        self._lock = lock_across_forks()
        register_cache("device programs", self.__len__, self.clear)

    def add(self, user: QueuedSteps) -> None:
        """Count the program of a segment, and drop others if there are too many now."""
        with self._lock:
            others = sorted(self._users, key=lambda one: one.used)
            for other in others[: max(0, len(others) + 1 - self.limit)]:
                self._drop(other)
            self._users.add(user)

    def clear(self) -> None:
        """Drop all of them."""
        with self._lock:
            for user in list(self._users):
                self._drop(user)

    def _drop(self, user: QueuedSteps) -> None:
        self._users.discard(user)
        user.drop()

    def __len__(self) -> int:
        return len(self._users)


PROGRAMS = Programs()
_told: set[str] = set()


def _tell(array_class: str, what: str, wrong: str) -> None:
    """Warn of a program that could not be made; once per array class."""
    if array_class not in _told:
        advice = "a fault of the plugin or its driver: report it to its authors"
        text = four_parts(what, wrong, "its steps are launched one by one, which gives the same", advice)
        warnings.warn(text, PluginWarning, user_level())
        _told.add(array_class)  # only now: where warnings are errors, each is one
