"""Chains of layers over a batch, taken some samples at a time: what is between them stays in the caches.

A convolution of a batch writes more than the caches hold, and the next one reads it from memory. Where the samples
pass through a chain one after the other, each of its steps reads what was just written, and memory is wanted for few
samples instead of all. In exchange each weight is read once for every group of samples: so deep layers, of large
weights on few positions, take the batch as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set
from typing import TYPE_CHECKING

from atled.array_desc import ArrayDesc
from atled.arrays.place import HOST
from atled.graph.compile.plan import Plan
from atled.graph.compile.step import Step
from atled.graph.nodes.dispatch import has_bodies
from atled.graph.nodes.ir import Graph, IRNode, IRValue
from atled.graph.nodes.order import nodes_for
from atled.limits.processor_caches import core_cache_bytes
from atled.named_tuple import NamedTuple
from atled_contexts import native_executor

if TYPE_CHECKING:
    from atled.graph.nodes.loops import LoopOp

_CONVOLUTIONS = frozenset(("Convolution", "DepthwiseConvolution"))
_WEIGHTED = _CONVOLUTIONS | {"Affine"}
_POOLINGS = frozenset(("AveragePooling", "MaxPooling", "SumPooling"))
_REDUCTIONS = frozenset(("Max", "Mean", "Min", "Sum"))
_JOINING = "Concatenate"

# The form in which a kernel of several taps is read may be larger than the kernel: Winograd's of 3 x 3 is four times.
_FORM_OF_WINDOWS = 4


class Chain(NamedTuple):
    """Nodes in a row that may run for some samples before they run for others.

    whole: the values that have a row per sample.  leaving: those that they make and others read.
    samples: how many at a time.
    """

    nodes: Sequence[IRNode]
    whole: Set[IRValue]
    leaving: Sequence[IRValue]
    samples: int


def by_samples(
    graph: Graph, results: Sequence[IRValue], numbers: Collection[int], floats: Sequence[float]
) -> list[IRValue] | None:
    """The results of a graph with a loop over samples in the place of a chain; None where there is none that pays.

    What the loop replaces is not read any more; who reads what it makes stays the node that it is, but for views.

    numbers: of the outside arrays with a row per sample; chains read others as they are.
    floats: the value of each float of the graph.
    """
    nodes = nodes_for(graph, results)
    read = {value for node in nodes for value in node.inputs if value is not None}
    inputs = {value for value in read if value.external in numbers}
    batches = {value.shape[:1] for value in inputs}
    if len(batches) != 1 or batches == {()} or batches == {(1,)}:
        return None
    ((batch,),) = batches
    runs, whole = _runs(nodes, inputs, batch)
    found = [_chain(run, whole, nodes, results, batch) for run in runs]
    chains = [chain for chain in found if chain is not None]
    if not chains:
        return None
    # A network has one stage of large images; of several, that which moves most.
    best = max(chains, key=lambda chain: sum(map(_moved_bytes, chain.nodes)))
    return _rebuilt(graph, results, best, batch, floats)


def images_by_samples(
    graph: Graph, results: Sequence[IRValue | None], leaves: Collection[int], floats: Sequence[float]
) -> list[IRValue | None] | None:
    """As `by_samples`, for the arrays among `leaves` of which convolutions are made; None for a result stays that."""
    computed = [value for value in results if value is not None]
    images: set[int] = set()
    for node in nodes_for(graph, computed):
        if node.spec is not None and node.spec.name in _CONVOLUTIONS:
            value = node.inputs[0]
            while value is not None and value.node is not None:
                value = next(iter(value.node.inputs), None)
            images.update(() if value is None else (value.external,))
    made = by_samples(graph, computed, images.intersection(leaves), floats)
    if made is None:
        return None
    found = iter(made)
    return [None if value is None else next(found) for value in results]


def loops_of(plan: Plan) -> Iterator[tuple[Step, LoopOp]]:
    """The steps of a plan that are loops over samples, and what they run."""
    for step in plan.steps:
        if has_bodies(step.node.spec):
            from atled.graph.nodes.loops import LoopOp  # lazy: few graphs have loops

            if isinstance(step.node.spec, LoopOp) and step.node.spec.abreast:
                yield step, step.node.spec


def loops_in_words(plan: Plan) -> list[str]:
    """For each loop over samples of a plan what it does."""
    return [_in_words(loop) for _, loop in loops_of(plan)]


def _in_words(loop: LoopOp) -> str:
    assert loop.length is not None, "a row for each group of samples"
    samples = loop.body.inputs[0].shape[0]
    ops = ", ".join(node.spec.name for node in loop.body.nodes if node.spec is not None)
    return (
        f"a loop over samples: {samples} of {samples * loop.length} at a time, so that what one step writes is near "
        f"when the next one reads it\nits steps: {ops}"
    )


def _runs(nodes: Sequence[IRNode], inputs: Set[IRValue], batch: int) -> tuple[list[list[IRNode]], Set[IRValue]]:
    """The longest rows of nodes that compute each sample by itself, and the values that have a row per sample."""
    depending, whole = set(inputs), set(inputs)
    runs: list[list[IRNode]] = [[]]
    for node in nodes:
        if depending.isdisjoint(value for value in node.inputs if value is not None):
            continue
        depending.update(node.outputs)
        if not _is_by_samples(node, whole, batch):
            runs.append([])
            continue
        if runs[-1] and (node.context != runs[-1][-1].context or _executor(node) is not _executor(runs[-1][-1])):
            runs.append([])
        runs[-1].append(node)
        whole.update(node.outputs)
    return [run for run in runs if run], whole


def _is_by_samples(node: IRNode, whole: Set[IRValue], batch: int) -> bool:
    """Whether row n of what a node makes depends on rows n of what it reads, and a loop in host memory can run it."""
    spec, attributes, x = node.spec, node.attributes, node.inputs[0]
    if spec is None or x is None or not hasattr(_executor(node), "loop_kernel"):
        return False
    if any(value is not None and value.base.array is not None and value.base.array.version for value in node.inputs):
        return False  # it depends on when it is read
    made = node.outputs[0]
    if made.shape[:1] != (batch,) or made.place is not HOST:
        return False
    if spec.program is not None:
        # An operand that is no row per sample must be the same for all of them.
        return not spec.random and all(
            value.ndim == made.ndim if value in whole else value.shape[-made.ndim :][:1] != (batch,)
            for value in node.inputs
            if value is not None
        )
    if spec.name == _JOINING:
        return attributes["axis"] > 0 and all(value in whole for value in node.inputs)
    if spec.name in _WEIGHTED:
        return x in whole and whole.isdisjoint(node.inputs[1:]) and attributes["base_axis"] > 0
    if spec.name in _REDUCTIONS:
        return x in whole and 0 not in attributes["axes"]
    if spec.name == "Transpose":
        return x in whole and attributes["axes"][0] == 0
    return spec.name in _POOLINGS and x in whole and x.ndim > len(attributes["kernel"]) + 1


def _executor(node: IRNode) -> object | None:
    return None if node.decision is None else native_executor(node.decision.backend)


def _moved_bytes(node: IRNode) -> int:
    """The bytes of samples that a node reads and writes; nothing for what is computed on the way of another one."""
    assert node.spec is not None and node.inputs[0] is not None
    if node.spec.program is not None:
        return 0
    read = node.inputs if node.spec.name == _JOINING else node.inputs[:1]
    return sum(value.desc.nbytes for value in (*read, node.outputs[0]) if value is not None)


def _read_again(node: IRNode) -> int:
    """The bytes that a node reads for each group of samples anew."""
    assert node.spec is not None
    if node.spec.name not in _WEIGHTED:
        return 0
    weight = node.inputs[1]
    assert weight is not None
    is_windows = (
        node.spec.name in _CONVOLUTIONS
        and node.attributes.get("group", 1) == 1
        and weight.size > weight.shape[0] * weight.shape[1]
    )
    return weight.desc.nbytes * (_FORM_OF_WINDOWS if is_windows else 1)


def _chain(
    run: Sequence[IRNode], whole: Set[IRValue], every: Sequence[IRNode], results: Sequence[IRValue], batch: int
) -> Chain | None:
    """The part of a run that gains most, if any does: as few bytes as can be moved to and from far.

    every: the nodes of the graph.
    """
    near = core_cache_bytes()
    large = [_moved_bytes(node) for node in run if _moved_bytes(node) > near]
    if len(large) < 2:
        return None
    # As many as fit the cache at most, however many millions there are.
    fitting = range(near * batch // max(large), 0, -1)
    samples = next((count for count in fitting if batch % count == 0), 1)
    gains = [
        (_moved_bytes(node) if _moved_bytes(node) > near else 0) - (batch // samples - 1) * _read_again(node)
        for node in run
    ]
    start, stop, gained = _best_part(gains)
    nodes = run[start:stop]
    leaving = _leaving(nodes, every, results)
    made = {value for node in nodes for value in node.outputs}
    given = {value for node in nodes for value in node.inputs if value in whole and value not in made}
    crossing = sum(value.desc.nbytes for value in (*given, *leaving) if value is not None)
    return Chain(nodes, whole, leaving, samples) if gained > crossing else None


def _best_part(gains: Sequence[int]) -> tuple[int, int, int]:
    """Where the neighbours with the greatest sum begin and end, and that sum; zeros behind them belong to them."""
    best, start, gained = (0, 0, 0), 0, 0
    for number, gain in enumerate(gains):
        if gained <= 0:
            start, gained = number, 0
        gained += gain
        if gained >= best[2] and gained > 0:
            best = start, number + 1, gained
    return best


def _leaving(nodes: Sequence[IRNode], every: Sequence[IRNode], results: Sequence[IRValue]) -> list[IRValue]:
    """The values that some nodes make and that others read, or that are results."""
    inside = set(nodes)
    read = {value for node in every if node not in inside for value in node.inputs}.union(results)
    return [value for node in nodes for value in node.outputs if value in read]


def _rebuilt(
    graph: Graph, results: Sequence[IRValue], chain: Chain, batch: int, floats: Sequence[float]
) -> list[IRValue] | None:
    """The results as they follow from a loop, which the graph has from now on in front of what reads it.

    None where a node changes what the loop would make.
    """
    behind = graph.nodes[graph.nodes.index(chain.nodes[-1]) + 1 :]
    if any(node.inputs[position] in chain.leaving for node in behind for position in _overwritten(node)):
        return None
    context, count = graph.context, len(graph.nodes)
    graph.context = chain.nodes[-1].context
    loop, sequences, constants = _loop(chain, batch, floats)
    steps = batch // chain.samples
    rows = [graph.reshape(value, (steps, chain.samples, *value.shape[1:])) for value in sequences]
    made = graph.add(loop, [*rows, *constants], {}, graph.context).outputs
    now = {value: graph.reshape(row, value.shape) for value, row in zip(chain.leaving, made, strict=True)}
    for node in behind:
        if now.keys().isdisjoint(value for value in node.inputs if value is not None):
            continue
        inputs = tuple(None if value is None else now.get(value, value) for value in node.inputs)
        if node.spec is not None and node.spec.views:  # its output has the memory of what it shows
            again = graph.add(node.spec, inputs, node.attributes, node.context)
            now.update(zip(node.outputs, again.outputs, strict=True))
        else:
            node.inputs = inputs
    graph.context = context
    added = graph.nodes[count:]
    graph.nodes[count:] = []
    graph.nodes[count - len(behind) : count - len(behind)] = added
    return [now.get(value, value) for value in results]


def _overwritten(node: IRNode) -> set[int]:
    """The positions of the inputs into whose memory a node writes."""
    return {*node.changed, *(() if node.spec is None else node.spec.inplace.values())}


def _loop(chain: Chain, batch: int, floats: Sequence[float]) -> tuple[LoopOp, list[IRValue], list[IRValue]]:
    """A loop whose body is a chain for some samples, and the values that are its sequences and its constants."""
    from atled.graph.nodes.body import BodyBuilder  # lazy: few graphs have loops
    from atled.graph.nodes.loops import LoopOp  # likewise

    made = {value for node in chain.nodes for value in node.outputs}
    read = dict.fromkeys(value for node in chain.nodes for value in node.inputs if value not in made)
    sequences = [value for value in read if value is not None and value in chain.whole]
    constants = [value for value in read if value is not None and value not in chain.whole]
    builder = BodyBuilder(chain.nodes[0].context)
    few = {value: builder.input(ArrayDesc((chain.samples, *value.shape[1:]), value.dtype)) for value in sequences}
    few |= {value: builder.input(value.desc) for value in constants}
    for node in chain.nodes:
        assert node.spec is not None
        attributes = dict(node.attributes)
        for name in node.spec.float_names:
            attributes[name] = builder.constant(floats[attributes[name].index])
        inputs = [None if value is None else few[value] for value in node.inputs]
        few.update(zip(node.outputs, builder.add(node.spec, inputs, attributes, node.context).outputs, strict=True))
    body = builder.body([few[value] for value in chain.leaving])
    loop = LoopOp(body, sequences=len(sequences), length=batch // chain.samples, abreast=True)
    loop.note += f", {chain.samples} of {batch} samples at a time"
    return loop, sequences, constants
