"""Compiling of an inference: from recorded calls, for inputs of some shapes and dtypes, to plans."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache, partial

from atled.array_desc import ArrayDesc
from atled.arrays.cell import ArrayCell
from atled.graph.compile.lowering import lower
from atled.graph.compile.plan import Plan
from atled.graph.inference.by_samples import by_samples
from atled.graph.inference.fixed_graph import FixedGraph, added, fixed_values_of
from atled.graph.inference.folding import PRODUCTS
from atled.graph.inference.recorded import OneCall, Operand, Recorded
from atled.graph.nodes.ir import Graph, IRValue
from atled.graph.nodes.loops import LoopOp
from atled.named_tuple import NamedTuple

Key = tuple[int, int | str]
"""What depends on parameters alone: the number of the call for which it is computed, and which of its values it is."""

Pair = Callable[[FixedGraph], tuple[IRValue, IRValue] | None]

_SMALL_BYTES = 1 << 16  # of what is kept although it is larger than what it is computed from


class FixedPlan:
    """A plan of what depends on parameters alone, made when it is first asked for.

    keys: per target what it is; the same for inputs of other shapes.
    make: the plan; of two threads that ask for the first time, each may make one.
    numbers: of the arrays that it reads, in the order of the plan's outside arrays, where others have the plan, too;
        None where the plan has these numbers itself.
    """

    def __init__(self, keys: Sequence[Key], make: Callable[[], Plan], numbers: Sequence[int] | None = None) -> None:
        self.keys = tuple(keys)
        self._make = make
        self._numbers = numbers

    @property
    def plan(self) -> Plan:
        """The plan."""
        return self._make()

    def arrays(self, cells: Sequence[ArrayCell]) -> Sequence[ArrayCell]:
        """The plan's outside arrays, of all that an inference has."""
        return cells if self._numbers is None else [cells[number] for number in self._numbers]


class _Alike(NamedTuple):
    """What has the same plan for other parameters: blocks that a network repeats have the same shapes.

    key: equal keys, equal plans.  leaves: that are read.
    """

    key: Hashable
    leaves: tuple[int, ...]


class Compiled(NamedTuple):
    """A compiled inference.

    plan: its targets are the outputs.  shapes: of these.
    keys: of what it reads that depends on parameters alone: its outside arrays behind inputs and parameters.
    fixed: what computes each of these; not all of them need to be there at one time.
    """

    plan: Plan
    shapes: tuple[tuple[int, ...], ...]
    keys: tuple[Hashable, ...]
    fixed: Mapping[Hashable, FixedPlan]


def compile_inference(
    recorded: Recorded, inputs: Sequence[ArrayDesc], parameters: Sequence[tuple[int, ArrayDesc]]
) -> Compiled:
    """The plans of an inference.

    inputs: outside arrays 0, 1, ... of its plan.
    parameters: per further leaf the number of its outside array, which is behind those of the inputs, and what it is.
    Raises what the ops raise for inputs that do not fit.
    """
    building = _Building(recorded, inputs, parameters)
    results = building.results()
    shapes = tuple(value.shape for value in results)
    plan = lower(building.graph, by_samples(building.graph, results, len(inputs)) or results)
    loops = [step for step in plan.steps if isinstance(step.node.spec, LoopOp) and step.node.spec.abreast]
    if any(step.native is None for step in loops):
        # Not all kernels of the chain are native: without a loop these run for the batch, not for each sample.
        building = _Building(recorded, inputs, parameters)
        plan = lower(building.graph, building.results())
    return Compiled(plan, shapes, tuple(building.imported), _fixed_plans(building, recorded, parameters))


def _fixed_plans(
    building: _Building, recorded: Recorded, parameters: Sequence[tuple[int, ArrayDesc]]
) -> dict[Hashable, FixedPlan]:
    """By key a plan for what belongs to one call, of a graph of its own: lowering changes it."""
    groups: dict[int, list[Key]] = {}
    for key in building.imported:
        groups.setdefault(key[0], []).append(key)
    plans: dict[Hashable, FixedPlan] = {}
    shared: dict[Hashable, Callable[[], Plan]] = {}
    for number, keys in groups.items():
        values = [building.imported[key] for key in keys]
        alike = building.alike.get(number)
        if alike is None:
            fixed = FixedPlan(keys, cache(partial(_lowered, recorded, parameters, values)))
        else:
            read, renumbered = _renumbered(alike.leaves, parameters, len(recorded.inputs))
            whole_key = alike.key, tuple(name for _, name in keys), tuple(renumbered[leaf] for leaf in alike.leaves)
            # The leaves that are not read keep their place, by which a leaf is found.
            own = [renumbered.get(leaf, unread) for leaf, unread in enumerate(parameters, len(recorded.inputs))]
            make = shared.setdefault(whole_key, cache(partial(_lowered, recorded, own, values)))
            fixed = FixedPlan(keys, make, read)
        plans.update(dict.fromkeys(keys, fixed))
    return plans


