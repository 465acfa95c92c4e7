"""Launching steps on a device without a binding: on the arrays of storages that are others at every run."""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from atled.arrays.arena import Free
from atled.arrays.failures import Flag
from atled.arrays.place import HOST, DevicePart, DeviceStorage, Place
from atled.graph.compile.plan import Plan
from atled.graph.compile.step import Step
from atled.graph.run.arenas import arena_for
from atled.graph.run.launching import fail, running, watch, workspace_in
from atled.limits.caches import register_cache
from atled_contexts import lock_across_forks

Key = tuple[Any, ...]
"""The shape of an array, or description and offset of a window: `Slot.key`."""

_BYTE = np.dtype(np.uint8)
_KEPT_LIMIT = 64
_USES = itertools.count(1)


def shapes_of(plan: Plan, step: Step) -> list[Key | None]:
    """The shapes of all arrays that a step gets, its workspace included; None for an absent one."""
    shapes: list[Key | None] = [None if slot < 0 else plan.slots[slot].key for slot in step.arguments]
    assert step.prepared is not None
    return [*shapes, (step.prepared.workspace,)] if step.prepared.workspace else shapes


def launch_by_shape(plan: Plan, step: Step) -> Callable[..., int]:
    """`launch(form, *arrays, *floats)`, which gives 0 for the status, as machine code does where all is well.

    form: what machine code needs, and this does not.  arrays: each by shape (`DeviceStorage.address`), anything for an
        absent one.
    """
    assert step.prepared is not None
    shapes = shapes_of(plan, step)
    make = _maker(tuple(shape is not None for shape in shapes), len(step.floats))
    launch: Callable[..., int] = make(run_by_shape(plan, step), fail, running(step), *shapes)
    return launch


def run_by_shape(plan: Plan, step: Step) -> Callable[..., None]:
    """The function of a step, `run(*arrays, *floats)`, with memory for the time of the run behind the arrays if any."""
    return _run_of(plan, step, len(shapes_of(plan, step)))


def _run_of(plan: Plan, step: Step, array_count: int) -> Callable[..., None]:
    """The function of a step; if it may fail on its device or heeds failures, with what it is given beside the arrays.

    array_count: workspace included.
    """
    assert step.prepared is not None and step.prepared.run is not None
    if not step.has_flag and not step.waits_for_failures:
        return step.prepared.run
    run, failures, culprit = step.prepared.run, plan.place_of(step).failures, step.culprit
    flag = failures.flag() if step.has_flag else None
    extra = [] if flag is None else [flag.array]
    extra += [] if culprit is None else [culprit.number]
    expected = {} if culprit is None or flag is None else {culprit.number: (culprit, flag)}

    def watched(*arguments: Any, held: Flag | None = flag) -> None:  # held: it has to live as long as this
        run(*arguments[:array_count], *extra, *arguments[array_count:])

    return watch(watched, failures, expected, step.waits_for_failures)


# With arguments of their own, and each array named, it takes a third of the time.
_TEXT = """
def make(run, fail, running, {shapes}):
    def launch(form, {given}):
        try:
            run({passed})
        except Exception as error:
            fail(error, running)
        return 0
    return launch
"""


@functools.lru_cache(256)
def _maker(is_there: tuple[bool, ...], float_count: int) -> Callable[..., Any]:
    """What makes the launch of a step with these arrays and so many floats."""
    arrays, floats = range(len(is_there)), range(float_count)
    given = [*(f"a{n}" for n in arrays), *(f"f{n}" for n in floats)]
    passed = [*(f"a{n}[s{n}]" if is_there[n] else "None" for n in arrays), *(f"float(f{n})" for n in floats)]
    text = _TEXT.format(shapes=", ".join(f"s{n}" for n in arrays), given=", ".join(given), passed=", ".join(passed))
    namespace: dict[str, Any] = {}
    exec(compile(text, f"<{__name__}>", "exec"), namespace)  # text made just here
    make: Callable[..., Any] = namespace["make"]
    return make


class _Frame:
    """What a plan has beside the arrays that a run is given, for one run at a time.

    arenas: what its memory is in.  free: them all, to be taken for a run.
    is_kept: whether it has no other memory, and may wait for the next run.
    arguments: per step what it is launched with, None for what a run gives it.
    """

    __slots__ = ("arenas", "arguments", "free", "is_kept")

    def __init__(self, plan: Plan, place: Place, given: Container[int]) -> None:
        layout = plan.arenas.get(place)
        self.arenas = [] if layout is None else [arena_for(plan, place)]
        self.free = Free(self.arenas)
        storages: dict[object, DeviceStorage | DevicePart] = {}
        if layout is not None:
            (arena,) = self.arenas
            for parts in (layout.memories, layout.workspaces):
                storages.update((key, DevicePart(arena.storage, *part)) for key, part in parts.items())
        in_arenas = len(storages)
        for slot in plan.slots:
            if slot.memory not in given and slot.memory not in storages:
                storages[slot.memory] = DeviceStorage(place, slot.desc.size, slot.desc.dtype)
        if place in plan.workspaces:
            storages[place] = DeviceStorage(place, plan.workspaces[place], _BYTE)
        self.is_kept = len(storages) == in_arenas
        self.arguments: list[list[Any]] = []
        for step in plan.steps:
            slots = [None if number < 0 else plan.slots[number] for number in step.arguments]
            arguments = [
                slot.array_in(storages[slot.memory]) if slot is not None and slot.memory in storages else None
                for slot in slots
            ]
            if step.workspace:
                arguments.append(workspace_in(storages.get(step) or storages[place], step))
            self.arguments.append(arguments)


