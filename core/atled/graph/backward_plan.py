"""What the backward of some roots computes, and its plans: one per set of leaves that are added to, not overwritten."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence

from atled.array_desc import ArrayDesc
from atled.arrays.cell import UNWRITTEN, ArrayCell
from atled.arrays.epoch import EPOCH
from atled.arrays.watches import WATCHES
from atled.dtypes import is_float
from atled.graph.compile.lower import lower
from atled.graph.compile.parts import InParts
from atled.graph.compile.plan import Plan
from atled.graph.compile.plans import PLANNING, PLANS
from atled.graph.forward_plan import Forward
from atled.graph.nodes.gradient import backpropagate
from atled.graph.nodes.ir import Graph, IRValue
from atled.graph.recompute.again import put_off
from atled.graph.recompute.reads import GradientsToCome, PlannedGradients
from atled.graph.recompute.recipes import GradientRecipe, leave_gradient_unstored
from atled.graph.recompute.trust import Trust
from atled.graph.record.as_nodes import AsNodes, float_values
from atled.graph.record.roots import Roots
from atled.graph.record.structure import Structure, aliases_of, calls_before, dtype_number, repeats
from atled.graph.record.value import Value
from atled.graph.run.binding import Binding, LastRun
from atled_contexts import plugin_generation


class BackwardPlan:
    """A compiled backward: the plan, and which gradient each of its targets is.

    leaves, middles: value numbers of the targets, leaves first.
    unstored: value numbers of gradients that are computed and not stored.
    """

    __slots__ = ("leaves", "middles", "plan", "unstored")

    def __init__(self, plan: Plan, leaves: list[int], middles: list[int], unstored: list[int]) -> None:
        self.plan = plan
        self.leaves = leaves
        self.middles = middles
        self.unstored = unstored


class Backward:
    """Backward from given outputs of a structure: what is asked for, and the plans for it by the state of the leaves.

    seeds: (value number, cell that holds its gradient) where backpropagation starts; a cell of one element holds that
        of all elements. What arrives there from elsewhere is added to the cell of the value.
    given: the cells of the seeds of the roots, which are the first ones.
    wanted: value numbers whose gradient is asked for, with the cells that receive them: of leaves, which accumulate.
    roots: those for which gradients in the middle are stored or can be recovered; None leaves them alone.
    trust: the values of the forward that may be computed again; None where there are none.
    """

    def __init__(
        self,
        structure: Structure,
        seeds: Sequence[tuple[int, ArrayCell]],
        wanted: Sequence[tuple[int, ArrayCell]],
        roots: Roots | None = None,
        trust: Trust | None = None,
    ) -> None:
        self.structure = structure
        self.trust = trust
        self.seeds = list(seeds)
        self.given: tuple[ArrayCell, ...] = ()
        self.wanted = list(wanted)
        self.epoch = EPOCH.value
        self.but_need_grad = EPOCH.but_need_grad
        self.bindings: dict[tuple[bool, ...], Binding] = {}
        self.over: set[tuple[bool, ...]] = set()  # whose plans, in parts, have run, and are not to run again
        self.last_run = LastRun()
        self._roots = None if roots is None else weakref.ref(roots)
        self.starts = {number for number, _ in seeds}
        flags = structure.flags
        self.middle = [
            number
            for number, origin in enumerate(structure.origins)
            if origin is not None and flags[number] is not False
        ]
        self.stored = frozenset(number for number in self.middle if roots is not None and self._is_stored(number))
        self.cells = [
            *structure.cells,
            *(cell for _, cell in self.seeds),
            *(cell for _, cell in self.wanted),
        ]
        self._written: frozenset[int] | None = None
        # Gradients in the middle that may be stored are numbered behind the others: they may share arrays, too.
        middle = self._stored_middle()
        self._outside = {number: len(self.cells) + index for index, number in enumerate(middle)}
        self._aliases = aliases_of([*self.cells, *middle.values()])
        self.recomputed = self._calls_recomputed()
        self.key = self._key()

    def _key(self) -> Hashable:
        structure = self.structure
        return (
            "backward",
            plugin_generation(),
            structure.key,
            tuple((number, dtype_number(cell), cell.size) for number, cell in self.seeds),
            tuple((number, first) for (number, _), first in zip(self.wanted, self._sharers(), strict=True)),
            tuple(self.middle),
            self.stored,
            tuple(structure.flags),
            self._roots is None,
            tuple(map(dtype_number, structure.cells)),
            repeats(self._aliases),
            self.recomputed,
        )

    def _stored_middle(self) -> dict[int, ArrayCell]:
        """The arrays of gradients in the middle that may be stored, by value number."""
        if self._roots is None:
            return {}
        numbers = [number for number in self.middle if number in self.stored or number in self.starts]
        values = zip(numbers, map(self.structure.value, numbers), strict=True)
        return {number: value.grad.cell for number, value in values if value is not None}

    def _calls_recomputed(self) -> tuple[int, ...]:
        """The numbers of the calls that run in the backward again, because the forward did not store their results."""
        trust, structure = self.trust, self.structure
        if trust is None:
            return ()
        if not self.written.isdisjoint(trust.watched):
            trust.store()  # nothing orders what the plan reads there and what it writes
        if not any(value.data.cell.is_unstored for value in trust.values()):
            return ()
        return tuple(
            number
            for number, (function, made) in enumerate(zip(structure.functions, structure.made, strict=True))
            if function in trust.functions
            and any(output >= 0 and structure.cells[output].is_unstored for output in made)
        )

    def _sharers(self) -> list[int]:
        """Per wanted gradient the index of the first that has its cell: leaves may have one array in common."""
        first: dict[int, int] = {}
        return [first.setdefault(id(cell), index) for index, (_, cell) in enumerate(self.wanted)]

    def _is_stored(self, number: int) -> bool:
        """Whether a user may read the gradient of a value, which needs memory of its own then."""
        value = self.structure.value(number)
        if value is None:
            return False
        return value.is_stored or value.grad_is_in_use

    def run(self, accumulate: tuple[bool, ...] | None = None) -> tuple[bool, ...] | None:
        """Backpropagate: leaves accumulate into gradients that were written before, and overwrite zeros.

        accumulate: per wanted gradient whether to add to it, where the caller knows better. Returns the flags of the
        run; None if nothing was run, because another thread changed what is stored: plan again, then.
        """
        if accumulate is None:
            accumulate = tuple([cell.pending is not UNWRITTEN for _, cell in self.wanted])
        for _, cell in self.seeds:
            cell.settle()
        binding = self.bindings.get(accumulate)
        if binding is None or accumulate in self.over:
            with PLANNING:
                if self.trust is not None and self._calls_recomputed() != self.recomputed:
                    self.epoch = self.but_need_grad = -1  # not valid any more
                    return None
                binding = self.bindings[accumulate] = self._bind(accumulate)
                self.over.discard(accumulate)
        if self.trust is None:
            binding.run()
        elif not self.trust.run_backward(binding.run, bool(self.recomputed)):
            return None
        if binding.plan.is_in_parts:
            self.over.add(accumulate)
        return accumulate

    def is_current(self) -> bool:
        """As `Forward.is_current`; the forward is to be that of then, too, if values are computed again."""
        epoch = EPOCH.value
        if self.epoch == epoch:
            return True
        if not self.structure.is_as_of(self.but_need_grad):
            return False
        roots = None if self._roots is None else self._roots()
        forward: Forward | None = None if roots is None else roots.forward
        if self.trust is not (None if forward is None else forward.trust):
            return False
        self.epoch = epoch
        return True

    @property
    def written(self) -> frozenset[int]:
        """The identities of the arrays in which it leaves gradients."""
        if self._written is None:
            stored = map(self.structure.value, self.stored)
            cells = [cell for _, cell in self.wanted] + [value.grad.cell for value in stored if value is not None]
            self._written = frozenset(map(id, cells))
        return self._written

    def _bind(self, accumulate: tuple[bool, ...]) -> Binding:
        kinds = tuple((add, dtype_number(cell)) for add, (_, cell) in zip(accumulate, self.wanted, strict=True))
        key = (self.key, kinds)
        compiled: BackwardPlan = PLANS.get_for_run(key, lambda in_parts: self._compile(accumulate, in_parts))
        grads = dict(self.wanted)
        leaf_cells = [grads[number] for number in compiled.leaves]
        middles = map(self.structure.value, compiled.middles)
        middle_cells = [None if value is None else value.grad.cell for value in middles]
        binding = Binding(
            compiled.plan,
            self.cells,
            [*leaf_cells, *middle_cells],
            float_values(compiled.plan, self.structure),
            key=key,
            epoch=self.epoch,
            gradients=leaf_cells,
            last_run=self.last_run if compiled.unstored else None,
        )
        for middle in middle_cells:
            if middle is not None:
                middle.is_data = True
        self._leave_unstored(compiled.unstored)
        return binding

    def _leave_unstored(self, numbers: Sequence[int]) -> None:
        """Give the gradients of values the recipe by which they are computed when they are read."""
        roots = None if self._roots is None else self._roots()
        if roots is not None and numbers:
            recipe = GradientRecipe(self.last_run, roots)
            for number in numbers:
                value = self.structure.value(number)
                if value is not None:
                    leave_gradient_unstored(value, recipe)

    def recompute(self, value: Value) -> None:
        """Compute the gradient of a value in the middle, and nothing else."""
        (number,) = [number for number in self.middle if self.structure.value(number) is value]
        Backward(self.structure, self.seeds, [(number, value.grad.cell)]).run((False,))

    def _compile(self, accumulate: tuple[bool, ...], in_parts: InParts) -> BackwardPlan:
        structure = self.structure
        recorded, seeds, found = self._backpropagated()
        graph, values = recorded.graph, recorded.values
        wanted = {number: values[number] for number, _ in self.wanted}
        first_wanted = len(structure.cells) + len(self.seeds)  # the number of its array: behind those of the seeds
        leaves: list[int] = []
        results: list[IRValue] = []
        into: list[int] = []
        gradients = self._sums_of_sharers(graph, [found.get(value) for value in wanted.values()])
        for index, (add, (number, cell), gradient) in enumerate(zip(accumulate, self.wanted, gradients, strict=True)):
            if gradient is None:
                continue
            gradient = _as_kept_in(graph, cell, gradient, first_wanted + index if add else -1)
            leaves.append(number)
            results.append(gradient)
            into.append(first_wanted + index)
        # Where nothing else arrives, the seed is all there is: the gradient of the value stays what it is.
        untouched = {value for value, seed in seeds.items() if found[value] is seed}
        reached = [
            number
            for number in (() if self._roots is None else self.middle)
            if values[number] in found and values[number] not in untouched
        ]
        middles = [number for number in reached if number in self._outside]
        results += [found[values[number]] for number in middles]
        into += [self._outside[number] for number in middles]
        unstored = [number for number in reached if number not in middles]
        if self.recomputed:
            put_off(graph, {recorded.calls[number] for number in self.recomputed})
        return BackwardPlan(lower(graph, results, into=into, in_parts=in_parts), leaves, middles, unstored)

    def _backpropagated(self) -> PlannedGradients:
        """The recorded calls as nodes, and the gradients: those that the forward's plan asked for, where they serve."""
        known = self._planned_with_forward()
        if known is not None:
            return known
        structure = self.structure
        graph = Graph(structure.functions[-1].context, self._aliases)
        recorded = AsNodes(graph, structure, computed=True, recomputed=self.recomputed)
        values = recorded.values
        seeds = self._seeds_by_root(graph, values)
        wanted = [values[number] for number, _ in self.wanted]
        asked = [values[number] for number in self.middle if structure.flags[number]]
        found = backpropagate(graph, recorded.nodes, seeds, [*wanted, *asked], recorded.blocked_values(self.starts))
        return PlannedGradients(recorded, seeds, found)

    def _planned_with_forward(self) -> PlannedGradients | None:
        """The gradients that were planned with the forward, if they are those of this backward; only once."""
        roots = None if self._roots is None else self._roots()
        if roots is None or roots.gradients is None:
            return None
        gradients: GradientsToCome = roots.gradients
        roots.gradients = None  # what is made of them changes their graph
        first = len(self.structure.cells)
        # Where an array is another one, too, the graph has to know from the start.
        if self.recomputed or self._aliases[first:] != list(range(first, len(self._aliases))):
            return None
        return gradients.of(self.structure, self.seeds)

    def _seeds_by_root(self, graph: Graph, values: Sequence[IRValue]) -> dict[IRValue, IRValue]:
        """Per root the gradient to start from, of its shape; values: those of the recorded graph."""
        structure = self.structure
        seeds: dict[IRValue, IRValue] = {}
        for index, (number, cell) in enumerate(self.seeds, len(structure.cells)):
            assert cell.dtype is not None
            root = values[number]
            is_whole = cell.size == root.size
            seed = graph.external(index, ArrayDesc(root.shape if is_whole else (1,) * len(root.shape), cell.dtype))
            origin = structure.origins[number]
            assert origin is not None, "no leaf is a root"
            graph.context = structure.functions[origin[0]].context
            # The one number is read where it is used: fusion takes the broadcast in.
            whole = seed if is_whole else graph.op("Broadcast", seed, shape=root.shape)
            # A root may be given twice.
            seeds[root] = seeds[root] + whole if root in seeds else whole
        return seeds

    def _sums_of_sharers(self, graph: Graph, gradients: Sequence[IRValue | None]) -> list[IRValue | None]:
        """Per wanted cell the sum of the gradients of all leaves that have it, at the index of the first of these."""
        sums: list[IRValue | None] = [None] * len(gradients)
        for gradient, first in zip(gradients, self._sharers(), strict=True):
            if gradient is None:
                continue
            before = sums[first]
            if gradient.node is not None:
                graph.context = gradient.node.context
            gradient = graph.reshape(gradient, self.structure.shapes[self.wanted[first][0]])
            sums[first] = gradient if before is None else graph.op("Add2", before, gradient)
        return sums


