"""The entries of backward: of a graph, by the plan of a rebuilt one or one made now, and of a single recorded call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.cell import UNWRITTEN, ArrayCell
from atled.arrays.place import HOST
from atled.errors import four_parts
from atled.graph.backward_plan import Backward, plan_adding
from atled.graph.rebuilt import REBUILT, Found, RebuiltPlan, find, remember
from atled.graph.record.roots import Roots, roots_of
from atled.graph.record.structure import Structure
from atled.graph.record.traversal import needs_gradient
from atled.graph.record.value import RecordedCall, Value
from atled.graph.seed import seed_of
from atled_contexts import is_observed


def call_backward(
    function: RecordedCall,
    inputs: Sequence[Value | None],
    outputs: Sequence[Value],
    accumulate: Sequence[bool],
) -> None:
    """Backward of one function from the gradients of `outputs` into those of `inputs`, which need not be its own.

    Where one value is given twice, the first of its flags counts.
    """
    structure = Structure([function.moved_to(inputs, outputs)])
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
        output.grad.cell.settle()
        seeds.append((number, output.grad.cell))
    Backward(structure, seeds, list(wanted.items())).run(tuple(adds.values()))


Gradient = float | np.ndarray | NdArray | None
"""What is given as the gradient of a root: lent to it, broadcast, for the run; None takes its present one."""


def backward(root: Value, grad: Gradient) -> None:
    """Backpropagate from a value. RuntimeError for a leaf."""
    roots = root.details.roots
    if roots is None:
        if root.is_leaf:
            raise _leaf_error(root)
        roots = roots_of((root,))
    if roots.may_clear:
        roots.refuse_clearing()
    is_looked_for = not is_observed()
    found, known = None, None
    if is_looked_for and isinstance(grad, NdArray) and _can_be_read(root, grad):
        # To copy it takes a quarter of the backward of a small graph.
        found, known = _known(root, grad.cell)
        if isinstance(known, RebuiltPlan) and known.reads_seed_once:
            assert found is not None, "known by its key"
            known.run(found, grad.cell)
            return
    seed = seed_of(roots, 0, root, grad)
    if is_looked_for and found is None:
        found, known = _known(root, seed)
    if found is not None and isinstance(known, RebuiltPlan):
        known.run(found, seed)
        return
    before = None if found is None or known is not None else found.before(seed)
    ran = _run(roots, (seed,))
    if found is not None and before is not None and ran is not None:
        remember(found, before, *ran)


def _can_be_read(root: Value, grad: NdArray) -> bool:
    """Whether the gradient given for a root is in host memory, as a copy of it would be."""
    own, given = root._cell, grad.cell
    is_there = given.pending is None and given.place is HOST and grad.shape == root.shape
    return is_there and own is not None and given.dtype == own.dtype


def _known(root: Value, seed: ArrayCell) -> tuple[Found | None, object]:
    """What is found of the graph before a root, and what is known of its backward."""
    found = find(root, seed)
    return found, None if found is None else REBUILT.find(found.key)


def backward_all(values: Sequence[Value], grads: Sequence[Gradient]) -> None:
    """Backpropagate from values in one plan: what arrives at one from several is added up before it goes on.

    RuntimeError if one is a leaf, before anything is computed.
    """
    for value in values:
        if value.is_leaf:
            raise _leaf_error(value)
    if values:
        roots = roots_of(values)
        roots.refuse_clearing()
        given = enumerate(zip(values, grads, strict=True))
        _run(roots, tuple([seed_of(roots, position, value, grad) for position, (value, grad) in given]))


def _run(roots: Roots, seeds: tuple[ArrayCell, ...]) -> tuple[Backward, tuple[bool, ...]] | None:
    """Plan and run; which plan ran. None where there is nothing to compute."""
    while True:
        plan = plan_adding(roots, seeds)
        if plan is None:
            return None
        accumulate = plan.run()
        if accumulate is not None:
            return plan, accumulate


def _leaf_error(value: Value) -> RuntimeError:
    return RuntimeError(
        four_parts(
            f"backward on a Variable of shape {value.shape}",
            "it is a leaf: nothing computed it",
            "",
            "call backward on the result of a function",
        )
    )
