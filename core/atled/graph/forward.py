"""Forward of recorded graphs: find or compile the plan, bind it, run it."""

from __future__ import annotations

from collections.abc import Hashable

from atled.arrays.epoch import EPOCH
from atled.arrays.watches import WATCHES, announce
from atled.graph.bound_plan import BoundPlan
from atled.graph.compile.lowering import lower
from atled.graph.compile.plan import Plan
from atled.graph.compile.plans import PLANNING, PLANS
from atled.graph.nodes.ir import Graph
from atled.graph.recompute.recipes import LastRun, ValueRecipe, leave_unstored
from atled.graph.recompute.stored import Unstored, cells_of, find_unstored, results_of
from atled.graph.record.as_nodes import AsNodes, float_values
from atled.graph.record.structure import Structure, calls_before
from atled.graph.record.value import Value
from atled.graph.run.binding import Binding
from atled_contexts import plugin_generation


def _compile_forward(structure: Structure, unstored: frozenset[int]) -> Plan:
    graph = Graph(structure.functions[-1].context)
    recorded = AsNodes(graph, structure, computed=False)
    results = [recorded.calls[call].outputs[position] for call, position in results_of(structure, unstored)]
    # Fused ops read what they made from registers, and run elsewhere in the order: an array that was given to several
    # values must be written and read in the order of the calls.
    return lower(graph, results, is_fused=not structure.overwrites, is_disjoint=not structure.overwrites)


def _bind_forward(
    structure: Structure, key: Hashable, epoch: int, unstored: Unstored, root: Value, before: BoundPlan | None
) -> BoundPlan:
    numbers = unstored.numbers
    plan = PLANS.get(key, lambda: _compile_forward(structure, numbers))
    results = cells_of(structure, results_of(structure, numbers))
    binding = Binding(plan, structure.cells, results, float_values(plan, structure))
    last_run = before.last_run if before is not None else None
    recipe = None
    if numbers:
        last_run = last_run or LastRun()
        recipe = ValueRecipe(last_run, root, [structure.reference(number) for number in numbers])
        for number in numbers:
            leave_unstored(structure.cells[number], recipe)
    bound = BoundPlan(key, binding, epoch, structure=structure, last_run=last_run)
    bound.recipe = recipe
    return bound


def plan_forward(root: Value) -> BoundPlan:
    """The bound plan that computes a value; the one of last time where nothing changed since."""
    bound: BoundPlan | None = root.forward_plan
    if bound is not None and bound.epoch == EPOCH.value:
        return bound
    with PLANNING:
        return _planned(root)


def _planned(root: Value) -> BoundPlan:
    """The plan of a root: the one that it has, if it still holds, else a new one."""
    epoch = EPOCH.value
    bound: BoundPlan | None = root.forward_plan
    structure = Structure(calls_before(root))
    unstored = find_unstored(structure, root, None if bound is None else bound.trust)
    key = ("forward", plugin_generation(), structure.key, unstored.numbers)
    if bound is not None and bound.holds(key, structure.cells, epoch):
        bound.structure = structure  # with the flags of now
        for number in unstored.numbers:
            cell = structure.cells[number]
            if not cell.is_unstored:
                assert bound.recipe is not None
                # It was read, and so computed, after the last run; this plan does not store it.
                leave_unstored(cell, bound.recipe)
    else:
        bound = root.forward_plan = _bind_forward(structure, key, epoch, unstored, root, bound)
    bound.trust = unstored.trust
    if unstored.trust is not None:
        unstored.trust.recipe = bound.recipe
    return bound


def forward(root: Value) -> None:
    """Compute a value from the leaves; nothing to do for a leaf."""
    if root.parent is None:
        return
    bound = plan_forward(root)
    if WATCHES or bound.trust is not None:
        if bound.trust is not None:
            bound.trust.forward_begins()
        # Announce before planning: a watch may now store values that this plan would leave out.
        if WATCHES:
            announce(bound.binding.writes)
        bound = plan_forward(root)
    bound.run()
