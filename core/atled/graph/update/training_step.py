"""A training step as one plan: forward, backward and the update of parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.cell import ArrayCell
from atled.arrays.epoch import EPOCH
from atled.arrays.failures import Undo
from atled.errors import four_parts
from atled.graph.compile.lowering import lower
from atled.graph.compile.plan import Plan
from atled.graph.compile.plans import PLANNING, PLANS
from atled.graph.constants.cut import Cut, Imported
from atled.graph.constants.folded import Folding, Folds, foldings_of
from atled.graph.constants.held import CutPlan, HeldConstants
from atled.graph.constants.history import History
from atled.graph.inference.by_samples import images_by_samples, loops_of
from atled.graph.nodes.gradient import backpropagate
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.graph.nodes.order import Order
from atled.graph.recompute.again import run_again
from atled.graph.recompute.choice import choose_recomputed, may_choose
from atled.graph.recompute.reads import GradientsToCome, read_by_backward
from atled.graph.recompute.recipes import ValueRecipe, leave_unstored
from atled.graph.recompute.stored import (
    auxiliary_outputs,
    can_recompute,
    cells_of,
    left_out,
    results_of,
    unobserved,
)
from atled.graph.record.as_nodes import AsNodes, float_digits, float_values
from atled.graph.record.roots import roots_of
from atled.graph.record.structure import Structure, aliases_of, calls_before, dtype_number, repeats
from atled.graph.record.value import Value
from atled.graph.run.binding import Binding, LastRun, Progress
from atled.graph.update.updates import in_full_precision
from atled.named_tuple import NamedTuple
from atled.ops.spec import SPECS
from atled_contexts import Context, plugin_generation


class Moved(NamedTuple):
    """A parameter: the arrays of its values and of its gradient, and of the solver's states for it."""

    data: ArrayCell
    gradient: ArrayCell
    shape: tuple[int, ...]
    states: Sequence[ArrayCell]


class Rule(NamedTuple):
    """How parameters move.

    op: of the update, whose inputs are parameter, gradient and states.
    context: the user's.
    is_decayed: whether gradients become `scale * g + rate * w` first.
    """

    op: str
    context: Context
    is_decayed: bool

    def context_for(self, parameter: Moved) -> Context:
        """That of an update. Half keeps fp32 master weights: it runs in the precision of the parameter."""
        return in_full_precision(self.context, "double" if parameter.data.dtype == np.float64 else "float")


class StepPlan(NamedTuple):
    """A compiled step: the plan, and the parameters, by index, that a gradient reaches.

    whole: the numbers of values of the structure that a step writes to memory as a whole.
    choices: sets of leaves of which something is computed that may be worth keeping.
    imported: the values that the plan reads as outside arrays, behind all others.
    """

    plan: Plan
    moved: tuple[int, ...]
    whole: frozenset[int]
    choices: tuple[frozenset[int], ...]
    imported: tuple[Imported, ...]


class _Constants(NamedTuple):
    """What of a step is read instead of computed.

    leaves: numbers of arrays; values that depend on these alone.  first: the number of the first of these values.
    only: of what to do so; None for everything worthwhile.
    foldings: by number of the call the normalizations that go into the product before them.
    may_loop: whether chains of convolutions may take the samples of other leaves in turn.
    """

    leaves: frozenset[int]
    first: int
    only: Collection[Imported] | None
    foldings: Mapping[int, Folding]
    may_loop: bool


class _Target(NamedTuple):
    """What of a parameter a plan depends on.

    leaves: the numbers of those whose gradients add up in that of the parameter; they need not have its values.
    values, states: the numbers of its arrays, those of the states in a row from this one on.
    """

    leaves: tuple[int, ...]
    values: int
    states: int


class _OfSolver:
    """The floats of a binding that come from the solver, the same for all parameters."""

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        numbers: dict[str, list[int]] = {}
        for number, source in enumerate(binding.plan.floats):
            if source[0] == "solver":
                numbers.setdefault(source[2], []).append(number)
        self._numbers = {name: np.array(found, np.intp) for name, found in numbers.items()}
        self._given: dict[str, float] = {}

    def write(self, floats: Mapping[str, float]) -> None:
        """Have the next run take these, by attribute."""
        values, given = self.binding.floats, self._given
        for name, numbers in self._numbers.items():
            if given.get(name) != floats[name] or not floats[name]:  # zeros have signs
                values[numbers] = given[name] = floats[name]


