"""Loops and branches as native steps, whose argument blocks are made of the plans of their bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from atled.array_desc import ArrayDesc
from atled.call import Native, Pack, Prepared
from atled.graph.compile.body_block import BodyBlock, sources_of
from atled.graph.compile.loop_formulas import formula_steps, is_formula
from atled.graph.compile.plan import Plan
from atled.graph.compile.plans import PLANS
from atled.graph.compile.step import Step
from atled.graph.nodes.body import Body
from atled.graph.nodes.branches import BranchOp
from atled.graph.nodes.ir import Graph, IRValue
from atled.graph.nodes.loops import LoopOp
from atled.loop_words import LoopWord, MoveWord
from atled.named_tuple import NamedTuple
from atled_contexts import Context, plugin_generation

Lower = Callable[[Graph, Sequence[IRValue | None]], Plan]
"""From a graph and its results to a plan; it is above this module."""

_MOST_STEPS = (1 << 63) - 1


def graph_of(body: Body, context: Context) -> tuple[Graph, tuple[IRValue, ...]]:
    """The nodes of a body with its results: outside array k is input k; parameters are floats ("parameter", number)."""
    graph = Graph(context, by_operands=body.by_operands)
    inputs = [graph.external(number, desc) for number, desc in enumerate(body.inputs)]
    parameters = [graph.float_from("parameter", number) for number in range(body.parameter_count)]
    return graph, body.emit(graph, inputs, parameters)


def body_plan(body: Body, context: Context, lower: Lower) -> Plan:
    """The plan of a body: as `graph_of` has it, each result a target."""
    key = ("body", body, context, plugin_generation())
    plan: Plan = PLANS.get(key, lambda: lower(*graph_of(body, context)))
    return plan


def make_native(step: Step, lower: Lower) -> None:
    """Have a loop or a branch run natively, if its bodies are native programs of an executor that runs loops."""
    spec = step.node.spec
    assert step.prepared is not None
    if isinstance(spec, LoopOp):
        made = _formula(spec, step, lower) or _loop(spec, step, lower)
    else:
        assert isinstance(spec, BranchOp)
        made = _branch(spec, step, lower)
    if made is not None:
        step.executor, step.native, step.native_backend = made.executor, made.native, made.backend
        step.prepared = Prepared(
            step.prepared.run, native=made.native, workspace=made.workspace, note=made.note, packs=made.packs
        )


class _Made(NamedTuple):
    """What becomes of a step."""

    native: Native
    executor: Any
    backend: str
    note: str
    workspace: int = 0
    packs: Sequence[Pack] = ()


def _executor_of(plans: Sequence[Plan]) -> Any:
    """What runs all of some plans, if each is one program in host memory, and it runs loops; else None."""
    for plan in plans:
        if not plan.is_on_host or plan.fallbacks or [segment.is_native for segment in plan.segments] != [True]:
            return None
    executors = {id(plan.steps[0].executor): plan.steps[0].executor for plan in plans}
    executor = executors.popitem()[1]
    return executor if not executors and hasattr(executor, "loop_kernel") else None


def _formula(spec: LoopOp, step: Step, lower: Lower) -> _Made | None:
    """A loop of one formula on few elements."""
    if not is_formula(spec) or _sequence_strides(spec, step) != [desc.nbytes for desc in _rows(spec)]:
        return None
    plan = _loop_body(spec, step, lower, shares=False).plan
    executor = _executor_of([plan])
    native = None if executor is None else formula_steps(spec, plan)
    return None if native is None else _Made(native, executor, plan.steps[0].backend, "one formula")


def _loop(spec: LoopOp, step: Step, lower: Lower) -> _Made | None:
    body = _loop_body(spec, step, lower, shares=True)
    executor = _executor_of([body.plan])
    if executor is None:
        return None
    made = _Loop(spec, _sequence_strides(spec, step), body, executor).assembled
    return _Made(made.native, executor, body.plan.steps[0].backend, "native", made.workspace, made.packs)


def _branch(spec: BranchOp, step: Step, lower: Lower) -> _Made | None:
    plans = [body_plan(body, step.node.context, lower) for body in spec.bodies]
    # Only the random states of the body that runs go on, of which a program knows nothing.
    executor = None if spec.draw_count else _executor_of(plans)
    if executor is None:
        return None
    made = BodyBlock(spec, plans, executor)
    made.block[LoopWord.COUNT] = 1
    made.block[LoopWord.SPLIT] = len(plans[0].rows)
    made.block.fix(LoopWord.CHOICE_AT, made.input(0))
    condition = step.node.inputs[0]
    assert condition is not None
    made.read_truth(condition.dtype)
    most = 0
    for plan in plans:
        made.workspace = 0  # one of them runs
        made.fixed = {memory: (made.input(1 + number), 0) for number, memory in sources_of(plan).items()}
        made.fixed |= {plan.slots[slot].memory: (made.output(n), 0) for n, slot in enumerate(plan.targets)}
        made.place_rest(plan)
        made.add(plan)
        most = max(most, made.workspace)
    made.workspace = most
    return _Made(made.native, executor, plans[0].steps[0].backend, "native", most, made.packs)


def _rows(spec: LoopOp) -> Sequence[ArrayDesc]:
    """Of the sequences."""
    return spec.body.inputs[: spec.sequence_count]


def _sequence_strides(spec: LoopOp, step: Step) -> list[int]:
    """The bytes from one row of a sequence to the next, per sequence."""
    assert step.node.decision is not None
    descs = step.node.decision.call.inputs[spec.counted :]
    found = [desc for desc in descs[: spec.sequence_count] if desc is not None]
    return [
        row.nbytes if desc.is_contiguous else desc.written_strides[0] * desc.dtype.itemsize
        for row, desc in zip(_rows(spec), found, strict=True)
    ]


class _LoopBody(NamedTuple):
    """The plan of a loop's body; shared: per row that is a new state, too, the number of that."""

    plan: Plan
    shared: Mapping[int, int]


