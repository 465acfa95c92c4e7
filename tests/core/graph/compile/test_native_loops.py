"""Loops whose bodies are native programs run as one step of a program, and give what the loop in Python gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import atled as nn
from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.errors import RefusedError
from atled.graph.compile.lowering import lower
from atled.graph.compile.plan import Plan
from atled.graph.compile.plans import PLANS
from atled.graph.nodes.body import Body, BodyBuilder
from atled.graph.nodes.branches import branch
from atled.graph.nodes.gradient import backpropagate
from atled.graph.nodes.ir import Graph, IRValue
from atled.graph.nodes.loops import LoopResults, loop
from atled.graph.run.binding import Binding
from atled_contexts import native_executor

CONTEXT = nn.Context(["cpu"])
F32 = np.dtype(np.float32)

Build = Callable[..., Sequence[IRValue]]


def body_of(build: Build, *shapes: tuple[int, ...], dtypes: Sequence[Any] = ()) -> Body:
    """The body that `build(builder, *inputs)` makes."""
    builder = BodyBuilder(CONTEXT)
    given = [ArrayDesc(shape, dtype) for shape, dtype in zip(shapes, (*dtypes, *[F32] * len(shapes)), strict=False)]
    return builder.body(build(builder, *map(builder.input, given)))


class Program:
    """A graph on NumPy arrays."""

    def __init__(self, *arrays: np.ndarray) -> None:
        self.graph = Graph(CONTEXT)
        self.arrays = [NdArray.from_numpy_array(array) for array in arrays]
        self.inputs = [
            self.graph.external(number, ArrayDesc(array.shape, array.dtype)) for number, array in enumerate(arrays)
        ]

    def bind(self, *values: IRValue) -> tuple[Plan, Callable[[], list[np.ndarray]]]:
        """The plan, and what runs it."""
        plan = lower(self.graph, values)
        results = [NdArray(value.shape) for value in values]
        floats = [source[1] for source in plan.floats]
        binding = Binding(plan, [array.cell for array in self.arrays], [result.cell for result in results], floats)

        def run() -> list[np.ndarray]:
            binding.run()
            return [result.data.copy() for result in results]

        return plan, run


def run_both(
    make: Callable[[Program], Sequence[IRValue]],
    *arrays: np.ndarray,
    monkeypatch: pytest.MonkeyPatch,
    rtol: float = 0,
    op: str = "Loop",
) -> list[np.ndarray]:
    """Results of a loop that runs natively, which are those of the loop in Python: bit by bit, unless rtol is given."""
    plan, run = (program := Program(*arrays)).bind(*make(program))
    assert [segment.is_native for segment in plan.segments] == [True], str(plan)
    natively = run()
    again = run()
    for one, other in zip(natively, again, strict=True):
        np.testing.assert_array_equal(one, other)
    with monkeypatch.context() as patch:
        patch.delattr(type(native_executor("cpu")), "loop_kernel")
        PLANS.clear()
        plan, run = (program := Program(*arrays)).bind(*make(program))
        assert any(step.name == op and step.native is None for step in plan.steps)
        in_python = run()
    for one, other in zip(natively, in_python, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol)
    return natively


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def rnn(builder: Graph, x: IRValue, h: IRValue, w: IRValue, b: IRValue) -> Sequence[IRValue]:
    h = builder.op("Tanh", builder.op("Add2", builder.op("Add2", builder.op("BatchMatmul", h, w), x), b))
    return h, h * h


RNN = ((2, 3), (2, 3), (3, 3), (1, 3))


def rnn_arrays(length: int = 5) -> list[np.ndarray]:
    return [normal(length, 2, 3), *(normal(*shape) for shape in RNN[1:])]


def rnn_loop(program: Program, body: Body | None = None, **settings: Any) -> LoopResults:
    x, h, w, b = program.inputs[:4]
    body = body or body_of(rnn, *RNN)
    return loop(program.graph, body, sequences=[x], states=[h], constants=[w, b], **settings)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_states_and_rows(length: int, backwards: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(program: Program) -> list[IRValue]:
        made = rnn_loop(program, backwards=backwards)
        return [made.states[0], made.rows[0]]

    x, h, w, b = arrays = rnn_arrays(length)
    last, rows = run_both(make, *arrays, monkeypatch=monkeypatch)
    numbers = range(length)[::-1] if backwards else range(length)
    for number in numbers:
        h = np.tanh(h @ w + x[number] + b)
        np.testing.assert_allclose(rows[number], h * h, rtol=1e-5)
    np.testing.assert_allclose(last, h, rtol=1e-5)


def test_a_loop_without_steps_gives_the_first_states(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = rnn_arrays(0)
    last, rows = run_both(
        lambda program: [(made := rnn_loop(program)).states[0], made.rows[0]], *arrays, monkeypatch=monkeypatch
    )
    assert (last == arrays[1]).all() and rows.shape == (0, 2, 3)


def states_as_rows(builder: Graph, x: IRValue, h: IRValue, w: IRValue, b: IRValue) -> Sequence[IRValue]:
    (h, _) = rnn(builder, x, h, w, b)
    return h, h


@pytest.mark.parametrize("backwards", [False, True])
def test_a_row_that_is_a_state_is_written_once(backwards: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    body = body_of(states_as_rows, *RNN)

    def make(program: Program) -> list[IRValue]:
        made = rnn_loop(program, body, backwards=backwards)
        return [made.states[0], made.rows[0]]

    last, rows = run_both(make, *rnn_arrays(), monkeypatch=monkeypatch)
    assert (last == rows[0 if backwards else -1]).all()
    program = Program(*rnn_arrays())
    plan, _ = program.bind(*make(program))
    assert plan.steps[0].native is not None
    assert len({slot.memory for slot in plan.slots}) == 6


@pytest.mark.parametrize("count", [0, 1, 3, 4])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_count_that_is_known_when_it_runs(count: int, backwards: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(program: Program) -> list[IRValue]:
        made = rnn_loop(program, body_of(states_as_rows, *RNN), count=program.inputs[4], backwards=backwards)
        return [made.states[0], made.rows[0]]

    x, h, w, b = arrays = rnn_arrays(4)
    last, rows = run_both(make, *arrays, np.array(count), monkeypatch=monkeypatch)
    for number in range(count)[::-1] if backwards else range(count):
        h = np.tanh(h @ w + x[number] + b)
        np.testing.assert_allclose(rows[number], h, rtol=1e-5)
    np.testing.assert_allclose(last, h, rtol=1e-5)
    assert not rows[count:].any()


@pytest.mark.parametrize(("count", "words"), [(-1, "is negative"), (5, "greater than the rows")])
def test_a_count_that_cannot_be_is_refused(count: int, words: str) -> None:
    program = Program(*rnn_arrays(4), np.array(count))
    made = rnn_loop(program, count=program.inputs[4])
    _, run = program.bind(made.states[0], made.rows[0])
    with pytest.raises(RefusedError, match=words):
        run()


def halve(builder: Graph, x: IRValue, limit: IRValue) -> Sequence[IRValue]:
    half = x * 0.5
    return half, builder.op("Less", half, limit), half + 1


def test_a_body_ends_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    body = body_of(halve, (), ())

    def make(program: Program) -> list[IRValue]:
        x, limit = program.inputs
        made = loop(program.graph, body, states=[x], constants=[limit], length=8, ended=True)
        assert made.steps is not None
        return [made.states[0], made.steps, made.rows[0]]

    for limit, steps in [(6.0, 2), (3.0, 3), (0.0, 8)]:
        arrays = [np.array(16, F32), np.array(limit, F32)]
        last, done, rows = run_both(make, *arrays, monkeypatch=monkeypatch)
        halves = 16 * 0.5 ** np.arange(1, steps + 1)
        assert [float(last), int(done)] == [halves[-1], steps]
        np.testing.assert_array_equal(rows, [*(halves + 1), *[0] * (8 - steps)])


def swap(builder: Graph, a: IRValue, b: IRValue) -> Sequence[IRValue]:
    return b, a + b, a


def test_states_may_change_places(monkeypatch: pytest.MonkeyPatch) -> None:
    body = body_of(swap, (1,), (1,))

    def make(program: Program) -> list[IRValue]:
        made = loop(program.graph, body, states=program.inputs, length=7)
        return [*made.states, made.rows[0]]

    a, b, rows = run_both(make, np.zeros(1, F32), np.ones(1, F32), monkeypatch=monkeypatch)
    assert rows.ravel().tolist() == [0, 1, 1, 2, 3, 5, 8]
    assert [float(a[0]), float(b[0])] == [13, 21]


def test_a_loop_in_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = body_of(lambda builder, x, s: (s + x,), (2,), (2,))

    def outer(builder: Graph, x: IRValue, s: IRValue) -> Sequence[IRValue]:
        (made,) = loop(builder, inner, sequences=[x], states=[s]).states
        return made, made

    body = body_of(outer, (3, 2), (2,))

    def make(program: Program) -> list[IRValue]:
        x, s = program.inputs
        made = loop(program.graph, body, sequences=[x], states=[s])
        return [made.states[0], made.rows[0]]

    x = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    last, rows = run_both(make, x, np.zeros(2, F32), monkeypatch=monkeypatch)
    np.testing.assert_array_equal(rows, x.sum(axis=1).cumsum(axis=0))
    np.testing.assert_array_equal(last, x.sum(axis=(0, 1)))


def smooth(builder: Graph, x: IRValue, a: IRValue, b: IRValue, c: IRValue) -> Sequence[IRValue]:
    a, b = builder.op("Tanh", a * 0.5 + x), a + b * c
    return a, b, a * b


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("length", "shape", "constant"), [(1, (3,), (3,)), (7, (2, 3), ()), (50, (), ())])
def test_a_formula_of_few_elements_is_one_kernel(
    length: int, shape: tuple[int, ...], constant: tuple[int, ...], backwards: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = body_of(smooth, shape, shape, shape, constant)

    def make(program: Program) -> list[IRValue]:
        x, a, b, c = program.inputs
        made = loop(program.graph, body, sequences=[x], states=[a, b], constants=[c], backwards=backwards)
        return [*made.states, made.rows[0]]

    arrays = [np.asarray(normal(*shape) if shape else np.array(0.3, F32)) for _ in range(2)]
    x, c = normal(length, *shape), np.asarray(normal(*constant) if constant else np.array(0.9, F32))
    program = Program(x, *arrays, c)
    plan, _ = program.bind(*make(program))
    assert [step.note for step in plan.steps] == ["bodies of 6 ops; one formula"]
    a, b, rows = run_both(make, x, *arrays, c, monkeypatch=monkeypatch, rtol=1e-5)
    expected_a, expected_b = arrays
    for number in range(length)[::-1] if backwards else range(length):
        expected_a, expected_b = np.tanh(expected_a * 0.5 + x[number]), expected_a + expected_b * c
        np.testing.assert_allclose(rows[number], expected_a * expected_b, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(a, expected_a, rtol=1e-4)
    np.testing.assert_allclose(b, expected_b, rtol=1e-4)


def test_a_formula_of_many_elements_is_launched_at_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    body = body_of(smooth, (300,), (300,), (300,), ())

    def make(program: Program) -> list[IRValue]:
        x, a, b, c = program.inputs
        made = loop(program.graph, body, sequences=[x], states=[a, b], constants=[c])
        return [*made.states, made.rows[0]]

    arrays = [normal(4, 300), normal(300), normal(300), np.array(0.9, F32)]
    program = Program(*arrays)
    plan, _ = program.bind(*make(program))
    assert [step.note for step in plan.steps] == ["bodies of 6 ops; native"]
    run_both(make, *arrays, monkeypatch=monkeypatch)


@pytest.mark.parametrize("size", [3, 300])
def test_floats_that_are_known_when_it_runs_reach_the_body(size: int) -> None:
    builder = BodyBuilder(CONTEXT)
    s = builder.input(ArrayDesc((size,), F32))
    body = builder.body([builder.op("MulScalar", s, val=builder.parameter()) + 1])
    graph = Graph(CONTEXT)
    first = graph.external(0, ArrayDesc((size,), F32))
    made = loop(graph, body, states=[first], length=3, parameters=[graph.float_from("given")])
    plan = lower(graph, made.states)
    array, result = NdArray.from_numpy_array(np.ones(size, F32)), NdArray((size,))
    binding = Binding(plan, [array.cell], [result.cell], [0.0] * len(plan.floats))
    for factor in (2.0, 3.0):
        binding.run([factor if source[0] == "given" else source[1] for source in plan.floats])
        assert (result.data == factor**3 + factor**2 + factor + 1).all()


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_])
@pytest.mark.parametrize("truth", [0, 1])
def test_a_branch_runs_one_of_its_sides(truth: int, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    def first(builder: Graph, x: IRValue, w: IRValue) -> Sequence[IRValue]:
        product = builder.op("BatchMatmul", x, w)
        return builder.op("Tanh", product) * 2, product

    def second(builder: Graph, x: IRValue, w: IRValue) -> Sequence[IRValue]:
        return x, x + 1

    bodies = [body_of(build, (2, 3), (3, 3)) for build in (first, second)]
    arrays = [np.array(truth, dtype), normal(2, 3), normal(3, 3)]

    def make(program: Program) -> Sequence[IRValue]:
        return branch(program.graph, program.inputs[0], bodies, program.inputs[1:])

    found = run_both(make, *arrays, monkeypatch=monkeypatch, op="Branch")
    _, x, w = arrays
    expected = [np.tanh(x @ w) * 2, x @ w] if truth else [x, x + 1]
    for value, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-5)


def test_a_branch_in_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    sides = [body_of(lambda builder, s: (s * 0.5,), ()), body_of(lambda builder, s: (s * 3 + 1,), ())]

    def step(builder: Graph, even: IRValue, s: IRValue) -> Sequence[IRValue]:
        (made,) = branch(builder, even, sides, [s])
        return made, made

    body = body_of(step, (), ())

    def make(program: Program) -> list[IRValue]:
        return list(loop(program.graph, body, sequences=program.inputs[:1], states=program.inputs[1:]).rows)

    collatz = [3, 10, 5, 16, 8, 4, 2, 1]
    even = np.array([number % 2 == 0 for number in collatz[:-1]], F32)
    (rows,) = run_both(make, even, np.array(3, F32), monkeypatch=monkeypatch)
    assert rows.tolist() == collatz[1:]


def test_a_trace_has_one_row_for_a_loop_and_a_verification_checks_its_steps() -> None:
    program = Program(*rnn_arrays())
    made = rnn_loop(program)
    _, run = program.bind(made.states[0])
    (expected,) = run()
    with nn.trace() as trace:
        run()
    assert [(row.op, row.backend, row.calls) for row in trace.rows()] == [("Loop", "cpu", 1)]
    with nn.verify() as verification:
        (found,) = run()
    assert set(verification.by_op.values()) == {5}, verification.by_op
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("build", [rnn, states_as_rows])
def test_of_rows_of_which_only_the_last_is_read_no_other_is_kept(
    build: Build, backwards: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, last = body_of(build, *RNN), 0 if backwards else 4

    def make(program: Program) -> list[IRValue]:
        made = rnn_loop(program, body, backwards=backwards)
        row = program.graph.op("Slice", made.rows[0], start=(last, 0, 0), stop=(last + 1, 2, 3), step=(1, 1, 1))
        return [made.states[0], program.graph.op("Tanh", row)]

    plan, _ = (program := Program(*rnn_arrays())).bind(*make(program))
    assert sum(slot.desc.shape == (5, 2, 3) for slot in plan.slots) == 1  # the sequence
    state, found = run_both(make, *rnn_arrays(), monkeypatch=monkeypatch)
    row = state if build is states_as_rows else state * state
    np.testing.assert_allclose(found, np.tanh(row)[None], rtol=1e-5)


@pytest.mark.parametrize(("start", "stop"), [((3, 0, 0), (4, 2, 3)), ((4, 0, 0), (5, 1, 3)), ((3, 0, 0), (5, 2, 3))])
def test_other_rows_are_read_where_all_are_kept(
    start: tuple[int, ...], stop: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(program: Program) -> list[IRValue]:
        (rows,) = rnn_loop(program).rows
        return [program.graph.op("Slice", rows, start=start, stop=stop, step=(1, 1, 1)) * 2]

    (found,) = run_both(make, *rnn_arrays(), monkeypatch=monkeypatch)
    _, run = (program := Program(*rnn_arrays())).bind(rnn_loop(program).rows[0])
    (rows,) = run()
    np.testing.assert_array_equal(found, 2 * rows[tuple(map(slice, start, stop))])


def test_gradients_are_native_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(program: Program) -> list[IRValue]:
        made = rnn_loop(program)
        graph, wanted = program.graph, program.inputs
        y = graph.op("Sum", made.rows[0], axes=(0, 1, 2), keep_dims=False)
        found = backpropagate(graph, list(graph.nodes), {y: graph.op("Constant", val=1.0, shape=())}, wanted)
        return [found[value] for value in wanted]

    x, h, w, b = arrays = [array.astype(np.float64) for array in rnn_arrays()]
    found = run_both(make, *(array.astype(np.float32) for array in arrays), monkeypatch=monkeypatch)

    def total() -> float:
        state, result = h, 0.0
        for row in x:
            state = np.tanh(state @ w + row + b)
            result += (state * state).sum()
        return result

    for array, gradient in zip(arrays, found, strict=True):
        for index in [0, array.size - 1]:
            before = array.flat[index]
            sums = []
            for step in (1e-6, -1e-6):
                array.flat[index] = before + step
                sums.append(total())
            array.flat[index] = before
            np.testing.assert_allclose(gradient.flat[index], (sums[0] - sums[1]) / 2e-6, rtol=1e-3, atol=1e-5)
