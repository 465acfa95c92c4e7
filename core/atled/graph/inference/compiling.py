"""Compiling of an inference: from recorded calls, for inputs of some shapes and dtypes, to plans."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from functools import cache, partial
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.cell import ArrayCell
from atled.graph.compile.lowering import lower
from atled.graph.compile.plan import Plan
from atled.graph.inference.by_samples import by_samples, loops_of
from atled.graph.inference.fixed_graph import FixedGraph, Folds, Leaves, added, fixed_values_of
from atled.graph.inference.folded_on_host import FoldedOnHost, Looks, fits
from atled.graph.inference.joined_axes import JoinedAxes
from atled.graph.inference.recorded import OneCall, Operand, Recorded
from atled.graph.inference.sizes import check_index, check_made, check_repetition, check_written
from atled.graph.nodes.folding import PRODUCTS, read_attributes, scale_and_shift
from atled.graph.nodes.ir import Graph, IRValue
from atled.named_tuple import NamedTuple
from atled_contexts import lock_across_forks, plugin_generation

Key = tuple[int, int | str]
"""What depends on parameters alone: the number of the call for which it is computed, and which of its values it is."""

Pair = Callable[[Folds[Any]], tuple[Any, Any] | None]
"""Two values, as nodes of a graph or as arrays; None where they are not computed."""

_Look = IRValue | ArrayDesc | np.ndarray  # what has a shape and a dtype

# Functions of one input that keep order and NaN, so that maxima may be taken first; others do so up to rounding.
_ORDER_KEEPING = frozenset(("LeakyReLU", "ReLU"))

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
    """What has the same plan for other parameters: blocks that a network repeats have weights of the same shapes.

    key: equal keys, equal plans.  leaves: that are read.
    """

    key: Hashable
    leaves: tuple[int, ...]


class Pattern:
    """Weight and bias of products with a normalization in them that are alike, and one plan for all of these.

    The plan reads outside arrays 0, 1, ...; it is made when it is first asked for.

    compute: the two in a graph, None where they stay apart.  make: such a graph; lowering changes it.
    descs: of the two.
    """

    def __init__(self, compute: Pair, make: Callable[[], FixedGraph]) -> None:
        self._compute, self._make = compute, make
        graph = make()
        values = compute(graph)
        self.descs = None if values is None else [ArrayDesc(value.shape, value.dtype) for value in values]
        self._looked_at = values and (graph, values)
        self._plan: Plan | None = None
        self._lock = lock_across_forks()

    def plan(self) -> Plan:
        """The plan, whose targets are the two."""
        with self._lock:
            if self._plan is None:
                if self._looked_at is None:  # lowering it failed
                    graph = self._make()
                    self._looked_at = graph, _pair(self._compute, graph)
                (graph, values), self._looked_at = self._looked_at, None
                self._plan = lower(graph.graph, values)
            return self._plan


class Known:
    """What was found of products with a normalization in them, by what they are like: it serves inputs of all shapes.

    patterns: of those that a plan computes.
    on_host: of those that NumPy computes what weight and bias look like; None where the normalization stays apart.
    """

    def __init__(self) -> None:
        self.patterns: dict[Hashable, Pattern] = {}
        self.on_host: dict[Hashable, list[ArrayDesc] | None] = {}


class Compiled(NamedTuple):
    """A compiled inference.

    plan: its targets are the outputs.  shapes: of these.
    keys: of what it reads that depends on parameters alone: its outside arrays behind inputs and parameters.
    fixed: what computes each of these; not all of them need to be there at one time.
    elsewhere: by number of a call that does not run as it was recorded what became of it, in words.
    """

    plan: Plan
    shapes: tuple[tuple[int, ...], ...]
    keys: tuple[Hashable, ...]
    fixed: Mapping[Hashable, FixedPlan | FoldedOnHost]
    elsewhere: Mapping[int, str]


def compile_inference(
    recorded: Recorded,
    inputs: Sequence[ArrayDesc],
    parameters: Sequence[tuple[int, ArrayDesc]],
    known: Known,
    on_host: Set[int],
    is_folded: bool,
) -> Compiled:
    """The plans of an inference.

    inputs: outside arrays 0, 1, ... of its plan.
    parameters: per further leaf the number of its outside array, which is behind those of the inputs, and what it is.
    known: what was found for inputs of other shapes; new things are added.
    on_host: the outside arrays of parameters that are in host memory.
    is_folded: whether what depends on parameters alone is computed by plans apart, or at each run.
    Raises what the ops raise for inputs that do not fit.
    """

    def built() -> _Building:
        return _Building(recorded, inputs, parameters, known, on_host, is_folded)

    building = built()
    results = building.results()
    shapes = tuple(value.shape for value in results)
    floats = [value for _, value in building.graph.floats]  # an inference has constant ones only
    plan = lower(building.graph, by_samples(building.graph, results, range(len(inputs)), floats) or results)
    if any(step.native is None for step, _ in loops_of(plan)):
        # Not all kernels of the chain are native: without a loop these run for the batch, not for each sample.
        building = built()
        plan = lower(building.graph, building.results())
    keys = tuple(building.imported)
    return Compiled(plan, shapes, keys, _fixed_plans(building, recorded), building.elsewhere())


def _fixed_plans(building: _Building, recorded: Recorded) -> dict[Hashable, FixedPlan | FoldedOnHost]:
    """By key what computes what belongs to one call: a plan is of a graph of its own, which lowering changes."""
    groups: dict[int, list[Key]] = {}
    for key in building.imported:
        groups.setdefault(key[0], []).append(key)
    plans: dict[Hashable, FixedPlan | FoldedOnHost] = {}
    for number, keys in groups.items():
        alike = building.alike.get(number)
        fixed: FixedPlan | FoldedOnHost
        if number in building.on_host:
            fixed = FoldedOnHost(keys, building.on_host[number], building.leaves)
        elif alike is None:
            values = [building.imported[key] for key in keys]
            fixed = FixedPlan(keys, cache(partial(_lowered, recorded, building.leaves, values)))
        else:
            pattern, read = alike
            fixed = FixedPlan(keys, pattern.plan, read)
        plans.update(dict.fromkeys(keys, fixed))
    return plans


def _renumbered(leaves: Sequence[int], parameters: Leaves) -> tuple[list[int], dict[int, tuple[int, ArrayDesc]]]:
    """The numbers of the arrays that leaves are in, each once, and per leaf its array's place among these."""
    found = {leaf: parameters[leaf] for leaf in leaves}
    read = list(dict.fromkeys(number for number, _ in found.values()))
    return read, {leaf: (read.index(number), desc) for leaf, (number, desc) in found.items()}


