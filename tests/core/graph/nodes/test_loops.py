"""Loops compute what a loop in Python over NumPy computes, and so do their gradients, of both orders."""

from functools import partial

import numpy as np
import pytest

import atled as nn
from atled.arrays.place import HOST
from atled.errors import RefusedError
from atled.graph.nodes.body import BodyBuilder
from atled.graph.nodes.loops import LoopOp, loop
from atled.strides import Window
from graph_programs import CONTEXT, Program, body_of, desc, differences

DESCS = [desc(2, 3), desc(2, 3), desc(3, 3), desc(1, 3)]
RANDOM_STATE = desc(2, dtype=np.int64)


def rnn(builder, x, h, w, b):
    """One step of a recurrent network: its state, and the square of that as an output."""
    h = builder.op("Tanh", builder.op("BatchMatmul", h, w) + x + b)
    return h, h * h


@pytest.fixture(params=["cpu:double", "reference:double", "sim:double"], ids=["native", "in Python", "on a device"])
def programmed(request):
    """A program on a backend that runs loops natively, on one that does not, and on a device."""
    return partial(Program, context=nn.Context([request.param]))


@pytest.fixture
def arrays():
    rng = np.random.default_rng(1)
    return [rng.normal(size=shape) for shape in ((4, 2, 3), (2, 3), (3, 3), (1, 3))]


def numpy_rnn(x, h, w, b):
    rows = []
    for row in x:
        h = np.tanh(h @ w + row + b)
        rows.append(h * h)
    return h, rows


def rnn_total(program, **how):
    """A number made of all that the loop gives."""
    x, h, w, b = program.inputs
    made = loop(program.graph, body_of(DESCS, rnn), sequences=[x], states=[h], constants=[w, b], **how)
    (last,), (rows,) = made.states, made.rows
    return program.total(rows, last * last * last)


def test_states_and_rows_are_those_of_a_loop_in_python(programmed, arrays):
    program = programmed(*arrays)
    x, h, w, b = program.inputs
    made = loop(program.graph, body_of(DESCS, rnn), sequences=[x], states=[h], constants=[w, b])
    last, rows = program.run(*made.states, *made.rows)
    wanted = numpy_rnn(*arrays)
    np.testing.assert_allclose(last, wanted[0])
    np.testing.assert_allclose(rows, wanted[1])


def test_gradients_are_those_of_finite_differences(programmed, arrays):
    def total(*given):
        last, rows = numpy_rnn(*given)
        return np.sum(rows) + (last**3).sum()

    program = programmed(*arrays)
    found = program.run(*program.gradients(rnn_total(program), program.inputs))
    for number, gradient in enumerate(found):
        np.testing.assert_allclose(gradient, differences(total, arrays, number), rtol=1e-6, atol=1e-8)


def test_gradients_of_gradients_are_those_of_finite_differences(arrays):
    def of_gradients(*given):
        program = Program(*given)
        gradients = program.gradients(rnn_total(program), program.inputs)
        return program, program.total(*(gradient * gradient for gradient in gradients))

    def total(*given):
        program, value = of_gradients(*given)
        return program.run(value)[0]

    program, value = of_gradients(*arrays)
    found = program.run(*program.gradients(value, program.inputs))
    for number, gradient in list(enumerate(found))[1:3]:  # random loops are compared in all of them
        np.testing.assert_allclose(gradient, differences(total, arrays, number), rtol=1e-5, atol=1e-7)


def test_a_loop_goes_backwards(arrays):
    program = Program(*arrays)
    value = rnn_total(program, backwards=True)
    found = program.run(value, *program.gradients(value, program.inputs))
    other = Program(arrays[0][::-1], *arrays[1:])
    value = rnn_total(other)
    wanted = other.run(value, *other.gradients(value, other.inputs))
    wanted[1] = wanted[1][::-1]
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want)


