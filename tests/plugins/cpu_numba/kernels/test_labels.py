"""One-hot arrays and categorical cross entropy against the references."""

import contextlib

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.ops.spec import SPECS
from atled_cpu_numba import pool
from atled_cpu_numba.kernels import labels

CONFIGS = {np.dtype("f"): "float", np.dtype("d"): "double"}


def loss(x, target, axis=1):
    """The categorical cross entropy of an array."""
    with nn.context_scope(nn.Context([f"cpu:{CONFIGS[x.dtype]}"], fallback="raise")):
        return F.categorical_cross_entropy(*map(nn.NdArray.from_numpy_array, (x, target)), axis=axis).data


@contextlib.contextmanager
def threads(count):
    """So many threads."""
    before = pool.thread_count()
    pool.set_thread_count(count)
    try:
        yield
    finally:
        pool.set_thread_count(before)


both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


@both_dtypes
@pytest.mark.parametrize(
    "leading, shape", [((), (4,)), ((7,), (5,)), ((2, 3), (4, 5)), ((0,), (3,)), ((3,), (2, 3, 4))]
)
def test_one_hot(run, parts, leading, shape, dtype):
    rng = np.random.default_rng(0)
    x = np.stack([rng.integers(0, size, leading) for size in shape], axis=-1)
    y = np.full((*leading, *shape), np.nan, dtype)
    assert run(labels, "OneHot", [x], [y], parts=parts, shape=shape, dtype=np.dtype(dtype)) == 0
    np.testing.assert_array_equal(y, SPECS["OneHot"].reference(x, shape=shape, dtype=np.dtype(dtype)))


@both_dtypes
@pytest.mark.parametrize(
    "shape, axis", [((3, 4), 1), ((5, 4), 0), ((2, 3, 4), 1), ((0, 4), 1), ((3, 4, 0), 1), ((40, 100), 1)]
)
def test_categorical_cross_entropy_and_gradient(run, parts, shape, axis, dtype):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.01, 1, shape).astype(dtype)
    x.reshape(-1)[::3] = 0  # clipped at the smallest normal float32
    target_shape = tuple(1 if i == axis else n for i, n in enumerate(shape))
    target, gy = rng.integers(0, shape[axis], target_shape), rng.standard_normal(target_shape).astype(dtype)
    gx = np.full(shape, np.nan, dtype)
    expected = SPECS["CategoricalCrossEntropy"].reference(x, target, axis=axis)
    with threads(parts):
        np.testing.assert_allclose(loss(x, target, axis=axis), expected, rtol=1e-6)
    assert run(labels, "CategoricalCrossEntropyGrad", [gy, x, target], [gx], parts=parts, axis=axis) == 0
    with np.errstate(over="ignore"):
        expected = SPECS["CategoricalCrossEntropyGrad"].reference(gy, x, target, axis=axis)
    np.testing.assert_allclose(gx, expected, rtol=1e-6)


@both_dtypes
def test_categorical_cross_entropy_over_the_whole_range(dtype):
    exponents = np.random.default_rng(0).uniform(-126, 128, 4000)
    near_one = 1 + np.linspace(-1, 1, 2001) ** 3
    edges = [0, np.finfo("f").tiny, np.finfo("f").tiny / 4, np.finfo("f").max, np.inf, np.nan, 0.5**0.5, 1, 2**0.5]
    x = np.concatenate([np.exp2(exponents), near_one, edges]).astype(dtype)[:, None]
    y = loss(x, np.zeros(x.shape, np.int64))
    expected = -np.log(np.maximum(x.astype(np.float64), np.finfo("f").tiny))
    np.testing.assert_allclose(y, expected, rtol=1.5e-7 if dtype == "float32" else 1e-15)


@pytest.mark.parametrize("wrong", [-1, 4])
def test_a_label_out_of_range_gives_a_code_and_writes_nothing(run, wrong):
    x, target, y = np.ones((2, 4), "f"), np.array([[0], [wrong]]), np.full((2, 1), 7, "f")
    whole = np.full((2, 4), 7, "f")
    with pytest.raises(IndexError, match="out of range"):
        loss(x, target)
    assert run(labels, "CategoricalCrossEntropyGrad", [y, x, target], [whole], axis=1) == 1
    assert run(labels, "OneHot", [target], [whole], shape=(4,), dtype=np.dtype("f")) == 1
    assert (whole == 7).all()


def test_other_labels_are_refused(make_call):
    x, target, y = np.ones((2, 4), "f"), np.zeros((2, 1), np.int32), np.zeros((2, 1), "f")
    assert labels.accepts(make_call("CategoricalCrossEntropy", [x, target], [y])) == "takes int64 labels, not int32"
