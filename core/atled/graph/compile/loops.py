"""Loops as native steps: the argument block of one is made of the plan of its body."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.place import HOST
from atled.arrays.storage import ALIGNMENT
from atled.call import Native, Prepared, RowWord
from atled.dtypes import is_float
from atled.graph.compile.loop_block import LoopBlock
from atled.graph.compile.loop_formulas import formula_steps, is_formula
from atled.graph.compile.plan import Plan
from atled.graph.compile.plans import PLANS
from atled.graph.compile.step import Step
from atled.graph.nodes.body import Body
from atled.graph.nodes.ir import Graph, IRValue
from atled.graph.nodes.loops import LoopOp
from atled.loop_words import LOOP_ERRORS, LoopRowWord, LoopWord, MoveWord
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


def make_native(step: Step, lower: Lower) -> None:
    """Have a loop run natively, if its body is a native program of an executor that runs loops."""
    spec, decision = step.node.spec, step.node.decision
    assert isinstance(spec, LoopOp) and decision is not None and step.prepared is not None
    wanted, context = decision.call.wanted, step.node.context
    if is_formula(spec):
        plan = _body_of(spec, wanted, context, lower, shares=False).plan
        native = None if _executor_of(plan) is None else formula_steps(spec, plan)
        if native is not None:
            step.executor, step.native = plan.steps[0].executor, native
            step.prepared = Prepared(step.prepared.run, native=native, note="one formula")
            return
    body = _body_of(spec, wanted, context, lower, shares=True)
    executor = _executor_of(body.plan)
    if executor is not None:
        made = _Loop(spec, body, executor)
        step.executor, step.native = executor, made.native
        note = "native"
        step.prepared = Prepared(step.prepared.run, native=made.native, workspace=made.workspace, note=note)


class _LoopBody(NamedTuple):
    """The plan of a loop's body; shared: per row that is a new state, too, the number of that."""

    plan: Plan
    shared: Mapping[int, int]


def _body_of(spec: LoopOp, wanted: Sequence[bool], context: Context, lower: Lower, *, shares: bool) -> _LoopBody:
    """wanted: per output of the loop.  shares: whether a row that is a new state, too, is written once."""

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

    key = ("loop", spec, tuple(wanted), shares, context, plugin_generation())
    made: _LoopBody = PLANS.get(key, make)
    return made


def _executor_of(plan: Plan) -> Any:
    """What runs a plan, if it is one program in host memory, and runs loops; else None."""
    if not plan.is_on_host or plan.fallbacks or [segment.is_native for segment in plan.segments] != [True]:
        return None
    executor = plan.steps[0].executor
    return executor if hasattr(executor, "loop_kernel") else None


