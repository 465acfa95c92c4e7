"""The entry of lowering, which imports what it needs when the first plan is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atled.graph.compile.parts import InParts
from atled.graph.compile.plan import Plan
from atled.graph.nodes.ir import Graph, IRNode, IRValue


def lower(
    graph: Graph,
    results: Sequence[IRValue | None],
    *,
    apart: Iterable[IRNode] = (),
    again: Iterable[IRNode] = (),
    into: Sequence[int] = (),
    in_parts: InParts = InParts.NONE,
) -> Plan:
    """See `lowering.lower`."""
    from atled.graph.compile import lowering  # a fifth of what `import atled` would take, and nothing is planned before

    return lowering.lower(graph, results, apart=apart, again=again, into=into, in_parts=in_parts)
