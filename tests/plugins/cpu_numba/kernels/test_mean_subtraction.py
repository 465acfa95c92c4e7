"""MeanSubtraction on any count of threads: values, running mean and count are those of the reference."""

import ml_dtypes
import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import op_spec
from atled_contexts import Context
from atled_cpu_numba import pool

DTYPES = {"float": np.float32, "double": np.float64, "half": np.float16, "bf16": ml_dtypes.bfloat16}
ROUNDED = {"float": 1e-6, "double": 1e-14, "half": 1e-3, "bf16": 1e-2}  # of numbers around 1

configs = pytest.mark.parametrize("config", list(DTYPES))


def arrays(config, shape, base_axis, calls):
    rng = np.random.default_rng(0)
    mean = rng.standard_normal(shape[base_axis:]).astype(np.float64 if config == "double" else np.float32)
    return rng.standard_normal(shape).astype(DTYPES[config]), mean, np.array([calls])


def subtracted(config, x, mean, t, **attributes):
    """y, and what is left of mean and t; all on a kernel."""
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")), nn.trace() as trace:
        inputs = [nn.NdArray.from_numpy_array(array.copy()) for array in (x, mean, t)]
        y = F.mean_subtraction(*inputs, **attributes).data
    assert ["kernel" in row.note for row in trace.rows() if row.op == "MeanSubtraction"] == [True]
    return [y, *(array.data for array in inputs[1:])]


@configs
@pytest.mark.parametrize("update", [True, False])
@pytest.mark.parametrize(
    "shape, base_axis, calls",
    [((4, 3, 2), 1, 0), ((5, 3, 7), 2, 6), ((1, 1), 1, 3), ((9,), 0, 2), ((33, 7, 9), 1, 3), ((1000, 3), 1, 1)],
)
def test_it_is_the_reference(config, shape, base_axis, calls, update):
    attributes = {"base_axis": base_axis, "update_running_mean": update}
    x, mean, t = arrays(config, shape, base_axis, calls)
    expected_mean, expected_t = mean.copy(), t.copy()
    expected, _ = op_spec("MeanSubtraction").reference(x.astype("d"), expected_mean, expected_t, **attributes)
    y, found_mean, found_t = subtracted(config, x, mean, t, **attributes)
    np.testing.assert_allclose(y.astype("d"), expected, atol=8 * ROUNDED[config])
    np.testing.assert_allclose(found_mean, expected_mean, atol=1e-6)
    np.testing.assert_array_equal(found_t, expected_t)


@configs
def test_threads_change_no_bits(config):
    x, mean, t = arrays(config, (12, 30, 41, 20), 1, 2)
    before, found = pool.thread_count(), []
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            found.append([part.tobytes() for part in subtracted(config, x, mean, t)])
    finally:
        pool.set_thread_count(before)
    assert found[0] == found[1]


@configs
def test_nan_and_infinity_stay_in_their_columns(config):
    x, mean, t = arrays(config, (3, 4), 1, 1)
    x[1, 0], x[2, 1] = np.nan, np.inf
    y, found_mean, _ = subtracted(config, x, mean, t)
    assert np.isnan(y[:, 0].astype("f")).all() and np.isnan(found_mean[0])
    assert (y[:2, 1].astype("f") == -np.inf).all() and found_mean[1] == np.inf and np.isnan(float(y[2, 1]))
    assert np.isfinite(y[:, 2:].astype("f")).all() and np.isfinite(found_mean[2:]).all()


@pytest.mark.parametrize("config", ["float", "half"])
def test_the_gradient_is_scaled_by_the_share_of_an_element(config):
    x, mean, _ = arrays(config, (4, 3), 1, 1)
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
        leaf = nn.Variable.from_numpy_array(x, need_grad=True)
        others = [nn.Variable.from_numpy_array(array) for array in (mean, np.array([1]))]
        y = F.mean_subtraction(leaf, *others)
        y.forward()
        leaf.grad.zero()
        y.backward(1)
        np.testing.assert_allclose(leaf.g, np.full((4, 3), 1 - 1 / 8), rtol=1e-3)