def _as_kept_in(graph: Graph, cell: ArrayCell, gradient: IRValue, before: int) -> IRValue:
    """A gradient as its array is to have it.  before: the number of that array, to which it is added; -1: to none."""
    if before >= 0:
        kept = graph.external(before, ArrayDesc(gradient.shape, cell.dtype or gradient.dtype), gradient.place)
        if gradient.node is not None:
            graph.context = gradient.node.context
        gradient = graph.op("Add2", kept, gradient)
    if cell.dtype is not None and is_float(cell.dtype) and gradient.dtype != cell.dtype:
        # An array that is there keeps its dtype: the user may hold a view of it.
        gradient = graph.coerce(gradient, None, cell.dtype, graph.context)
    return gradient


def plan_backward(roots: Roots, seeds: tuple[ArrayCell, ...]) -> Backward | None:
    """The backward of roots from the gradients in `seeds`; None where no leaf needs a gradient."""
    known: Backward | None = roots.backward
    if known is not None and known.given == seeds and known.is_current():
        return known
    with PLANNING:
        return _planned(roots, seeds)


def plan_adding(roots: Roots, seeds: tuple[ArrayCell, ...]) -> Backward | None:
    """As `plan_backward`, with deferred changes of the gradients of leaves made first: a plan that adds reads them."""
    plan = plan_backward(roots, seeds)
    if plan is not None and WATCHES:  # deferred changes have a watch
        waiting = [cell for _, cell in plan.wanted if cell.is_waiting]
        for cell in waiting:
            cell.settle()
        if waiting:
            plan = plan_backward(roots, seeds)  # the changes may have been made in other memory
    return plan


