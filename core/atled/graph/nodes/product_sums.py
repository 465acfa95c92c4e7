"""Gradients of a weight that is used several times: the sum of matrix products becomes one product of longer sums."""

from __future__ import annotations

from collections.abc import Sequence

from atled.graph.nodes.dispatch import backend_for
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.ops.spec import SPECS


def is_short_product(value: IRValue) -> bool:
    """Whether a value is a product `a^T b` whose factors are together smaller than it.

    An example is the gradient of a weight from few rows, as in one step of a recurrent layer. Adding many of
    these costs more than computing them; one product of all their rows only has to copy the factors.
    """
    return _product(value) is not None


def sum_of_products(graph: Graph, values: Sequence[IRValue]) -> IRValue:
    """The sum of values for which `is_short_product` holds, all of one shape; nodes are added to the graph.

    The products themselves stay in the graph; lowering drops those that nothing else reads.
    """
    alike: dict[object, list[IRValue]] = {}
    for value in values:
        node = _product(value)
        assert node is not None
        a, b = _factors(node)
        # Those of one Context, place and dtype; of different shapes where they were reshaped to one.
        key = (node.context, a.place, a.dtype, b.dtype, a.shape[1], b.shape[1])
        alike.setdefault(key, []).append(value)
    terms: list[IRValue] = []
    outer_context = graph.context
    for kind in alike.values():
        nodes = [node for node in map(_product, kind) if node is not None]
        graph.context = nodes[0].context
        if len(nodes) > 1 and _can_join(nodes):
            factors = zip(*map(_factors, nodes), strict=True)
            a, b = (graph.op("Concatenate", *parts, axis=0) for parts in factors)
            joined = graph.op("BatchMatmul", a, b, transpose_a=True)
            terms.append(graph.reshape(joined, values[0].shape))
        else:
            terms += kind
    total = terms[0]
    for term in terms[1:]:
        total = graph.op("Add2", total, term)
    graph.context = outer_context
    return total


def _can_join(nodes: Sequence[IRNode]) -> bool:
    """Whether the backend of the products also puts their factors side by side.

    Another one might be on another device, or there might be none, where a Context asks for no fallback.
    """
    context, decision = nodes[0].context, nodes[0].decision
    assert decision is not None  # by `_product`
    spec = SPECS["Concatenate"]
    return all(
        backend_for(spec, [part.desc for part in parts], {"axis": 0}, context) == decision.backend
        for parts in zip(*map(_factors, nodes), strict=True)
    )


def _product(value: IRValue) -> IRNode | None:
    """The node of the product that a value is, seen through reshapes; None if it is none, or a large sum."""
    node = value.node
    while node is not None and node.spec is not None and node.spec.name == "Reshape":
        source = node.inputs[0]
        node = None if source is None else source.node
    if node is None or node.spec is None or node.spec.name != "BatchMatmul":
        return None
    if node.computed or node.decision is None:
        return None  # no step of this plan: its value is there already, or it is only recorded
    if not node.attributes["transpose_a"] or node.attributes["transpose_b"]:
        return None
    a, b = _factors(node)
    if a.ndim != 2 or b.ndim != 2:
        return None
    return node if a.size + b.size <= a.shape[1] * b.shape[1] else None


def _factors(node: IRNode) -> tuple[IRValue, IRValue]:
    a, b = node.inputs
    assert a is not None
    assert b is not None
    return a, b
