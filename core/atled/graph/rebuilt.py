"""Backward of graphs that are built again at every step: one walk finds the plan made for an earlier graph like it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Sequence
from typing import Any

import numpy as np

from atled.arrays.cell import UNWRITTEN, ArrayCell
from atled.arrays.epoch import WRITES
from atled.arrays.place import HOST
from atled.arrays.watches import WATCHES, announce
from atled.graph.backward_plan import Backward, BackwardPlan, plan_backward
from atled.graph.compile.plans import PLANS, PlanCache
from atled.graph.recompute.recipes import GradientRecipe
from atled.graph.record.roots import roots_of
from atled.graph.record.value import PLAIN, Details, Extra, RecordedCall, Value, float_of
from atled.graph.run.binding import LastRun
from atled.graph.run.by_address import ByAddress, by_address
from atled.graph.run.gradients import count_as_written
from atled.graph.run.on_device import PlanOnDevice
from atled.graph.run.travelling import fetched
from atled_contexts import plugin_generation

_FLAGS = {None: 0, True: 1, False: 2}
_VALUE, _SEED, _GRADIENT = -1, -2, -3
"""What of a value is read, other than the position of an output that its call keeps."""

_STORED = 4  # added to the flags of a result whose gradient must have memory of its own


class Walk:
    """What a walk from a root found: all values, and a key of all that a backward plan depends on.

    values: the root is the first.  index: number of each value in `values`.
    patterns, extras: of the values, which they may have no longer when another thread looked at their calls.
    wanted: the leaves that need a gradient, with its cell.
    unstored: what the forward did not store: number of a value, and what of it.
    is_given: whether an array was put in the place of one that these had.
    """

    __slots__ = ("aliases", "extras", "index", "is_given", "key", "leaves", "patterns", "unstored", "values", "wanted")

    def __init__(self, root: Value) -> None:
        self.index: dict[Value, int] = {root: 0}
        self.values: list[Value] = [root]
        self.patterns: list[RecordedCall | None] = []
        self.extras: list[Extra | None] = []
        self.unstored: set[tuple[int, int]] = set()
        self.wanted: dict[int, ArrayCell] = {}
        self.aliases: dict[int, int] = {}  # by identity of the cell, the first value that has it
        self.leaves: list[Hashable] = []  # what the key says of them
        self.key: Hashable = None
        self.is_given = False

    def is_in_host_memory(self, seed: ArrayCell) -> bool:
        """Whether all that a backward may read and write is there, and nowhere else what it writes."""
        saved = [cell for extra in self.extras if extra is not None for cell in extra[1] or ()]
        read = [seed, *saved, *(value._cell for value in self.values)]
        return all(cell is None or cell.place is HOST for cell in read) and all(
            cell.place is HOST and cell.is_alone for cell in self.wanted.values()
        )

    def enter_leaf(self, number: int, leaf: Value) -> bool:
        """Note a leaf; False if the graph has to take the general way because of it."""
        cell = leaf._cell
        details = leaf.details
        if details.parent is not None or cell is None or cell.pending is not None or details.sharing is not None:
            return False
        if details.is_given:
            self.is_given = True
        state: Hashable = None
        if details.need_grad:
            gradient = leaf.grad.cell
            if gradient.pending is not None and gradient.is_waiting:
                gradient.settle()  # a deferred change; it may be made in other memory
            is_shared = gradient.is_data or id(gradient) in self.aliases
            if is_shared:
                return False
            self.aliases[id(gradient)] = number
            self.wanted[number] = gradient
            is_at_home = gradient.place is HOST and gradient.is_alone
            dtype = None if gradient.dtype is None else gradient.dtype.num
            state = (gradient.pending is not UNWRITTEN, dtype, is_at_home)
        alias = self.aliases.setdefault(id(cell), number)
        self.leaves.append((number, alias, cell.code, leaf.shape, details.need_grad, state))
        return True


def walk(root: Value, seed: ArrayCell) -> Walk | None:
    """Walk the graph before a root whose gradient is in `seed`.

    None for a graph that has to take the general way: one with values that are not computed or were not recorded from
    patterns (ops with several outputs), with shared arrays, or with gradients that a user holds.
    """
    found = Walk(root)
    index, values = found.index, found.values
    key: list[Hashable] = [plugin_generation(), seed.code, seed.size]
    add = key.append
    gradients = [id(seed)]
    for number, value in enumerate(values):  # which grow meanwhile
        pattern, inputs, extra = value.recorded_as
        cell, details = value._cell, value.details
        found.patterns.append(pattern)
        found.extras.append(extra)
        if pattern is None:
            if number == 0 or not found.enter_leaf(number, value):
                return None
            add(-2)
            continue
        if cell is None or details.sharing is not None:
            return None
        if cell.pending is not None:
            if not cell.is_unstored:
                return None
            found.unstored.add((number, _VALUE))
        add(pattern.kind)  # it says how many inputs there are
        for source in inputs:
            if source is None:
                add(-1)
                continue
            known = index.get(source)
            if known is None:
                known = index[source] = len(values)
                values.append(source)
            add(known)
        if details is PLAIN:
            flags = 0
        else:
            flags = _FLAGS[details.need_grad]
            if details.is_given:
                found.is_given = True
            if details.exposed or details.persistent:
                flags |= _STORED
            if details.grad is not None and number:
                gradients.append(id(details.grad.cell))
        handle = value.handle
        if handle is not None and handle() is not None:
            flags |= _STORED
        elif number and not flags & _STORED and details.grad is not None:
            return None
        add(cell.code)
        add(flags if number else flags & ~_STORED)
        if extra is not None and extra[1] is not None:
            for position, saved in enumerate(extra[1]):
                if saved is not None and saved.pending is not None:
                    if not saved.is_unstored:
                        return None
                    found.unstored.add((number, position))
                add(-1 if saved is None else saved.code)
    if len({*gradients, *found.aliases}) < len(gradients) + len(found.aliases):
        return None
    if found.is_given:
        # What the backward writes must be the data of no result: `is_data` says nothing of those of this step.
        written = {*gradients[1:], *map(id, found.wanted.values())}
        if not written.isdisjoint([id(value._cell) for value in values]):
            return None
    found.key = (*key, *found.leaves)
    return found


class _RebuiltGradientRecipe(GradientRecipe):
    """The recipe of the gradients in the middle that a run did not store: the general way computes them."""

    __slots__ = ("_seed",)

    def __init__(self, root: Value, seed: ArrayCell) -> None:
        super().__init__(LastRun(), roots_of((root,)))
        self.last_run.number = next(WRITES)
        self._seed = seed

    def recover(self, cell: ArrayCell) -> None:
        roots = self.roots()
        if roots is not None:
            plan_backward(roots, (self._seed,))  # sets roots.backward, which the base class reads
        super().recover(cell)


class RebuiltPlan(ABC):
    """A compiled backward, its arrays named by their numbers in a walk. How it runs depends on where."""

    __slots__ = ("_floats", "_given", "_inputs", "_leaves", "_stored", "_unstored")

    def __init__(self, compiled: BackwardPlan, backward: Backward, found: Walk) -> None:
        plan = compiled.plan
        structure = backward.structure
        values = [structure.value(number) for number in range(len(structure.shapes))]
        numbers = [-1 if value is None else found.index[value] for value in values]
        slots = plan.slots
        # What is read: number of a value, what of it, and the dtype.
        self._inputs: list[tuple[int, int, np.dtype]] = []
        state = {
            outside: (numbers[structure.made[call][0]], position)
            for call, (auxiliary, _) in enumerate(structure.state_numbers)
            for position, outside in enumerate(auxiliary)
            if outside >= 0
        }
        self._given: list[int] = []  # the memories of what is read, then of what is written
        first_seed = len(structure.cells)
        for outside, _, dtype, slot in plan.requests:
            if outside < len(numbers):
                self._inputs.append((numbers[outside], _VALUE, dtype))
            elif outside < first_seed:
                self._inputs.append((*state[outside], dtype))
            elif outside == first_seed:
                self._inputs.append((-1, _SEED, dtype))
            else:
                self._inputs.append((numbers[backward.wanted[outside - first_seed - 1][0]], _GRADIENT, dtype))
            self._given.append(slots[slot].memory)
        targets = list(zip([*compiled.leaves, *compiled.middles], plan.targets, strict=True))
        self._leaves = [(numbers[n], slots[slot].desc.dtype) for n, slot in targets[: len(compiled.leaves)]]
        self._stored = [(numbers[n], slots[slot].desc.dtype) for n, slot in targets[len(compiled.leaves) :]]
        self._unstored = [numbers[n] for n in compiled.unstored]
        self._given += [slots[slot].memory for _, slot in targets]
        self._floats = [self._float_source(source, backward, found) for source in plan.floats]

    @staticmethod
    def _float_source(source: tuple[Any, ...], backward: Backward, found: Walk) -> tuple[int, Any]:
        """(-1, constant), or (number of a value, attribute of the call that makes it)."""
        if source[0] == "constant":
            return -1, source[1]
        (number,) = backward.structure.made[source[1]]
        value = backward.structure.value(number)
        assert value is not None
        return found.index[value], source[2]

    def reads(self, unstored: Collection[tuple[int, int]]) -> bool:
        """Whether it reads some of what is named as in `Walk.unstored`."""
        return any((number, what) in unstored for number, what, _ in self._inputs)

    def run(self, found: Walk, seed: ArrayCell) -> None:
        """Backpropagate through the graph that was walked."""
        count_as_written(self._compute(found, seed))
        if self._unstored:
            values = found.values
            recipe = _RebuiltGradientRecipe(values[0], seed)
            unstored = Details(gradient_recipe=recipe, is_shared=True)
            for number in self._unstored:
                value = values[number]
                if value.details is PLAIN:
                    value.details = unstored
                else:
                    value.gradient_recipe = recipe

    @abstractmethod
    def _compute(self, found: Walk, seed: ArrayCell) -> list[ArrayCell]:
        """Run the plan; the gradients that count as written only now."""

    def _floats_of(self, found: Walk) -> list[float]:
        patterns: Sequence[Any] = found.patterns
        return [
            source if number < 0 else float_of(patterns[number], found.extras[number], source)
            for number, source in self._floats
        ]


class _NativePlan(RebuiltPlan):
    """One in host memory, by addresses."""

    __slots__ = ("_by_address",)

    def __init__(self, compiled: BackwardPlan, backward: Backward, found: Walk) -> None:
        super().__init__(compiled, backward, found)
        self._by_address = by_address(compiled.plan, self._given)

    def _compute(self, found: Walk, seed: ArrayCell) -> list[ArrayCell]:
        values, wanted = found.values, found.wanted
        # Storages are kept in a list while the kernels run: nothing else may hold them.
        storages: list[Any] = []
        for number, what, dtype in self._inputs:
            if what == _VALUE:
                storages.append(values[number]._cell.storage)  # type: ignore[union-attr]  # the walk looked
            elif what >= 0:
                storages.append(found.extras[number][1][what].storage)  # type: ignore[index, union-attr]  # likewise
            else:
                storages.append((seed if what == _SEED else wanted[number]).settle(dtype))
        written = []
        for number, dtype in self._leaves:
            cell = wanted[number]
            written.append((cell, cell.pending))
            storages.append(cell.output(HOST, dtype))
            # Only a run that ends well makes it written: a solver must not use what a failed one left.
            cell.pending = written[-1][1]
        storages += [values[number].grad.cell.output(HOST, dtype) for number, dtype in self._stored]
        self._by_address.run([storage.address for storage in storages], self._floats_of(found))
        return [cell for cell, _ in written]


class _DevicePlan(RebuiltPlan):
    """One on a device: what it reads is fetched, if it is not there, and what it wrote is shown behind all steps."""

    __slots__ = ("_plan",)

    def __init__(self, compiled: BackwardPlan, backward: Backward, found: Walk) -> None:
        super().__init__(compiled, backward, found)
        self._plan = PlanOnDevice(compiled.plan, self._given)

    def _compute(self, found: Walk, seed: ArrayCell) -> list[ArrayCell]:
        values, wanted = found.values, found.wanted
        place = self._plan.place
        storages: list[Any] = []
        for number, what, dtype in self._inputs:
            if what == _VALUE:
                cell: Any = values[number]._cell
            elif what >= 0:
                cell = found.extras[number][1][what]  # type: ignore[index]  # the walk looked
            else:
                cell = seed if what == _SEED else wanted[number]
            # Seeds are for all devices, and gradients come there once they are written.
            is_there = cell.pending is None and (cell.place is place or (what >= _VALUE and cell.come_to(place, dtype)))
            storages.append(cell.storage if is_there else fetched(cell, place, dtype))
        targets = [(wanted[number], dtype) for number, dtype in self._leaves]
        targets += [(values[number].grad.cell, dtype) for number, dtype in self._stored]
        if WATCHES:
            announce(id(cell) for cell, _ in targets)
        reserved: list[Any] = [cell.reserve(place, dtype) for cell, dtype in targets]
        for cell, _ in targets:
            cell.outdate_copies()
        self._plan.run([storage.address for storage in (*storages, *reserved)], self._floats_of(found))
        version = next(WRITES)
        for (cell, dtype), storage in zip(targets, reserved, strict=True):
            cell.written_at(place, dtype, storage)
            cell.last_write = version
        return [cell for cell, _ in targets]


def _is_simple(compiled: BackwardPlan, backward: Backward) -> bool:
    """Whether a plan reads and writes nothing but values and gradients, and no casts come before it."""
    structure, plan = backward.structure, compiled.plan
    return (
        len(backward.seeds) == 1
        and not plan.written
        and all(backward.cells[outside].dtype == dtype for outside, _, dtype, _ in plan.requests)
        and all(step.random_slot < 0 for step in plan.steps)
        and not {outside for outside, *_ in plan.requests}
        & {random_state for _, random_state in structure.state_numbers}
    )


REBUILT = PlanCache("backward plans of rebuilt graphs", 256)
"""The plans of graphs that were rebuilt, by the keys of walks."""

_UNFIT = object()


def remember(
    found: Walk, kinds: Sequence[int], on_host: bool, backward: Backward, accumulate: tuple[bool, ...]
) -> None:
    """Keep what the general way compiled for a graph, for the next one like it.

    on_host: whether it was in host memory when it was walked.
    """
    compiled: BackwardPlan | None = PLANS.find(backward.bindings[accumulate].key)
    structure = backward.structure
    is_simple = (
        compiled is not None
        # Else shapes were changed after recording.
        and sorted(kinds) == sorted(function.kind for function in structure.functions)
        # Else two leaves have one array.
        and len(structure.shapes) == len(found.values)
        and _is_simple(compiled, backward)
    )
    REBUILT.get(found.key, lambda: _rebuilt(compiled, backward, found, on_host) if is_simple and compiled else _UNFIT)


def _rebuilt(compiled: BackwardPlan, backward: Backward, found: Walk, on_host: bool) -> object:
    """The way of a simple plan, or none."""
    if ByAddress.fits(compiled.plan):
        kind: type[RebuiltPlan] | None = _NativePlan if on_host else None
    else:
        kind = _DevicePlan if PlanOnDevice.fits(compiled.plan) else None
    made = None if kind is None else kind(compiled, backward, found)
    # What the forward did not store would be computed when it is read, and stored from then on.
    return _UNFIT if made is None or made.reads(found.unstored) else made