def _renumbered(
    leaves: Sequence[int], parameters: Sequence[tuple[int, ArrayDesc]], first: int
) -> tuple[list[int], dict[int, tuple[int, ArrayDesc]]]:
    """The numbers of the arrays that leaves are in, each once, and per leaf its array's place among these.

    first: the leaf that the first of the parameters is.
    """
    found = {leaf: parameters[leaf - first] for leaf in leaves}
    read = list(dict.fromkeys(number for number, _ in found.values()))
    return read, {leaf: (read.index(number), desc) for leaf, (number, desc) in found.items()}


def _lowered(
    recorded: Recorded,
    parameters: Sequence[tuple[int, ArrayDesc]],
    values: Sequence[Callable[[FixedGraph], IRValue]],
) -> Plan:
    graph = FixedGraph(recorded, parameters)
    return lower(graph.graph, [compute(graph) for compute in values])


def _found(compute: Callable[[FixedGraph], IRValue | None], graph: FixedGraph) -> IRValue:
    found = compute(graph)
    assert found is not None, "as when it was compiled"
    return found


def _one_of(compute: Pair, position: int, graph: FixedGraph) -> IRValue:
    found = compute(graph)
    assert found is not None, "as when it was compiled"
    return found[position]


class _Building:
    """The nodes of the calls; normalization by running statistics and sums with a bias go into the product before them.

    graph: of what is computed from inputs.
    imported: by key how a graph of what depends on parameters alone computes what is read of it, in the order of the
        outside arrays that these are.
    alike: by number of the call, for those whose plan others may have.
    _fixed: such a graph, by which looks and shapes are known; it is never lowered.
    _pairs: by what they are like, two values of it.
    """

    def __init__(
        self, recorded: Recorded, inputs: Sequence[ArrayDesc], parameters: Sequence[tuple[int, ArrayDesc]]
    ) -> None:
        self.graph = Graph(recorded.context)
        self.imported: dict[Key, Callable[[FixedGraph], IRValue]] = {}
        self.alike: dict[int, _Alike] = {}
        self._pairs: dict[Hashable, tuple[IRValue, IRValue] | None] = {}
        self._recorded = recorded
        self._fixed = FixedGraph(recorded, parameters)
        self._are_fixed = fixed_values_of(recorded)
        self._first = 1 + max([len(inputs) - 1, *(number for number, _ in parameters)])
        self._values: dict[Operand, IRValue | None] = {None: None}
        for leaf, (number, desc) in enumerate([*enumerate(inputs), *parameters]):
            self._values[leaf] = self.graph.external(number, desc)

    def results(self) -> list[IRValue]:
        """The outputs."""
        for number, call in enumerate(self._recorded.calls):
            if (number, 0) not in self._are_fixed:
                made = self._made(number, call)
                self._values.update(((number, position), value) for position, value in enumerate(made))
        return [self._present(output) for output in self._recorded.outputs]

    def _present(self, operand: Operand) -> IRValue:
        value = self._value(operand)
        assert value is not None
        return value

    def _value(self, operand: Operand) -> IRValue | None:
        """A value, for what is computed from inputs."""
        if operand not in self._values:
            assert isinstance(operand, tuple)
            call, fixed = self._recorded.calls[operand[0]], self._fixed.present(operand)
            if call.spec.views or fixed.desc.nbytes > max(_SMALL_BYTES, self._bytes_of(call)):
                # Memory of its own would cost more than it saves: a view has none, what is repeated reads less.
                made = added(self.graph, call, [self._value(each) for each in call.operands])
                self._values.update(((operand[0], position), value) for position, value in enumerate(made))
            else:
                self._values[operand] = self._import(operand, fixed, lambda graph: graph.present(operand))
        return self._values[operand]

    def _bytes_of(self, call: OneCall) -> int:
        """The bytes of what a call reads."""
        values = map(self._fixed.value, call.operands)
        return sum(value.desc.nbytes for value in values if value is not None)

    def _import(self, key: Key, fixed: IRValue, compute: Callable[[FixedGraph], IRValue]) -> IRValue:
        """What depends on parameters alone, as an outside array."""
        number = self._first + len(self.imported)
        self.imported[key] = compute
        return self.graph.external(number, ArrayDesc(fixed.shape, fixed.dtype))

    def _import_pair(
        self, number: int, names: str, compute: Pair, alike: _Alike | None = None
    ) -> tuple[IRValue, IRValue] | None:
        """Two values that are computed together; None where they are not.

        alike: what they look like was found for a pair that is like this one.
        """
        pair = compute(self._fixed) if alike is None else self._pair_like(alike, compute)
        if pair is None:
            return None

        first, second = (
            self._import((number, f"{names}{position}"), value, partial(_one_of, compute, position))
            for position, value in enumerate(pair)
        )
        return first, second

    def _pair_like(self, alike: _Alike, compute: Pair) -> tuple[IRValue, IRValue] | None:
        """Two values that look as a pair does; None where there is none."""
        key = alike.key, tuple(self._fixed.present(leaf).desc for leaf in alike.leaves)
        if key not in self._pairs:
            self._pairs[key] = compute(self._fixed)
        return self._pairs[key]

    def _made(self, number: int, call: OneCall) -> Sequence[IRValue]:
        if call.spec.name == "BatchNormalization" and not call.attributes["batch_stat"]:
            normalized = self._normalized(number, call)
            if normalized is not None:
                return [normalized]
        if call.spec.name == "Add2":
            first, second = call.operands
            for product, shift in ((first, second), (second, first)):
                shifted = self._shifted(number, product, shift)
                if shifted is not None:
                    return [shifted]
        return added(self.graph, call, [self._value(each) for each in call.operands])

    def _normalized(self, number: int, call: OneCall) -> IRValue | None:
        """Normalization by running statistics as a scale and a shift; None where it has to stay."""
        if not self._are_fixed.issuperset(call.operands[1:]):
            return None
        value = self._in_product(number, call)
        if value is not None:
            return value
        x = self._present(call.operands[0])
        dtype = x.dtype
        found = self._import_pair(number, "normal", lambda graph: graph.scale_and_shift(call, dtype))
        if found is None:
            return None
        self.graph.context = call.context
        return x * found[0] + found[1]

    def _maker(self, source: Operand) -> tuple[OneCall, IRValue] | None:
        """The call that makes a value for one reader out of an input x and of parameters, and x."""
        if not isinstance(source, tuple) or self._recorded.reads[source] > 1:
            return None
        maker = self._recorded.calls[source[0]]
        if not self._are_fixed.issuperset(maker.operands[1:]):
            return None
        x = self._value(maker.operands[0])
        return None if x is None else (maker, x)

    def _shifted(self, number: int, source: Operand, shift: Operand) -> IRValue | None:
        """The product before a sum with that in its bias; None where it is none with one number per channel."""
        made = self._maker(source)
        if made is None or source in self._are_fixed or shift not in self._are_fixed:
            return None
        maker, x = made
        if maker.spec.name not in PRODUCTS:
            return None
        desc, shape = x.desc, self._present(source).shape

        def compute(graph: FixedGraph) -> IRValue | None:
            return graph.shifted(maker, desc, shape, shift)

        bias = compute(self._fixed)
        if bias is None:
            return None
        weight, bias = self._value(maker.operands[1]), self._import((number, "bias"), bias, partial(_found, compute))
        return added(self.graph, maker, [x, weight, bias])[0]

    def _in_product(self, number: int, call: OneCall) -> IRValue | None:
        """The product before a normalization with that in it; None where there is none, or others read its result."""
        made = self._maker(call.operands[0])
        if made is None or made[0].spec.name not in PRODUCTS:
            return None
        maker, x = made
        desc = x.desc
        alike = self._alike(call, maker, desc)
        found = self._import_pair(number, "product", lambda graph: graph.folded(call, maker, desc), alike)
        if found is None:
            return None
        if alike is not None:
            self.alike[number] = alike
        return added(self.graph, maker, [x, *found])[0]

    @staticmethod
    def _alike(call: OneCall, maker: OneCall, x: ArrayDesc) -> _Alike | None:
        """By what a normalization in a product of x is like that of other parameters; None where these are computed."""
        operands = (*maker.operands[1:], *call.operands[1:])
        if any(isinstance(each, tuple) for each in operands):
            return None
        leaves = tuple(each for each in operands if isinstance(each, int))
        calls = [(each.spec.name, tuple(sorted(each.attributes.items())), each.context) for each in (maker, call)]
        absent = tuple(each is None for each in operands)
        return _Alike((x, absent, *calls), leaves)
