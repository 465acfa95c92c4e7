"""Forward of graphs that are built again at every step: one walk finds the plan made for an earlier graph like it."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from atled.arrays.cell import UNWRITTEN, ArrayCell, Filled
from atled.arrays.epoch import WRITES
from atled.arrays.watches import WATCHES, announce
from atled.graph.compile.plans import PLANNING, PlanCache
from atled.graph.forward_plan import Forward
from atled.graph.recompute.recipes import RebuiltValueRecipe
from atled.graph.recompute.stored import results_of
from atled.graph.record.roots import roots_of
from atled.graph.record.value import PLAIN, Extra, RecordedCall, Value, float_of
from atled.graph.run.binding import LastRun, go_back
from atled.graph.run.by_address import ByAddress, by_address
from atled_contexts import plugin_generation

_MOST_VALUES = 20_000
"""Of a graph that is walked: larger ones, which take a second to plan, are seldom built twice."""

_INTEGERS = np.dtype(np.int64)
_FLAGS = {None: 0, True: 1, False: 2}
_STORED = 4  # added to the flags of a result that a user can see
_VALUE, _RANDOM_STATE = -1, -2
"""What of a value is meant, other than the position of an output that its call keeps."""


class Walk:
    """What a walk from a root found: all values, the root first, and a key of all that a forward plan depends on.

    patterns, extras: of the values, which they may have no longer when another thread looked at their calls.
    codes: of the leaves, by the numbers of their values.
    """

    __slots__ = ("codes", "extras", "key", "patterns", "values")

    def __init__(self, root: Value) -> None:
        self.values = [root]
        self.patterns: list[RecordedCall | None] = []
        self.extras: list[Extra | None] = []
        self.codes: dict[int, int] = {}
        self.key: Hashable = None


def walk(root: Value) -> Walk | None:
    """Walk the graph before a root, of which nothing was computed yet.

    None for a graph that has to take the general way: one of which something was computed, with values that were not
    recorded from patterns (those of ops with several outputs), with shared or given arrays.
    """
    walked = Walk(root)
    values, index = walked.values, {root: 0}
    aliases: dict[int, int] = {}  # by identity of the cell, the first leaf that has it
    key: list[Hashable] = [plugin_generation()]
    add = key.append
    for number, value in enumerate(values):  # which grow meanwhile
        if number == _MOST_VALUES:
            return None
        pattern, inputs, extra = value.recorded_as
        cell, details = value._cell, value.details
        walked.patterns.append(pattern)
        walked.extras.append(extra)
        if pattern is None:
            if cell is None or cell.storage is None or details.parent is not None or details.sharing is not None:
                return None
            if cell.pending is not None:
                if not isinstance(cell.pending, Filled):
                    return None
                cell.settle()
            walked.codes[number] = cell.code
            key += -2, aliases.setdefault(id(cell), number), cell.code, value.shape, details.need_grad
            continue
        if value.shape is not pattern.output_descs[0].shape:
            return None
        if cell is not None:
            if pattern.spec.views:
                if inputs[0] is None or inputs[0]._cell is not cell:
                    return None  # the array of what it shows was replaced
            elif cell.storage is not None or cell.pending is not UNWRITTEN or cell.use:
                return None
        if details is not PLAIN:
            if details.is_given or details.sharing is not None:
                return None
            flags = _FLAGS[details.need_grad]
            if details.exposed or details.persistent:
                flags |= _STORED
        else:
            flags = 0
        handle = value.handle
        if handle is not None and handle() is not None:
            flags |= _STORED
        add(pattern.kind)  # it says how many inputs there are
        add(flags)
        if extra is not None and extra[2] is not None:
            add(extra[2].code)
        for source in inputs:
            if source is None:
                add(-1)
                continue
            found = index.get(source)
            if found is None:
                found = index[source] = len(values)
                values.append(source)
            add(found)
    walked.key = tuple(key)
    return walked


class RebuiltForward:
    """A compiled forward in host memory, its arrays named by the numbers of a walk, which runs by addresses."""

    __slots__ = (
        "_changed",
        "_drawn",
        "_floats",
        "_is_noted",
        "_left_out",
        "_program",
        "_reads",
        "_targets",
        "_unstored",
        "plan",
    )

    def __init__(self, planned: Forward, found: Walk) -> None:
        plan, structure = planned.binding.plan, planned.structure
        self.plan = plan
        index = {id(value): number for number, value in enumerate(found.values)}
        numbers = [index[id(structure.value(number))] for number in range(len(structure.shapes))]
        made = [numbers[outputs[0]] for outputs in structure.made]
        random_states = {state: (made[call], _RANDOM_STATE) for call, (_, state) in enumerate(structure.state_numbers)}
        count = len(numbers)

        def read(outside: int) -> tuple[int, int]:
            return (numbers[outside], _VALUE) if outside < count else random_states[outside]

        self._reads = [read(outside) for outside, *_ in plan.requests]
        self._changed = [read(outside) for outside in plan.changed]
        self._drawn = [read(plan.slots[slot].source[1]) for slot in plan.random_states]
        memories = [plan.slots[slot].memory for *_, slot in plan.requests]
        results = [
            (
                made[call],
                _VALUE if structure.functions[call].auxiliary[position] is None else position,
                structure.functions[call].output_descs[position].size,
            )
            for call, position in results_of(structure, planned.unstored)
        ]
        self._targets: list[tuple[int, int, int, Any]] = []
        for position, slot in plan.largest_first:
            self._targets.append((*results[position], plan.slots[slot].desc.dtype))
            memories.append(plan.slots[slot].memory)
        self._left_out = [result for result, slot in zip(results, plan.targets, strict=True) if slot < 0]
        kept = {
            outside: (made[call], position)
            for call, (auxiliary, _) in enumerate(structure.state_numbers)
            for position, outside in enumerate(auxiliary)
        }
        cells = structure.cells
        self._unstored = [
            (*((numbers[n], _VALUE) if n < count else kept[n]), cells[n].size) for n in sorted(planned.unstored)
        ]
        self._floats: list[tuple[int, Any]] = [
            (-1, source[1]) if source[0] == "constant" else (made[source[1]], source[2]) for source in plan.floats
        ]
        # Further runs may keep something, which bindings look for at the second one.
        self._is_noted = bool(plan.packs) or planned.constants is not None
        self._program = by_address(plan, memories)

    def prepared(self, found: Walk) -> _Run:
        """Give the arrays of a graph that was walked their memory, or the recipe to get what is not stored."""
        values, extras = found.values, found.extras

        def cell(number: int, what: int, size: int) -> ArrayCell:
            if what == _VALUE:
                known = values[number]._cell
                if known is None:
                    known = values[number]._cell = ArrayCell(size)
                return known
            return extras[number][1][what]  # type: ignore[index, return-value]  # the plan was made of such calls

        def read(number: int, what: int) -> Any:
            return values[number]._cell if what == _VALUE else extras[number][2]  # type: ignore[index]  # likewise

        patterns: Sequence[Any] = found.patterns
        run = _Run(self._program)
        run.storages = [read(*which).storage for which in self._reads]
        run.changed = [read(*which) for which in self._changed]
        run.random_states = [read(*which).storage.array((2,), _INTEGERS) for which in self._drawn]
        run.floats = [
            source if number < 0 else float_of(patterns[number], extras[number], source)
            for number, source in self._floats
        ]
        if self._is_noted:
            roots_of((values[0],)).first_run = next(WRITES)
        for number, what, size, dtype in self._targets:
            run.storages.append(cell(number, what, size).first_target(dtype))
        for which in self._left_out:
            cell(*which).leave_out()
        if self._unstored:
            run.last_run = LastRun()
            results = [weakref.ref(values[number]) for number, what, _ in self._unstored if what == _VALUE]
            makers = [weakref.ref(values[number]) for number, what, _ in self._unstored if what != _VALUE]
            recipe = RebuiltValueRecipe(run.last_run, roots_of((values[0],)), results, makers)
            for which in self._unstored:
                cell(*which).pending = recipe  # it is new
        return run


class _Run:
    """One run of a plan, with the memory of all that is read, and then of all that is written.

    changed: the leaves, and the random states, into which it writes.  random_states: key and count of each of these.
    last_run: where it is to be noted, None where nothing depends on it.
    """

    __slots__ = ("_program", "changed", "floats", "last_run", "random_states", "storages")

    storages: list[Any]  # in a list while the kernels run: nothing else may hold them
    changed: list[ArrayCell]
    random_states: list[np.ndarray]
    floats: list[float]

    def __init__(self, program: ByAddress) -> None:
        self._program = program
        self.last_run: LastRun | None = None

    def run(self) -> None:
        """Run it."""
        changed = self.changed
        if changed and WATCHES:
            announce(map(id, changed))
        for cell in changed:
            cell.is_being_written = True
            cell.outdate_copies()
        try:
            if changed:
                next(WRITES)  # who sees that nothing was written meanwhile need not look at these
            for random_state in self.random_states:
                random_state[1] += 1
            self._program.run([storage.address for storage in self.storages], self.floats)
        except BaseException:
            go_back(self.random_states, 1)
            raise
        finally:
            version = next(WRITES) if changed else 0
            for cell in changed:
                cell.last_write = version
                cell.is_being_written = False
        if self.last_run is not None:
            self.last_run.number = next(WRITES)


REBUILT = PlanCache("forward plans of rebuilt graphs", 256)
"""The plans of graphs that were rebuilt, by the keys of walks; of those that have to take the general way `_UNFIT`."""

_UNFIT = object()


def run_known(root: Value) -> Walk | bool:
    """Run the forward of a root by the plan of an earlier graph like its own; whether it ran.

    A walk: what is to be remembered once the general way has run it.
    """
    with PLANNING:  # so that no other thread finds arrays half way through
        found = walk(root)
        if found is None:
            return False
        known: Any = REBUILT.find(found.key)
        if not isinstance(known, RebuiltForward):
            return found if known is None else False
        prepared = known.prepared(found)
    prepared.run()
    return True


def remember(found: Walk, planned: Forward) -> None:
    """Keep what the general way compiled for a graph, for the next one like it."""
    REBUILT.get(found.key, lambda: RebuiltForward(planned, found) if _is_simple(found, planned) else _UNFIT)


def _is_simple(found: Walk, planned: Forward) -> bool:
    """Whether a forward only reads leaves as they were, draws, and writes results, in native steps on the host."""
    structure, plan = planned.structure, planned.binding.plan
    outside = {*plan.changed, *(number for number, *_ in plan.requests)}
    leaves = {number for number, origin in enumerate(structure.origins) if origin is None}
    drawn = {state for _, state in structure.state_numbers if state >= 0}
    return (
        ByAddress.runs(plan)
        and not (plan.drawn_inside or plan.runs_user_code)
        and all(slot < 0 or plan.slots[slot].source[0] == "target" for slot in plan.targets)
        # Values that the backward computes again have a watch of their own.
        and planned.trust is None
        # Else shapes were changed after recording.
        and sorted(pattern.kind for pattern in found.patterns if pattern is not None)
        == sorted(function.kind for function in structure.functions)
        # Else two leaves have one array.
        and len(structure.shapes) == len(found.values)
        and outside <= leaves | drawn
        # Else a leaf was cast, or moved.
        and all(found.values[number].cell.code == code for number, code in found.codes.items())
        and all(structure.cells[number].dtype == dtype for number, _, dtype, _ in plan.requests)
    )
