"""Loops on a device run where their arrays are: nothing of a step is copied by way of the host."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
from atled import recurrent
from atled.arrays.place import TRANSFERS
from atled.graph.run import device_loops
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
