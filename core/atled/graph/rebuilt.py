"""Backward of graphs that are built again at every step: one walk finds the plan made for an earlier graph like it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable
from typing import Any

import numpy as np

from atled.arrays.cell import UNWRITTEN, ArrayCell
from atled.arrays.epoch import WRITES
from atled.arrays.place import HOST
from atled.arrays.watches import WATCHES, announce
from atled.graph.backward_plan import Backward, BackwardPlan, plan_backward
from atled.graph.compile.plans import PLANS, SHAPES_LIMIT, PlanCache
from atled.graph.recompute.recipes import GradientRecipe
from atled.graph.record.roots import roots_of
from atled.graph.record.value import Details, Value
from atled.graph.run.binding import LastRun
from atled.graph.run.by_address import ByAddress, by_address
from atled.graph.run.gradients import count_as_written
from atled.graph.run.travelling import fetched
from atled.graph.walked import STORED, VALUE, Walk, flags_of, float_sources, walk
from atled.named_tuple import NamedTuple
from atled_contexts import plugin_generation

_SEED, _GRADIENT = -2, -3
"""What of a value is read, beside `VALUE` and the position of an output that its call keeps."""

_SHARED = 8
"""Added to the flags of a result that has its arrays with other values."""


class Before(NamedTuple):
    """What is to be known of a graph from before the general way ran it.

    on_host: whether it was in host memory.  unstored: what the forward did not store.
    """

    on_host: bool
    unstored: set[tuple[int, int]]


class Found:
    """A graph that was computed: its walk, and a key of all that a backward plan depends on.

    aliases: by identity of a cell, the first value that has it: data and gradients of leaves, data of some results.
    wanted: the leaves that need a gradient, with its cell.
    is_given: whether an array was put in the place of one that these had.
    """

    __slots__ = ("aliases", "is_given", "key", "leaves", "walk", "wanted")

    def __init__(self, walked: Walk) -> None:
        self.walk = walked
        self.wanted: dict[int, ArrayCell] = {}
        self.aliases: dict[int, int] = {}
        self.leaves: list[Hashable] = []  # what the key says of them
        self.key: Hashable = None
        self.is_given = False

    def before(self, seed: ArrayCell) -> Before:
        """What the general way is going to change."""
        return Before(self._is_in_host_memory(seed), self._unstored())

    def _is_in_host_memory(self, seed: ArrayCell) -> bool:
        """Whether all that a backward may read and write is there, and nowhere else what it writes."""
        walked = self.walk
        saved = [cell for extra in walked.extras if extra is not None for cell in extra[1] or ()]
        read = [seed, *saved, *(value._cell for value in walked.values)]
        return all(cell is None or cell.place is HOST for cell in read) and all(
            cell.place is HOST and cell.is_alone for cell in self.wanted.values()
        )

    def _unstored(self) -> set[tuple[int, int]]:
        """What the forward did not store: number of a value, and what of it."""
        walked = self.walk
        values = [
            (number, VALUE)
            for number, value in enumerate(walked.values)
            if (value.value_recipe is not None if value._cell is None else value._cell.is_unstored)
        ]
        saved = [
            (number, position)
            for number, extra in enumerate(walked.extras)
            if extra is not None
            for position, cell in enumerate(extra[1] or ())
            if cell is not None and cell.is_unstored
        ]
        return {*values, *saved}

    def enter_leaf(self, number: int, leaf: Value) -> bool:
        """Note a leaf; False if the graph has to take the general way because of it."""
        cell = leaf._cell
        details = leaf.details
        if details.parent is not None or cell is None or cell.pending is not None:
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


def _walked(root: Value) -> Walk:
    """The walk of the forward that just ran, or another one."""
    roots = root.details.roots
    if roots is not None and roots.walk is not None:
        found: Walk
        found, roots.walk = roots.walk, None
        found.values[0] = root
        return found
    made = walk(root, through_several=True)
    assert made is not None, "it has no limit"
    return made


def find(root: Value, seed: ArrayCell) -> Found | None:
    """Look at the graph before a root whose gradient is in `seed`.

    None for a graph that has to take the general way: one with values that are not computed or whose calls were looked
    at, with a gradient that two of its values have, or with gradients that a user holds.
    """
    if root.pattern is None:
        return None
    walked = _walked(root)
    found = Found(walked)
    key: list[Hashable] = [plugin_generation(), seed.code, seed.size]
    key += walked.structure
    add = key.append
    gradients = [id(seed)]
    for number, (value, pattern, extra) in enumerate(zip(walked.values, walked.patterns, walked.extras, strict=True)):
        cell, details = value._cell, value.details
        if pattern is None:
            if not found.enter_leaf(number, value):
                return None
            continue
        if cell is None:
            if details.value_recipe is None:
                return None
            add(-1)
        elif cell.pending is None or cell.is_unstored:
            add(cell.code)
        else:
            return None
        flags = 0
        if not details.is_shared:
            if details.parent is not None and details.parent is not pattern:
                return None  # it was looked at since the walk: it has a parent that is not the walk's
            if details.parent is not None and found.aliases.setdefault(id(cell), number) != number:
                return None  # a call with several outputs may write into arrays that were given to it
            flags = flags_of(details)
            if details.sharing is not None:
                flags |= _SHARED
            if details.is_given:
                found.is_given = True
            if details.grad is not None and number:
                gradients.append(id(details.grad.cell))
        handle = value.handle
        if handle is not None and handle() is not None:
            flags |= STORED
        elif number and not flags & STORED and details.grad is not None:
            return None
        add(flags if number else flags & ~STORED)
        if flags & _SHARED:
            # A leaf may have its array, such as a target that no gradient is to pass: the key says which.
            add(found.aliases.setdefault(id(cell), number))
        if extra is not None and extra[1] is not None:
            for saved in extra[1]:
                if saved is not None and saved.pending is not None and not saved.is_unstored:
                    return None
                add(-1 if saved is None else saved.code)
    if len({*gradients, *found.aliases}) < len(gradients) + len(found.aliases):
        return None
    if found.is_given:
        # What the backward writes must be the data of no result: `is_data` says nothing of those of this step.
        written = {*gradients[1:], *map(id, found.wanted.values())}
        if not written.isdisjoint([id(value._cell) for value in walked.values]):
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

    def __init__(self, compiled: BackwardPlan, backward: Backward, found: Found) -> None:
        plan = compiled.plan
        structure = backward.structure
        index = found.walk.numbers()
        numbers = [index[structure.value(number)] for number in range(len(structure.shapes))]
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
                self._inputs.append((numbers[outside], VALUE, dtype))
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
        makers = {call: numbers[made[0]] for call, made in enumerate(structure.made)}
        self._floats = float_sources(plan, makers)

    @property
    def reads_seed_once(self) -> bool:
        """Whether the seed is read during a run and never again, in host memory: it may be an array of the user's."""
        return False

    def reads(self, unstored: Collection[tuple[int, int]]) -> bool:
        """Whether it reads some of what is named in `Before.unstored`."""
        return any((number, what) in unstored for number, what, _ in self._inputs)

    def run(self, found: Found, seed: ArrayCell) -> None:
        """Backpropagate through the graph that was walked."""
        count_as_written(self._compute(found, seed))
        if self._unstored:
            values = found.walk.values
            recipe = _RebuiltGradientRecipe(values[0], seed)
            shared: dict[Details, Details] = {}
            for number in self._unstored:
                value = values[number]
                before = value.details
                if not before.is_shared:
                    value.gradient_recipe = recipe
                    continue
                after = shared.get(before)
                if after is None:
                    values_recipe = before.value_recipe
                    after = shared[before] = Details(gradient_recipe=recipe, value_recipe=values_recipe, is_shared=True)
                value.details = after

    @abstractmethod
    def _compute(self, found: Found, seed: ArrayCell) -> list[ArrayCell]:
        """Run the plan; the gradients that count as written only now."""