class PlanOnDevice:
    """A plan without a binding, on one device: its steps are launched one by one, on the arrays that a run is given.

    given: the memories that these arrays are, in that order.  place: the device.
    used: when it ran last, a number that grows.
    """

    __slots__ = ("__weakref__", "_frames", "_given", "_steps", "place", "plan", "used")

    def __init__(self, plan: Plan, given: Sequence[int]) -> None:
        self.plan = plan
        self.place: Place = plan.slots[0].place
        self.used = 0
        self._given = {memory: number for number, memory in enumerate(given)}
        self._frames: list[_Frame] = []  # those that no run has at the moment
        # Per step: what to call, by position the number of what is given and its key there, and the floats.
        self._steps: list[tuple[Callable[..., None], list[tuple[int, int, Key]], tuple[int, ...]]] = []
        for step in plan.steps:
            slots = [(position, plan.slots[number]) for position, number in enumerate(step.arguments) if number >= 0]
            sources = [
                (position, self._given[slot.memory], slot.key) for position, slot in slots if slot.memory in self._given
            ]
            run = _run_of(plan, step, len(step.arguments) + bool(step.workspace))
            self._steps.append((run, sources, step.floats))

    @staticmethod
    def fits(plan: Plan) -> bool:
        """Whether a plan is on one device throughout, and no part of it is a fallback, random, or code of the user."""
        if not plan.slots or plan.fallbacks:
            return False
        place = plan.slots[0].place
        return (
            place is not HOST
            and all(slot.place is place for slot in plan.slots)
            and all(map(_is_launch, plan.steps))
            and all(number >= 0 and plan.slots[number].source[0] == "target" for number in plan.targets)
        )

    def run(self, arrays: Sequence[Any], floats: Sequence[float] = ()) -> None:
        """Launch all steps.

        arrays: those of the memories in `given`, each by shape (`DeviceStorage.address`).
        floats: the value of each float of the plan.
        """
        frame = self._taken()
        count = 0
        try:
            for (run, sources, numbers), arguments in zip(self._steps, frame.arguments, strict=True):
                count += 1
                given = arguments[:]
                for position, number, key in sources:
                    given[position] = arrays[number][key]
                if numbers:
                    given += [float(floats[number]) for number in numbers]
                run(*given)
        except Exception as error:
            fail(error, running(self.plan.steps[count - 1]))
        finally:
            frame.free.append(True)
        if frame.is_kept:
            self._frames.append(frame)

    def _taken(self) -> _Frame:
        """A frame whose arenas are taken for a run."""
        self.used = next(_USES)
        while True:
            try:
                frame = self._frames.pop()
            except IndexError:
                _keep_frames_of(self)
                frame = _Frame(self.plan, self.place, self._given)
            with contextlib.suppress(IndexError):  # in use, or outgrown
                frame.free.pop()
                return frame

    @property
    def is_outgrown(self) -> bool:
        """Whether it keeps arenas in which nothing else is any more."""
        return any(arena.is_outgrown for frame in tuple(self._frames) for arena in frame.arenas)

    def forget_frames(self) -> None:
        """Keep no memory for later runs."""
        self._frames.clear()


def launch_all(plan: Plan, given: Sequence[int]) -> Callable[..., int]:
    """The same as `launch_by_shape` for a plan of several steps; its floats are those of the call, or constants.

    given: the memories of the arrays; -1 for one that is absent.
    """
    on_device = PlanOnDevice(plan, given)
    count, sources = len(given), plan.floats

    def launch(form: object, *passed: Any) -> int:
        on_device.run(passed[:count], [n if source == "constant" else passed[count + n] for source, n in sources])
        return 0

    return launch


def _is_launch(step: Step) -> bool:
    has_run = step.prepared is not None and step.prepared.run is not None
    return has_run and step.random_slot < 0 and step.node.spec is not None and not step.node.spec.by_engine


_KEEPING: weakref.WeakSet[PlanOnDevice] = weakref.WeakSet()
_CHANGING = lock_across_forks()


def _keep_frames_of(plan: PlanOnDevice) -> None:
    """Let a plan keep its frames, and have others forget theirs: in outgrown arenas, or if there are too many."""
    with _CHANGING:
        others = sorted((other for other in _KEEPING if other is not plan), key=lambda other: other.used)
        excess = max(0, len(others) + 1 - _KEPT_LIMIT)
        for number, other in enumerate(others):
            if number < excess or other.is_outgrown:
                other.forget_frames()
                _KEEPING.discard(other)
        _KEEPING.add(plan)


def _forget_all() -> None:
    with _CHANGING:
        for plan in list(_KEEPING):
            plan.forget_frames()
        _KEEPING.clear()


register_cache("plans that keep arrays for rebuilt graphs", lambda: len(_KEEPING), _forget_all)
