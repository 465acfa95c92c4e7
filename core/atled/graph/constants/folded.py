"""Normalization by running statistics, which goes into the product before it where all that it reads is constant."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from atled.graph.nodes.folding import PRODUCTS, Product, folded, scale_and_shift
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.graph.record.structure import Structure
from atled.named_tuple import NamedTuple


class Folding(NamedTuple):
    """A normalization that may go into the product before it.

    product: the number of that call.  leaves: the numbers of the arrays that the two read, but for that of the product.
    """

    product: int
    leaves: frozenset[int]


def foldings_of(structure: Structure, unstored: Collection[int]) -> dict[int, Folding]:
    """By number of its call each normalization that nobody could tell from one in the product before it.

    unstored: the numbers of the arrays that are not stored.
    """
    found: dict[int, Folding] = {}
    if structure.overwritten:
        return found
    reads: dict[int, int] = {}
    for references in structure.references:
        for number in references:
            reads[number] = reads.get(number, 0) + 1
    written = {
        structure.aliases[references[position]]
        for function, references in zip(structure.functions, structure.references, strict=True)
        for position in {*function.mutated, *function.spec.inplace.values()}
        if references[position] >= 0
    }
    for number, function in enumerate(structure.functions):
        # Where equal inputs must give equal bits, no run may round otherwise than the one before it.
        if function.spec.name != "BatchNormalization" or function.mutated or function.context.deterministic:
            continue
        x, *parameters = structure.references[number]
        origin = structure.origins[x]
        if origin is None or reads[x] > 1 or x not in unstored or not _makes_one(structure, number, unstored):
            continue
        maker = structure.functions[origin[0]]
        if maker.spec.name not in PRODUCTS or maker.context != function.context:
            continue
        leaves = frozenset(each for each in (*structure.references[origin[0]][1:], *parameters) if each >= 0)
        are_leaves = all(structure.origins[each] is None for each in leaves)
        if are_leaves and written.isdisjoint(structure.aliases[each] for each in leaves):
            found[number] = Folding(origin[0], leaves)
    return found


def _makes_one(structure: Structure, number: int, unstored: Collection[int]) -> bool:
    """Whether nothing but the first output of a call is stored."""
    kept, _ = structure.state_numbers[number]
    return all(each < 0 or each in unstored for each in kept[structure.functions[number].visible :])


class Folds:
    """Makes nodes of products with a normalization in them.

    made: their weights and biases, which are to be computed once.
    """

    def __init__(self, graph: Graph, structure: Structure, foldings: Mapping[int, Folding]) -> None:
        self._graph = graph
        self._structure = structure
        self._foldings = foldings
        self.made: set[IRValue] = set()

    def result_of(self, number: int, nodes: Sequence[IRNode]) -> IRValue | None:
        """What a normalization makes, by another product; None for other calls, and where it has to stay.

        nodes: of the calls up to that one.
        """
        folding = self._foldings.get(number)
        if folding is None:
            return None
        graph, product, node = self._graph, nodes[folding.product], nodes[number]
        x, weight, bias = (*product.inputs, None)[:3]
        _, *parameters = node.inputs
        assert x is not None and weight is not None and product.spec is not None
        graph.context = product.context
        attributes = self._structure.functions[number].attributes
        scale = scale_and_shift(x.dtype, [each for each in parameters if each is not None], attributes["eps"])
        if scale is None:
            return None
        before = Product(product.spec.name, x.desc, weight, bias, product.attributes)
        found = folded(graph, before, attributes["axes"][0], *scale)
        if found is None:
            return None
        own = weight * found[0], found[1]
        self.made.update(own)
        return graph.add(product.spec, (x, *own), product.attributes, product.context).outputs[0]
