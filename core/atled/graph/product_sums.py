"""Sums of matrix products, which arise where one weight is used several times, as one product of longer sums."""

from __future__ import annotations

from collections.abc import Sequence

from atled.graph.ir import Graph, IRNode, IRValue


def is_short_product(value: IRValue) -> bool:
    """Whether a value is a product `a^T b` whose factors are together smaller than it.

    Such is the gradient of a weight from few rows, as in one step of a recurrent layer. To add many of these costs more
    than to compute them; one product of all their rows only has to copy the factors.
    """
    return _product(value) is not None


def sum_of_products(graph: Graph, values: Sequence[IRValue]) -> IRValue:
    """The sum of values for which `is_short_product` holds, all of one shape; nodes are added to the graph.

    The products themselves stay in the graph, for lowering to drop where nobody else reads them.
    """
    alike: dict[object, list[IRNode]] = {}
    first: dict[object, IRValue] = {}
    for value in values:
        node = _product(value)
        assert node is not None
        a, b = _factors(node)
        # Those of one Context, place and dtype; of different shapes where they were reshaped to one.
        key = (node.context, a.place, a.dtype, b.dtype, a.shape[1], b.shape[1])
        alike.setdefault(key, []).append(node)
        first.setdefault(key, value)
    total: IRValue | None = None
    outer_context = graph.context
    for kind, nodes in alike.items():
        graph.context = nodes[0].context
        term = first[kind]
        if len(nodes) > 1:
            factors = zip(*(_factors(node) for node in nodes), strict=True)
            a, b = (graph.op("Concatenate", *parts, axis=0) for parts in factors)
            term = graph.reshape(graph.op("BatchMatmul", a, b, transpose_a=True), values[0].shape)
        total = term if total is None else graph.op("Add2", total, term)
    graph.context = outer_context
    assert total is not None
    return total


def _product(value: IRValue) -> IRNode | None:
    """The node of the product that a value is, seen through reshapes; None if it is none, or a large sum."""
    node = value.node
    while node is not None and node.spec is not None and node.spec.name == "Reshape":
        source = node.inputs[0]
        node = None if source is None else source.node
    if node is None or node.spec is None or node.spec.name != "BatchMatmul":
        return None
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
