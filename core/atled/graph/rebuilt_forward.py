"""Forward of graphs that are built again at every step: one walk finds the plan made for an earlier graph like it."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Hashable, Mapping, Sequence
from threading import get_ident
from typing import Any

import numpy as np

from atled.arrays.cell import UNWRITTEN, ArrayCell, Filled
from atled.arrays.epoch import WRITES
from atled.arrays.watches import WATCHES, announce
from atled.graph.compile.plans import PLANNING, SHAPES_LIMIT, PlanCache
from atled.graph.forward_plan import Forward
from atled.graph.recompute.recipes import RebuiltValueRecipe
from atled.graph.recompute.stored import results_of
from atled.graph.record.roots import roots_of
from atled.graph.record.value import PLAIN, Details, Value
from atled.graph.run.binding import LastRun, go_back
from atled.graph.run.by_address import ByAddress, by_address
from atled.graph.run.packs import Packs
from atled.graph.run.program_packs import ProgramPacks
from atled.graph.run.states import as_bytes, restore, saved
from atled.graph.walked import VALUE, Walk, flags_of, float_sources, walk
from atled.named_tuple import NamedTuple
from atled_contexts import plugin_generation

_MOST_VALUES = 20_000
"""Of a graph that is walked: larger ones, which take a second to plan, are seldom built twice."""

_INTEGERS = np.dtype(np.int64)
_BYTES = np.dtype(np.uint8)
_RANDOM_STATE = -2
"""What of a value is meant, beside `VALUE` and the position of an output that its call keeps."""


class Found(NamedTuple):
    """A graph of which nothing was computed yet: its walk, and a key of all that a forward plan depends on.

    codes: of the leaves, by the numbers of their values.
    """

    walk: Walk
    key: Hashable
    codes: dict[int, int]


def find(root: Value) -> Found | None:
    """Walk the graph before a root.

    None for a graph that has to take the general way: one of which something was computed, with values that were not
    recorded from patterns (those of ops with several outputs), with shared or given arrays.
    """
    walked = walk(root, _MOST_VALUES)
    if walked is None:
        return None
    aliases: dict[int, int] = {}  # by identity of the cell, the first leaf that has it
    codes: dict[int, int] = {}
    key: list[Hashable] = [plugin_generation()]
    key += walked.structure
    for number in walked.leaves:
        leaf = walked.values[number]
        cell, details = leaf._cell, leaf.details
        if cell is None or cell.storage is None or details.parent is not None or details.sharing is not None:
            return None
        if cell.pending is not None:
            if not isinstance(cell.pending, Filled):
                return None
            cell.settle()
        codes[number] = cell.code
        key += aliases.setdefault(id(cell), number), cell.code, leaf.shape, details.need_grad
    for number in walked.marked:
        value, pattern, extra = walked.values[number], walked.patterns[number], walked.extras[number]
        cell, details = value._cell, value.details
        assert pattern is not None, "no leaf"
        if value.shape is not pattern.output_descs[0].shape:
            return None
        if cell is not None and not (_shows(value, cell) if pattern.spec.views else _is_new(cell)):
            return None
        if details.is_given or details.sharing is not None or details.value_recipe is not None:
            return None
        flags = flags_of(details)
        if flags:
            key += number, flags
        if extra is not None and extra[2] is not None:
            key += number, _RANDOM_STATE, extra[2].code
    return Found(walked, tuple(key), codes)


def _shows(view: Value, cell: ArrayCell) -> bool:
    """Whether a cell is still that of what a view shows: not where that array was replaced."""
    inputs = view.inputs
    return inputs is not None and inputs[0] is not None and inputs[0]._cell is cell


def _is_new(cell: ArrayCell) -> bool:
    return cell.storage is None and cell.pending is UNWRITTEN and not cell.use


class RebuiltForward:
    """A compiled forward in host memory, its arrays named by the numbers of a walk, which runs by addresses."""

    __slots__ = (
        "_changed",
        "_drawn",
        "_floats",
        "_is_noted",
        "_last_packed",
        "_left_out",
        "_packed",
        "_packs",
        "_program",
        "_reads",
        "_states",
        "_targets",
        "_unkept",
        "_unstored",
        "plan",
    )

    def __init__(self, planned: Forward, walked: Walk) -> None:
        plan, structure = planned.binding.plan, planned.structure
        self.plan = plan
        index = walked.numbers()
        numbers = [index[structure.value(number)] for number in range(len(structure.shapes))]
        made = [numbers[outputs[0]] for outputs in structure.made]
        random_states = {state: (made[call], _RANDOM_STATE) for call, (_, state) in enumerate(structure.state_numbers)}
        count = len(numbers)

        def read(outside: int) -> tuple[int, int]:
            return (numbers[outside], VALUE) if outside < count else random_states[outside]

        self._reads = [read(outside) for outside, *_ in plan.requests]
        self._changed = [read(outside) for outside in plan.changed]
        self._drawn = [read(plan.slots[slot].source[1]) for slot in plan.random_states]
        moved = frozenset(plan.states)
        self._states = [
            (read(outside), plan.slots[slot].desc.nbytes) for outside, *_, slot in plan.requests if slot in moved
        ]
        memories = [plan.slots[slot].memory for *_, slot in plan.requests]
        results = [
            (
                made[call],
                VALUE if structure.functions[call].auxiliary[position] is None else position,
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
        self._unstored = [numbers[outside] for outside in sorted(planned.unstored) if outside < count]
        self._unkept = [kept[outside] for outside in sorted(planned.unstored) if outside >= count]
        self._floats = float_sources(plan, dict(enumerate(made)))
        # Further runs may keep something, which bindings look for at the second one.
        self._is_noted = bool(plan.packs) or planned.constants is not None
        self._packs = ProgramPacks(plan, plan.changed)
        self._packed = {outside: numbers[outside] for outside in self._packs.arrays}
        self._last_packed: Sequence[weakref.ref[ArrayCell]] = ()
        self._program = by_address(plan, [*memories, *self._packs.memories])

    def prepared(self, walked: Walk) -> _Run:
        """Give the arrays of a graph that was walked their memory, or the recipe to get what is not stored."""
        values, extras = walked.values, walked.extras

        def cell(number: int, what: int, size: int) -> ArrayCell:
            if what == VALUE:
                known: ArrayCell | None = values[number]._cell
                if known is None:
                    known = values[number]._cell = ArrayCell(size)
                return known
            return extras[number][1][what]  # type: ignore[index, return-value]  # the plan was made of such calls

        def read(number: int, what: int) -> Any:
            return values[number]._cell if what == VALUE else extras[number][2]  # type: ignore[index]  # likewise

        run = _Run(self._program, self._packs)
        run.packs = self._packs_of({outside: values[number]._cell for outside, number in self._packed.items()})
        run.storages = [read(*which).storage for which in self._reads]
        run.changed = [read(*which) for which in self._changed]
        run.random_states = [read(*which).storage.array((2,), _INTEGERS) for which in self._drawn]
        run.states = [as_bytes(read(*which).storage.array((nbytes,), _BYTES)) for which, nbytes in self._states]
        run.floats = walked.floats(self._floats)
        if self._is_noted:
            roots_of((values[0],)).first_run = next(WRITES)
        for number, what, size, dtype in self._targets:
            run.storages.append(cell(number, what, size).first_target(dtype))
        for which in self._left_out:
            cell(*which).leave_out()
        if self._unstored or self._unkept:
            run.last_run = LastRun()
            self._leave_unstored(walked, run.last_run)
        return run

    def _packs_of(self, cells: Mapping[int, Any]) -> Packs | None:
        """The packs of arrays that were those of the last graph, too; none of others, such as data that were just made.

        cells: by number of the outside array.
        """
        last = self._last_packed
        if (
            not cells
            or len(last) != len(cells)
            or any(map(operator.is_not, [known() for known in last], cells.values()))
        ):
            self._last_packed = [weakref.ref(cell) for cell in cells.values()]
            return None
        return self._packs.of(cells)

    def _leave_unstored(self, walked: Walk, last_run: LastRun) -> None:
        values, extras = walked.values, walked.extras
        makers = [weakref.ref(values[number]) for number, _ in self._unkept]
        recipe = RebuiltValueRecipe(last_run, roots_of((values[0],)), makers)
        for number, position in self._unkept:
            extras[number][1][position].pending = recipe  # type: ignore[index, union-attr]  # it is new
        shared = Details(value_recipe=recipe, is_shared=True)
        for number in self._unstored:
            value = values[number]
            if value._cell is not None:
                value._cell.pending = recipe.of_value(value)
            elif value.details is PLAIN:
                value.details = shared
            else:
                value.value_recipe = recipe


class _Run:
    """One run of a plan, with the memory of all that is read, and then of all that is written.

    changed: the leaves, and the random states, into which it writes.  random_states: key and count of each of these.
    states: the bytes of arrays that go back where it fails.
    packs: of what is read, None where none are looked for.
    last_run: where it is to be noted, None where nothing depends on it.
    """

    __slots__ = (
        "_program",
        "_program_packs",
        "changed",
        "floats",
        "last_run",
        "packs",
        "random_states",
        "states",
        "storages",
    )

    storages: list[Any]  # in a list while the kernels run: nothing else may hold them
    changed: list[ArrayCell]
    random_states: list[np.ndarray]
    states: list[memoryview]
    floats: list[float]
    packs: Packs | None

    def __init__(self, program: ByAddress, program_packs: ProgramPacks) -> None:
        self._program = program
        self._program_packs = program_packs
        self.last_run: LastRun | None = None

    def run(self) -> None:
        """Run it."""
        changed, states = self.changed, saved(self.states)
        if changed and WATCHES:
            announce(map(id, changed))
        drawn = 0
        try:
            if changed:
                writer = get_ident()
                for cell in changed:
                    cell.writer = writer
                    cell.outdate_copies()
                next(WRITES)  # who sees that nothing was written meanwhile need not look at these
            for random_state in self.random_states:
                random_state[1] += 1
                drawn += 1
            packed, _held = self._program_packs.take(self.packs)
            self._program.run([*[storage.address for storage in self.storages], *packed], self.floats)
        except BaseException:
            go_back(self.random_states[:drawn], 1)
            restore(self.states, states)
            raise
        finally:
            version = next(WRITES) if changed else 0
            for cell in changed:
                cell.last_write = version
                cell.writer = 0
        if self.last_run is not None:
            self.last_run.number = next(WRITES)


REBUILT = PlanCache("forward plans of rebuilt graphs", SHAPES_LIMIT)
"""The plans of graphs that were rebuilt, by the keys of walks; of those that have to take the general way `_UNFIT`."""

_UNFIT = object()


def run_known(root: Value) -> Found | bool:
    """Run the forward of a root by the plan of an earlier graph like its own; whether it ran.

    Otherwise what is to be remembered once the general way has run it.
    """
    with PLANNING:  # so that no other thread finds arrays half way through
        found = find(root)
        if found is None:
            return False
        known: Any = REBUILT.find(found.key)
        if not isinstance(known, RebuiltForward):
            return found if known is None else False
        walked = found.walk
        prepared = known.prepared(walked)
    prepared.run()
    roots = roots_of((root,))
    walked.values[0] = None  # what belongs to the root must not hold it
    roots.walk = walked
    return True


def remember(found: Found, planned: Forward) -> None:
    """Keep what the general way compiled for a graph, for the next one like it; not a plan in parts."""
    if planned.binding.plan.is_in_parts:
        return
    REBUILT.get(found.key, lambda: RebuiltForward(planned, found.walk) if _is_simple(found, planned) else _UNFIT)


def _is_simple(found: Found, planned: Forward) -> bool:
    """Whether a forward only reads leaves as they were, draws, and writes results, in native steps on the host."""
    structure, plan, walked = planned.structure, planned.binding.plan, found.walk
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
        and walked.kinds() == sorted(function.kind for function in structure.functions)
        # Else two leaves have one array.
        and len(structure.shapes) == len(walked.values)
        and outside <= leaves | drawn
        # Else a leaf was cast, or moved.
        and all(walked.values[number].cell.code == code for number, code in found.codes.items())
        and all(structure.cells[number].dtype == dtype for number, _, dtype, _ in plan.requests)
    )
