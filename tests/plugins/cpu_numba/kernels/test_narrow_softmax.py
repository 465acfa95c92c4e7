"""Softmax in half and bf16, which its kernels take as they are: float32's results, rounded once."""

from types import SimpleNamespace

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import ArrayDesc, Call, op_spec
from atled_contexts import Context
from atled_cpu_numba import pool
from atled_cpu_numba.kernels import softmax as kernels
from atled_cpu_numba.kernels.shared.launch import narrow_dtypes
from narrow_numbers import DTYPES, any_numbers, check_rounded, computed

configs = pytest.mark.parametrize("config", list(DTYPES))


def softmax(x):
    return F.softmax(x, axis=-1)


def rows(rng, dtype):
    """Rows on both sides of the shortest that the kernel takes, of usual numbers, of any, and of infinities alone."""
    x = any_numbers(rng, (int(rng.integers(1, 12)), int(rng.integers(50, 400))), dtype)
    usual = rng.random(len(x)) < 0.6
    x[usual] = rng.standard_normal((usual.sum(), x.shape[1])).astype(dtype) * dtype.type(rng.choice([1, 30]))
    x[rng.random(len(x)) < 0.1] = rng.choice([np.inf, -np.inf])
    return x


@configs
def test_results_are_those_of_float32_rounded_once(config):
    rng, before = np.random.default_rng(8), pool.thread_count()
    try:
        for number in range(40):
            pool.set_thread_count(1 + 2 * (number % 2))
            x = rows(rng, DTYPES[config])
            check_rounded(computed(config, softmax, x), computed("float", softmax, x.astype("f")))
    finally:
        pool.set_thread_count(before)


def columns(rng, dtype):
    """The same of columns, one beside another or not, on both sides of the fewest that the kernel takes."""
    shape = int(rng.integers(1, 4)), int(rng.integers(1, 60)), int(rng.integers(20, 600))
    x = any_numbers(rng, shape, dtype)
    usual = rng.random(shape[2]) < 0.6
    x[:, :, usual] = rng.standard_normal((*shape[:2], usual.sum())).astype(dtype) * dtype.type(rng.choice([1, 30]))
    x[:, :, rng.random(shape[2]) < 0.1] = rng.choice([np.inf, -np.inf])
    return x


@configs
def test_columns_are_those_of_float32_rounded_once(config):
    rng, before = np.random.default_rng(9), pool.thread_count()
    try:
        for number in range(20):
            pool.set_thread_count(1 + 2 * (number % 2))
            x = columns(rng, DTYPES[config])
            check_rounded(
                computed(config, lambda x: F.softmax(x, axis=1), x),
                computed("float", lambda x: F.softmax(x, axis=1), x.astype("f")),
            )
    finally:
        pool.set_thread_count(before)


@configs
@pytest.mark.parametrize(
    "shape, axis", [((50, 70), 1), ((3, 900), 1), ((30, 200), 0), ((3, 40, 500), 1), ((900, 40), 0)]
)
def test_losses_and_probabilities_are_those_of_float32_rounded_once(config, shape, axis):
    rng = np.random.default_rng(10)
    x = rng.standard_normal(shape).astype(DTYPES[config]) * DTYPES[config].type(5)
    few = [1 if n == axis else size for n, size in enumerate(shape)]
    labels = rng.integers(0, shape[axis], few)

    def losses(x):
        return F.softmax_cross_entropy(x, type(x).from_numpy_array(labels), axis=axis)

    check_rounded(computed(config, losses, x), computed("float", losses, x.astype("f")))
    gy = rng.standard_normal(few).astype(DTYPES[config])
    found = computed(config, losses, x, gy).astype("f")
    tolerance = {"half": 2e-3, "bf16": 2e-2}[config]  # of probabilities that are rounded before
    np.testing.assert_allclose(found, computed("float", losses, x.astype("f"), gy.astype("f")), tolerance, tolerance)


@pytest.mark.parametrize("dtype", narrow_dtypes())
@pytest.mark.parametrize(
    "shape, axis", [((5, 3), 1), ((40, 1), 1), ((7, 130), 1), ((3, 1001), 1), ((9, 33), 0), ((2, 5, 70), 1)]
)
def test_gradients_are_those_of_float32_rounded_once(run, parts, dtype, shape, axis):
    rng = np.random.default_rng(11)
    few = tuple(1 if n == axis else size for n, size in enumerate(shape))
    target = rng.integers(0, shape[axis], few)
    gy, p = any_numbers(rng, few, np.dtype(dtype)), any_numbers(rng, shape, np.dtype(dtype))
    found, expected = np.ones_like(p), np.ones(shape, "f")
    floats = ArrayDesc(few, gy.dtype), ArrayDesc(shape, p.dtype)
    call = Call(op_spec("SoftmaxCrossEntropyGrad"), (*floats, ArrayDesc(few, np.int64)), (floats[1],), {"axis": axis})
    narrow = SimpleNamespace(accepts=lambda _: True, prepare=lambda _: kernels.prepare(call))
    bits = [array.view(np.uint16) for array in (gy, p, found)]  # which compare as equal where they are NaN
    assert run(narrow, call.spec.name, [*bits[:2], target], bits[2:], parts=parts) == 0
    single = [gy.astype("f"), p.astype("f"), target]
    assert run(kernels, call.spec.name, single, [expected], axis=axis) == 0
    check_rounded(found, expected)


@configs
@pytest.mark.parametrize("shape, axis", [((6, 1000), 1), ((40, 12), 0)])
def test_the_gradient_casts_nothing(config, shape, axis):
    dtype, few = DTYPES[config], tuple(1 if n == axis else size for n, size in enumerate(shape))
    floats = [ArrayDesc(size, dtype) for size in (few, shape)]
    call = Call(op_spec("SoftmaxCrossEntropyGrad"), (*floats, ArrayDesc(few, np.int64)), (floats[1],), {"axis": axis})
    assert kernels.narrow_arguments(call) == ((0, 1, 3) if dtype.name in narrow_dtypes() else ())


@configs
@pytest.mark.parametrize("shape, axis", [((4, 100), 1), ((10, 300), 0)])
def test_a_label_out_of_range_is_told(config, shape, axis):
    x = np.zeros(shape, DTYPES[config])
    few = [1 if n == axis else size for n, size in enumerate(shape)]
    target = nn.NdArray.from_numpy_array(np.full(few, shape[axis]))
    with pytest.raises(IndexError, match="out of range"):
        computed(config, lambda x: F.softmax_cross_entropy(x, target, axis=axis), x)


@configs
@pytest.mark.parametrize("shape", [(700, 100), (3, 9000)])
def test_large_arrays_do_not_depend_on_shares(config, shape):
    x, before = np.random.default_rng(9).standard_normal(shape).astype(DTYPES[config]), pool.thread_count()
    expected = computed("float", softmax, x.astype("f"))
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            check_rounded(computed(config, softmax, x), expected)
    finally:
        pool.set_thread_count(before)


@configs
@pytest.mark.parametrize("shape", [(7, 130), (400, 130), (5, 6000)])
def test_functions_before_and_after_are_computed_on_the_way(config, shape):
    x = np.random.default_rng(10).standard_normal(shape).astype(DTYPES[config])
    steps = [lambda v: v * 0.5, softmax, F.exp]
    expected = x
    for step in steps:
        expected = computed(config, step, expected)
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
        value = nn.Variable(shape)
        value.data = nn.NdArray.from_numpy_array(x)
        y = steps[2](steps[1](steps[0](value)))
        y.forward(clear_buffer=True)
        found = y.data.data
    check_rounded(found, expected.astype("f"))
