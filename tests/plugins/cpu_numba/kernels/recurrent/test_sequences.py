"""Recurrent layers over sequences, against the references of their op specs in float64."""

import numpy as np
import pytest

from atled.ops.spec import SPECS
from atled_cpu_numba import pool
from atled_cpu_numba.kernels.recurrent import sequences as recurrent
from atled_cpu_numba.kernels.shared.lanes import lanes_of

# T, B, I, H: one sequence and two, sums longer than a packed part, more rows than are packed at a time, batches for
# more than one share, of more steps than sequences, too.
SIZES = [(1, 1, 1, 1), (3, 1, 3, 40), (2, 2, 3, 70), (2, 3, 5, 70), (13, 33, 300, 20), (3, 20, 40, 33), (12, 8, 6, 37)]
CELLS = [("LSTM", {}), ("GRU", {}), ("RNN", {"nonlinearity": "tanh"}), ("RNN", {"nonlinearity": "relu"})]


def forward_inputs(kind, steps, batch, depth, size, with_bias=True):
    rng = np.random.default_rng(steps + batch + depth + size)
    maps, biases = {"LSTM": (4, 4), "GRU": (3, 4), "RNN": (1, 1)}[kind]
    states = [rng.standard_normal((batch, size)) for _ in range(2 if kind == "LSTM" else 1)]
    weight = rng.standard_normal((maps, size, depth + size)) / np.sqrt(depth + size)
    bias = rng.standard_normal((biases, size)) if with_bias else None
    return [rng.standard_normal((steps, batch, depth)), *states, weight, bias]


def single(arrays):
    return [None if array is None else np.asarray(array, "f") for array in arrays]


def compare(run, name, inputs, parts, dtype="f", **attributes):
    """The kernel's outputs are the reference's; returns the latter."""
    expected = SPECS[name].reference(*inputs, **attributes)
    outputs = [np.full(array.shape, np.nan, dtype) for array in expected]
    given = single(inputs) if dtype == "f" else inputs
    assert run(recurrent, name, given, outputs, parts=parts, **attributes) == 0
    error = 100 * np.finfo(dtype).eps
    for want, got in zip(expected, outputs, strict=True):
        np.testing.assert_allclose(got, want, rtol=error, atol=error * max(1, np.abs(want).max()))
    return expected


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("kind", "attributes"), CELLS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_sequences_and_their_gradients(run, parts, sizes, kind, attributes, reverse, dtype):
    attributes = {**attributes, "reverse": reverse, "dtype": dtype}
    inputs = forward_inputs(kind, *sizes)
    y, *_, last = results = compare(run, f"{kind}Sequence", inputs, parts, **attributes)
    rng = np.random.default_rng(1)
    gy = rng.standard_normal(y.shape)
    ends = [rng.standard_normal(inputs[1].shape) for _ in range(2 if kind == "LSTM" else 1)]
    weight = inputs[-2]
    if kind == "LSTM":
        saved = [results[3], last, inputs[2], weight, gy, *ends, None, None]
    elif kind == "GRU":
        saved = [last, y, inputs[1], weight, gy, *ends, None]
    else:
        saved = [y, weight, gy, *ends]
    compare(run, f"{kind}SequenceGrad", saved, parts, **attributes)


@pytest.mark.parametrize(("kind", "attributes"), CELLS)
def test_a_bias_and_what_arrives_may_be_absent(run, parts, kind, attributes):
    attributes = {**attributes, "reverse": False}
    inputs = forward_inputs(kind, 4, 33, 7, 17, with_bias=False)
    y, *_, last = results = compare(run, f"{kind}Sequence", inputs, parts, **attributes)
    weight, gy = inputs[-2], np.ones_like(y)
    saved = {
        "LSTM": [results[-2], last, inputs[1], weight, gy, None, None, None, None],
        "GRU": [last, y, inputs[1], weight, gy, None, None],
        "RNN": [y, weight, gy, None],
    }[kind]
    compare(run, f"{kind}SequenceGrad", saved, parts, **attributes)


@pytest.mark.parametrize(("kind", "attributes"), CELLS)
def test_a_sequence_that_is_infinite_or_no_number_stays_alone(run, kind, attributes):
    attributes = {**attributes, "reverse": False}
    inputs = single(forward_inputs(kind, 2, 20, 5, 9))
    expected = SPECS[f"{kind}Sequence"].reference(*inputs, **attributes)
    inputs[0][0, 3], inputs[0][0, 7] = np.nan, np.inf
    outputs = [np.empty(array.shape, "f") for array in expected]
    assert run(recurrent, f"{kind}Sequence", inputs, outputs, **attributes) == 0
    others = np.delete(np.arange(20), [3, 7])
    np.testing.assert_allclose(outputs[0][:, others], expected[0][:, others], rtol=1e-5, atol=1e-5)
    assert np.isnan(outputs[0][:, 3]).all()


def test_every_thread_has_sequences_where_tiles_are_low(make_call, monkeypatch):
    inputs = single(forward_inputs("LSTM", 50, 8, 64, 64))
    outputs = [np.empty(array.shape, "f") for array in SPECS["LSTMSequence"].reference(*inputs, reverse=False)]
    call = make_call("LSTMSequence", inputs, outputs, reverse=False)
    monkeypatch.setattr(pool, "_chosen_count", 2)
    assert recurrent.prepare(call).native.parts == (2 if lanes_of("float32").has_short_tiles else 1)
    monkeypatch.setattr(pool, "_chosen_count", 3)
    assert recurrent.prepare(call).native.parts == 1


def test_what_only_second_gradients_ask_for_is_left_to_the_reference(make_call):
    state, gates, y, weight = (np.empty(s, "f") for s in ((2, 3), (4, 2, 4, 3), (4, 2, 3), (3, 3, 5)))
    outputs = [np.empty((4, 2, 3, 3), "f")] * 2 + [state]
    call = make_call("GRUSequenceGrad", [gates, y, state, weight, y, None, gates], outputs, reverse=False)
    assert "gradients of gates" in recurrent.accepts(call)


def test_half_and_empty_arrays_are_refused(make_call):
    def call(dtype, batch):
        x, h, weight, y = (np.empty(s, dtype) for s in ((4, batch, 2), (batch, 3), (1, 3, 5), (4, batch, 3)))
        return make_call("RNNSequence", [x, h, weight, None], [y, h], reverse=False, nonlinearity="tanh")

    assert recurrent.accepts(call("f", 2)) is True
    assert recurrent.accepts(call("d", 2)) is True
    assert recurrent.accepts(call("e", 2)) == "takes float32 or float64, not float16"
    assert "empty" in recurrent.accepts(call("f", 0))
