"""Running of an inference: one plan on the arrays of many calls, several at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.cell import ArrayCell
from atled.arrays.place import HOST
from atled.arrays.storage import HostStorage
from atled.graph.compile.plan import PackedInput, Plan
from atled.graph.inference.compiling import Compiled
from atled.graph.inference.fixed_values import FixedValues, Snapshot
from atled.graph.inference.quiet import run_whole
from atled.graph.run.binding import Binding
from atled.graph.run.by_address import ByAddress
from atled.graph.run.fixed import FixedLayout, FixedProgram
from atled.graph.run.packs import Packs, wanted

Arrays = Sequence[np.ndarray]


class Runner(ABC):
    """An inference compiled for inputs of some shapes and dtypes, for any threads.

    compiled: its outside arrays are the inputs, the parameters, and what is computed from these alone.
    descs: of the inputs.
    """

    def __init__(self, compiled: Compiled, descs: Sequence[ArrayDesc], values: FixedValues) -> None:
        self.plan = compiled.plan
        self._compiled = compiled
        self._descs = list(descs)
        self._shapes = compiled.shapes
        self._values = values
        self._floats = [value for _, value in compiled.plan.floats]
        self._last = Snapshot(0, ())
        # What steps count as changed, as normalization in half does, they leave as it is.
        changed = {number - len(self._descs) for number, _, _ in compiled.plan.written}
        self._watched = [cell for number, cell in enumerate(values.parameters) if number not in changed]

    def _snapshot(self) -> Snapshot:
        """What is computed from parameters alone, as they are now."""
        compiled, last = self._compiled, self._last
        if compiled.fixed is not None and not (last.cells and self._values.is_current(last)):
            last = self._last = self._values.take(compiled.fixed, compiled.keys, len(self._descs))
        return last

    def run(self, inputs: Arrays) -> list[np.ndarray]:
        """The outputs, in new arrays, of parameters that nobody wrote meanwhile.

        inputs: of the shapes of the plan; what has another dtype is cast.
        """
        return run_whole(lambda: self._run(inputs), self._watched)

    @abstractmethod
    def _run(self, inputs: Arrays) -> list[np.ndarray]:
        """The outputs."""


def runner_of(compiled: Compiled, descs: Sequence[ArrayDesc], values: FixedValues) -> Runner:
    """What runs an inference as long as its parameters are where they are and have their dtypes."""
    kind = _OnHost if _OnHost.fits(compiled.plan, descs, values.parameters) else BoundRunner
    return kind(compiled, descs, values)


class _Given(NamedTuple):
    """What a run reads beside its inputs, kept alive by this.

    storages: of parameters, and of what is computed from them, in the order of the layout; addresses: of these.
    packs: forms of some of them that kernels read instead, 0 for one that is not kept.
    """

    storages: Sequence[HostStorage]
    packed: Sequence[HostStorage | None]
    addresses: Sequence[int]
    packs: Sequence[int]


_NOTHING = _Given((), (), (), ())


class _Lane:
    """What one run at a time has to itself: memory for inputs and outputs, and the program on it."""

    __slots__ = ("addresses", "given", "inputs", "outputs", "own", "program")

    def __init__(self, runner: _OnHost) -> None:
        self.inputs = [HostStorage(desc.nbytes) for desc in runner.given]
        self.outputs = [HostStorage(desc.nbytes) for desc in runner.results]
        self.own = [storage.address for storage in (*self.inputs, *self.outputs)]
        self.program = FixedProgram(runner.layout, runner.floats)
        self.given = _NOTHING
        self.addresses: Sequence[int] = ()

    def run(self, given: _Given) -> None:
        """Run the program."""
        if given is not self.given:
            self.given = given
            self.addresses = [*self.own, *given.addresses]
        self.program.run(self.addresses, given.packs)


class _OnHost(Runner):
    """One of native steps in host memory: each run takes a lane, with a copy of the inputs in its memory.

    given: what the plan reads of the inputs.  results: what it makes.
    """

    def __init__(self, compiled: Compiled, descs: Sequence[ArrayDesc], values: FixedValues) -> None:
        super().__init__(compiled, descs, values)
        plan, count = self.plan, len(self._descs)
        requests = {number: (plan.slots[slot].memory, dtype) for number, _, dtype, slot in plan.requests}
        self._read = [number for number in range(count) if number in requests]
        self.given = [self._descs[number] for number in self._read]
        self.results = [plan.slots[slot].desc for slot in plan.targets]
        self.floats = self._floats
        further = sorted(number for number in requests if number >= count)
        self._arrays = [(number - count, requests[number][1]) for number in further]
        given = [requests[number][0] for number in self._read]
        given += [plan.slots[slot].memory for slot in plan.targets]
        self.layout = FixedLayout(plan, [*given, *(requests[number][0] for number in further)])
        # Inputs are others at each run: where one of them is packed, kernels go without packs.
        self._is_packed = bool(plan.packs) and all(self._parameter_of(packed) >= 0 for packed in plan.packs)
        self._lanes: list[_Lane] = []
        self._packs: tuple[Snapshot, Packs] | None = None
        self._last_given = _NOTHING

    @staticmethod
    def fits(plan: Plan, descs: Sequence[ArrayDesc], parameters: Sequence[ArrayCell]) -> bool:
        """Whether a plan can run so; what is computed from parameters alone is where the plan wants it."""
        known = [*((HOST, desc.dtype) for desc in descs), *((cell.place, cell.dtype) for cell in parameters)]
        return ByAddress.fits(plan) and all(
            known[number] == (place, dtype) for number, place, dtype, _ in plan.requests if number < len(known)
        )

    def _run(self, inputs: Arrays) -> list[np.ndarray]:
        try:
            lane = self._lanes.pop()  # atomic: each thread takes one of its own
        except IndexError:
            lane = _Lane(self)
        for number, storage, desc in zip(self._read, lane.inputs, self.given, strict=True):
            storage.array(desc.shape, desc.dtype)[...] = inputs[number]
        lane.run(self._given())
        outputs = [
            storage.array(shape, desc.dtype).copy()
            for storage, desc, shape in zip(lane.outputs, self.results, self._shapes, strict=True)
        ]
        self._lanes.append(lane)
        return outputs

    def _given(self) -> _Given:
        """What is there to be read now; the object of last time while it is all the same."""
        last = self._last_given
        snapshot = self._snapshot()
        cells = (*self._values.parameters, *snapshot.cells)
        found = [cells[number].copy_at(HOST, dtype) for number, dtype in self._arrays]
        storages = [storage for storage in found if isinstance(storage, HostStorage)]
        packed = self._packs_of(snapshot, cells).take() if self._is_packed else ()
        if storages != last.storages or packed != last.packed:
            addresses = [storage.address for storage in storages]
            packs = [0 if storage is None else storage.address for storage in packed]
            last = self._last_given = _Given(storages, packed, addresses, packs)
        return last

    def _packs_of(self, snapshot: Snapshot, cells: Sequence[ArrayCell]) -> Packs:
        """The packs of parameters, and of what is computed from them in a snapshot."""
        known = self._packs
        if known is None or known[0] is not snapshot:
            wished = [(packed, cells[self._parameter_of(packed)]) for packed in self.plan.packs]
            items = [wanted(packed, (cell,), partial(_address_of, cell), patience=0) for packed, cell in wished]
            known = self._packs = snapshot, Packs(items)
        return known[1]

    def _parameter_of(self, packed: PackedInput) -> int:
        """Which of the parameters, or of what is computed from them, is packed; negative for an input."""
        number: int = self.plan.slots[packed.slot].source[1]
        return number - len(self._descs)


def _address_of(cell: ArrayCell) -> tuple[int, object]:
    storage = cell.settle()
    assert isinstance(storage, HostStorage)
    return storage.address, storage


class BoundRunner(Runner):
    """Any other plan, and any that is observed: each run binds it to arrays of its own."""

    def _run(self, inputs: Arrays) -> list[np.ndarray]:
        plan = self.plan
        cells = [_cell_of(array, desc) for array, desc in zip(inputs, self._descs, strict=True)]
        made = [ArrayCell(plan.slots[slot].desc.size) for slot in plan.targets]
        Binding(plan, [*cells, *self._values.parameters, *self._snapshot().cells], made, self._floats).run()
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
