"""Running of an inference: one plan on the arrays of many calls, several at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.cell import ArrayCell
from atled.arrays.epoch import EPOCH
from atled.arrays.place import HOST
from atled.arrays.storage import HostStorage
from atled.graph.compile.plan import Plan
from atled.graph.run.binding import Binding
from atled.graph.run.by_address import ByAddress
from atled.graph.run.fixed import FixedLayout, FixedProgram

Arrays = Sequence[np.ndarray]


class Runner(ABC):
    """A plan of an inference, for any threads.

    descs: of the inputs, which are outside arrays 0, 1, ...  constants: the others, by number.  shapes: of the outputs.
    """

    def __init__(
        self,
        plan: Plan,
        descs: Sequence[ArrayDesc],
        constants: Sequence[ArrayCell],
        shapes: Sequence[tuple[int, ...]],
    ) -> None:
        self.plan = plan
        self._descs = list(descs)
        self._cells = list(constants)
        self._shapes = list(shapes)
        self._floats = [value for _, value in plan.floats]

    @abstractmethod
    def run(self, inputs: Arrays) -> list[np.ndarray]:
        """The outputs, in new arrays.

        inputs: of the shapes of the plan; what has another dtype is cast.
        """


def runner_of(
    plan: Plan, descs: Sequence[ArrayDesc], constants: Sequence[ArrayCell], shapes: Sequence[tuple[int, ...]]
) -> Runner:
    """What runs a plan on the arrays of its constants as long as these are where they are and have their dtypes."""
    kind = _OnHost if _OnHost.fits(plan, descs, constants) else BoundRunner
    return kind(plan, descs, constants, shapes)


class _Lane:
    """What one run at a time has to itself: memory for inputs and outputs, and the program on it."""

    __slots__ = ("addresses", "held", "inputs", "outputs", "own", "program")

    def __init__(self, runner: _OnHost) -> None:
        self.inputs = [HostStorage(desc.nbytes) for desc in runner.given]
        self.outputs = [HostStorage(desc.nbytes) for desc in runner.results]
        self.own = [storage.address for storage in (*self.inputs, *self.outputs)]
        self.program = FixedProgram(runner.layout, runner.floats)
        self.held: Any = None
        self.addresses: Sequence[int] = ()


class _OnHost(Runner):
    """One of native steps in host memory: each run takes a lane, with a copy of the inputs in its memory."""

    def __init__(
        self,
        plan: Plan,
        descs: Sequence[ArrayDesc],
        constants: Sequence[ArrayCell],
        shapes: Sequence[tuple[int, ...]],
    ) -> None:
        super().__init__(plan, descs, constants, shapes)
        memories = {number: plan.slots[slot].memory for number, _, _, slot in plan.requests}
        count = len(self._descs)
        self.given = [self._descs[number] for number in range(count) if number in memories]
        self.results = [plan.slots[slot].desc for slot in plan.targets]
        self.floats = self._floats
        self._read = [number for number in range(count) if number in memories]
        dtypes = {number: dtype for number, _, dtype, _ in plan.requests}
        self._constants = [(number - count, dtypes[number]) for number in sorted(memories) if number >= count]
        given = [memories[number] for number in self._read]
        given += [plan.slots[slot].memory for slot in plan.targets]
        given += [memories[number + count] for number, _ in self._constants]
        self.layout = FixedLayout(plan, given)
        self._lanes: list[_Lane] = []

    @staticmethod
    def fits(plan: Plan, descs: Sequence[ArrayDesc], constants: Sequence[ArrayCell]) -> bool:
        """Whether a plan can run so."""
        count = len(descs)
        return ByAddress.fits(plan) and all(
            descs[number].dtype == dtype
            if number < count
            else (constants[number - count].place is place and constants[number - count].dtype == dtype)
            for number, place, dtype, _ in plan.requests
        )

    def run(self, inputs: Arrays) -> list[np.ndarray]:
        """See Runner."""
        try:
            lane = self._lanes.pop()  # atomic: each thread takes one of its own
        except IndexError:
            lane = _Lane(self)
        for number, storage, desc in zip(self._read, lane.inputs, self.given, strict=True):
            storage.array(desc.shape, desc.dtype)[...] = inputs[number]
        held = [self._cells[number].copy_at(HOST, dtype) for number, dtype in self._constants]
        if held != lane.held:
            lane.held = held
            lane.addresses = [*lane.own, *(storage.address for storage in held if isinstance(storage, HostStorage))]
        lane.program.run(lane.addresses)
        outputs = [
            storage.array(shape, desc.dtype).copy()
            for storage, desc, shape in zip(lane.outputs, self.results, self._shapes, strict=True)
        ]
        self._lanes.append(lane)
        return outputs


class BoundRunner(Runner):
    """Any other plan, and any that is observed: each run binds it to arrays of its own."""

    def run(self, inputs: Arrays) -> list[np.ndarray]:
        """See Runner."""
        plan = self.plan
        cells = [_cell_of(array, desc) for array, desc in zip(inputs, self._descs, strict=True)]
        made = [ArrayCell(plan.slots[slot].desc.size) for slot in plan.targets]
        Binding(plan, [*cells, *self._cells], made, self._floats, epoch=EPOCH.value).run()
        outputs = []
        for cell, shape in zip(made, self._shapes, strict=True):
            cell.settle()
            assert cell.dtype is not None
            storage = cell.copy_at(HOST, cell.dtype)
            assert isinstance(storage, HostStorage)
            outputs.append(storage.array(shape, cell.dtype).copy())
        return outputs


def _cell_of(array: np.ndarray, desc: ArrayDesc) -> ArrayCell:
    """A new array with some values."""
    cell = ArrayCell(desc.size)
    storage = cell.output(HOST, desc.dtype)
    assert isinstance(storage, HostStorage)
    storage.array(desc.shape, desc.dtype)[...] = array
    return cell