class _Loop:
    """The block of a loop as it is put together.

    native, workspace: of the step.
    """

    def __init__(self, spec: LoopOp, body: _LoopBody, executor: Any) -> None:
        self._spec = spec
        self._plan = plan = body.plan
        self._shared = body.shared
        address, own = executor.loop_kernel()
        self._moved: dict[int, int] = {}  # memory of the body -> number of what moves
        self._fixed: dict[int, tuple[int, int]] = {}  # memory of the body -> word of an address, and bytes behind it
        self.workspace = 0
        self._block = LoopBlock(own, moves=self._count_moves(), rows=len(plan.rows))
        self._free_move = 0
        self._arguments = [self._block.add() for _ in (*spec.inputs, *spec.outputs)]
        self._workspace_word = self._block.add()
        self._parameters = [self._block.add() for _ in range(spec.body.parameter_count)]
        self._sources = {
            plan.slots[slot].source[1]: plan.slots[slot].memory for _, _, _, slot in plan.requests
        }  # number of an input of the body -> memory
        self._set_count()
        self._place_states()
        self._place_rows()
        self._place_others()
        self._add_program()
        errors = dict(LOOP_ERRORS) | self._add_rows()
        self.native = Native(
            address,
            self._block.words,
            (*self._arguments, self._workspace_word) if self.workspace else tuple(self._arguments),
            attributes=dict(zip(spec.float_names, self._parameters, strict=True)),
            errors=errors,
            owner=plan,
        )

    def _count_moves(self) -> int:
        spec = self._spec
        return 2 * spec.state_count + spec.sequence_count + spec.draw_count + spec.row_count

    def _input(self, number: int) -> int:
        """The word of the argument for an input of the body."""
        return self._arguments[self._spec.counted + number]

    def _output(self, number: int) -> int:
        """The word of the argument for an output."""
        return self._arguments[len(self._spec.inputs) + number]

    def _take(self, nbytes: int) -> int:
        """A place in the workspace."""
        begin = self.workspace
        self.workspace += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return begin

    def _move(self, memory: int, base: int, **words: int) -> int:
        """An array that moves; the number of it.  base: the word of its address."""
        number = self._free_move
        self._free_move += 1
        self._moved[memory] = number
        self._block.fix(self._block.move(number, MoveWord.BASE), base)
        for name, value in words.items():
            self._block[self._block.move(number, MoveWord[name])] = value
        return number

    def _set_count(self) -> None:
        spec, block = self._spec, self._block
        block[LoopWord.COUNT] = _MOST_STEPS if spec.length is None else spec.length
        if spec.counted:
            block.fix(LoopWord.COUNT_AT, self._arguments[0])
        if spec.ended:
            block.fix(LoopWord.STEPS_AT, self._output(spec.state_count))

    def _place_states(self) -> None:
        """What reads a state follows what wrote it."""
        spec, plan, block = self._spec, self._plan, self._block
        rows = {state: row for row, state in self._shared.items()}
        followers = {}
        for state in range(spec.state_count):
            number = spec.sequence_count + state
            if number in self._sources:
                followers[state] = self._move(self._sources[number], self._input(number))
        for state in range(spec.state_count):
            desc = spec.body.result_descs[state]
            row = rows.get(state)
            memory = plan.slots[plan.targets[state]].memory
            leader = self._row(memory, desc, state if row is None else row, is_row=row is not None)
            block[block.move(leader, MoveWord.BYTES)] = desc.nbytes
            block.fix(block.move(leader, MoveWord.FINAL), self._output(state))
            block.fix(block.move(leader, MoveWord.FIRST), self._input(spec.sequence_count + state))
            if row is None:
                block.fix(block.move(leader, MoveWord.OTHER), self._workspace_word, self._take(desc.nbytes))
            if state in followers:
                block[block.move(followers[state], MoveWord.FOLLOWS)] = block.move(leader, MoveWord.ADDRESS)

    def _row(self, memory: int, desc: ArrayDesc, output: int, *, is_row: bool) -> int:
        """The array in which an output is made, row by row or as a whole."""
        spec = self._spec
        if not is_row:
            return self._move(memory, self._output(output))
        fills = spec.length if spec.counted or spec.ended else 0
        return self._move(
            memory, self._output(output), STRIDE=desc.nbytes, BACKWARDS=int(spec.backwards), FILLS=fills or 0
        )

    def _place_rows(self) -> None:
        """Sequences and outputs by rows; nobody reads what has no target."""
        spec, plan = self._spec, self._plan
        for number in range(spec.sequence_count):
            if number in self._sources:
                nbytes = spec.body.inputs[number].nbytes
                self._move(self._sources[number], self._input(number), STRIDE=nbytes, BACKWARDS=int(spec.backwards))
        for number in range(spec.first_row, len(spec.outputs)):
            if plan.targets[number] >= 0:
                memory = plan.slots[plan.targets[number]].memory
                self._row(memory, spec.body.result_descs[number], number, is_row=True)

    def _place_others(self) -> None:
        """Constants, random states, what tells the end, and what is needed during a step alone."""
        spec, plan, block = self._spec, self._plan, self._block
        first_constant = spec.sequence_count + spec.state_count
        first_draw = len(spec.body.inputs) - spec.draw_count
        for number, memory in self._sources.items():
            if number >= first_draw:
                self._fixed[memory] = self._input(number), 0
                self._move(-1 - number, self._input(number), DRAWS=1)
            elif number >= first_constant:
                self._fixed[memory] = self._input(number), 0
        sizes: dict[int, int] = {}
        for slot in plan.slots:
            if slot.memory not in self._moved and slot.memory not in self._fixed:
                sizes[slot.memory] = max(sizes.get(slot.memory, 0), slot.nbytes)
        if HOST in plan.workspaces:
            sizes[plan.memory_count] = plan.workspaces[HOST]
        for memory, nbytes in sizes.items():
            self._fixed[memory] = self._workspace_word, self._take(nbytes)
        if spec.ended:
            slot = plan.slots[plan.targets[spec.state_count]]
            block.fix(LoopWord.END_AT, *self._fixed[slot.memory])
            bits = 8 * slot.desc.dtype.itemsize
            block[LoopWord.TRUTH_BYTES] = slot.desc.dtype.itemsize
            block[LoopWord.TRUTH_BITS] = (1 << (bits - 1)) - 1 if is_float(slot.desc.dtype) else -1

    def _add_program(self) -> None:
        """The blocks of the body's steps, with their addresses and floats."""
        plan, block = self._plan, self._block
        words = plan.block.copy()
        numbers = words.view(np.float64)
        parameters = []
        for word, number in zip(plan.float_words.tolist(), plan.float_numbers.tolist(), strict=True):
            kind, value, *_ = plan.floats[number]
            if kind == "parameter":
                parameters.append((word, self._parameters[value]))
            else:
                numbers[word] = value
        self._first = first = block.add(words.tolist())
        for word, source in parameters:
            block.fix(first + word, source)
        offsets = [0] * len(plan.address_words) if plan.address_offsets is None else plan.address_offsets.tolist()
        places = zip(plan.address_words.tolist(), plan.address_memories.tolist(), offsets, strict=True)
        for word, memory, offset in places:
            if memory in self._moved:
                block.patch(first + word, self._moved[memory], offset)
            else:
                source, begin = self._fixed[memory]
                block.fix(first + word, source, begin + offset)
        for word, offset in zip(plan.link_words.tolist(), plan.link_offsets.tolist(), strict=True):
            block.point(first + word, first + offset // 8)

    def _add_rows(self) -> dict[int, str]:
        """The rows; what their codes mean, each of which gets one of its own."""
        block = self._block
        errors: dict[int, str] = {}
        free = 1 + max(LOOP_ERRORS)
        launched = [step for step in self._plan.steps if step.carrier is None]
        for number, (step, row) in enumerate(zip(launched, self._plan.rows.tolist(), strict=True)):
            assert step.native is not None
            unknown = 1 + max(step.native.errors, default=0)
            block[block.row(number, LoopRowWord.KERNEL)] = row[RowWord.KERNEL]
            block.point(block.row(number, LoopRowWord.BLOCK), self._first + row[RowWord.BLOCK] // 8)
            block[block.row(number, LoopRowWord.PARTS)] = row[RowWord.PARTS]
            block[block.row(number, LoopRowWord.FIRST_CODE)] = free
            block[block.row(number, LoopRowWord.CODE_COUNT)] = unknown
            errors |= {free + code: f"{step.name}: {what}" for code, what in step.native.errors.items()}
            errors[free + unknown] = f"{step.name}: an error without words"
            free += unknown + 1
        return errors
