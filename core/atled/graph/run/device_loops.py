"""Loops on a device: the launches of all steps, on windows of the arrays, with no copy by way of the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atled.arrays.cell import Storage
from atled.arrays.failures import Flag
from atled.arrays.place import HOST, DevicePart, DeviceStorage, Place
from atled.graph.compile.plan import Plan
from atled.graph.compile.segments import DeviceSegment
from atled.graph.compile.step import Slot, Step
from atled.graph.nodes.loops import LoopOp
from atled.graph.run.launching import Arrays, Launch, arguments_of, launch_of
from atled.graph.run.programs import QueuedSteps, Readiness
from atled.graph.run.words import Table

_MOST_LAUNCHES = 20_000  # they are made when a plan is bound, some KiB each

_NONE: Mapping[int, np.ndarray] = {}


def fits(spec: LoopOp, plan: Plan, outer: Plan, step: Step) -> bool:
    """Whether a loop of this plan runs so: a known count of steps, all on one device whose arrays have windows.

    outer: the plan of the loop's step.
    """
    place = outer.place_of(step)
    if place is HOST or not place.has_windows or spec.counted or spec.ended or not spec.length:
        return False
    if any(slot >= 0 and outer.slots[slot].is_window for slot in step.arguments):
        return False
    if spec.length * len(plan.steps) > _MOST_LAUNCHES:
        return False
    rows = (*spec.body.inputs[: spec.sequence_count], *spec.body.result_descs[spec.first_row :])
    if not all(place.begins_anywhere(desc.nbytes) for desc in rows):
        return False
    drawn = {slot for one in plan.steps for slot in one.draws}
    dtypes: dict[int, np.dtype] = {}
    for number, slot in enumerate(plan.slots):
        dtype = slot.desc.dtype
        if number not in drawn and (slot.place is not place or dtypes.setdefault(slot.memory, dtype) != dtype):
            return False
    return all(_is_launch(one) for one in plan.steps)


def _is_launch(step: Step) -> bool:
    spec = step.node.spec
    return spec is not None and not spec.by_engine and step.prepared is not None and step.prepared.run is not None


def launch_of_loop(bound: Arrays, step: Step, plan: Plan) -> Launch:
    """What puts all steps of a loop into the queue; plan: of its body, one for which `fits` holds."""
    spec = step.node.spec
    assert isinstance(spec, LoopOp) and spec.length is not None
    floats = np.array([0.0 if kind == "parameter" else value for kind, value, *_ in plan.floats], np.float64)
    parameters = [(n, step.floats[source[1]]) for n, source in enumerate(plan.floats) if source[0] == "parameter"]
    memory, given = _Memory(bound, step, plan), bound.floats
    arrays = [_StepArrays(plan, memory, k, floats) for k in range(spec.length)]
    draws = [bound.array(step.arguments[number]) for number in _draw_inputs(spec)]
    run = _launched(arrays, draws) if draws else _queued(arrays) or _launched(arrays, draws)
    if not parameters:
        return run

    def launch() -> None:
        for number, source in parameters:
            floats[number] = given[source]
        run()

    return launch


def _queued(arrays: Sequence[_StepArrays]) -> Launch | None:
    """All steps as one segment that becomes a program of the device; None where some do not only go into its queue."""
    plan = arrays[0].plan
    if [type(segment) for segment in plan.segments] != [DeviceSegment]:
        return None
    place = plan.steps[0].queue
    assert place is not None
    table = Table(arrays[0], plan.words[place]) if place in plan.words else None
    segment = DeviceSegment(0, 0, [step for _ in arrays for step in plan.steps])
    arguments = [arguments_of(one, step) for one in arrays for step in plan.steps]
    queued = QueuedSteps(arrays[0], segment, table, arguments)
    ready = Readiness([queued], [] if table is None else [table])

    def launch() -> None:
        ready()
        queued()

    return launch


def _launched(arrays: Sequence[_StepArrays], draws: Sequence[np.ndarray]) -> Launch:
    """All steps one by one; their random states go on before each, and go back if it fails."""
    launches = [[launch_of(one, step, _NONE) for step in one.plan.steps] for one in arrays]

    def launch() -> None:
        before = [draw.copy() for draw in draws]
        try:
            for launches_of_step in launches:
                for draw in draws:
                    draw[1] += 1
                for one in launches_of_step:
                    one()
        except BaseException:
            for draw, values in zip(draws, before, strict=True):
                draw[...] = values
            raise

    return launch


def _draw_inputs(spec: LoopOp) -> range:
    return range(len(spec.inputs) - spec.draw_count, len(spec.inputs))


class _Memory:
    """Where the memories of a body are in each step of its loop."""

    def __init__(self, bound: Arrays, step: Step, plan: Plan) -> None:
        spec = step.node.spec
        assert isinstance(spec, LoopOp)
        place = bound.plan.place_of(step)
        assert place.array_class is not None
        self._spec = spec
        self._place = place
        self._given = [None if slot < 0 else _flat(bound, slot) for slot in step.arguments]
        self._sources = {plan.slots[slot].memory: number for number, _, _, slot in plan.requests}
        self._results = {plan.slots[slot].memory: number for number, slot in enumerate(plan.targets) if slot >= 0}
        sizes: dict[int, tuple[int, np.dtype]] = {}
        for slot in plan.slots:
            if slot.place is place:
                nbytes = max(slot.nbytes, sizes.get(slot.memory, (0,))[0])
                sizes[slot.memory] = nbytes, slot.desc.dtype
        self._own = {
            memory: DeviceStorage(place, nbytes // dtype.itemsize, dtype)
            for memory, (nbytes, dtype) in sizes.items()
            if self._is_own(memory)
        }
        # Not the arrays that have it: they would be kept by what they keep.
        self.flag = bound.flag(place) if any(one.has_flag for one in plan.steps) else None
        most = max((one.workspace for one in plan.steps), default=0)
        self.workspace = DeviceStorage(place, most, np.dtype(np.uint8)) if most else None

    def _is_own(self, memory: int) -> bool:
        """Whether a memory is needed during a step, or, of a state, every other step, or nobody reads what it gets."""
        result = self._results.get(memory)
        if result is not None:
            return result < self._spec.state_count or self._given[len(self._spec.inputs) + result] is None
        return memory not in self._sources

    def array(self, slot: Slot, k: int) -> Any:  # Any: the device's own array type
        """The array of a slot in step k."""
        spec = self._spec
        assert spec.length is not None
        source, result = self._sources.get(slot.memory), self._results.get(slot.memory)
        row = spec.length - 1 - k if spec.backwards else k
        if source is not None:
            is_state = spec.sequence_count <= source < spec.sequence_count + spec.state_count
            if is_state and k:
                return self._state(source - spec.sequence_count, slot, k - 1)
            begin = row * spec.body.inputs[source].size if source < spec.sequence_count else 0
            return self._window(self._given[source], slot, begin)
        if result is None:
            return self._own[slot.memory].window(slot.desc, slot.offset)
        if result < spec.state_count:
            return self._state(result, slot, k)
        given = self._given[len(spec.inputs) + result]
        if given is None:
            return self._own[slot.memory].window(slot.desc, slot.offset)
        return self._window(given, slot, row * spec.body.result_descs[result].size)

    def _state(self, state: int, slot: Slot, k: int) -> Any:  # Any: see above
        """What step k made of a state: the last one makes it where it is to be in the end."""
        assert self._spec.length is not None
        if (self._spec.length - 1 - k) % 2 == 0:
            return self._window(self._given[len(self._spec.inputs) + state], slot, 0)
        memory = next(memory for memory, result in self._results.items() if result == state)
        return self._own[memory].window(slot.desc, slot.offset)

    def _window(self, array: Any, slot: Slot, begin: int) -> Any:  # Any: see above
        """A slot in an array, from some element on."""
        array_class = self._place.array_class
        assert array_class is not None
        return array if slot.place is HOST else array_class.window(array, slot.desc, begin + slot.offset)


def _flat(bound: Arrays, number: int) -> Any:  # Any: see above
    """The array of a slot, on a device without axes but one."""
    slot, array = bound.plan.slots[number], bound.array(number)
    array_class = slot.place.array_class
    return array if array_class is None else array_class.view(array, (slot.desc.size,))


class _StepArrays:
    """The arrays of the plan of a body in one step, for what launches its steps (`Arrays`)."""

    def __init__(self, plan: Plan, memory: _Memory, k: int, floats: np.ndarray) -> None:
        self.plan = plan
        self.floats = floats
        self._memory = memory
        self._k = k

    def array(self, number: int) -> Any:  # Any: see above
        """The array of a slot, as the steps see it."""
        return self._memory.array(self.plan.slots[number], self._k)

    def storage(self, number: int) -> Storage:
        """Of no user code is there any."""
        raise NotImplementedError(f"slot {number} of a step in the queue of a device")

    def workspace(self, step: Step) -> Storage | DevicePart:
        """The workspace of a step: one for all, as they follow each other."""
        assert self._memory.workspace is not None
        return self._memory.workspace

    def flag(self, place: Place) -> Flag:
        """The flag of the device."""
        assert self._memory.flag is not None
        return self._memory.flag

    def with_workspace(self, launch: Launch) -> Launch:
        """The workspace is the loop's own."""
        return launch