class _NativePlan(RebuiltPlan):
    """One in host memory, by addresses."""

    __slots__ = ("_by_address",)

    def __init__(self, compiled: BackwardPlan, backward: Backward, found: Found) -> None:
        super().__init__(compiled, backward, found)
        self._by_address = by_address(compiled.plan, self._given)

    @property
    def reads_seed_once(self) -> bool:
        """See RebuiltPlan."""
        return not self._unstored  # of which the recipe has the seed

    def _compute(self, found: Found, seed: ArrayCell) -> list[ArrayCell]:
        values, wanted = found.walk.values, found.wanted
        # Storages are kept in a list while the kernels run: nothing else may hold them.
        storages: list[Any] = []
        for number, what, dtype in self._inputs:
            if what == VALUE:
                storages.append(values[number]._cell.storage)
            elif what >= 0:
                storages.append(found.walk.extras[number][1][what].storage)  # type: ignore[index, union-attr]  # likewise
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
        self._by_address.run([storage.address for storage in storages], found.walk.floats(self._floats))
        return [cell for cell, _ in written]


class _DevicePlan(RebuiltPlan):
    """One on a device: what it reads is fetched, if it is not there, and what it wrote is shown behind all steps."""

    __slots__ = ("_plan",)

    def __init__(self, compiled: BackwardPlan, backward: Backward, found: Found) -> None:
        from atled.graph.run.on_device import PlanOnDevice  # lazy: many programs use no device

        super().__init__(compiled, backward, found)
        self._plan = PlanOnDevice(compiled.plan, self._given)

    def _compute(self, found: Found, seed: ArrayCell) -> list[ArrayCell]:
        values, wanted = found.walk.values, found.wanted
        place = self._plan.place
        storages: list[Any] = []
        for number, what, dtype in self._inputs:
            if what == VALUE:
                cell: Any = values[number]._cell
            elif what >= 0:
                cell = found.walk.extras[number][1][what]  # type: ignore[index]  # the walk looked
            else:
                cell = seed if what == _SEED else wanted[number]
            # Seeds are for all devices, and gradients come there once they are written.
            is_there = cell.pending is None and (cell.place is place or (what >= VALUE and cell.come_to(place, dtype)))
            storages.append(cell.storage if is_there else fetched(cell, place, dtype))
        targets = [(wanted[number], dtype) for number, dtype in self._leaves]
        targets += [(values[number].grad.cell, dtype) for number, dtype in self._stored]
        if WATCHES:
            announce(id(cell) for cell, _ in targets)
        reserved: list[Any] = [cell.reserve(place, dtype) for cell, dtype in targets]
        for cell, _ in targets:
            cell.outdate_copies()
        self._plan.run([storage.address for storage in (*storages, *reserved)], found.walk.floats(self._floats))
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


