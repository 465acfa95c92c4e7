"""Running one op, or the gradients of one, on given arrays in a given Context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.cell import ArrayCell
from atled.arrays.place import HOST
from atled.dtypes import is_float
from atled.graph.compile.lowering import lower
from atled.graph.compile.plan import Plan
from atled.graph.nodes.ir import Graph, IRValue
from atled.graph.run.binding import Binding
from atled.ops.spec import SPECS, OpSpec
from atled.type_configs import compute_dtype
from atled_contexts import Context

RANDOM_KEY = 20260601
"""Key of the random state of samples; any number."""

Build = Callable[[Graph, list[IRValue | None]], Sequence[IRValue]]


class Outcome:
    """What a run gave: the results as NumPy arrays, the inputs after it, and the plan."""

    def __init__(self, results: list[np.ndarray], inputs: list[np.ndarray | None], plan: Plan) -> None:
        self.results = results
        self.inputs = inputs
        self.plan = plan

    def backend_of(self, op: str) -> str:
        """Who computed an op."""
        return next(step.backend for step in self.plan.steps if step.name == op)


def evaluate(
    build: Build, arrays: Sequence[np.ndarray | None], context: Context, *, by_operands: bool = False
) -> Outcome:
    """Build a graph over the arrays, compile it, run it once; by_operands: as of `Graph`."""
    graph = Graph(context, by_operands=by_operands)
    cells = [_cell(np.zeros(0) if array is None else array) for array in arrays]
    values: list[IRValue | None] = [
        None if array is None else graph.external(number, ArrayDesc(array.shape, array.dtype))
        for number, array in enumerate(arrays)
    ]
    wanted = list(build(graph, values))
    plan = lower(graph, wanted)
    results = [ArrayCell(value.size) for value in wanted]
    floats = [source[1] for source in plan.floats]
    Binding(plan, cells, results, floats).run()
    found = []
    for value, cell, slot in zip(wanted, results, plan.targets, strict=True):
        description = plan.slots[slot]
        if description.source[0] != "target":
            # An output that an op writes into one of its inputs.
            cell = cells[description.source[1]]
        found.append(_array(cell, value.shape))
    return Outcome(
        found,
        [None if a is None else _array(c, a.shape) for a, c in zip(arrays, cells, strict=True)],
        plan,
    )


def _cell(array: np.ndarray) -> ArrayCell:
    cell = ArrayCell(array.size)
    storage = cell.output(HOST, array.dtype)
    storage.array(array.shape, array.dtype)[...] = array
    return cell


def _array(cell: ArrayCell, shape: tuple[int, ...]) -> np.ndarray:
    storage = cell.host()
    assert cell.dtype is not None
    return storage.array(shape, cell.dtype).copy()


def with_random_state(spec: OpSpec, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
    """The inputs of a call: those of the sample, then the random state where the op draws from one."""
    return [*arrays, np.array([RANDOM_KEY, -1])] if spec.random else list(arrays)


def call(spec: OpSpec, arrays: Sequence[np.ndarray | None], attributes: dict[str, Any], context: Context) -> Outcome:
    """All outputs of one op, auxiliary ones included."""

    def build(graph: Graph, values: list[IRValue | None]) -> Sequence[IRValue]:
        return _outputs(graph.op(spec.name, *values, **attributes))

    return evaluate(build, with_random_state(spec, arrays), context)


def _outputs(made: Any) -> tuple[IRValue, ...]:
    return made if isinstance(made, tuple) else (made,)


def oracle(
    spec: OpSpec, arrays: Sequence[np.ndarray | None], attributes: dict[str, Any]
) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
    """Outputs by the reference of the spec in float64, and the inputs after the run."""
    inputs = [None if a is None else a.copy() for a in arrays]
    descs = [None if a is None else ArrayDesc(a.shape, a.dtype) for a in inputs]
    checked = spec.check_attributes(attributes, descs)
    hidden = {item.name for item in spec.attributes if item.hidden and item.kind == "dtype"}
    checked.update({name: np.dtype(np.float64) for name in hidden if not spec.user_inputs})
    if spec.random:
        inputs.append(np.array([RANDOM_KEY, 0]))
    values = spec.reference(*inputs, **checked)
    outputs = [values] if isinstance(values, np.ndarray | np.generic) else list(values)
    return [np.asarray(output) for output in outputs], inputs[: len(arrays)]


def typed(arrays: Sequence[np.ndarray | None], type_config: str) -> list[np.ndarray | None]:
    """Sample arrays in the dtype of a type config; whole numbers stay."""
    dtype = compute_dtype(type_config)
    return [None if a is None else a.astype(dtype) if is_float(a.dtype) else a for a in arrays]


def spec_named(name: str) -> OpSpec:
    """The spec of a name, gradients of formulas included."""
    from atled.ops.elementwise import derived_spec  # loads the whole table; only asked for by tests

    return SPECS.get(name) or derived_spec(name)


def widened(array: np.ndarray | None) -> np.ndarray | None:
    """The same numbers in float64; whole numbers stay."""
    return array.astype(np.float64) if array is not None and is_float(array.dtype) else array