class Training:
    """The step of one root, bound to its arrays.

    moved: indices of the parameters that a gradient reaches.
    """

    moved: tuple[int, ...]
    _binding: Binding
    _constants: HeldConstants | None
    _of_solver: _OfSolver | None

    def __init__(self, root: Value, rule: Rule, parameters: Sequence[Moved], before: Training | None) -> None:
        with PLANNING:
            self._plan(root, rule, parameters, before)

    def _plan(self, root: Value, rule: Rule, parameters: Sequence[Moved], before: Training | None) -> None:
        epoch, self._but_need_grad = EPOCH.value, EPOCH.but_need_grad
        structure = self._structure = Structure(calls_before((root,)))
        _refuse_resuming(structure)
        unstored = _unstored(structure, root)
        cells = list(structure.cells)
        targets = _targets(structure, parameters, cells)
        aliases = aliases_of(cells)
        key: Hashable = (
            "training step",
            plugin_generation(),
            structure.key,
            tuple(structure.flags),
            tuple(unstored),
            rule,
            tuple((target, parameter.shape) for target, parameter in zip(targets, parameters, strict=True)),
            tuple(map(dtype_number, cells)),
            repeats(aliases),
            root.position,
        )
        self._of_solver = None
        if before is not None and before._binding.holds(key, cells, epoch):
            self.moved, self._binding, self._constants = before.moved, before._binding, before._constants
            self._ran, self._of_solver = self._binding, before._of_solver
            return
        made = structure.number_of(root)

        def compile_with(constants: _Constants | None) -> StepPlan:
            return _compile_safely(structure, aliases, made, unstored, targets, parameters, rule, constants)

        compiled: StepPlan = PLANS.get(key, lambda: compile_with(None))
        self.moved = compiled.moved
        results = [cell for cell in cells_of(structure, results_of(structure, unstored)) if cell is not None]
        last_run = LastRun() if unstored else None
        floats = float_values(compiled.plan, structure)
        self._binding = Binding(compiled.plan, cells, results, floats, key=key, epoch=epoch, last_run=last_run)
        self._ran = self._binding
        if last_run is not None:
            recipe = _Gone(last_run, roots_of((root,)), *left_out(structure, unstored))
            for number in unstored:
                leave_unstored(structure.cells[number], recipe)
        self._constants = None
        if compiled.choices:
            self._constants = _held(structure, unstored, key, compiled, cells, results, last_run, compile_with)

    @property
    def plan(self) -> Plan:
        """The plan that ran last, or will."""
        held = None if self._constants is None else self._constants.binding
        return (held or self._binding).plan

    @property
    def writes(self) -> frozenset[int]:
        """The identities of the arrays that a run writes."""
        return self._binding.writes

    def remember(self, key: Hashable, undo: Undo) -> None:
        """Have counts go back if the next wait finds that the last run failed: see `Failures.remember`."""
        self._ran.remember(key, undo)

    @property
    def is_current(self) -> bool:
        """As `Forward.is_current`."""
        epoch = EPOCH.value
        if self._binding.epoch == epoch:
            return True
        if not self._structure.is_as_of(self._but_need_grad):
            return False
        self._binding.epoch = epoch
        return True

    def run(self, floats: dict[str, float] | Sequence[Mapping[str, float]], progress: Progress) -> None:
        """Run the step.

        floats: the float attributes of the updates, and "scale" and "rate" where gradients are decayed; one dict for
            all parameters, or one mapping for each that moves.
        progress: is told whether all have moved.
        """
        held = None if self._constants is None else self._constants.for_run()
        self._ran = binding = held or self._binding
        values = binding.floats
        if isinstance(floats, dict):
            self._floats_of(binding).write(floats)
        else:
            self._of_solver = None
            for number, source in enumerate(binding.plan.floats):
                if source[0] == "solver":
                    values[number] = floats[source[1]][source[2]]
        binding.run(values, progress)

    def _floats_of(self, binding: Binding) -> _OfSolver:
        """The floats of a binding that come from the solver."""
        if self._of_solver is None or self._of_solver.binding is not binding:
            self._of_solver = _OfSolver(binding)
        return self._of_solver


def _unstored(structure: Structure, root: Value) -> tuple[int, ...]:
    """The numbers of the arrays of which a step leaves nothing: values that no user can see, and auxiliary outputs."""
    values = unobserved(structure, (root,), lambda function: not function.spec.views)
    # What other plans have memory of they may read.
    auxiliary = [number for number in auxiliary_outputs(structure) if not structure.cells[number].use]
    return (*values, *auxiliary)