def _loop_body(spec: LoopOp, step: Step, lower: Lower, *, shares: bool) -> _LoopBody:
    """shares: whether a row that is a new state, too, is written once."""
    context = step.node.context
    assert step.node.decision is not None
    wanted = step.node.decision.call.wanted

    def make() -> _LoopBody:
        graph, values = graph_of(spec.body, context)
        results: list[IRValue | None] = list(values)
        states = {value: number for number, value in reversed(list(enumerate(values[: spec.state_count])))}
        shared: dict[int, int] = {}
        for number in range(spec.first_row, len(values)):
            value = values[number]
            if not wanted[number]:
                results[number] = None
            elif shares and states.get(value) not in (None, *shared.values()) and value.external < 0:
                shared[number] = states[value]
                results[number] = None
        return _LoopBody(lower(graph, results), shared)

    # Of the loop only this: one that is as long as another, or longer, has the same steps.
    key = (
        "loop",
        spec.body,
        spec.state_count,
        spec.first_row,
        tuple(wanted),
        shares,
        context,
        plugin_generation(),
    )
    made: _LoopBody = PLANS.get(key, make)
    return made


def _abreast(spec: LoopOp, executor: Any) -> tuple[int, int, int]:
    """What `executor.abreast_kernels` gives, for a loop whose steps may run at once; (0, 0, 1) for one by one."""
    if not spec.abreast or not hasattr(executor, "abreast_kernels"):
        return 0, 0, 1
    found: tuple[int, int, int] = executor.abreast_kernels()
    return found


