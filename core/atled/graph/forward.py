"""Forward of recorded graphs: find or compile the plan, bind it, run it."""

from __future__ import annotations

from collections.abc import Sequence

from atled.array import ArrayCell, NdArray
from atled.epoch import EPOCH
from atled.graph.binding import Binding
from atled.graph.bound import Bound
from atled.graph.eager import OneCall, one_call, settle_inputs
from atled.graph.ir import Graph
from atled.graph.lowering import lower
from atled.graph.plan import Template
from atled.graph.recorded import Recorded, float_values
from atled.graph.structure import Structure, calls_before
from atled.graph.templates import TEMPLATES
from atled.graph.value import Function, Value
from atled_contexts import plugin_generation


def _compile_forward(structure: Structure) -> Template:
    graph = Graph(structure.functions[-1].context)
    recorded = Recorded(graph, structure, computed=False)
    results = [recorded.calls[call].outputs[position] for call, position in _results(structure)]
    # Fused ops read what they made from registers, and run elsewhere in the order: an array that was given to several
    # values must be written and read in the order of the calls.
    return lower(graph, results, is_fused=not structure.overwrites)


def _results(structure: Structure) -> list[tuple[int, int]]:
    """The outputs that a forward writes: (call, position), views left out."""
    return [
        (number, position)
        for number, function in enumerate(structure.functions)
        if not function.spec.views
        for position in range(len(function.output_descs))
    ]


def _bind_forward(structure: Structure) -> Bound:
    key = ("forward", plugin_generation(), structure.key)
    template = TEMPLATES.get(key, lambda: _compile_forward(structure))
    results: list[ArrayCell | None] = []
    for number, position in _results(structure):
        cell = structure.functions[number].auxiliary[position]
        made = structure.made[number]
        if cell is None and position < len(made) and made[position] >= 0:
            cell = structure.cells[made[position]]
        results.append(cell)
    binding = Binding(template, structure.cells, results, float_values(template, structure))
    return Bound(key, binding, structure=structure)


def plan_forward(root: Value) -> Bound:
    """The bound plan that computes a value; the one of last time where nothing changed since."""
    bound: Bound | None = root.forward
    if bound is not None and bound.epoch == EPOCH.value:
        return bound
    structure = Structure(calls_before(root))
    if bound is not None and bound.holds(("forward", plugin_generation(), structure.key), structure.cells):
        return bound
    bound = root.forward = _bind_forward(structure)
    return bound


def forward(root: Value) -> None:
    """Compute a value from the leaves; nothing to do for a leaf."""
    if root.parent is not None:
        plan_forward(root).run()


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
