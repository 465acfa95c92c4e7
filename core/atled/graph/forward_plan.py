"""What computes some roots: found again, or compiled and bound."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

from atled.arrays.cell import ArrayCell
from atled.arrays.epoch import EPOCH
from atled.arrays.watches import WATCHES, announce
from atled.graph.compile.lower import lower
from atled.graph.compile.parts import InParts
from atled.graph.compile.plan import Plan
from atled.graph.compile.plans import PLANS
from atled.graph.constants.cut import Cut, Imported
from atled.graph.constants.folded import Folding, Folds, foldings_of
from atled.graph.constants.held import CutPlan, HeldConstants
from atled.graph.constants.history import History
from atled.graph.inference.by_samples import images_by_samples, loops_of
from atled.graph.nodes.ir import Graph, IRValue
from atled.graph.recompute.recipes import ValueRecipe, leave_unstored
from atled.graph.recompute.stored import Unstored, cells_of, find_unstored, left_out, let_go, results_of
from atled.graph.recompute.trust import Trust
from atled.graph.record.as_nodes import AsNodes, float_digits, float_values
from atled.graph.record.roots import Roots
from atled.graph.record.structure import Structure, calls_before
from atled.graph.record.value import Value
from atled.graph.run.binding import Binding, LastRun
from atled.named_tuple import NamedTuple
from atled_contexts import plugin_generation


class ForwardPlan(NamedTuple):
    """A compiled forward: the plan, and the sets of leaves of which something is computed that may be worth keeping."""

    plan: Plan
    choices: tuple[frozenset[int], ...]


class Forward:
    """What computes some roots.

    structure: of the graph, with the flags of the last look at it.  binding: runs the plan of it.
    recipe: how to get what the plan does not store; None where it stores everything.
    trust: the values that the backward may compute again; None where there are none.
    constants: what it computes of leaves that nobody writes; None where there is nothing of that kind.
    unstored: the numbers of the arrays that it does not store.
    is_over: whether its plan, in parts, has run, and is not to run again.
    stores_less: whether nothing is stored for a backward, which is not to follow.
    but_need_grad: of the epoch at the begin of planning.
    """

    __slots__ = (
        "binding",
        "but_need_grad",
        "constants",
        "is_over",
        "recipe",
        "stores_less",
        "structure",
        "trust",
        "unstored",
    )

    def __init__(
        self,
        structure: Structure,
        binding: Binding,
        recipe: ValueRecipe | None,
        trust: Trust | None,
        constants: HeldConstants | None,
        unstored: frozenset[int],
        stores_less: bool,
        but_need_grad: int,
    ) -> None:
        self.structure = structure
        self.binding = binding
        self.recipe = recipe
        self.trust = trust
        self.constants = constants
        self.unstored = unstored
        self.stores_less = stores_less
        self.but_need_grad = but_need_grad
        self.is_over = False

    def may_run(self, whole: bool) -> bool:
        """Whether its plan is whole, or in parts where that is not refused, and has not run."""
        return not (self.is_over or (whole and self.binding.plan.is_in_parts))

    def is_current(self, whole: bool) -> bool:
        """Whether nothing that it was made from has changed, or nothing but need_grad, which is as it was then."""
        epoch = EPOCH.value
        if not self.may_run(whole):
            return False
        if self.binding.epoch == epoch:
            return True
        if not self.structure.is_as_of(self.but_need_grad):
            return False
        self.binding.epoch = epoch
        return True

    @property
    def plan(self) -> Plan:
        """The plan that ran last, or will."""
        held = None if self.constants is None else self.constants.binding
        return (held or self.binding).plan

    def run(self) -> None:
        """Run it, with constants where they are kept and hold."""
        held = None if self.constants is None else self.constants.for_run()
        (held or self.binding).run()
        self.is_over = self.binding.plan.is_in_parts


def planned_forward(roots: Roots, whole: bool = False) -> Forward:
    """What computes some roots: with the binding that they have, if it still holds, else a new one."""
    before: Forward | None = roots.forward
    values = roots.values()
    structure = Structure(calls_before(values))
    stores_less = roots.stores_less
    if stores_less and before is not None and not before.stores_less:
        let_go(structure, values)
    epoch, but_need_grad = EPOCH.value, EPOCH.but_need_grad
    unstored = _settled_unstored(structure, values, None if before is None else before.trust, stores_less)
    roots.gradients = unstored.gradients
    key = ("forward", plugin_generation(), structure.key, unstored.numbers)
    if before is not None and before.may_run(whole) and before.binding.holds(key, structure.cells, epoch):
        planned = Forward(
            structure,
            before.binding,
            before.recipe,
            unstored.trust,
            before.constants,
            unstored.numbers,
            stores_less,
            but_need_grad,
        )
        for number in unstored.numbers:
            cell = structure.cells[number]
            if not cell.is_unstored:
                assert planned.recipe is not None
                # It was read, and so computed, after the last run; this plan does not store it.
                leave_unstored(cell, planned.recipe)
    else:
        planned = _bound(structure, key, epoch, but_need_grad, unstored, roots, whole)
    if unstored.trust is not None:
        unstored.trust.recipe = planned.recipe
    roots.forward = planned
    return planned


def _settled_unstored(
    structure: Structure, values: Sequence[Value], trust: Trust | None, stores_less: bool
) -> Unstored:
    """What is not stored, found after the watches of what is going to be stored were told.

    Amid the binding they would store values that the plan was just made to leave out.
    """
    while True:
        unstored = find_unstored(structure, values, trust, stores_less)
        if not WATCHES:
            return unstored
        stored = cells_of(structure, results_of(structure, unstored.numbers))
        taken = [id(cell) for cell in stored if cell is not None and cell.is_unstored]
        count = len(WATCHES)
        announce(taken)
        if len(WATCHES) == count:
            return unstored


def _bound(
    structure: Structure, key: Hashable, epoch: int, but_need_grad: int, unstored: Unstored, roots: Roots, whole: bool
) -> Forward:
    numbers = unstored.numbers
    compiled: ForwardPlan = PLANS.get_for_run(key, lambda in_parts: _compile(structure, numbers, in_parts), whole)
    plan = compiled.plan
    results = cells_of(structure, results_of(structure, numbers))
    before: Forward | None = roots.forward
    last_run = before.binding.last_run if before is not None and before.structure.is_of(structure) else None
    if numbers and last_run is None:
        last_run = LastRun()
    floats = float_values(plan, structure)
    first_run = 0 if before is not None else roots.first_run
    binding = Binding(
        plan, structure.cells, results, floats, key=key, epoch=epoch, last_run=last_run, first_run=first_run
    )
    recipe = None
    if numbers:
        assert last_run is not None
        recipe = ValueRecipe(last_run, roots, *left_out(structure, numbers))
        for number in numbers:
            leave_unstored(structure.cells[number], recipe)
    constants = _constants(structure, key, unstored, compiled, last_run, first_run)
    return Forward(structure, binding, recipe, unstored.trust, constants, numbers, roots.stores_less, but_need_grad)


def _constants(
    structure: Structure,
    key: Hashable,
    unstored: Unstored,
    compiled: ForwardPlan,
    last_run: LastRun | None,
    first_run: int,
) -> HeldConstants | None:
    if not compiled.choices:
        return None
    leaves = [(number, structure.cells[number]) for number, origin in enumerate(structure.origins) if origin is None]
    varies = any(function.spec.random or function.mutated or function.spec.opaque for function in structure.functions)
    numbers = unstored.numbers

    def compile_with(leaves: frozenset[int], only: Collection[Imported] | None) -> CutPlan:
        digits = float_digits(compiled.plan, structure)
        whole_key = (key, "constants", leaves, None if only is None else frozenset(only), digits)
        cut: CutPlan = PLANS.get(whole_key, lambda: _compile_cut(structure, numbers, leaves, only))
        return cut

    def bind(plan: Plan, cells: Sequence[ArrayCell]) -> Binding:
        epoch = EPOCH.but_need_grad
        results = cells_of(structure, results_of(structure, numbers))
        floats = float_values(plan, structure)
        return Binding(plan, cells, results, floats, epoch=epoch, last_run=last_run, reads_constants=True)

    return HeldConstants(History(leaves, compiled.choices, varies, first_run), structure.cells, compile_with, bind)


def _compile(structure: Structure, unstored: frozenset[int], in_parts: InParts) -> ForwardPlan:
    graph, results, cut = _cut(structure, unstored, {})
    choices = () if structure.overwritten else cut.choices
    folds = {folding.leaves: None for folding in foldings_of(structure, unstored).values()}
    return ForwardPlan(lower(graph, results, in_parts=in_parts), tuple({**dict.fromkeys(choices), **folds}))


def _cut(
    structure: Structure, unstored: frozenset[int], foldings: Mapping[int, Folding]
) -> tuple[Graph, list[IRValue | None], Cut]:
    """The calls as nodes, what of their results is stored, and what of them depends on which leaves.

    foldings: by number of the call the normalizations that go into the product before them.
    """
    graph = Graph(structure.functions[-1].context, structure.aliases)
    folds = Folds(graph, structure, foldings)
    recorded = AsNodes(graph, structure, computed=False, instead=folds.result_of)
    results = [recorded.result(call, position) for call, position in results_of(structure, unstored)]
    return graph, results, Cut(graph, results, len(structure.shapes), folds.made)


def _compile_cut(
    structure: Structure,
    unstored: frozenset[int],
    leaves: frozenset[int],
    only: Collection[Imported] | None,
    may_loop: bool = True,
) -> CutPlan:
    """The plan that reads what depends on some leaves alone as outside arrays.

    may_loop: whether chains of convolutions may take the samples of other leaves in turn.
    """
    # Where not all has room, what goes into a product without being kept would be computed at each run.
    possible = foldings_of(structure, unstored).items() if only is None else ()
    foldings = {number: each for number, each in possible if each.leaves <= leaves}
    graph, results, cut = _cut(structure, unstored, foldings)
    if not cut.has_all_wanted(leaves):  # they are made on a device
        graph, results, cut = _cut(structure, unstored, {})
    floats = float_values(graph, structure)
    imported = cut.import_values(leaves, len(structure.cells), floats, only)
    looped = None
    # Where equal inputs must give equal bits, a run without constants must not round otherwise.
    if may_loop and not any(function.context.deterministic for function in structure.functions):
        looped = images_by_samples(graph, results, set(range(len(structure.shapes))) - leaves, floats)
    plan = lower(graph, looped or results)
    if any(step.native is None for step, _ in loops_of(plan)):
        return _compile_cut(structure, unstored, leaves, only, may_loop=False)
    return CutPlan(plan, imported)
