"""Loops: nodes that run a body step by step, and their gradients, which are loops again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.errors import RefusedError, four_parts
from atled.graph.nodes.body import Body
from atled.graph.nodes.body_gradient import DifferentiatedBody
from atled.graph.nodes.body_op import BodyOp, extend
from atled.graph.nodes.gradient import DifferentiatedNode
from atled.graph.nodes.hoisting import LoopParts, OutsideProducts, constants_outside, has_products
from atled.graph.nodes.ir import FloatSlot, Graph, IRValue
from atled.named_tuple import NamedTuple
from atled.ops.spec import Input

_COUNT = ArrayDesc((), np.int64)


class LoopOp(BodyOp, abstract=True):
    """A loop: `state, row of outputs = body(row of sequences, state, constants)`, step by step.

    Made per body, as a fused op is per formula; it exists only inside graphs.

    body: its inputs are rows of the sequences, states, constants and random states; its results are the new states,
        whether this was the last step if `ended`, and rows of the outputs.  Its parameters are attributes p0, p1, ...
    sequences, states, constants, draws: how many of each kind of input.
    length: count of steps, which is that of the rows; where `counted`, the most steps. None where nothing has rows.
    counted: whether an input says how many steps there are; a negative count, or one beyond `length`, is an error.
    ended: whether the body may end the loop, which goes forwards then. The step in which it says so is the last one.
    backwards: whether rows are taken from the last step's to the first one's: with n steps, step k has row n - 1 - k.
    abreast: whether several steps may run at once, each in memory of its own: of a known length, without states and
        random states, forwards.

    Args:
        count: () int64, where `counted`.
        sequences: (length, ...) each.
        states: what the states hold before the first step.
        constants: what each step reads.
        random states: (2,) int64, one for each draw of the body. Each step draws anew.

    Returns:
        states: what they hold after the last step.
        steps: () int64, where `ended`: how many there were.
        rows: (length, ...) each; zeros where no step was.
    """

    kind = "Loop"

    def __init__(
        self,
        body: Body,
        *,
        sequences: int = 0,
        states: int = 0,
        draws: int = 0,
        length: int | None = None,
        counted: bool = False,
        ended: bool = False,
        backwards: bool = False,
        abreast: bool = False,
    ) -> None:
        assert not abreast or (length and not (states or draws or counted or ended or backwards))
        self.body = body
        self.sequence_count = sequences
        self.state_count = states
        self.length = length
        self.counted = counted
        self.ended = ended
        self.backwards = backwards
        self.abreast = abreast
        self.first_row = states + ended
        self.auxiliary = [f"row{number}" for number in range(len(body.results) - self.first_row)]
        self.outputs = (*(f"state{number}" for number in range(states)), *(["steps"] if ended else []), *self.auxiliary)
        if counted:
            self.inputs = (Input("count", kind="index", gradient="none", on_host=True),)
        constants = len(body.inputs) - sequences - states - draws
        kinds = [("sequence", sequences), ("state", states), ("constant", constants)]
        names = [f"{kind}{number}" for kind, count in kinds for number in range(count)]
        super().__init__([body], names, draws, sequences, states, length, counted, ended, backwards, abreast)
        self._check()

    @property
    def row_count(self) -> int:
        """How many outputs have a row for each step."""
        return len(self.outputs) - self.first_row

    def replaced(self, body: Body) -> LoopOp:
        """The same loop with another body, which has the same inputs."""
        return LoopOp(
            body,
            sequences=self.sequence_count,
            states=self.state_count,
            draws=self.draw_count,
            length=self.length,
            counted=self.counted,
            ended=self.ended,
            backwards=self.backwards,
            abreast=self.abreast,
        )

    def _check(self) -> None:
        """Refuse a body that does not fit a loop."""
        body = self.body
        results = body.result_descs
        first_constant = self.sequence_count + self.state_count
        for number, (before, after) in enumerate(
            zip(body.inputs[self.sequence_count : first_constant], results, strict=False)
        ):
            if before != after:
                raise self.refusal(
                    f"state {number} is {before} before a step and {after} behind it",
                    "give its first value the shape and dtype that the step returns, or cast what that returns",
                )
        if self.ended and results[self.state_count].shape != ():
            raise self.refusal(
                f"its condition is no scalar: {results[self.state_count]}", "reduce it, for example by any or all"
            )
        if self.length is None and (self.sequence_count or self.row_count or not self.counted):
            raise self.refusal("it has no length", "say its length; with a count, the most steps there may be")
        if self.length is not None and self.length < 0:
            raise self.refusal(f"its length is {self.length}", "use 0 steps or more")
        if self.ended and self.backwards:
            raise self.refusal("it goes backwards and may end", "have it go forwards over reversed sequences")
        if not self.outputs:
            raise self.refusal("it has no output", "give it a state, or have its body return a row")

    def infer(self, *given: ArrayDesc, **_: Any) -> Sequence[ArrayDesc]:
        wanted = [self._of_length(desc) for desc in self.body.inputs[: self.sequence_count]]
        wanted += self.body.inputs[self.sequence_count :]
        if self.counted:
            wanted.insert(0, _COUNT)
        self.require(given, wanted)
        results = self.body.result_descs
        steps = [_COUNT] if self.ended else []
        return [*results[: self.state_count], *steps, *map(self._of_length, results[self.first_row :])]

    def _of_length(self, desc: ArrayDesc) -> ArrayDesc:
        """A row for each step."""
        assert self.length is not None
        return ArrayDesc((self.length, *desc.shape), desc.dtype)

    def taken(self, position: int, desc: ArrayDesc) -> ArrayDesc:
        if desc.strides is None or not self.counted <= position < self.counted + self.sequence_count:
            return desc.contiguous
        # Rows are read where they are, whatever is between them.
        row = ArrayDesc(desc.shape[1:], desc.dtype, desc.strides[1:])
        return desc if row.is_contiguous else desc.contiguous

    def gradient(self, g: Any, *_: Any, **parameters: Any) -> Sequence[IRValue | None]:  # Any: the engine's own classes
        return _LoopGradient(self, g, list(parameters.values())).of_inputs()


class LoopResults(NamedTuple):
    """What a loop gives: last states, how many steps there were (None where that is known), and rows of outputs."""

    states: tuple[IRValue, ...]
    steps: IRValue | None
    rows: tuple[IRValue, ...]


def loop(
    graph: Graph,
    body: Body,
    *,
    sequences: Sequence[IRValue] = (),
    states: Sequence[IRValue] = (),
    constants: Sequence[IRValue] = (),
    draws: Sequence[IRValue] = (),
    count: IRValue | None = None,
    length: int | None = None,
    ended: bool = False,
    backwards: bool = False,
    parameters: Sequence[FloatSlot] = (),
) -> LoopResults:
    """Add a loop to a graph; arguments as `LoopOp` has them.

    What no step waits for is added outside of it (`hoisting`). Of an output of which only the last row is wanted, make
    a state: if the body does not read it, any first value will do.

    length: None for that of the sequences.

    Raises RefusedError for a body or inputs that do not fit.
    """
    assert len(sequences) + len(states) + len(constants) + len(draws) == len(body.inputs)
    lengths = {value.shape[0] for value in sequences} | (set() if length is None else {length})
    if len(lengths) > 1:
        asked, wrong = "a loop over sequences", f"there are {' and '.join(map(str, sorted(lengths)))} rows or steps"
        raise RefusedError(four_parts(asked, wrong, "", "cut the sequences to one length"))
    length = next(iter(lengths), None)

    def op(parts: LoopParts) -> LoopOp:
        return LoopOp(
            parts.body,
            sequences=len(parts.sequences),
            states=len(parts.states),
            draws=len(parts.draws),
            length=length,
            counted=count is not None,
            ended=ended,
            backwards=backwards,
        )

    if count is not None and count.dtype.kind not in "iu":
        remedy = "cast it to int64 first, which cuts fractions off"
        raise RefusedError(four_parts(f"a loop with a count {count.desc}", "it is no whole number", "", remedy))
    parts = LoopParts(body, sequences, states, constants, draws)
    counts = [] if count is None else [count]
    # What does not fit is refused as it was given.
    whole = [value.desc.astype(np.int64) for value in counts]
    op(parts).infer_outputs([*whole, *(value.desc.contiguous for value in parts.inputs)], {})
    parts = constants_outside(graph, parts, parameters, may_be_empty=bool(counts) or not length)
    if counts or ended or not has_products(parts.body):
        return _added(graph, op(parts), [*counts, *parts.inputs], parameters)
    assert length is not None
    outside = OutsideProducts(graph, parts, length)
    inside, made = outside.inside, LoopResults((), None, ())
    if inside.body.results:
        made = _added(graph, op(inside), inside.inputs, parameters)
    last_states, rows = outside.results(made.states, made.rows)
    return LoopResults(last_states, None, rows)


def _added(graph: Graph, spec: LoopOp, inputs: Sequence[IRValue], parameters: Sequence[FloatSlot]) -> LoopResults:
    floats = dict(zip(spec.float_names, parameters, strict=True))
    outputs = graph.add(spec, inputs, floats, graph.context).outputs
    steps = outputs[spec.state_count] if spec.ended else None
    return LoopResults(outputs[: spec.state_count], steps, outputs[spec.first_row :])


class _LoopGradient:
    """The gradient of one loop: a loop the other way, whose states are cotangents of states, and sums.

    Inputs and results are those of the body, by number; they stand for what the node has behind its count.
    """

    def __init__(self, spec: LoopOp, g: DifferentiatedNode, parameters: Sequence[FloatSlot]) -> None:
        self._spec = spec
        self._g = g
        self._parameters = parameters
        self._body = DifferentiatedBody(spec.body, g.graph.context)
        self._wanted = {number for number, need in enumerate(g.needs[spec.counted :]) if need}
        self._first_constant = spec.sequence_count + spec.state_count

    def of_inputs(self) -> list[IRValue | None]:
        """Per input of the node its gradient."""
        spec, body, builder = self._spec, self._body, self._body.builder
        active = self._find_active()
        carried, arriving = self._find_seeded(active)
        seeds = {number: builder.input(body.results[number].desc) for number in (*carried, *arriving)}
        found = body.pull_back(seeds.items(), active) if seeds else {}
        summed = [number for number in found if number >= self._first_constant]
        sums = {number: builder.input(found[number].desc) for number in summed}
        rows = [number for number in found if number < spec.sequence_count]
        results = [found.get(spec.sequence_count + number) or body.zeros(seeds[number].desc) for number in carried]
        results += [self._plus(before, found[number]) for number, before in sums.items()]
        results += [found[number] for number in rows]
        if not results:
            return [None] * len(self._g.inputs)
        states = {seeds[number]: self._cotangent(number) for number in carried}
        states |= {before: self._zeros(before.desc) for before in sums.values()}
        made = self._add(results, {seeds[number]: self._cotangent(number) for number in arriving}, states)
        numbers = [*(spec.sequence_count + number for number in carried), *summed, *rows]
        gradients = dict(zip(numbers, (*made.states, *made.rows), strict=True))
        own = [gradients.get(number) if number in self._wanted else None for number in range(len(body.given))]
        return [None] * spec.counted + own

    def _find_active(self) -> set[int]:
        """The inputs through which wanted gradients come: those that are wanted, and the states made of them."""
        spec, active = self._spec, set(self._wanted)
        while True:
            made = {
                spec.sequence_count + number
                for number in range(spec.state_count)
                if self._body.reached(number) & active
            }
            if made <= active:
                return active
            active |= made

    def _find_seeded(self, active: Set[int]) -> tuple[list[int], list[int]]:
        """The results that have a cotangent in some step: states and rows."""
        spec, given = self._spec, self._g.cotangents
        rows = [number for number in range(spec.first_row, len(self._body.results)) if given[number] is not None]
        rows = [number for number in rows if self._body.reached(number) & active]
        states = {number for number in range(spec.state_count) if given[number] is not None}
        while True:
            reached = frozenset[int]().union(*map(self._body.reached, (*rows, *states)))
            more = {number for number in range(spec.state_count) if spec.sequence_count + number in reached & active}
            if more <= states:
                return sorted(number for number in states if spec.sequence_count + number in active), rows
            states |= more

    def _plus(self, sum_before: IRValue, gradient: IRValue) -> IRValue:
        builder = self._body.builder
        return builder.coerce(builder.op("Add2", sum_before, gradient), None, sum_before.dtype, builder.context)

    def _cotangent(self, number: int) -> IRValue:
        """That of an output; zeros where none arrives."""
        given, desc = self._g.cotangents[number], self._g.outputs[number].desc
        return self._zeros(desc) if given is None else self._cast(given, desc)

    def _zeros(self, desc: ArrayDesc) -> IRValue:
        return self._cast(self._g.op("Constant", val=0.0, shape=desc.shape, dtype=desc.dtype), desc)

    def _cast(self, value: IRValue, desc: ArrayDesc) -> IRValue:
        return self._g.graph.coerce(value, None, desc.dtype, self._g.graph.context)

    def _add(
        self, results: Sequence[IRValue], rows: Mapping[IRValue, IRValue], states: Mapping[IRValue, IRValue]
    ) -> LoopResults:
        """Add the loop of a step that makes some results.  rows, states: of the step, and what they are outside."""
        spec, body = self._spec, self._body
        inputs = [value for value in self._g.inputs[spec.counted :] if value is not None]
        sequences = dict(zip(body.given[: spec.sequence_count], inputs, strict=False))
        constants = dict(zip(body.given[self._first_constant :], inputs[self._first_constant :], strict=True))
        sources = body.sources(results, [*sequences, *constants])
        stored = self._stored([value for value in sources if value not in sequences and value not in constants])
        read = {value: outside for value, outside in (sequences | stored).items() if value in sources} | dict(rows)
        constants = {value: outside for value, outside in constants.items() if value in sources}
        count = self._g.inputs[0] if spec.counted else None
        return loop(
            self._g.graph,
            body.builder.body(results, [*read, *states, *constants]),
            sequences=list(read.values()),
            states=list(states.values()),
            constants=list(constants.values()),
            count=self._g.outputs[spec.state_count] if spec.ended else count,
            length=spec.length,
            backwards=not spec.backwards,
            parameters=self._parameters,
        )

    def _stored(self, values: Sequence[IRValue]) -> dict[IRValue, IRValue]:
        """The rows that the loop stores of values of its body: outputs that it has, else it gets more of them."""
        spec, body, node = self._spec, self._body, self._g.node
        rows = list(body.results[spec.first_row :])
        missing = [value for value in values if value not in rows]
        if missing:
            extend(node, spec.replaced(body.builder.body([*body.results, *missing], body.given)))
        rows += missing
        return {value: node.outputs[spec.first_row + rows.index(value)] for value in values}
