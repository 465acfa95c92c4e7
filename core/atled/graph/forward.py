"""Forward of recorded graphs: find or compile the plan, bind it, run it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import NamedTuple

from atled.arrays.array import ArrayCell, NdArray
from atled.arrays.epoch import EPOCH
from atled.arrays.watches import WATCHES, announce
from atled.graph.backward import read_by_backward
from atled.graph.bound_plan import Bound
from atled.graph.compile.lowering import lower
from atled.graph.compile.plan import Template
from atled.graph.compile.templates import PLANNING, TEMPLATES
from atled.graph.nodes.ir import Graph
from atled.graph.recompute.choice import chosen_again
from atled.graph.recompute.recipes import LastRun, LostValues, lose
from atled.graph.recompute.trust import Repeats
from atled.graph.record.as_nodes import Recorded, float_values
from atled.graph.record.structure import Structure, calls_before
from atled.graph.record.value import Function, Value
from atled.graph.run.binding import Binding
from atled.graph.run.one_call import OneCall, one_call, settle_inputs
from atled_contexts import plugin_generation


def _compile_forward(structure: Structure, lost: frozenset[int]) -> Template:
    graph = Graph(structure.functions[-1].context)
    recorded = Recorded(graph, structure, computed=False)
    results = [recorded.calls[call].outputs[position] for call, position in results_of(structure, lost)]
    # Fused ops read what they made from registers, and run elsewhere in the order: an array that was given to several
    # values must be written and read in the order of the calls.
    return lower(graph, results, is_fused=not structure.overwrites, is_disjoint=not structure.overwrites)


def results_of(structure: Structure, lost: Collection[int]) -> list[tuple[int, int]]:
    """The outputs that a forward writes: (call, position), views and lost values left out."""
    return [
        (number, position)
        for number, (function, made) in enumerate(zip(structure.functions, structure.made, strict=True))
        if not function.spec.views
        for position in range(len(function.output_descs))
        if position >= len(made) or made[position] not in lost
    ]


def cells_of(structure: Structure, results: Sequence[tuple[int, int]]) -> list[ArrayCell | None]:
    """The array of each output, given as (call, position); None for one that nobody has."""
    cells: list[ArrayCell | None] = []
    for number, position in results:
        cell = structure.functions[number].auxiliary[position]
        made = structure.made[number]
        if cell is None and position < len(made) and made[position] >= 0:
            cell = structure.cells[made[position]]
        cells.append(cell)
    return cells


class _Kept(NamedTuple):
    """What of a graph is stored.

    lost: numbers of the values that a forward need not store: nobody looks at them, and no backward reads them.
    repeats: those that backward may compute again; they are lost as well if it is known that it may.
    """

    lost: frozenset[int]
    repeats: Repeats | None


def _kept(structure: Structure, root: Value, before: Repeats | None) -> _Kept:
    """Work out what is stored; before: what was found the last time."""
    own = before.watched if before is not None and before.is_watching else frozenset()
    candidates = unobserved(structure, root, _can_repeat, own)
    if not candidates:
        return _Kept(frozenset(), None)
    cells = structure.cells
    start = structure.made[-1][root.position]
    by_cell = {id(cells[number]) for number in read_by_backward(structure, start)}
    read = {number for number in range(len(structure.shapes)) if id(cells[number]) in by_cell}
    lost = frozenset(number for number in candidates if number not in read and not cells[number].bound)
    found = chosen_again(structure, start, candidates, read)
    if not found:
        return _Kept(lost, None)
    functions = frozenset(structure.functions[call] for _, *calls in found for call in calls)
    values = [structure.reference(number) for number, *_ in found]
    made = {output for _, *calls in found for call in calls for output in structure.made[call]}
    operands = {reference for _, *calls in found for call in calls for reference in structure.references[call]}
    repeats = Repeats(values, functions, [cells[number] for number in sorted(operands - made)])
    if before is not None and before.is_like(repeats):
        repeats = before
    return _Kept(lost | {number for number, *_ in found} if repeats.is_trusted else lost, repeats)


def unobserved(
    structure: Structure, root: Value, may_lose: Callable[[Function], bool], own: Collection[int] = ()
) -> list[int]:
    """The results, by number, that nobody looks at, that no plan has memory of, and whose functions are as asked.

    own: identities of arrays of which plans may have memory.
    """
    if structure.overwrites:
        return []
    cells = structure.cells
    stored = {id(root.data.cell)}
    candidates = []
    # By arrays: who looks at a view looks at what it shows.
    for number, origin in enumerate(structure.origins):
        if origin is None:
            continue
        value, cell = structure.value(number), cells[number]
        is_bound = cell.bound and id(cell) not in own
        if value is None or is_bound or value.is_stored or (cell.storage is not None and cell.has_live_view):
            stored.add(id(cell))  # an array that plans have keeps its memory
        elif may_lose(structure.functions[origin[0]]):
            candidates.append(number)
    for function, references in zip(structure.functions, structure.references, strict=True):
        spec = function.spec
        if spec.mutated or spec.inplace or spec.opaque:
            stored.update(id(cells[number]) for number in references if number >= 0)
    return [number for number in candidates if id(cells[number]) not in stored]


def _can_repeat(function: Function) -> bool:
    """Whether a function can be computed again at any time, and gives the same then: no draw, no state."""
    spec = function.spec
    if spec.random or spec.inplace or spec.opaque or spec.views:
        return False
    if (spec.mutated or spec.auxiliary) and not spec.repeats:
        return False
    # Not of several outputs that users see: those that are stored may have been written since.
    return spec.visible_count(len(function.output_descs), function.attributes) == 1


def _bind_forward(
    structure: Structure, key: Hashable, epoch: int, kept: _Kept, root: Value, before: Bound | None
) -> Bound:
    lost = kept.lost
    template = TEMPLATES.get(key, lambda: _compile_forward(structure, lost))
    results = cells_of(structure, results_of(structure, lost))
    binding = Binding(template, structure.cells, results, float_values(template, structure))
    last_run = before.last_run if before is not None else None
    recipe = None
    if lost:
        last_run = last_run or LastRun()
        recipe = LostValues(last_run, root, [structure.reference(number) for number in lost], call_function)
        for number in lost:
            lose(structure.cells[number], recipe)
    bound = Bound(key, binding, epoch, structure=structure, last_run=last_run)
    bound.recipe = recipe
    return bound


def plan_forward(root: Value) -> Bound:
    """The bound plan that computes a value; the one of last time where nothing changed since."""
    bound: Bound | None = root.forward
    if bound is not None and bound.epoch == EPOCH.value:
        return bound
    with PLANNING:
        return _planned(root)


def _planned(root: Value) -> Bound:
    """The plan of a root, looked at again or made anew."""
    epoch = EPOCH.value
    bound: Bound | None = root.forward
    structure = Structure(calls_before(root))
    kept = _kept(structure, root, None if bound is None else bound.repeats)
    key = ("forward", plugin_generation(), structure.key, kept.lost)
    if bound is not None and bound.holds(key, structure.cells, epoch):
        bound.structure = structure  # with the flags of now
        for number in kept.lost:
            cell = structure.cells[number]
            if not cell.is_lost:
                assert bound.recipe is not None
                lose(cell, bound.recipe)  # somebody had it computed after the last run: this one does not store it
    else:
        bound = root.forward = _bind_forward(structure, key, epoch, kept, root, bound)
    bound.repeats = kept.repeats
    if kept.repeats is not None:
        kept.repeats.recipe = bound.recipe
    return bound


def forward(root: Value) -> None:
    """Compute a value from the leaves; nothing to do for a leaf."""
    if root.parent is None:
        return
    bound = plan_forward(root)
    if WATCHES or bound.repeats is not None:
        if bound.repeats is not None:
            bound.repeats.forward_begins()
        # Before it is planned: what others have stored because of this run may be what this one does not store.
        if WATCHES:
            announce(bound.binding.writes)
        bound = plan_forward(root)
    bound.run()


def call_function(function: Function, inputs: Sequence[Value | None], outputs: Sequence[Value | None]) -> OneCall:
    """Run one function on given values, which need not be those of its graph; its state is that of its own.

    Returns the compiled call.
    """
    shapes: list[tuple[int, ...] | None] = [None if value is None else value.shape for value in inputs]
    function.setup(shapes)
    cells = [None if value is None else value.data.cell for value in inputs]
    if function.stream is not None:
        cells.append(function.stream)
        shapes.append((2,))
    spec = function.spec
    codes = settle_inputs(cells, function.context)
    call = one_call(function.kind, codes, spec, cells, shapes, function.attributes, function.context)
    results: list[ArrayCell | None] = []
    for position, cell in enumerate(function.auxiliary):
        value = outputs[position] if position < len(outputs) else None
        results.append(cell if cell is not None or value is None else value.data.cell)
    call.run(cells, results, [function.attributes[name] for name in spec.float_names])
    _show_state(function, inputs, outputs)
    return call


def _show_state(function: Function, inputs: Sequence[Value | None], outputs: Sequence[Value | None]) -> None:
    """Give outputs that are not the function's own what it does not write to them: views, and results that it keeps."""
    for value, desc, cell in zip(outputs, function.output_descs, function.auxiliary, strict=False):
        if value is None:
            continue
        if function.spec.views and inputs[0] is not None:
            if value.data.cell is not inputs[0].data.cell:
                value.data = NdArray.over(inputs[0].data.cell, desc.shape)
        elif cell is not None and value.data.cell is not cell:
            value.data.copy_from(NdArray.over(cell, desc.shape))
