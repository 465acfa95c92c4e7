"""What runs one step in Python: the implementation's function, code of the user, or a copy between memories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell, Storage
from atled.arrays.failures import Expected, Failures, Flag
from atled.arrays.moving import move
from atled.arrays.place import HOST, DevicePart, DeviceStorage, Place
from atled.errors import four_parts
from atled.graph.compile.plan import Plan
from atled.graph.compile.step import Slot, Step
from atled.limits.sizes import out_of_memory

_BYTE = np.dtype(np.uint8)

Launch = Callable[[], None]


class Arrays(Protocol):
    """The arrays of a plan, to which what launches its steps refers one by one: a circle would keep their memory.

    floats: the value of each float of the plan.
    """

    plan: Plan
    floats: np.ndarray

    def array(self, number: int) -> Any:
        """The array of a slot, as the steps see it."""

    def storage(self, number: int) -> Storage:
        """The memory of a slot that user code is given."""

    def workspace(self, step: Step) -> Storage | DevicePart:
        """The workspace of a step."""

    def flag(self, place: Place) -> Flag:
        """The flag of a device, for as long as there are these arrays."""

    def with_workspace(self, launch: Launch) -> Launch:
        """The same, with the workspace to itself."""


def launch_of(bound: Arrays, step: Step, others: Mapping[int, np.ndarray]) -> Launch:
    """What runs a step in Python; others: arrays to use instead of the plan's, by position among the arguments."""
    if step.node.spec is not None and step.node.spec.opaque:
        return _launch_of_user_code(bound, step)
    arguments = arguments_of(bound, step)
    for position, array in others.items():
        arguments[position] = array
    if step.prepared is None:
        return _transfer(bound.plan, step, arguments[0], arguments[1])
    launch = launch_on(bound, step, arguments)
    return bound.with_workspace(launch) if step.prepared.workspace else launch


def arguments_of(bound: Arrays, step: Step) -> list[Any]:
    """What a step is given: inputs, outputs, the workspace if it asks for one, flag and number if it may fail."""
    arguments = [None if slot < 0 else bound.array(slot) for slot in step.arguments]
    if step.prepared is not None and step.prepared.workspace:
        arguments.append(workspace_in(bound.workspace(step), step))
    if step.has_flag:
        arguments.append(bound.flag(bound.plan.place_of(step)).array)
    if step.culprit is not None:
        arguments.append(step.culprit.number)
    return arguments


def workspace_in(storage: Storage | DevicePart, step: Step) -> Any:  # Any: NumPy or the device's own array type
    """The workspace of a step as an array of bytes."""
    # A device's array has the size it was allocated with, which may be more than this step asked for.
    size = storage.nbytes if isinstance(storage, DeviceStorage) else step.workspace
    return storage.array((size,), _BYTE)


def expected_of(bound: Arrays, steps: Iterable[Step]) -> Expected:
    """Those of the steps that may fail on their device."""
    culprits = [(step.culprit, bound.plan.place_of(step)) for step in steps if step.culprit is not None]
    return {culprit.number: (culprit, bound.flag(place)) for culprit, place in culprits}


def launch_on(bound: Arrays, step: Step, arguments: Sequence[Any]) -> Launch:
    """What calls the function of a step's implementation on arrays; the floats are those of the time of the launch."""
    assert step.prepared is not None
    run = step.prepared.run
    if run is None:
        raise RuntimeError(
            four_parts(
                f"{step.name} by {step.backend}",
                "its implementation is machine code only, and its backend registers no native executor",
                "",
                "a fault of the plugin: its Prepared needs `run`, too, or the backend an executor "
                "(help(atled.plugin.Registrar.native_executor)); report it to its authors",
            )
        )
    floats, numbers = bound.floats, step.floats

    def launch() -> None:
        guarded(step, run, [*arguments, *(float(floats[i]) for i in numbers)] if numbers else arguments)

    place = bound.plan.place_of(step)
    if place is HOST or not (step.culprit is not None or step.waits_for_failures):
        return launch
    return watch(launch, place.failures, expected_of(bound, [step]), step.waits_for_failures)


def watch(run: Callable[..., None], failures: Failures, expected: Expected, looks: bool) -> Callable[..., None]:
    """The launch of a step that may fail on its device, or must not run behind one that did."""

    def watched(*arguments: Any) -> None:
        if looks:
            failures.look()
        try:
            run(*arguments)
        finally:  # a launch that raises may have been queued in part
            if expected:
                failures.expect(expected)

    return watched


def _launch_of_user_code(bound: Arrays, step: Step) -> Launch:
    """The launch of an opaque op: the user's code gets NdArrays over the storages, which it may move or replace."""
    assert step.prepared is not None and step.prepared.run is not None
    run, floats, numbers, count = step.prepared.run, bound.floats, step.floats, step.input_count
    lent = [(bound.plan.slots[number], bound.storage(number)) for number in step.arguments]

    def launch() -> None:
        arrays = [_array_over(*item) for item in lent]
        run(*arrays, *(float(floats[i]) for i in numbers))
        for array, (slot, storage) in zip(arrays[count:], lent[count:], strict=True):
            array.cell.copy_into(slot.place, slot.desc.dtype, storage)

    return launch


def _array_over(slot: Slot, storage: Storage) -> NdArray:
    """An NdArray in the memory of a slot."""
    cell = ArrayCell(slot.desc.size)
    cell.adopt(slot.place, slot.desc.dtype, storage)
    return NdArray.over(cell, slot.desc.shape)


def _transfer(plan: Plan, step: Step, source: Any, target: Any) -> Launch:
    from_place = plan.slots[step.arguments[0]].place
    slot = plan.slots[step.arguments[1]]
    to_place = slot.place

    def transfer() -> None:
        try:
            move(source, from_place, target, to_place, slot.desc)
        except Exception as error:
            error.add_note(f"while a plan copied {slot.desc} from {from_place} to {to_place}")
            raise

    return transfer


def guarded(step: Step, run: Callable[..., None], arguments: Sequence[Any]) -> None:
    """Run one Python step; what it raises gets a note that names op, backend and call."""
    try:
        run(*arguments)
    except Exception as error:
        fail(error, running(step))


def fail(error: Exception, running: str) -> NoReturn:
    """Raise an error of an implementation again, with a note of what ran."""
    if isinstance(error, MemoryError):
        raise out_of_memory(running, reason=str(error)) from error
    error.add_note(f"while {running}")
    raise error


def running(step: Step) -> str:
    """A step for errors: backend, op and call."""
    return f"{step.backend} ran {step.node.decision.call if step.node.decision else step.name}"
