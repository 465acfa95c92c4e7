"""Fusions that were found before: which nodes become one does not depend on sizes, but on which shapes are equal."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from atled.graph.nodes.ir import FloatSlot, Graph, IRArray, IRNode, IRValue, digits_of
from atled.limits.caches import Generations
from atled.named_tuple import NamedTuple
from atled.ops.spec import OpSpec

_LARGEST_FACTOR = 8  # whole numbers in formulas, and what they divide; larger ones are counts of elements
_COUNT = "count"  # in the place of a number that is one


class _Fused(NamedTuple):
    """A node that fusion made: of which node it has decision and Context, its op, the numbers of values and floats."""

    member: int
    spec: OpSpec
    inputs: tuple[int, ...]
    floats: tuple[int, ...]
    outputs: tuple[int, ...]


Fusion = Sequence[int | _Fused]
"""What runs instead of some nodes: those by number, and those that are made of several."""

MadeOf = Mapping[IRNode, IRNode]
"""Of each node that fusion made the one of which it has decision and Context."""

FUSIONS: Generations[Fusion] = Generations("fusions", 256, weigh=len, weight_limit=50_000)
"""By what `looks_of` gives; a node that runs takes some 1.5 KB of that."""


class Looks(NamedTuple):
    """All that the fusion of some nodes depends on, equal for graphs that differ in sizes alone; and their values."""

    key: Hashable
    numbers: Mapping[IRValue, int]


def is_count(value: float) -> bool:
    """Whether a number is likely a count of elements, or one divided by it."""
    if value != value or abs(value) in (0.0, float("inf")):
        return False
    count = max(abs(value), 1 / abs(value))
    return count > _LARGEST_FACTOR and abs(count - round(count)) < 1e-9 * count


def looks_of(
    graph: Graph, nodes: Sequence[IRNode], results: Iterable[IRValue], bounds: tuple[int, ...]
) -> Looks | None:
    """What nodes look like to fusion; None where that is not told: with windows, and code of the user.

    bounds: of what is fused.
    """
    if graph.has_windows:
        return None
    floats = graph.floats
    numbers: dict[IRValue, int] = {}
    shapes: dict[tuple[int, ...], int] = {}
    arrays: dict[IRArray, int] = {}
    rows: list[Hashable] = []
    for node in nodes:
        spec, decision, context = node.spec, node.decision, node.context
        if spec is not None and spec.by_engine:
            return None
        row: list[Hashable] = [spec, len(node.inputs), node.computed, context.deterministic, context.local_errors]
        if decision is not None:
            row += decision.implementation, decision.backend, decision.type_config, decision.call.by_operands
        values = (*node.inputs, None, *node.outputs)
        if node.changed:
            row.append(tuple(node.changed))
            values += (None, *node.changed.values())
        for value in values:
            if value is None:
                row.append(-1)
                continue
            number = numbers.get(value)
            if number is None:
                number = numbers[value] = len(numbers)
                desc = value.desc
                if desc.strides is not None:
                    return None
                row += desc.dtype, shapes.setdefault(desc.shape, len(shapes)), value.place
                array = value.base.array
                if array is not None and array.values:  # which some node changes: the order follows from versions
                    row += arrays.setdefault(array, len(arrays)), value.version, value.shows.version
                    row += value.base.external >= 0, value.is_view, value.is_in_place
            row.append(number)
        for name in () if spec is None else spec.float_names:
            slot = node.attributes[name]
            assert isinstance(slot, FloatSlot)
            source = floats[slot.index]
            if source[0] == "constant":
                source = (_COUNT,) if is_count(source[1]) else ("constant", digits_of(source[1]))
            row += slot.index, source
        rows.append(tuple(row))
    stored = frozenset([numbers[value] for value in results if value in numbers])
    return Looks((bounds, tuple(rows), stored), numbers)


def known_fusion(looks: Looks, nodes: Sequence[IRNode], make: Callable[..., IRNode]) -> list[IRNode] | None:
    """What runs instead of nodes that look like others that were fused before; None where there were none.

    make: a node of one that it has decision and Context of, its op, inputs, floats and outputs.
    """
    found = FUSIONS.get(looks.key) or FUSIONS.find_old(looks.key)
    if found is None:
        return None
    values = list(looks.numbers)
    result = []
    for each in found:
        if isinstance(each, int):
            result.append(nodes[each])
            continue
        inputs, outputs = ([values[number] for number in some] for some in (each.inputs, each.outputs))
        result.append(make((nodes[each.member],), each.spec, inputs, each.floats, outputs))
    return result


def note_fusion(looks: Looks, nodes: Sequence[IRNode], fused: Sequence[IRNode], made_of: MadeOf) -> None:
    """Keep what was made of nodes for those that look like them."""
    position: dict[Any, int] = {node: number for number, node in enumerate(nodes)}
    numbers = looks.numbers
    kept: list[int | _Fused] = []
    for node in fused:
        if node in position:
            kept.append(position[node])
            continue
        assert node.spec is not None
        slots = [node.attributes[name] for name in node.spec.float_names]
        inputs, outputs = (
            tuple([numbers[value] for value in some if value is not None]) for some in (node.inputs, node.outputs)
        )
        kept.append(_Fused(position[made_of[node]], node.spec, inputs, tuple([slot.index for slot in slots]), outputs))
    FUSIONS.add(looks.key, tuple(kept))
