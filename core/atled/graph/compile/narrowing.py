"""Narrowing: matrix products of which only some columns are read are computed for these columns only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atled.graph.nodes.dispatch import backend_for
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.named_tuple import NamedTuple
from atled.ops.spec import SPECS

_COPY_COST = 32
"""Multiplications that take about as long as copying one number."""


class _Part(NamedTuple):
    """Columns `start` to `stop` of a product, whose only reader takes a slice of them.

    factor: the second one.  key: equal where the same part of it serves.
    """

    product: IRNode
    reader: IRNode
    factor: IRValue
    start: int
    stop: int

    @property
    def key(self) -> object:
        product = self.product
        assert product.decision is not None
        place = product.context, product.decision.backend
        part = self.factor.base, self.factor.shows.version, self.factor.shape, self.start, self.stop
        return *part, product.attributes["transpose_b"], *place


def narrow_products(graph: Graph, nodes: Sequence[IRNode], results: Iterable[IRValue]) -> list[IRNode]:
    """The nodes to run instead of `nodes`: products only as wide as they are read, where that saves work.

    These arise as gradients of several arrays side by side, as [x h] in recurrent layers, of which not all need one.
    The part of the factor is copied once for all products.

    results: values that must exist although no node may read them.
    """
    sharing: dict[object, list[_Part]] = {}
    for part in _parts(nodes, set(results)):
        sharing.setdefault(part.key, []).append(part)
    replaced: dict[IRNode, list[IRNode]] = {}
    outer_context = graph.context
    for parts in sharing.values():
        if _is_worth_copying(parts):
            _narrow(graph, parts, replaced)
    graph.context = outer_context
    return [made for node in nodes for made in replaced.get(node, [node])]


def _parts(nodes: Sequence[IRNode], results: set[IRValue]) -> list[_Part]:
    readers: dict[IRValue, list[IRNode]] = {}
    for node in nodes:
        for value in node.inputs:
            if value is not None:
                readers.setdefault(value, []).append(node)
    found = []
    for node in nodes:
        if node.name != "BatchMatmul" or node.computed or node.outputs[0] in results:
            continue
        b, reading = node.inputs[1], readers.get(node.outputs[0], [])
        if b is None or b.ndim != 2 or len(reading) != 1 or reading[0].name != "Slice":
            continue
        bounds = _columns(node.outputs[0], reading[0])
        if bounds is not None:
            found.append(_Part(node, reading[0], b, *bounds))
    return found


def _columns(product: IRValue, reader: IRNode) -> tuple[int, int] | None:
    """Which columns a slice takes; None if it takes all of them, none, or not all rows, or has steps."""
    slices = [slice(*bounds) for bounds in zip(*(reader.attributes[n] for n in ("start", "stop", "step")), strict=True)]
    *rows, (start, stop, step) = (part.indices(size) for part, size in zip(slices, product.shape, strict=True))
    takes_rows = all(bounds == (0, size, 1) for bounds, size in zip(rows, product.shape, strict=False))
    width = stop - start
    return (start, stop) if takes_rows and step == 1 and 0 < width < product.shape[-1] else None


def _is_worth_copying(parts: Sequence[_Part]) -> bool:
    """Whether the products save more than it costs to copy the part of the factor that they share."""
    all_columns = parts[0].product.outputs[0].shape[-1]
    columns = parts[0].stop - parts[0].start
    rows = sum(part.product.outputs[0].size for part in parts) // all_columns
    return rows * (all_columns - columns) > _COPY_COST * columns


def _narrow(graph: Graph, parts: Sequence[_Part], replaced: dict[IRNode, list[IRNode]]) -> None:
    """Note what runs in place of products that share a factor: first the slice of it, then each as its reader."""
    first, _, factor, start, stop = parts[0]
    assert first.decision is not None
    backend, context = first.decision.backend, first.context
    is_transposed = first.attributes["transpose_b"]
    bounds = {
        "start": (start, 0) if is_transposed else (0, start),
        "stop": (stop, factor.shape[1]) if is_transposed else (factor.shape[0], stop),
        "step": (1, 1),
    }
    if backend_for(SPECS["Slice"], [factor.desc], bounds, context) != backend:
        return
    graph.context = context
    piece = graph.op("Slice", factor, **bounds)
    for number, part in enumerate(parts):
        node = graph.add(SPECS["BatchMatmul"], (part.product.inputs[0], piece), part.product.attributes, context)
        # The product is now what its slice was.
        node.outputs = part.reader.outputs
        node.outputs[0].node, node.outputs[0].position = node, 0
        replaced[part.product] = [piece.node, node] if number == 0 else [node]
        replaced[part.reader] = []
