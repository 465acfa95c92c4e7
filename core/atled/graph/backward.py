"""The entries of backward: of a graph, by the plan of a rebuilt one or one made now, and of a single recorded call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.cell import UNWRITTEN, ArrayCell
from atled.graph.backward_plan import Backward, plan_adding
from atled.graph.rebuilt import REBUILT, RebuiltPlan, remember, walk
from atled.graph.record.structure import CallSite, Structure
from atled.graph.record.traversal import needs_gradient
from atled.graph.record.value import RecordedCall, Value
from atled.graph.seed import seed_of
from atled_contexts import is_observed


def call_backward(
    function: RecordedCall,
    inputs: Sequence[Value | None],
    outputs: Sequence[Value | None],
    accumulate: Sequence[bool],
) -> None:
    """Backward of one function from the gradients of `outputs` into those of `inputs`, which need not be its own.

    Where one value is given twice, the first of its flags counts.
    """
    structure = Structure([CallSite(function, inputs, outputs)])
    wanted: dict[int, ArrayCell] = {}
    adds: dict[int, bool] = {}
    for number, value, add in zip(structure.references[0], inputs, accumulate, strict=True):
        if value is not None and number not in wanted and needs_gradient(value):
            cell = wanted[number] = value.grad.cell
            adds[number] = add and cell.pending is not UNWRITTEN
            if adds[number]:
                cell.settle()
    if not wanted:
        return
    seeds = []
    for number, output in zip(structure.made[0], outputs, strict=True):
        if output is not None:
            output.grad.cell.settle()
            seeds.append((number, output.grad.cell))
    Backward(structure, seeds, list(wanted.items())).run(tuple(adds.values()))


def backward(root: Value, grad: float | np.ndarray | NdArray | None) -> None:
    """Backpropagate from a value; `grad` is lent to it as its gradient, None takes its present one."""
    seed = seed_of(root, grad)
    found = None if is_observed() else walk(root, seed)
    known: Any = None if found is None else REBUILT.find(found.key)
    if found is not None and isinstance(known, RebuiltPlan):
        known.run(found, seed)
        return
    # Before functions are made of the patterns.
    kinds = [] if found is None else [value.pattern.kind for value in found.values if value.pattern is not None]
    while True:
        plan = plan_adding(root, seed)
        if plan is None:
            return
        accumulate = plan.run()
        if accumulate is not None:
            break
    if found is not None and known is None:
        remember(found, kinds, plan, accumulate)