@pytest.mark.parametrize("steps", [0, 1, 3, 4])
def test_a_count_is_known_when_it_runs(programmed, arrays, steps):
    program = programmed(*arrays, np.array(steps))
    *program.inputs, count = program.inputs
    x, h, w, b = program.inputs
    made = loop(program.graph, body_of(DESCS, rnn), sequences=[x], states=[h], constants=[w, b], count=count)
    gradients = program.gradients(program.total(*made.states, *made.rows), program.inputs)
    last, rows, *found = program.run(*made.states, *made.rows, *gradients)

    def total(x, *given):
        h, rows = numpy_rnn(x[:steps], *given)
        return h.sum() + np.sum(rows)

    wanted = numpy_rnn(arrays[0][:steps], *arrays[1:])
    np.testing.assert_allclose(last, wanted[0])
    np.testing.assert_allclose(rows[:steps], np.reshape(wanted[1], (steps, 2, 3)))
    assert not rows[steps:].any()
    for number, gradient in enumerate(found):
        np.testing.assert_allclose(gradient, differences(total, arrays, number), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("steps", [-1, 5])
def test_a_count_that_does_not_fit_is_refused_and_changes_nothing(programmed, arrays, steps):
    program = programmed(*arrays, np.array(2))
    x, h, w, b, count = program.inputs
    made = loop(program.graph, body_of(DESCS, rnn), sequences=[x], states=[h], constants=[w, b], count=count)
    binding, (last,) = program.bind(*made.states)
    binding.run()
    before = last.data.copy()
    program.arrays[-1].data = steps
    with pytest.raises(RefusedError, match=f"a loop of {steps} steps|its count of steps"):
        binding.run()
    np.testing.assert_array_equal(last.data, before)


def doubling(builder, x, limit):
    """x is doubled until its sum exceeds a limit."""
    x = x + x
    return x, builder.op("Greater", builder.op("Sum", x, axes=(0,)), limit), x * x


@pytest.mark.parametrize(("limit", "steps"), [(-1.0, 1), (20.0, 4), (1e9, 6)])
def test_a_condition_ends_a_loop_with_its_step(programmed, limit, steps):
    x = np.array([0.5, 1.0])
    program = programmed(x, np.array(limit))
    made = loop(
        program.graph,
        body_of([desc(2), desc()], doubling),
        states=program.inputs[:1],
        constants=program.inputs[1:],
        length=6,
        ended=True,
    )
    (gradient,) = program.gradients(program.total(*made.states, *made.rows), program.inputs[:1])
    last, done, rows, gradient = program.run(*made.states, made.steps, *made.rows, gradient)
    assert done == steps
    factors = 2.0 ** np.arange(1, steps + 1)
    np.testing.assert_allclose(last, x * factors[-1])
    np.testing.assert_allclose(rows[:steps], np.square(factors[:, None] * x))
    assert not rows[steps:].any()
    np.testing.assert_allclose(gradient, factors[-1] + 2 * x * np.sum(factors**2))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_a_loop_without_rows_needs_no_length(programmed, dtype):
    program = programmed(np.ones(2), np.array(10, dtype))
    body = body_of([desc(2)], lambda builder, x: [x + x])
    made = loop(program.graph, body, states=program.inputs[:1], count=program.inputs[1])
    np.testing.assert_array_equal(program.run(*made.states)[0], [1024, 1024])


def test_floats_are_those_of_the_run(programmed):
    program = programmed(np.ones(2))
    factor = program.graph.float_from("given", 0)
    body = body_of([desc(2)], lambda builder, x, factor: [builder.op("MulScalar", x, val=factor)], parameters=1)
    made = loop(program.graph, body, states=program.inputs, length=3, parameters=[factor])
    (gradient,) = program.gradients(program.total(*made.states), program.inputs)
    for value, got in zip((27, 27), program.run(*made.states, gradient, floats=[3.0]), strict=True):
        np.testing.assert_allclose(got, [value, value])


def noisy(builder, x, random_state):
    noise = builder.op("Rand", random_state, shape=(2,), low=0.0, high=1.0)
    return x * noise, noise


def test_each_step_draws_anew_and_the_gradient_sees_the_same_draws(programmed):
    program = programmed(np.array([1.5, -2.0]), np.array([7, -1]))
    x, state = program.inputs
    made = loop(program.graph, body_of([desc(2), RANDOM_STATE], noisy), states=[x], draws=[state], length=3)
    (gradient,) = program.gradients(program.total(*made.states), [x])
    binding, results = program.bind(*made.states, *made.rows, gradient)
    seen = []
    for runs in (1, 2):
        binding.run()
        last, noise, gradient = (result.data.copy() for result in results)
        assert len(np.unique(noise)) == noise.size
        np.testing.assert_allclose(last, program.arrays[0].data * noise.prod(axis=0))
        np.testing.assert_allclose(gradient, noise.prod(axis=0))
        np.testing.assert_array_equal(program.arrays[1].data, [7, 3 * runs - 1])
        seen.append(noise)
    assert not np.isin(seen[0], seen[1]).any()


def test_an_error_sets_random_states_back(programmed):
    def failing(builder, x, indices, random_state):
        noise = builder.op("Rand", random_state, shape=(2,))
        return [x + noise + builder.op("Take", x, indices, axis=0)]

    program = programmed(np.zeros(2), np.array([[0, 1], [1, 0], [0, 9]]), np.array([7, -1]))
    x, indices, state = program.inputs
    body = body_of([desc(2, dtype=np.int64), desc(2), RANDOM_STATE], lambda b, i, x, s: failing(b, x, i, s))
    made = loop(program.graph, body, sequences=[indices], states=[x], draws=[state])
    binding, _ = program.bind(*made.states)
    with pytest.raises(IndexError):
        binding.run()
    np.testing.assert_array_equal(program.arrays[2].data, [7, -1])


def test_states_may_be_exchanged_and_handed_through(programmed):
    program = programmed(np.array([1.0]), np.array([2.0]), np.array([3.0]))
    body = body_of([desc(1)] * 3, lambda builder, a, b, c: [b, a, c, a])
    made = loop(program.graph, body, states=program.inputs, length=3)
    gradients = program.gradients(program.total(made.states[0] * made.states[2], made.rows[0]), program.inputs)
    values = program.run(*made.states, *made.rows, *gradients)
    assert [value.ravel().tolist() for value in values] == [[2], [1], [3], [1, 2, 1], [2], [4], [2]]


def test_whole_numbers_are_states_without_a_gradient(programmed):
    def step(builder, x, n):
        return x * builder.op("Cast", n, dtype=np.dtype(np.float64)), builder.op("Cast", x * 0 + 2, dtype=n.dtype)

    program = programmed(np.array([3.0]), np.array([5]))
    made = loop(program.graph, body_of([desc(1), desc(1, dtype=np.int64)], step), states=program.inputs, length=3)
    gradients = program.gradients(program.total(made.states[0]), program.inputs[:1])
    x, n, gradient = program.run(*made.states, *gradients)
    assert (x, n, gradient) == (60, 2, 20)
    assert n.dtype == np.int64


def test_a_loop_in_a_loop_has_gradients_of_both_orders(arrays):
    def outer(builder, x, h, w, b):
        made = loop(builder, body_of(DESCS, rnn), sequences=[x], states=[h], constants=[w, b])
        return made.states[0], builder.op("Sum", made.rows[0], axes=(0,))

    descs = [desc(2, 2, 3), *DESCS[1:]]
    found = []
    for shape, body in (((2, 2, 2, 3), body_of(descs, outer)), ((4, 2, 3), body_of(DESCS, rnn))):
        program = Program(*arrays)
        x, h, w, b = program.inputs
        made = loop(program.graph, body, sequences=[program.graph.reshape(x, shape)], states=[h], constants=[w, b])
        gradients = program.gradients(program.total(made.rows[0], made.states[0]), program.inputs)
        value = program.total(*(gradient * gradient for gradient in gradients))
        found.append(program.run(value, *gradients, *program.gradients(value, program.inputs)))
    for nested, plain in zip(*found, strict=True):
        np.testing.assert_allclose(nested, plain)


def test_equal_loops_have_equal_keys():
    def op(**how):
        return LoopOp(body_of(DESCS, rnn), sequences=1, states=1, length=4, **how)

    assert op() == op() and hash(op()) == hash(op())
    assert op() != op(backwards=True)


def test_cheap_formulas_are_computed_again_and_the_rest_is_stored(arrays):
    program = Program(*arrays)
    program.gradients(rnn_total(program), program.inputs)
    (forward,) = [node.spec for node in program.graph.nodes if node.name == "Loop" and not node.spec.backwards]
    # Beside the squares: the state before each step, of which the product is the gradient of w, and the one behind it.
    assert forward.row_count == 3


@pytest.mark.parametrize(
    ("build", "how", "wrong"),
    [
        (
            lambda b, x: [b.op("Sum", x, axes=(0,))],
            {},
            r"state 0 is float64\[2\] before a step and float64\[\] behind it",
        ),
        (lambda b, x: [b.op("Cast", x, dtype=np.dtype(np.float32))], {}, r"and float32\[2\] behind it"),
        (lambda b, x: [x, x], {"ended": True}, r"its condition is no scalar: float64\[2\]"),
        (lambda b, x: [x], {"length": None}, "it has no length"),
        (lambda b, x: [x], {"length": -1}, "its length is -1"),
        (lambda b, x: [x, b.op("Sum", x, axes=(0,))], {"ended": True, "backwards": True}, "goes backwards and may end"),
    ],
)
def test_bodies_that_do_not_fit_are_refused(build, how, wrong):
    program = Program(np.ones(2))
    with pytest.raises(RefusedError, match=wrong):
        loop(program.graph, body_of([desc(2)], build), states=program.inputs, **{"length": 3, **how})


def test_inputs_that_do_not_fit_are_refused(arrays):
    program = Program(arrays[0], arrays[0], *arrays[2:])
    x, h, w, b = program.inputs
    with pytest.raises(RefusedError, match=r"state0 is float64\[4, 2, 3\], not float64\[2, 3\]"):
        loop(program.graph, body_of(DESCS, rnn), sequences=[x], states=[h], constants=[w, b])


def test_sequences_of_different_lengths_are_refused(arrays):
    program = Program(arrays[0], arrays[0][:3])
    body = body_of([desc(2, 3)] * 2, lambda builder, x, y: [x * y])
    with pytest.raises(RefusedError, match="there are 3 and 4 rows or steps"):
        loop(program.graph, body, sequences=program.inputs)


def test_slices_of_what_is_stored_are_cut_again():
    def gates(builder, z, c):
        y = builder.op("Sigmoid", z)
        one, other = (builder.op("Slice", y, start=(n,), stop=(n + 2,), step=(1,)) for n in (0, 2))
        return [c * one + other]

    program = Program(np.ones((3, 4)), np.ones(2))
    z, c = program.inputs
    made = loop(program.graph, body_of([desc(4), desc(2)], gates), sequences=[z], states=[c])
    program.gradients(program.total(made.states[0]), [z])
    (forward,) = [node.spec for node in program.graph.nodes if node.name == "Loop" and not node.spec.backwards]
    assert [desc.shape for desc in forward.body.result_descs] == [(2,), (2,), (4,)]  # states behind and before, and y


def test_the_gradient_of_a_loop_that_stores_rows_needs_its_length():
    program = Program(np.ones(2), np.array(3))
    body = body_of([desc(2)], lambda builder, x: [builder.op("Tanh", x)])
    made = loop(program.graph, body, states=program.inputs[:1], count=program.inputs[1])
    with pytest.raises(RefusedError, match=r"it has no length(.|\n)*the most steps there may be"):
        program.gradients(program.total(*made.states), program.inputs[:1])


def test_a_body_describes_a_loop_without_choosing_who_computes_it():
    builder = BodyBuilder(CONTEXT)
    made = loop(builder, body_of([desc(2)], lambda b, x: [x + x]), states=[builder.input(desc(2))], length=2)
    assert made.states[0].node.decision is None


@pytest.mark.parametrize("rows", [np.s_[::-1], np.s_[:, 1], np.s_[1:, 0]])
def test_rows_of_a_sequence_are_read_where_they_are(programmed, rows):
    x = np.random.default_rng(6).normal(size=(4, 2, 3))
    program = programmed(x, np.zeros(x[rows].shape[1:]))
    whole, state = program.inputs
    view = x[rows]
    begin = (view.__array_interface__["data"][0] - x.__array_interface__["data"][0]) // 8
    sequence = program.graph.window(whole, Window(view.shape, tuple(step // 8 for step in view.strides), begin))
    body = body_of([desc(*view.shape[1:])] * 2, lambda builder, row, state: [row - state, state * row])
    made = loop(program.graph, body, sequences=[sequence], states=[state])
    copied = [] if made.states[0].place is HOST else ["Identity"]  # a device launches steps on rows of whole arrays
    assert [node.name for node in program.graph.nodes] == ["Window", *copied, "Loop"]
    last, kept = program.run(*made.states, *made.rows)
    state = np.zeros(view.shape[1:])
    for row, got in zip(view, kept, strict=True):
        np.testing.assert_allclose(got, state * row)
        state = row - state
    np.testing.assert_allclose(last, state)