def _held(
    structure: Structure,
    unstored: Sequence[int],
    key: Hashable,
    compiled: StepPlan,
    cells: Sequence[ArrayCell],
    results: Sequence[ArrayCell],
    last_run: LastRun | None,
    compile_with: Callable[[_Constants], StepPlan],
) -> HeldConstants:
    """What a step computes of leaves that nobody writes, as weights of layers that it does not train."""
    leaves = [(number, structure.cells[number]) for number, origin in enumerate(structure.origins) if origin is None]

    def compile_cut(leaves: frozenset[int], only: Collection[Imported] | None) -> CutPlan:
        # Where not all has room, what goes into a product without being kept would be computed at each run.
        possible = foldings_of(structure, unstored).items() if only is None else ()
        foldings = {number: each for number, each in possible if each.leaves <= leaves}
        # Where equal inputs must give equal bits, a run without constants must not round otherwise.
        may_loop = not any(function.context.deterministic for function in structure.functions)
        constants = _Constants(leaves, len(cells), only, foldings, may_loop)
        digits = float_digits(compiled.plan, structure)
        whole_key = (key, "constants", leaves, None if only is None else frozenset(only), digits)
        cut: StepPlan = PLANS.get(whole_key, lambda: compile_with(constants))
        return CutPlan(cut.plan, cut.imported)

    def bind(plan: Plan, cells: Sequence[ArrayCell]) -> Binding:
        floats = float_values(plan, structure)
        return Binding(plan, cells, results, floats, epoch=EPOCH.but_need_grad, last_run=last_run, reads_constants=True)

    # That parameters move makes every run another one.
    return HeldConstants(History(leaves, compiled.choices, varies=True), cells, compile_cut, bind)


class _Gone(ValueRecipe):
    """The recipe of values in the middle of a step: an error, because the parameters they were made of have changed."""

    __slots__ = ()

    def _compute(self, value: Value, cell: ArrayCell) -> None:
        assert value.parent is not None
        raise RuntimeError(
            four_parts(
                f"result of {value.parent.spec.name}, shape {value.shape}, in a compiled step",
                "the step did not store it, because nobody held its Variable, and has moved the parameters since",
                "",
                "call forward on it, or run the step again if that still computes it: from then on it is stored; or "
                "hold the Variable, or set its persistent, before",
            )
        )


def _refuse_resuming(structure: Structure) -> None:
    """ValueError for functions whose backward goes on from what others left: a step starts from the loss alone."""
    for function in structure.functions:
        if function.spec.may_resume and function.spec.resumes(function.attributes):
            raise ValueError(
                four_parts(
                    f"a compiled step through {function.spec.name}",
                    "its backward goes on from gradients that its inputs hold",
                    "",
                    "call forward, backward and update one by one",
                )
            )


def _targets(structure: Structure, parameters: Sequence[Moved], cells: list[ArrayCell]) -> list[_Target]:
    """What a plan depends on; the arrays of parameters that no leaf has are appended to `cells`."""
    holding: dict[int, int] = {}
    adding: dict[int, list[int]] = {}
    for number, origin in enumerate(structure.origins):
        if origin is None:
            holding.setdefault(id(cells[number]), number)
            leaf = structure.value(number)
            # By its array: leaves with the values of a parameter may have a gradient of their own.
            if structure.flags[number] and leaf is not None:
                adding.setdefault(id(leaf.grad.cell), []).append(number)
    made = frozenset(map(id, structure.cells)) - holding.keys()
    targets = []
    for parameter in parameters:
        leaves = tuple(adding.get(id(parameter.gradient), ()))
        if leaves and id(parameter.data) in made:
            raise _result_error(parameter)
        values = holding.setdefault(id(parameter.data), len(cells))
        if values == len(cells):
            cells.append(parameter.data)
        targets.append(_Target(leaves, values, len(cells)))
        cells += parameter.states
        for cell in (parameter.data, *parameter.states):
            cell.settle()
    return targets


def _result_error(parameter: Moved) -> ValueError:
    return ValueError(
        four_parts(
            f"a compiled step that moves a parameter of shape {parameter.shape}",
            "a function of the graph computes into its array",
            "",
            "call forward, backward and update one by one; or give the parameter an array of its own",
        )
    )


def _compile_safely(
    structure: Structure,
    aliases: Sequence[int],
    root: int,
    unstored: Collection[int],
    targets: Sequence[_Target],
    parameters: Sequence[Moved],
    rule: Rule,
    constants: _Constants | None,
) -> StepPlan:
    """The step with the earliest updates behind which nothing can fail: a failed step moves no parameter."""
    chosen = _choose(structure, root)
    compile_as = partial(_compile, structure, aliases, root, unstored, targets, parameters, rule, constants)
    compiled = _lean(partial(compile_as, is_early=True), chosen)
    return compiled if _is_safe(compiled.plan) else _lean(partial(compile_as, is_early=False), chosen)


