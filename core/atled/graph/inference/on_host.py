"""Inference by native steps in host memory: each run has memory to itself, in which its inputs are copied."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import partial

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.cell import ArrayCell
from atled.arrays.epoch import WRITES
from atled.arrays.place import HOST
from atled.arrays.storage import HostStorage
from atled.graph.compile.plan import PackedInput, Plan
from atled.graph.inference.compiling import Compiled
from atled.graph.inference.fixed_values import FixedValues, Generation
from atled.graph.inference.quiet import run_whole
from atled.graph.inference.runner import Arrays, BoundRunner, Runner
from atled.graph.inference.working_memory import WorkingMemories, WorkingMemory
from atled.graph.run.by_address import ByAddress
from atled.graph.run.fixed import FixedLayout, FixedProgram
from atled.graph.run.packs import Packs, wanted
from atled.limits.collection import COLLECTION_PAUSED
from atled.named_tuple import NamedTuple
from atled_contexts import lock_across_forks


def runner_of(
    compiled: Compiled, descs: Sequence[ArrayDesc], values: FixedValues, memories: WorkingMemories, is_restless: bool
) -> Runner:
    """What runs an inference as long as its parameters are where they are and have their dtypes.

    is_restless: whether they are written at nearly every run, for which nothing is computed of them alone.
    """
    if OnHost.fits(compiled.plan, descs, values.parameters):
        is_plain = not compiled.keys and (is_restless or not compiled.plan.packs)
        return (PlainOnHost if is_plain else OnHost)(compiled, descs, values, memories)
    return BoundRunner(compiled, descs, values)


class _Given(NamedTuple):
    """What a run reads beside its inputs.

    generation: of what is computed from parameters alone.
    cells: parameters, and what is computed from them, in the order of the layout; None where all who read it have a
        pack.  storages: of these.  packed: the packs, None for one that is not kept. This keeps them alive.
    addresses, packs: of these; 0 for None.
    """

    generation: Generation
    cells: Sequence[ArrayCell | None]
    storages: Sequence[HostStorage | None]
    packed: Sequence[HostStorage | None]
    addresses: Sequence[int]
    packs: Sequence[int]


class _Lane:
    """A plan in one working memory: the program, and arrays for inputs and outputs.

    is_placed: whether they are in it; not before it was asked for, nor when it was given up.
    """

    __slots__ = ("__weakref__", "_addresses", "_given", "_own", "inputs", "is_placed", "outputs", "program")

    def __init__(self, runner: OnHost) -> None:
        self.program = FixedProgram(runner.layout, runner.floats)
        self.leave()

    def leave(self) -> None:
        """See `working_memory.User`."""
        self.is_placed = False
        self.inputs: Sequence[np.ndarray] = ()
        self.outputs: Sequence[np.ndarray] = ()
        self._own: tuple[Sequence[HostStorage], Sequence[int]] = (), ()
        self._given: _Given | None = None
        self._addresses: Sequence[int] = ()

    def be_in(self, memory: WorkingMemory, runner: OnHost) -> None:
        """Be ready to run in a memory; the runner has this lane for no other one."""
        descs = [*runner.given, *runner.results]
        *storages, arena = memory.of_sizes([*(desc.nbytes for desc in descs), runner.layout.nbytes], self)
        arrays = [storage.array(desc.shape, desc.dtype) for storage, desc in zip(storages, descs, strict=True)]
        self.inputs = arrays[: len(runner.given)]
        self.outputs = [
            array.reshape(shape) for array, shape in zip(arrays[len(runner.given) :], runner.shapes, strict=True)
        ]
        self._own = [*storages, arena], [storage.address for storage in storages]
        self.program.place(arena.address)
        self.is_placed = True

    def let_go(self) -> None:
        """Keep nothing alive that is read beside inputs."""
        self._given = None

    def run(self, given: _Given) -> None:
        """Run the program."""
        if given is not self._given:
            self._given = given
            self._addresses = [*self._own[1], *given.addresses]
        self.program.run(self._addresses, given.packs)


class OnHost(Runner):
    """See the module.

    given: what the plan reads of the inputs.  results: what it makes.
    """

    def __init__(
        self, compiled: Compiled, descs: Sequence[ArrayDesc], values: FixedValues, memories: WorkingMemories
    ) -> None:
        super().__init__(compiled, descs, values)
        plan, count = self.plan, len(self._descs)
        requests = {number: (plan.slots[slot].memory, dtype) for number, _, dtype, slot in plan.requests}
        self._read = [number for number in range(count) if number in requests]
        self.given = [self._descs[number] for number in self._read]
        self.results = [plan.slots[slot].desc for slot in plan.targets]
        self.floats = [value for _, value in plan.floats]
        further = sorted(number for number in requests if number >= count)
        self._arrays = [(number - count, requests[number][1]) for number in further]
        given = [requests[number][0] for number in self._read]
        given += [plan.slots[slot].memory for slot in plan.targets]
        self.layout = FixedLayout(plan, [*given, *(requests[number][0] for number in further)])
        # Inputs are others at each run: where one of them is packed, kernels go without packs.
        packed = [self._parameter_of(packed) for packed in plan.packs]
        self._packed = packed if all(number >= 0 for number in packed) else []
        self._only_packed = _only_packed(plan, count)
        self._idle = memories.idle
        self._lanes: dict[WorkingMemory, _Lane] = {}
        self._lock = lock_across_forks()
        self._packs: tuple[Generation, Packs] | None = None
        self._known: _Given | None = None
        self._quiet = -1  # number of the end of a run since which nothing was to look at, if nobody wrote anything

    @staticmethod
    def fits(plan: Plan, descs: Sequence[ArrayDesc], parameters: Sequence[ArrayCell]) -> bool:
        """Whether a plan can run so; what is computed from parameters alone is where the plan wants it."""
        known = [*((HOST, desc.dtype) for desc in descs), *((cell.place, cell.dtype) for cell in parameters)]
        return ByAddress.fits(plan) and all(
            known[number] == (place, dtype) for number, place, dtype, _ in plan.requests if number < len(known)
        )

    def _parameter_of(self, packed: PackedInput) -> int:
        """Which of the parameters, or of what is computed from them, is packed; negative for an input."""
        number: int = self.plan.slots[packed.slot].source[1]
        return number - len(self._descs)

    def run(self, inputs: Arrays) -> list[np.ndarray]:
        """See Runner."""
        start, known = next(WRITES), self._known
        if start == self._quiet + 1 and known is not None:
            outputs = self._computed(inputs, known)
            end = next(WRITES)
            if end == start + 1:  # no array at all was written
                self._quiet = end
                return outputs
        outputs, end = run_whole(lambda: self._computed(inputs, self._given()), self._watched)
        known = self._known
        is_settled = known is not None and self._is_settled(known, start)
        self._quiet = end if is_settled else -1  # a view that somebody holds is to be looked at each time
        return outputs

    def _is_settled(self, known: _Given, number: int) -> bool:
        """Whether the next run, if nobody writes, reads what the last one did, which began at a number of `WRITES`."""
        del number
        return self._values.is_current(known.generation)

    def _computed(self, inputs: Arrays, given: _Given) -> list[np.ndarray]:
        try:
            memory = self._idle.pop()  # atomic: each thread takes one of its own
        except IndexError:
            memory = WorkingMemory()
        try:
            lane = self._lanes.get(memory)
            if lane is None:
                lane = self._lanes[memory] = _Lane(self)
            if not lane.is_placed:
                lane.be_in(memory, self)
            for number, array in zip(self._read, lane.inputs, strict=True):
                array[...] = inputs[number]
            lane.run(given)
            given.generation.runs += 1
            outputs = [array.copy() for array in lane.outputs]
            if given is not self._known:
                lane.let_go()
        finally:
            self._idle.append(memory)
        return outputs

    def let_go(self) -> None:
        """See Runner."""
        self._packs = None
        self.renew()

    def renew(self) -> None:
        """See Runner."""
        self._known = None
        for lane in list(self._lanes.values()):
            lane.let_go()

    def _given(self) -> _Given:
        """What there is to be read now; the object of last time while it is all the same."""
        with self._lock:
            last = self._known
            if last is not None and self._values.is_current(last.generation):
                packs = self._packs
                packed = packs[1].take() if packs else ()
                if list(packed) == list(last.packed):
                    return last
            self._known = None  # what is computed anew is not to be there twice
            with COLLECTION_PAUSED:
                found = self._looked_up()
            if self._values.fits():
                self._known = found
            return found

    def _looked_up(self) -> _Given:
        generation = self._values.current()
        packed = self._packs_of(generation).take() if self._packed else ()
        absent = {number for number, found in zip(self._packed, packed, strict=False) if found is None}
        spared = self._only_packed - absent if packed else frozenset()
        if packed:
            generation.is_used = True
        found = self._read_with(generation, packed, spared)
        generation.let_go()
        return found

    def _read_with(self, generation: Generation, packed: Sequence[HostStorage | None], spared: Set[int]) -> _Given:
        """What is read where some arrays are packed; spared: by number those that nobody reads otherwise."""
        cells = [None if number in spared else self._value(generation, number) for number, _ in self._arrays]
        storages = [
            None if cell is None else _host_memory(cell, dtype)
            for cell, (_, dtype) in zip(cells, self._arrays, strict=True)
        ]
        addresses = [0 if storage is None else storage.address for storage in storages]
        packs = [0 if storage is None else storage.address for storage in packed]
        return _Given(generation, cells, storages, packed, addresses, packs)

    def _packs_of(self, generation: Generation) -> Packs:
        """The packs of parameters, and of what is computed from these."""
        packs = self._packs
        if packs is None or packs[0] is not generation:
            items = [
                wanted(
                    packed, (self._token(generation, number),), partial(self._memory_of, generation, number), patience=0
                )
                for packed, number in zip(self.plan.packs, self._packed, strict=True)
            ]
            packs = self._packs = generation, Packs(items)
        return packs[1]

    def _token(self, generation: Generation, number: int) -> ArrayCell:
        """What stands for an array in the key of its packs: for one that is computed the values need not stay."""
        parameters = self._values.parameters
        if number < len(parameters):
            return parameters[number]
        return generation.token(self.compiled.keys[number - len(parameters)])

    def _memory_of(self, generation: Generation, number: int) -> tuple[int, object]:
        """The memory of what is to be packed."""
        cell = self._value(generation, number)
        return _host_memory(cell, None).address, cell


class PlainOnHost(OnHost):
    """A plan that reads nothing but inputs and parameters.

    What is packed of parameters is what rests for some runs although others, or the same ones before, were written at
    nearly every run; see `restlessness`.
    """

    def __init__(
        self, compiled: Compiled, descs: Sequence[ArrayDesc], values: FixedValues, memories: WorkingMemories
    ) -> None:
        super().__init__(compiled, descs, values, memories)
        assert not compiled.keys, "nothing is computed of parameters alone"
        self._none = Generation(-1)
        items = [
            wanted(packed, (values.parameters[number],), partial(self._memory_of, self._none, number))
            for packed, number in zip(self.plan.packs, self._packed, strict=False)  # all of them, or none
        ]
        self._own_packs = Packs(items)

    def _given(self) -> _Given:
        with self._lock:
            packed = self._own_packs.take() if self._packed else ()
            last = self._known
            if last is not None:
                cells = self._values.parameters
                storages = [cells[number].copy_at(HOST, dtype) for number, dtype in self._arrays]
                if storages == last.storages and list(packed) == list(last.packed):
                    return last
                self._values.let_go()  # plans that rest have the former ones, too
            self._known = self._read_with(self._none, packed, frozenset())
            return self._known

    def _is_settled(self, known: _Given, number: int) -> bool:
        return not self._packed and self._values.are_unchanged_since(number)


def _host_memory(cell: ArrayCell, dtype: np.dtype | None) -> HostStorage:
    storage = cell.settle() if dtype is None else cell.copy_at(HOST, dtype)
    assert isinstance(storage, HostStorage), "where the plan wants it"
    return storage


def _only_packed(plan: Plan, first: int) -> frozenset[int]:
    """The arrays, by number from `first` on, that no step reads where all packs are kept."""
    packed = {(packed.step, packed.pack.input) for packed in plan.packs}
    read = {
        plan.slots[argument].memory
        for step in plan.steps
        for position, argument in enumerate(step.arguments)
        if argument >= 0 and (step, position) not in packed
    }
    memories = {plan.slots[slot].memory: number for number, _, _, slot in plan.requests if number >= first}
    return frozenset(number - first for memory, number in memories.items() if memory not in read)
