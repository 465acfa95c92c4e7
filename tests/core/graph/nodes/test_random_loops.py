"""Loops with random bodies compute what their steps compute one after the other, and so do gradients of both orders."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from atled.graph.nodes.loops import loop
from graph_programs import Program, body_of, desc

LENGTH, ROW, WEIGHT = 3, (2, 8), (8, 8)
DESCS = [desc(*ROW), desc(*ROW), desc(*ROW), desc(*WEIGHT), desc(1, 8)]
_values = st.integers(0, 99)
_calls = st.lists(st.tuples(st.sampled_from(["add", "mul", "tanh", "product", "transposed", "bias"]), _values, _values))


def body_from(calls, results):
    """A body on a row of a sequence, two states, a weight and a bias, that returns two states and some rows."""

    def build(builder, x, h, s, w, b):
        op, made = builder.op, [x, h, s]
        for kind, one, other in calls:
            one, other = made[one % len(made)], made[other % len(made)]
            made.append(
                {
                    "add": lambda one, other: one + other,
                    "mul": lambda one, other: op("Tanh", one) * op("Sigmoid", other),
                    "tanh": lambda one, _: op("Tanh", one),
                    "product": lambda one, _: op("BatchMatmul", one, w),
                    "transposed": lambda one, other: op("BatchMatmul", op("Tanh", one), w, transpose_b=True) + other,
                    "bias": lambda one, _: one + b,
                }[kind](one, other)
            )
        return [made[-1 - number % len(made)] for number in results]

    return body_of(DESCS, build)


def unrolled(graph, body, x, states, constants, steps, backwards):
    """Last states and stacked rows of a loop; zeros where no step was."""
    rows = [[] for _ in body.results[2:]]
    for step in range(steps):
        row = steps - 1 - step if backwards else step
        taken = graph.op("Slice", x, start=(row, 0, 0), stop=(row + 1, *ROW), step=(1, 1, 1))
        made = body.emit(graph, [graph.reshape(taken, ROW), *states, *constants])
        states = made[:2]
        for kept, value in zip(rows, made[2:], strict=True):
            kept.append(value)
    zeros = graph.op("Constant", val=0.0, shape=ROW)
    stacked = []
    for kept in rows:
        kept = (kept[::-1] if backwards else kept) + [zeros] * (LENGTH - steps)
        stacked.append(graph.op("Stack", *kept, axis=0))
    return states, stacked


@settings(max_examples=12)
@given(_calls, st.lists(_values, min_size=2, max_size=4), st.none() | st.integers(0, LENGTH), st.booleans())
def test_a_loop_is_its_steps_one_after_the_other(calls, results, count, backwards):
    body = body_from(calls, results)
    rng = np.random.default_rng(0)
    shapes = [(LENGTH, *ROW), ROW, ROW, WEIGHT, (1, 8)]
    arrays = [rng.normal(scale=0.5, size=shape) for shape in shapes]
    found = []
    for is_loop in (True, False):
        program = Program(*arrays, np.array(LENGTH if count is None else count))
        graph, (*wanted, steps) = program.graph, program.inputs
        x, h, s, w, b = wanted
        if is_loop:
            states, _, rows = loop(
                graph,
                body,
                sequences=[x],
                states=[h, s],
                constants=[w, b],
                count=None if count is None else steps,
                backwards=backwards,
            )
        else:
            states, rows = unrolled(graph, body, x, [h, s], [w, b], LENGTH if count is None else count, backwards)
        weighted = [value * (number + 1.0) * value for number, value in enumerate((*states, *rows))]
        first = program.gradients(program.total(*weighted), wanted)
        norms = [gradient * gradient for gradient in first if gradient is not None]
        second = program.gradients(program.total(*norms), wanted)
        zeros = [graph.op("Constant", val=0.0, shape=value.shape) for value in wanted]
        gradients = [zero if value is None else value for value, zero in zip((*first, *second), zeros * 2, strict=True)]
        found.append(program.run(*states, *rows, *gradients))
    for looped, stepped in zip(*found, strict=True):
        np.testing.assert_allclose(looped, stepped, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(stepped).max(initial=0)))