def _choose(structure: Structure, root: int) -> list[list[int]]:
    """Values that the backward may compute again instead of reading them, with their calls, as in plans apart."""
    value = structure.value(root)
    assert value is not None
    if not may_choose(structure):
        return []
    candidates = unobserved(structure, (value,), can_recompute)
    gradients = GradientsToCome(structure, (root,))
    read = read_by_backward(gradients) if candidates else frozenset()
    return choose_recomputed(gradients, candidates, read)


def _lean(compile_as: Callable[..., StepPlan], chosen: Sequence[Sequence[int]]) -> StepPlan:
    """The step, in which backward computes chosen values again if steps read and write less memory then.

    Where a fused step has both what makes such a value and what reads it, that is not in memory at all.
    """
    compiled = compile_as(again=())
    worthwhile = [one for one in chosen if one[0] in compiled.whole]
    if not worthwhile:
        return compiled
    lean = compile_as(again=worthwhile)
    return lean if _traffic(lean.plan) < _traffic(compiled.plan) else compiled


def _traffic(plan: Plan) -> int:
    """The bytes that the steps of a plan read and write, as if no cache held any."""
    numbers = (number for step in plan.steps for number in dict.fromkeys(step.arguments) if number >= 0)
    return sum(plan.slots[number].nbytes for number in numbers)


def _is_safe(plan: Plan) -> bool:
    """Whether behind the first update nothing but updates and native steps runs.

    What native steps of a backward refuse are indices, and those a forward step has made or looked at before.
    """
    updates = [step.is_update for step in plan.steps]
    first = updates.index(True) if True in updates else len(updates)
    rest = zip(updates[first:], plan.steps[first:], strict=True)
    return all(is_update or step.native is not None for is_update, step in rest)


def _compile(
    structure: Structure,
    aliases: Sequence[int],
    root: int,
    unstored: Collection[int],
    targets: Sequence[_Target],
    parameters: Sequence[Moved],
    rule: Rule,
    constants: _Constants | None,
    *,
    again: Sequence[Sequence[int]],
    is_early: bool,
) -> StepPlan:
    """The step.

    constants: what it reads instead of computing it; None: nothing.
    again: values that backward computes again, with their calls.
    is_early: whether updates run as soon as they can, so that the memory of a gradient soon serves the next one, or
        behind all else.
    """
    context = structure.functions[-1].context
    graph = Graph(context, aliases)
    folds = Folds(graph, structure, {} if constants is None else constants.foldings)
    recorded = AsNodes(graph, structure, computed=False, instead=folds.result_of)
    values = recorded.values
    results = results_of(structure, unstored)
    stored = [
        recorded.result(call, position)
        for (call, position), cell in zip(results, cells_of(structure, results), strict=True)
        if cell is not None
    ]
    start = graph.op("Constant", val=1.0, shape=values[root].shape, dtype=values[root].dtype)
    wanted = [values[number] for target in targets for number in target.leaves]
    backward_begin = len(recorded.nodes)
    found = backpropagate(graph, recorded.nodes, {values[root]: start}, wanted, recorded.blocked_values({root}))
    computed_again = run_again(recorded, again, backward_begin) if again else ()
    gradient_parts = [
        [part for number in target.leaves if (part := found.get(values[number])) is not None] for target in targets
    ]
    moved, updates = _updates(graph, targets, parameters, gradient_parts, rule)
    if is_early:
        _move_forward(graph, updates)
    apart = [] if is_early else [node for nodes in updates for node in nodes]
    cut = Cut(graph, stored, len(structure.shapes), folds.made)
    choices = () if structure.overwritten else cut.choices
    imported: tuple[Imported, ...] = ()
    compile_as = partial(_compile, structure, aliases, root, unstored, targets, parameters, rule)
    if constants is not None:
        if not cut.has_all_wanted(constants.leaves):  # they are made on a device
            return compile_as(constants._replace(foldings={}), again=again, is_early=is_early)
        floats = float_values(graph, structure)
        imported = cut.import_values(constants.leaves, constants.first, floats, constants.only)
        if constants.may_loop:
            others = set(range(len(structure.shapes))) - constants.leaves
            stored = images_by_samples(graph, stored, others, floats) or stored
    plan = lower(graph, stored, apart=apart, again=computed_again)
    if constants is not None and any(step.native is None for step, _ in loops_of(plan)):
        return compile_as(constants._replace(may_loop=False), again=again, is_early=is_early)
    made = {
        value
        for step in plan.steps
        for value, slot in zip(step.node.outputs, step.arguments[step.input_count :], strict=False)
        if slot >= 0 and not plan.slots[slot].range_bytes
    }
    whole = frozenset(n for n, value in enumerate(values) if value in made)
    moving = {aliases[number] for number in plan.changed}
    folds_of = [folding.leaves for folding in foldings_of(structure, unstored).values()]
    unmoved = [leaves for leaves in folds_of if moving.isdisjoint(aliases[number] for number in leaves)]
    return StepPlan(plan, tuple(moved), whole, tuple(dict.fromkeys((*choices, *unmoved))), imported)


