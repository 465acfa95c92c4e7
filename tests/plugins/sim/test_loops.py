"""Loops on a device run where their arrays are: nothing of a step is copied by way of the host."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
from atled import recurrent
from atled.array_desc import ArrayDesc
from atled.arrays.place import TRANSFERS
from atled.graph.compile.lowering import lower
from atled.graph.nodes.body import BodyBuilder
from atled.graph.nodes.ir import Graph
from atled.graph.nodes.loops import loop
from atled.graph.run import device_loops
from atled.graph.run.binding import Binding
from atled.keyed import Description
from atled_contexts import context_scope

T, B, WIDTH, H = 5, 2, 32, 32  # rows of 256 bytes, at which arrays on the device begin


def arrays(hidden: int = H) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = (T, B, hidden), (B, hidden), (hidden, hidden), (hidden, hidden), (hidden,)
    return [rng.normal(size=shape).astype(np.float32) / 4 for shape in shapes]


def described(given, *, backwards, gradients, activation="Tanh"):
    """All h of a recurrent layer, the last one, and gradients, with what runs it."""
    d = Description()
    leaves = [d.leaf(array) for array in given]
    made = recurrent.plain(d, *leaves, activation=activation, backwards=backwards)
    values = [made.rows[0], made.states[0]]
    values += d.gradients(made.rows[0], leaves) if gradients else []
    for value in values:
        d.result(value)
    return d


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("gradients", [False, True])
def test_a_loop_gives_what_it_gives_in_host_memory(sim, backwards, gradients):
    found = []
    for context in (sim, nn.Context(["cpu"])):
        with context_scope(context):
            given = [nn.NdArray.from_numpy_array(array) for array in arrays()]
            d = described(given, backwards=backwards, gradients=gradients)
            first = [result.data.copy() for result in d.run()]
            second = [result.data.copy() for result in d.run()]
            for one, other in zip(first, second, strict=True):
                np.testing.assert_array_equal(one, other)
            found.append(first)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_no_step_of_a_loop_is_copied(sim):
    with context_scope(sim):
        given = [nn.NdArray.from_numpy_array(array) for array in arrays()]
        d = described(given, backwards=False, gradients=True)
        d.run()
        TRANSFERS.reset()
        d.run()
        assert TRANSFERS.calls == 0


def test_the_steps_of_a_loop_are_one_program_of_the_device(sim, device):
    builder = BodyBuilder(sim)
    x, s, w = (builder.input(ArrayDesc(shape, np.float32)) for shape in ((B, H), (B, H), (H, H)))
    new = builder.op("MulScalar", builder.op("Add2", x, builder.op("BatchMatmul", s, w)), val=builder.parameter())
    graph = Graph(sim)
    descs = [ArrayDesc(array.shape, array.dtype) for array in arrays()[:3]]
    x, s, w = (graph.external(number, desc) for number, desc in enumerate(descs))
    made = loop(
        graph,
        builder.body([new, new]),
        sequences=[x],
        states=[s],
        constants=[w],
        parameters=[graph.float_from("given")],
    )
    plan = lower(graph, made.rows)
    given = [nn.NdArray.from_numpy_array(array) for array in arrays()[:3]]
    result = nn.NdArray((T, B, H))
    binding = Binding(plan, [array.cell for array in given], [result.cell], [0.0] * len(plan.floats))
    for number, factor in enumerate((0.5, 0.5, 0.5, 2.0)):
        device.reset_counts()
        binding.run([factor if source[0] == "given" else source[1] for source in plan.floats])
        assert device.counts.replays == (number > 0)
        x, s, w = arrays()[:3]
        for row, found in zip(x, result.data, strict=True):
            s = (row + s @ w) * np.float32(factor)
            np.testing.assert_allclose(found, s, rtol=1e-4, atol=1e-5)
    assert device.counts.launches >= 2 * T


def test_rows_at_which_no_array_may_begin_go_by_way_of_the_host(sim):
    expected, found = [], []
    for context, results in ((nn.Context(["cpu"]), expected), (sim, found)):
        with context_scope(context):
            given = [nn.NdArray.from_numpy_array(array) for array in arrays(hidden=3)]
            results += [result.data for result in described(given, backwards=False, gradients=True).run()]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_draws_of_a_loop_are_those_of_the_loop_by_way_of_the_host(sim, monkeypatch):
    def draws():
        with context_scope(sim):
            d = Description()
            state = d.leaf(nn.NdArray.from_numpy_array(np.array([5, -1])))
            x = d.leaf(nn.NdArray.from_numpy_array(np.ones((T, 64), np.float32)))
            s = d.leaf(nn.NdArray.from_numpy_array(np.zeros((64,), np.float32)))

            def step(x, s):
                new = d.call("Add2", s, d.call("Dropout", x, state, p=0.5))
                return [new], [new]

            d.result(d.loop(step, [x], [s]).rows[0])
            return [d.run()[0].data.copy() for _ in range(2)]

    first, second = draws()
    assert (np.diff(first, axis=0) >= 0).all()
    assert len(np.unique(np.diff(first, axis=0, prepend=0), axis=0)) == T
    assert (first != second).any()
    monkeypatch.setattr(device_loops, "_MOST_LAUNCHES", 0)
    for one, other in zip(draws(), (first, second), strict=True):
        np.testing.assert_array_equal(one, other)