def _planned(roots: Roots, seeds: tuple[ArrayCell, ...]) -> Backward | None:
    """The backward of roots: with the bindings that they have, as far as they still hold."""
    epoch, but_need_grad = EPOCH.value, EPOCH.but_need_grad
    before: Backward | None = roots.backward
    forward: Forward | None = roots.forward
    values = roots.values()
    if forward is not None and forward.binding.epoch == epoch:
        structure = forward.structure
    else:
        structure = Structure(calls_before(values))
    numbers = [structure.number_of(value) for value in values]
    if not structure.is_reached(numbers):
        return None
    wanted = [
        (index, value.grad.cell)
        for index, value in enumerate(map(structure.value, range(len(structure.shapes))))
        if value is not None and value.need_grad and structure.origins[index] is None
    ]
    trust = None if forward is None else forward.trust
    starts = [*zip(numbers, seeds, strict=True), *_held(structure, structure.needs)]
    planned = Backward(structure, starts, wanted, roots, trust)
    planned.given = seeds
    if before is not None and before.structure.is_of(structure):
        planned.last_run = before.last_run
        if before.key == planned.key:
            for accumulate, binding in before.bindings.items():
                if accumulate not in before.over and binding.holds(binding.key, planned.cells, epoch):
                    planned.bindings[accumulate] = binding
    planned.epoch, planned.but_need_grad = epoch, but_need_grad
    roots.backward = planned
    return planned


def _held(structure: Structure, needs: Sequence[bool]) -> list[tuple[int, ArrayCell]]:
    """Further seeds: inputs of calls such as `sink`, whose own gradients flow on from them; with the cells of these."""
    numbers = {
        number: None
        for function, references in zip(structure.functions, structure.references, strict=True)
        if function.spec.may_resume and function.spec.resumes(function.attributes)
        for number in references
        if number >= 0 and structure.origins[number] is not None and needs[number]
    }
    held = []
    for number in numbers:
        value = structure.value(number)
        if value is not None:
            value.grad.cell.settle(value.data.dtype)
            held.append((number, value.grad.cell))
    return held