def _lowered(
    recorded: Recorded,
    parameters: Leaves,
    values: Sequence[Callable[[FixedGraph], IRValue]],
) -> Plan:
    graph = FixedGraph(recorded, parameters)
    return lower(graph.graph, [compute(graph) for compute in values])


def _found(compute: Callable[[FixedGraph], IRValue | None], graph: FixedGraph) -> IRValue:
    found = compute(graph)
    assert found is not None, "as when it was compiled"
    return found


def _one_of(compute: Pair, position: int, graph: FixedGraph) -> IRValue:
    return _pair(compute, graph)[position]


def _pair(compute: Pair, graph: FixedGraph) -> tuple[IRValue, IRValue]:
    found = compute(graph)
    assert found is not None, "as when it was compiled"
    return found


def _keeps_order(call: OneCall) -> bool:
    """Whether a call makes no number smaller where it reads a larger one, and NaN of NaN alone."""
    # A negative slope turns the order around, and one of 0 makes NaN of -inf.
    return call.spec.name in _ORDER_KEEPING and call.attributes.get("alpha", 1.0) > 0


class _Building:
    """The nodes of the calls; normalization by running statistics and sums with a bias go into the product before them.

    Rectifiers go behind the max pooling that reads them, where there are fewer elements.

    graph: of what is computed from inputs.
    imported: by key how a graph of what depends on parameters alone computes what is read of it, in the order of the
        outside arrays that these are.
    alike: by number of the call, for those whose plan others may have: that, and the numbers of what it reads.
    on_host: by number of the call, for those that NumPy computes.
    leaves: that are no inputs.
    _fixed: such a graph, by which looks and shapes are known; it is never lowered.
    """

    def __init__(
        self,
        recorded: Recorded,
        inputs: Sequence[ArrayDesc],
        parameters: Sequence[tuple[int, ArrayDesc]],
        known: Known,
        on_host: Set[int],
        is_folded: bool,
    ) -> None:
        self.graph = Graph(recorded.context)
        self.imported: dict[Key, Callable[[FixedGraph], IRValue]] = {}
        self.alike: dict[int, tuple[Pattern, Sequence[int]]] = {}
        self.on_host: dict[int, Callable[[Looks], tuple[np.ndarray, ...] | None]] = {}
        self.leaves: Leaves = dict(enumerate(parameters, len(inputs)))
        self._leaves_on_host = {leaf: each for leaf, each in self.leaves.items() if each[0] in on_host}
        self._looks = Looks(self._leaves_on_host)
        self._known = known
        self._is_folded = is_folded
        self._recorded = recorded
        self._fixed = FixedGraph(recorded, self.leaves)
        self._are_fixed = fixed_values_of(recorded)
        self._first = 1 + max([len(inputs) - 1, *(number for number, _ in parameters)])
        self._values: dict[Operand, IRValue | None] = {None: None}
        self._each_time: set[int] = set()  # calls of parameters alone that run all the same
        self._elsewhere: dict[int, str] = {}
        self._joined = JoinedAxes()
        # The inputs of other shapes, and what depends on these.
        self._changed: set[Operand] = {
            number
            for number, (desc, shape) in enumerate(zip(inputs, recorded.input_shapes, strict=True))
            if desc.shape != shape
        }
        # Recorded sizes of axes that have others now, of these and of what depends on them.
        self._changed_sizes = {
            old
            for desc, shape in zip(inputs, recorded.input_shapes, strict=True)
            for old, new in zip(shape, desc.shape, strict=True)
            if old != new
        }
        for leaf, (number, desc) in enumerate([*enumerate(inputs), *parameters]):
            self._values[leaf] = self.graph.external(number, desc)

    def results(self) -> list[IRValue]:
        """The outputs."""
        for number, call in enumerate(self._recorded.calls):
            if not self._is_folded or (number, 0) not in self._are_fixed:
                made = self._made(number, call)
                self._values.update(((number, position), value) for position, value in enumerate(made))
                if not self._changed.isdisjoint(call.operands):
                    self._note_changed(number, call, made)
        return [self._present(output) for output in self._recorded.outputs]

    def elsewhere(self) -> dict[int, str]:
        """See `Compiled`."""
        calls = {each[0] for each in self._are_fixed if isinstance(each, tuple) and self._is_folded} - self._each_time
        return {**dict.fromkeys(calls, "computed once, of parameters alone"), **self._elsewhere}

    def _note_changed(self, number: int, call: OneCall, made: Sequence[IRValue]) -> None:
        """Look at the sizes of a call that depends on inputs of other shapes; ValueError where they do not fit."""
        self._changed.update((number, position) for position in range(len(call.output_shapes)))
        values = [self._values.get(each) for each in call.operands]
        self._joined.note(call, values, made)
        shapes = [before if value is None else value.shape for value, before in zip(values, call.shapes, strict=True)]
        check_made(call, shapes, len(made))
        check_written(call, self._changed_sizes)
        for value, before in zip(made, call.output_shapes, strict=False):  # auxiliary ones may be left out
            self._changed_sizes.update(old for old, new in zip(before, value.shape, strict=True) if old != new)
        are_kept = [each in self._are_fixed or each in self._changed for each in call.operands]
        check_repetition(call, shapes, are_kept)

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
                self._each_time.add(operand[0])
                self._values.update(((operand[0], position), value) for position, value in enumerate(made))
            else:
                self._values[operand] = self._import(operand, fixed, lambda graph: graph.present(operand))
        return self._values[operand]

    def _bytes_of(self, call: OneCall) -> int:
        """The bytes of what a call reads."""
        values = map(self._fixed.value, call.operands)
        return sum(value.desc.nbytes for value in values if value is not None)

    def _import(self, key: Key, fixed: _Look, compute: Callable[[FixedGraph], IRValue]) -> IRValue:
        """What depends on parameters alone, as an outside array."""
        number = self._first + len(self.imported)
        self.imported[key] = compute
        return self.graph.external(number, ArrayDesc(fixed.shape, fixed.dtype))

    def _import_pair(
        self, number: int, names: str, pair: Sequence[_Look] | None, compute: Pair
    ) -> tuple[IRValue, IRValue] | None:
        """Two values that are computed together; None where they are not.

        pair: what they look like.
        """
        if pair is None:
            return None

        first, second = (
            self._import((number, f"{names}{position}"), value, partial(_one_of, compute, position))
            for position, value in enumerate(pair)
        )
        return first, second

    def _pattern(self, alike: _Alike, compute: Pair) -> tuple[Pattern, Sequence[int]]:
        """What two values are like, and the numbers of the arrays that are read for them."""
        read, renumbered = _renumbered(alike.leaves, self.leaves)
        key = alike.key, tuple(renumbered[leaf] for leaf in alike.leaves)
        pattern = self._known.patterns.get(key)
        if pattern is None:
            make = partial(FixedGraph, self._recorded, renumbered)
            pattern = self._known.patterns[key] = Pattern(compute, make)
        return pattern, read

    def _made(self, number: int, call: OneCall) -> Sequence[IRValue]:
        if call.spec.name == "BatchNormalization" and not call.attributes["batch_stat"]:
            normalized = self._normalized(number, call)
            if normalized is not None:
                return [normalized]
        if self._is_folded and call.spec.name == "Add2":
            first, second = call.operands
            for product, shift in ((first, second), (second, first)):
                shifted = self._shifted(number, product, shift)
                if shifted is not None:
                    return [shifted]
        if call.spec.name == "MaxPooling":
            pooled = self._pooled(call, self._recorded.reads[number, 1] > 0)
            if pooled is not None:
                return [pooled]
        values = [self._value(each) for each in call.operands]
        source = call.operands[0] if call.operands else None
        if isinstance(source, tuple) and values[0] is not None:
            check_index(call, values[0].shape, self._recorded.calls[source[0]])
        return added(self.graph, call, values, self._joined.attributes_for(call, values))

    def _normalized(self, number: int, call: OneCall) -> IRValue | None:
        """Normalization by running statistics as a scale and a shift; None where it has to stay."""
        if not self._are_fixed.issuperset(call.operands[1:]):
            return None
        value = self._in_product(number, call) if self._is_folded else None
        if value is not None:
            return value
        x = self._present(call.operands[0])
        dtype = x.dtype
        if not self._is_folded:
            self.graph.context = call.context
            own = scale_and_shift(dtype, [self._present(each) for each in call.operands[1:]], call.attributes["eps"])
            return None if own is None else x * own[0] + own[1]

        def compute(graph: Folds[Any]) -> tuple[Any, Any] | None:
            return graph.scale_and_shift(call, dtype)

        if fits([call], call.operands[1:], dtype, self._leaves_on_host):
            found = self._import_pair(number, "normal", compute(self._looks), compute)
            if found is not None:
                self.on_host[number] = compute
        else:
            found = self._import_pair(number, "normal", compute(self._fixed), compute)
        if found is None:
            return None
        self._elsewhere[number] = "a multiplication and an addition, by values that are computed once"
        self.graph.context = call.context
        return x * found[0] + found[1]

    def _pooled(self, call: OneCall, has_places: bool) -> IRValue | None:
        """Maxima of a function that keeps order as that of the maxima; None where others read it, or there is none.

        has_places: whether the places of the maxima are read: elements that are equal behind the function have others.
        """
        source = call.operands[0]
        if has_places or not isinstance(source, tuple) or source in self._are_fixed or self._recorded.reads[source] > 1:
            return None
        maker = self._recorded.calls[source[0]]
        if not _keeps_order(maker) or maker.context != call.context:
            return None
        x, before = self._present(maker.operands[0]), self._present(source)
        if x.dtype != before.dtype:  # whole numbers, which the function makes floats
            return None
        maxima = added(self.graph, call, [x], self._joined.attributes_for(call, [x]))[0]
        if math.prod(maxima.shape) >= math.prod(x.shape):
            return None
        self._elsewhere[source[0]] = "behind the maxima that read it, on fewer elements"
        return added(self.graph, maker, [maxima])[0]

    def _maker(self, source: Operand) -> tuple[OneCall, IRValue] | None:
        """The product that makes a value for one reader out of an input x and of parameters, and x."""
        if not isinstance(source, tuple) or self._recorded.reads[source] > 1:
            return None
        maker = self._recorded.calls[source[0]]
        if maker.spec.name not in PRODUCTS or not self._are_fixed.issuperset(maker.operands[1:]):
            return None
        x = self._value(maker.operands[0])
        return None if x is None else (maker, x)

    def _shifted(self, number: int, source: Operand, shift: Operand) -> IRValue | None:
        """The product before a sum with that in its bias; None where it is none with one number per channel."""
        if source in self._are_fixed or shift not in self._are_fixed:
            return None
        made = self._maker(source)
        if made is None:
            return None
        maker, x = made
        desc, shape = x.desc, self._present(source).shape

        def compute(graph: Folds[Any]) -> Any:  # as the graph has values: a node, or an array
            return graph.shifted(maker, desc, shape, shift)

        is_on_host = fits([maker], (*maker.operands[1:], shift), desc.dtype, self._leaves_on_host)
        bias = compute(self._looks if is_on_host else self._fixed)
        if bias is None:
            return None
        if is_on_host:
            self.on_host[number] = lambda looks: (compute(looks),)
        self._elsewhere[number] = f"in the bias of {maker.spec.name}, which is computed once"
        weight, bias = self._value(maker.operands[1]), self._import((number, "bias"), bias, partial(_found, compute))
        return added(self.graph, maker, [x, weight, bias])[0]

    def _in_product(self, number: int, call: OneCall) -> IRValue | None:
        """The product before a normalization with that in it; None where there is none, or others read its result."""
        made = self._maker(call.operands[0])
        if made is None:
            return None
        maker, x = made
        desc = x.desc

        def compute(graph: Folds[Any]) -> tuple[Any, Any] | None:
            return graph.folded(call, maker, desc)

        if fits([maker, call], (*maker.operands[1:], *call.operands[1:]), desc.dtype, self._leaves_on_host):
            found = self._import_pair(number, "product", self._descs_on_host(call, maker, desc, compute), compute)
            if found is not None:
                self.on_host[number] = compute
        elif (alike := self._alike(call, maker, desc)) is None:
            found = self._import_pair(number, "product", compute(self._fixed), compute)
        else:
            pattern, read = self._pattern(alike, compute)
            found = self._import_pair(number, "product", pattern.descs, compute)
            if found is not None:
                self.alike[number] = pattern, read
        if found is None:
            return None
        self._elsewhere[number] = f"in the weight and the bias of {maker.spec.name}, which are computed once"
        return added(self.graph, maker, [x, *found])[0]

    def _descs_on_host(self, call: OneCall, maker: OneCall, x: ArrayDesc, compute: Pair) -> Sequence[ArrayDesc] | None:
        """What weight and bias look like that NumPy computes for a normalization in a product of x."""
        alike = self._alike(call, maker, x)
        assert alike is not None, "NumPy computes what is made of parameters themselves"
        key = alike.key, tuple(self.leaves[leaf][1] for leaf in alike.leaves)
        if key not in self._known.on_host:
            found = compute(self._looks)
            self._known.on_host[key] = None if found is None else [ArrayDesc(each.shape, each.dtype) for each in found]
        return self._known.on_host[key]

    @staticmethod
    def _alike(call: OneCall, maker: OneCall, x: ArrayDesc) -> _Alike | None:
        """By what a normalization in a product of x is like that of other parameters; None where these are computed.

        Of x its number of axes and its dtype count: batches of any size, and images of any, have the same weights.
        """
        operands = (*maker.operands[1:], *call.operands[1:])
        if any(isinstance(each, tuple) for each in operands):
            return None
        leaves = tuple(each for each in operands if isinstance(each, int))
        absent = tuple(each is None for each in operands)
        product = maker.spec.name, read_attributes(maker.spec.name, maker.attributes), maker.context
        normalization = tuple(sorted(call.attributes.items())), call.context
        return _Alike((plugin_generation(), x.ndim, x.dtype, absent, product, normalization), leaves)