REBUILT = PlanCache("backward plans of rebuilt graphs", SHAPES_LIMIT)
"""The plans of graphs that were rebuilt, by the keys of walks."""

_UNFIT = object()


def remember(found: Found, before: Before, backward: Backward, accumulate: tuple[bool, ...]) -> None:
    """Keep what the general way compiled for a graph, for the next one like it; not a plan in parts."""
    binding = backward.bindings[accumulate]
    if binding.plan.is_in_parts:
        return
    compiled: BackwardPlan | None = PLANS.find(binding.key)
    structure, walked = backward.structure, found.walk
    is_simple = (
        compiled is not None
        # Else shapes were changed after recording.
        and walked.kinds() == sorted(function.kind for function in structure.functions)
        # Else two leaves have one array.
        and len(structure.shapes) == len(walked.values)
        and _is_simple(compiled, backward)
    )
    REBUILT.get(found.key, lambda: _rebuilt(compiled, backward, found, before) if is_simple and compiled else _UNFIT)


def _rebuilt(compiled: BackwardPlan, backward: Backward, found: Found, before: Before) -> object:
    """The way of a simple plan, or none."""
    if ByAddress.fits(compiled.plan):
        kind: type[RebuiltPlan] | None = _NativePlan if before.on_host else None
    else:
        from atled.graph.run.on_device import PlanOnDevice  # lazy, as above

        kind = _DevicePlan if PlanOnDevice.fits(compiled.plan) else None
    made = None if kind is None else kind(compiled, backward, found)
    # What the forward did not store would be computed when it is read, and stored from then on.
    return _UNFIT if made is None or made.reads(before.unstored) else made
