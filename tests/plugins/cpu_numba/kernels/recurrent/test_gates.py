"""The sigmoid and the tanh of rows of gates, which an LSTM leaves of maps that are numbers of ours."""

import numpy as np
import pytest

from atled_cpu_numba.kernels.recurrent import sequences

# Of vectors side by side, of fewer of them, and of numbers that fill no vector.
SIZES = [3, 51, 101]
FAR = [
    -np.inf,
    -1e30,
    -89.0,
    -88.5,
    -87.0,
    -17.0,
    -9.2,
    -9.1,
    -0.0,
    0.0,
    1e-30,
    1e-4,
    9.0,
    9.2,
    17.0,
    88.5,
    1e30,
    np.inf,
]


def gates_of(run, rows, dtype):
    """The gates (4, T, size) of an LSTM whose maps are all the rows (T, size)."""
    steps, size = rows.shape
    weight = np.zeros((4, size, 1 + size), dtype)
    outputs = [np.empty(shape, dtype) for shape in ((1, steps, size), (steps, size), (steps, size))]
    outputs += [np.empty((1, steps, 4, size), dtype), np.empty((1, steps, size), dtype)]
    state = np.zeros((steps, size), dtype)
    found = []
    for row in rows:
        bias = np.tile(row, (4, 1)).astype(dtype)
        inputs = [np.zeros((1, steps, 1), dtype), state, state, weight, bias]
        assert run(sequences, "LSTMSequence", inputs, outputs, reverse=False) == 0
        found.append(outputs[3][0, 0].copy())
    return np.stack(found, 1)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_gates_are_within_two_ten_millionths(run, size, dtype):
    near = np.random.default_rng(size).standard_normal((3, size)) * np.array([[0.01], [1], [10]])
    far = np.resize(FAR, (3, size))
    rows = np.concatenate([near, far]).astype(dtype)
    exact = rows.astype("d")
    with np.errstate(over="ignore"):
        sigmoid = 1 / (1 + np.exp(-exact))
    error = {"f": 2e-7, "d": 1e-15}[dtype]
    i, f, g, o = gates_of(run, rows, dtype)
    np.testing.assert_allclose(i, sigmoid, rtol=5 * error, atol=1e-38)
    np.testing.assert_array_equal(f, i)
    np.testing.assert_array_equal(o, i)
    np.testing.assert_allclose(g, np.tanh(exact), rtol=5 * error, atol=0)
    assert (abs(i - sigmoid) <= error).all()
    assert (abs(g - np.tanh(exact)) <= error).all()


@pytest.mark.parametrize("size", SIZES)
def test_no_number_stays_none(run, size):
    for gate in gates_of(run, np.full((1, size), np.nan, "f"), "f"):
        assert np.isnan(gate).all()
