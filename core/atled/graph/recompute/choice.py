"""Which values a backward computes again because that is quicker than to store and read them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from atled.arrays.place import HOST
from atled.graph.compile.fusion import formulas_of
from atled.graph.compile.plans import PLANS
from atled.graph.nodes.ir import IRNode
from atled.graph.recompute.reads import GradientsToCome
from atled.graph.record.as_nodes import AsNodes
from atled.graph.record.structure import Structure
from atled.ops.formula import Expr
from atled.ops.formula_work import work_of
from atled_contexts import plugin_generation

# A value is written by the forward and read by the backward. Where no cache holds it until then, that takes as long as
# some arithmetic, which is free in a loop that waits for memory.
_STREAMED_BYTES = 32 << 20
"""Of all values of a graph together: below that a cache may still hold them when backward reads them."""

_LEAST_BYTES = 1 << 20
"""Of one value: smaller ones are not worth a look."""

_MOST_CALLS = 12
"""For one value: all of them lengthen the kernel that reads it."""

_ITEM_BYTES = 4  # of nearly all that is computed


def may_choose(structure: Structure) -> bool:
    """Whether a graph is such that computing again may pay: `choose_recomputed` finds nothing in others."""
    # Code of the user could plan while the backward runs, for which writers wait.
    is_large = sum(map(_nbytes, structure.shapes)) >= _STREAMED_BYTES
    return is_large and not any(function.spec.opaque for function in structure.functions)


def _nbytes(shape: Sequence[int]) -> int:
    return _ITEM_BYTES * math.prod(shape)


def choose_recomputed(gradients: GradientsToCome, candidates: Sequence[int], read: Collection[int]) -> list[list[int]]:
    """Per value that a backward is to compute again: its number, then those of the calls that compute it.

    candidates: values that need not be stored.  read: values that a backward reads.
    """
    structure = gradients.structure
    if not may_choose(structure):
        return []
    shapes = structure.shapes
    wanted = tuple(number for number in candidates if number in read and _nbytes(shapes[number]) >= _LEAST_BYTES)
    if not wanted:
        return []
    key = (
        "recomputed",
        plugin_generation(),
        structure.key,
        tuple(structure.flags),
        gradients.roots,
        tuple(candidates),
        wanted,
    )
    found: list[list[int]] = PLANS.get(key, lambda: _Choice(gradients, candidates, read).of(wanted))
    return found


class _Choice:
    """What is known while values are chosen one by one."""

    def __init__(self, gradients: GradientsToCome, candidates: Sequence[int], read: Collection[int]) -> None:
        self._structure = structure = gradients.structure
        self._read = read
        self._unstored = {number for number in candidates if number not in read}
        self._taken: dict[int, list[int]] = {}
        planned = gradients.planned()
        assert planned is not None, "something was read"
        self._recorded: AsNodes = planned.recorded
        self._readers: dict[int, list[IRNode | None]] = {}  # by array; None where it is a gradient as it is
        for value in planned.gradients:
            self._note(value.external, None)
        for node in planned.nodes:
            for operand in node.inputs:
                if operand is not None:
                    self._note(operand.external, node)
        changed = [
            references[position]
            for function, references in zip(structure.functions, structure.references, strict=True)
            for position in {*function.mutated, *function.spec.inplace.values()}
        ]
        self._changed = {id(structure.cells[number]) for number in changed if number >= 0}

    def _note(self, external: int, reader: IRNode | None) -> None:
        if 0 <= external < len(self._structure.shapes):
            self._readers.setdefault(id(self._structure.cells[external]), []).append(reader)

    def of(self, wanted: Sequence[int]) -> list[list[int]]:
        """The values to be computed again, each with its calls."""
        known = set(self._read)
        for number in wanted:
            if not self._is_read_by_fused(number):
                continue
            made = self._made_of(number)
            if made is None:
                continue
            calls, sources = made
            cost = sum(self._cost(call) for call in calls)
            new = sources - known
            # Saved: writing the value and reading it. Paid: reading sources that nothing else reads, so at most one.
            # The loop goes over a cotangent, the sources and at least one result: arithmetic of that cost is hidden by
            # its waiting for memory.
            if len(new) < 2 and cost <= 2 + len(sources):
                self._taken[number] = calls
                known |= new
        return [[number, *calls] for number, calls in self._taken.items()]

    def _is_read_by_fused(self, number: int) -> bool:
        """Whether only elementwise steps that are as large as the value read it."""
        readers = self._readers.get(id(self._structure.cells[number]), [])
        shape = self._structure.shapes[number]
        return bool(readers) and all(
            reader is not None and _formula(reader) is not None and reader.outputs[0].shape == shape
            for reader in readers
        )

    def _made_of(self, number: int) -> tuple[list[int], set[int]] | None:
        """The calls that compute a value, and the numbers of the stored ones they read; None if it cannot be done."""
        structure = self._structure
        shape = structure.shapes[number]
        calls: dict[int, None] = {}
        sources: set[int] = set()
        stack = [number]
        while stack:
            current = stack.pop()
            origin = structure.origins[current]
            if origin is None or not (current == number or current in self._unstored or current in self._taken):
                if id(structure.cells[current]) in self._changed:
                    return None
                sources.add(current)
                continue
            call = origin[0]
            node = self._recorded.calls[call]
            if _formula(node) is None or node.outputs[0].shape != shape or len(calls) >= _MOST_CALLS:
                return None
            if any(value is None or value.external < 0 or value.place is not HOST for value in node.inputs):
                return None  # it has to be cast or moved first
            calls[call] = None
            stack += structure.references[call]
        return sorted(calls), sources

    def _cost(self, call: int) -> int:
        """How many elements could be read in the time that a call takes for one."""
        formula = _formula(self._recorded.calls[call])
        assert formula is not None
        return work_of(formula)


def _formula(node: IRNode) -> Expr | None:
    """The formula of an elementwise node that makes a value of its own; None for other nodes."""
    formulas = formulas_of(node)
    return None if formulas is None or node.spec is None or node.spec.inplace else formulas[0]