class _Loop:
    """Puts the block of a loop together.

    assembled: the block.
    """

    def __init__(self, spec: LoopOp, strides: Sequence[int], body: _LoopBody, executor: Any) -> None:
        self._spec = spec
        self._strides = strides
        self._plan = plan = body.plan
        self._shared = body.shared
        self._sources = sources_of(plan)
        self._together, self._apart, self._threads = _abreast(spec, executor)
        # Steps beside each other are one of the loop: all of them.
        self._at_once = 1 if self._threads == 1 else spec.length or 1
        moves = 2 * spec.state_count + spec.sequence_count + spec.draw_count + spec.row_count
        self.assembled = BodyBlock(spec, [plan], executor, moves=moves)
        self._set_count()
        self._place_states()
        self._place_rows()
        self._place_constants()
        if self._threads > 1:
            self._run_abreast()
            return
        self.assembled.place_rest(plan)
        if spec.ended:
            slot = plan.slots[plan.targets[spec.state_count]]
            self.assembled.block.fix(LoopWord.END_AT, *self.assembled.fixed[slot.memory])
            self.assembled.read_truth(slot.desc.dtype)
        self.assembled.add(plan)

    def _run_abreast(self) -> None:
        """Steps that run at once: what each makes does not depend on how, and so not on the count of threads.

        Where there are enough, each thread takes steps apart from the others, which it seldom waits for, and reads what
        it wrote. More threads than steps share each row of all of them.
        """
        steps, plan, threads, far = self._at_once, self._plan, self._threads, self._row_bytes()
        if threads <= steps:
            self.assembled.add_apart(plan, steps, threads, self._apart, far)
        else:
            self.assembled.add_together(plan, steps, self._together, -(-2 * threads // steps), far)

    def _input(self, number: int) -> int:
        """The word of the address for an input of the body."""
        return self.assembled.input(self._spec.counted + number)

    def _set_count(self) -> None:
        spec, made = self._spec, self.assembled
        made.block[LoopWord.COUNT] = _MOST_STEPS if spec.length is None else spec.length // self._at_once
        if spec.counted:
            made.block.fix(LoopWord.COUNT_AT, made.input(0))
        if spec.ended:
            made.block.fix(LoopWord.STEPS_AT, made.output(spec.state_count))

    def _place_states(self) -> None:
        """What reads a state follows what wrote it."""
        spec, plan, made, block = self._spec, self._plan, self.assembled, self.assembled.block
        rows = {state: row for row, state in self._shared.items()}
        followers = {}
        for state in range(spec.state_count):
            number = spec.sequence_count + state
            if number in self._sources:
                followers[state] = made.moved[self._sources[number]] = made.move(self._input(number))
        for state in range(spec.state_count):
            desc = spec.body.result_descs[state]
            leader = self._row(rows[state], desc) if state in rows else made.move(made.output(state))
            made.moved[plan.slots[plan.targets[state]].memory] = leader
            block[block.move(leader, MoveWord.BYTES)] = desc.nbytes
            block.fix(block.move(leader, MoveWord.FINAL), made.output(state))
            block.fix(block.move(leader, MoveWord.FIRST), self._input(spec.sequence_count + state))
            if state not in rows:
                block.fix(block.move(leader, MoveWord.OTHER), made.workspace_word, made.take(desc.nbytes))
            if state in followers:
                block[block.move(followers[state], MoveWord.FOLLOWS)] = block.move(leader, MoveWord.ADDRESS)

    def _row(self, output: int, desc: ArrayDesc) -> int:
        """The array of an output that has a row for each step."""
        spec, made = self._spec, self.assembled
        fills = spec.length or 0 if spec.counted or spec.ended else 0
        stride = desc.nbytes * self._at_once
        return made.move(made.output(output), STRIDE=stride, BACKWARDS=int(spec.backwards), FILLS=fills)

    def _place_rows(self) -> None:
        """Sequences and outputs by rows; nobody reads what has no target."""
        spec, plan, made = self._spec, self._plan, self.assembled
        for number in range(spec.sequence_count):
            if number in self._sources:
                stride, base = self._strides[number] * self._at_once, self._input(number)
                made.moved[self._sources[number]] = made.move(base, STRIDE=stride, BACKWARDS=int(spec.backwards))
        for number in range(spec.first_row, len(spec.outputs)):
            if plan.targets[number] >= 0:
                memory = plan.slots[plan.targets[number]].memory
                made.moved[memory] = self._row(number, spec.body.result_descs[number])

    def _row_bytes(self) -> dict[int, int]:
        """By memory of a sequence or of rows of an output the bytes from one row to the next."""
        spec, plan = self._spec, self._plan
        strides = enumerate(self._strides)
        found = {self._sources[number]: stride for number, stride in strides if number in self._sources}
        for number, desc in enumerate(spec.body.result_descs):
            if plan.targets[number] >= 0:
                found[plan.slots[plan.targets[number]].memory] = desc.nbytes
        return found

    def _place_constants(self) -> None:
        """Constants, and random states, which go on where they are."""
        spec, made = self._spec, self.assembled
        first_constant, first_draw = spec.sequence_count + spec.state_count, len(spec.body.inputs) - spec.draw_count
        for number, memory in self._sources.items():
            if number >= first_constant:
                made.fixed[memory] = self._input(number), 0
            if number >= first_draw:
                made.move(self._input(number), DRAWS=1)