def _updates(
    graph: Graph,
    targets: Sequence[_Target],
    parameters: Sequence[Moved],
    gradient_parts: Sequence[Sequence[IRValue]],
    rule: Rule,
) -> tuple[list[int], list[Sequence[IRNode]]]:
    """Add the updates to the graph: the parameters that move, and the nodes of each of these.

    gradient_parts: per parameter the gradients that reached its leaves; it moves if there are any.
    """
    together: dict[tuple[int, ...], list[tuple[Moved, _Target]]] = {}
    for parameter, target in zip(parameters, targets, strict=True):
        together.setdefault(target.leaves, []).append((parameter, target))
    moved: list[int] = []
    updates: list[Sequence[IRNode]] = []
    gradients: dict[tuple[int, ...], IRValue] = {}
    for index, (parameter, target, parts) in enumerate(zip(parameters, targets, gradient_parts, strict=True)):
        if not parts:
            continue
        begin = len(graph.nodes)
        if target.leaves not in gradients:
            gradients[target.leaves] = _gradient_of(graph, parts, together[target.leaves], len(moved), rule)
        _update(graph, len(moved), parameter, target, gradients[target.leaves], rule)
        updates.append(graph.nodes[begin:])
        moved.append(index)
    return moved, updates


def _gradient_of(
    graph: Graph, parts: Sequence[IRValue], together: Sequence[tuple[Moved, _Target]], order: int, rule: Rule
) -> IRValue:
    """The gradient of the parameters that have it in common, summed up; decayed by each of them, as calls would.

    order: the place of the first of them among those that move.
    """
    shape = together[0][0].shape
    gradient = graph.reshape(parts[0], shape)
    for part in parts[1:]:
        gradient = graph.op("Add2", gradient, graph.reshape(part, shape))
    if not rule.is_decayed:
        return gradient
    scale, rate = (graph.float_from("solver", order, name) for name in ("scale", "rate"))  # the same for all
    before = graph.context
    for parameter, _ in together:
        graph.context = rule.context_for(parameter)
        gradient = graph.op("MulScalar", gradient, val=scale)
    for parameter, target in together:
        graph.context = rule.context_for(parameter)
        decay = graph.op("MulScalar", _array(graph, target.values, parameter.shape, parameter.data), val=rate)
        gradient = gradient + graph.reshape(decay, shape)
    graph.context = before
    return gradient


def _update(graph: Graph, order: int, parameter: Moved, target: _Target, gradient: IRValue, rule: Rule) -> None:
    """Move one parameter; `order` is its place among those that move."""
    before = graph.context
    graph.context = rule.context_for(parameter)
    values = _array(graph, target.values, parameter.shape, parameter.data)
    states = [_array(graph, target.states + i, parameter.shape, state) for i, state in enumerate(parameter.states)]
    floats = {name: graph.float_from("solver", order, name) for name in SPECS[rule.op].float_names}
    graph.op(rule.op, values, graph.reshape(gradient, parameter.shape), *states, **floats)
    graph.context = before


def _array(graph: Graph, number: int, shape: tuple[int, ...], cell: ArrayCell) -> IRValue:
    assert cell.dtype is not None
    return graph.external(number, ArrayDesc(shape, cell.dtype))


def _move_forward(graph: Graph, updates: Sequence[Sequence[IRNode]]) -> None:
    """Put the nodes of each update right behind the last other node that must run before one of them."""
    order = Order(graph.nodes)
    own_nodes = {node for nodes in updates for node in nodes}
    ready = {node: float(position) for position, node in enumerate(graph.nodes) if node not in own_nodes}
    for nodes in updates:
        waited_for = [ready[node] for own in nodes for node in order.before(own) if node in ready]
        ready.update(dict.fromkeys(nodes, math.floor(max(waited_for, default=-1)) + 0.5))
    graph.nodes.sort(key=ready.__getitem__)  # stable: those of one place stay in their order
