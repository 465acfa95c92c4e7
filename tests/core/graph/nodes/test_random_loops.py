"""Loops with random bodies compute what their steps compute one after the other, and so do gradients of both orders."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from atled.graph.nodes.branches import branch
from atled.graph.nodes.loops import loop
from graph_programs import Program, body_of, desc

LENGTH, ROW, WEIGHT = 3, (2, 8), (8, 8)
DESCS = [desc(*ROW), desc(*ROW), desc(*ROW), desc(*WEIGHT), desc(1, 8)]
_values = st.integers(0, 99)
_kinds = st.sampled_from(["add", "mul", "tanh", "product", "transposed", "bias", "constants", "branch"])
_calls = st.lists(st.tuples(_kinds, _values, _values))
_counts = st.none() | st.integers(0, LENGTH) | st.floats(-4, 4)
"""Of steps: known, known when it runs, or ended where a sum exceeds a limit."""


def branched(builder, one, other, w):
    """A product where the one has a greater sum than the other."""
    sums = [builder.op("Sum", value, axes=(0, 1)) for value in (one, other)]
    descs = [desc(*ROW), desc(*ROW), desc(*WEIGHT)]
    product = body_of(descs, lambda builder, one, _, w: [builder.op("Tanh", builder.op("BatchMatmul", one, w))])
    chain = body_of(descs, lambda builder, one, other, _: [builder.op("Sigmoid", other) * one])
    (y,) = branch(builder, builder.op("Greater", *sums), [product, chain], [one, other, w])
    return y


def body_from(calls, results, limit):
    """A body on a row of a sequence, two states, a weight and a bias, that returns two states and some rows.

    limit: of the sum of the first state, for the condition behind the states; None for no condition.
    """

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
                    "constants": lambda one, _: op("BatchMatmul", one, op("Transpose", w, axes=(1, 0)) * op("Tanh", b)),
                    "branch": lambda one, other: branched(builder, one, other, w),
                }[kind](one, other)
            )
        values = [made[-1 - number % len(made)] for number in results]
        if limit is not None:
            total = op("Sum", values[0], axes=(0, 1))
            values.insert(2, op("GreaterScalar", total, val=limit))
        return values

    return body_of(DESCS, build)


def unrolled(graph, body, x, states, constants, steps, backwards, first_row):
    """Last states, conditions, and stacked rows of a loop; zeros where no step was."""
    rows, conditions = [[] for _ in body.results[first_row:]], []
    for step in range(steps):
        row = steps - 1 - step if backwards else step
        taken = graph.op("Slice", x, start=(row, 0, 0), stop=(row + 1, *ROW), step=(1, 1, 1))
        made = body.emit(graph, [graph.reshape(taken, ROW), *states, *constants])
        states = made[:2]
        conditions += made[2:first_row]
        for kept, value in zip(rows, made[first_row:], strict=True):
            kept.append(value)
    zeros = graph.op("Constant", val=0.0, shape=ROW)
    stacked = []
    for kept in rows:
        kept = (kept[::-1] if backwards else kept) + [zeros] * (LENGTH - steps)
        stacked.append(graph.op("Stack", *kept, axis=0))
    return states, conditions, stacked


def counted(body, arrays, first_row):
    """How many steps a loop has that its condition ends."""
    program = Program(*arrays)
    x, h, s, w, b = program.inputs
    _, conditions, _ = unrolled(program.graph, body, x, [h, s], [w, b], LENGTH, False, first_row)
    ends = [bool(end) for end in program.run(*conditions)]
    return ends.index(True) + 1 if True in ends else LENGTH


@settings(max_examples=8)
@given(_calls, st.lists(_values, min_size=2, max_size=4), _counts, st.booleans())
def test_a_loop_is_its_steps_one_after_the_other(calls, results, count, backwards):
    is_ended, is_counted = isinstance(count, float), isinstance(count, int)
    body = body_from(calls, results, count if is_ended else None)
    backwards, first_row = backwards and not is_ended, 2 + is_ended
    rng = np.random.default_rng(0)
    shapes = [(LENGTH, *ROW), ROW, ROW, WEIGHT, (1, 8)]
    arrays = [rng.normal(scale=0.5, size=shape) for shape in shapes]
    total = counted(body, arrays, first_row) if is_ended else count if is_counted else LENGTH
    found = []
    for is_loop in (True, False):
        program = Program(*arrays, np.array(total))
        graph, (*wanted, steps) = program.graph, program.inputs
        x, h, s, w, b = wanted
        counts = [steps]
        if is_loop:
            states, ended_at, rows = loop(
                graph,
                body,
                sequences=[x],
                states=[h, s],
                constants=[w, b],
                count=steps if is_counted else None,
                ended=is_ended,
                backwards=backwards,
            )
            counts = [ended_at] if is_ended else counts
        else:
            states, _, rows = unrolled(graph, body, x, [h, s], [w, b], total, backwards, first_row)
        weighted = [value * (number + 1.0) * value for number, value in enumerate((*states, *rows))]
        first = program.gradients(program.total(*weighted), wanted)
        norms = [gradient * gradient for gradient in first if gradient is not None]
        second = program.gradients(program.total(*norms), wanted)
        zeros = [graph.op("Constant", val=0.0, shape=value.shape) for value in wanted]
        gradients = [zero if value is None else value for value, zero in zip((*first, *second), zeros * 2, strict=True)]
        found.append(program.run(*states, *counts, *rows, *gradients))
    for looped, stepped in zip(*found, strict=True):
        np.testing.assert_allclose(looped, stepped, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(stepped).max(initial=0)))
