"""Calls in half and bf16 by kernels of float32: what they compute, what runs them, what is refused."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import ArrayDesc, Call, op_spec
from atled_contexts import Context
from atled_cpu_numba import pool, widened

ml_dtypes = pytest.importorskip("ml_dtypes")
DTYPES = {"half": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
configs = pytest.mark.parametrize("config", list(DTYPES))


def drawn(config, *shape, seed=0):
    """Numbers that the dtype of a type config holds."""
    return np.random.default_rng(seed).standard_normal(shape).astype(DTYPES[config])


def computed(config, function, *arrays):
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
        return function(*map(nn.NdArray.from_numpy_array, arrays)).data


def in_single(function, *arrays):
    return computed("float", function, *(array.astype("f") for array in arrays))


CALLS = {
    "convolution": (lambda x, w: F.convolution(x, w, pad=(1, 1)), (2, 16, 12, 12), (16, 16, 3, 3)),
    "depthwise": (lambda x, w: F.depthwise_convolution(x, w, pad=(1, 1)), (2, 3, 9, 20), (3, 3, 3)),
    "affine": (F.affine, (33, 40), (40, 17)),
    "small product": (F.batch_matmul, (2, 3, 4), (2, 4, 5)),
    "pooling": (lambda x: F.average_pooling(x, (2, 2)), (2, 3, 8, 10)),
    "softmax": (F.softmax, (5, 70)),
    "sum": (lambda x: F.sum(x, axis=1), (6, 5000)),
    "maximum": (lambda x: F.max(x, axis=0), (300, 20)),
    "nothing": (lambda x: F.sum(x, axis=1), (3, 0)),
}


@configs
@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_float32_rounded_once(config, name):
    function, *shapes = CALLS[name]
    arrays = [drawn(config, *shape, seed=seed) for seed, shape in enumerate(shapes)]
    y = computed(config, function, *arrays)
    assert y.dtype == DTYPES[config]
    np.testing.assert_array_equal(y, in_single(function, *arrays).astype(DTYPES[config]))


@configs
@pytest.mark.parametrize(
    "function, shapes",
    [
        (lambda x, y: F.concatenate(x, y, axis=1), [(3, 4), (3, 6)]),
        (lambda x, y: F.concatenate(x, y, axis=1), [(3, 4), (3, 5)]),
        (lambda x: F.slice(x, (0, 2), (3, 8)), [(3, 10)]),
        (lambda x: F.slice(x, (0, 1), (3, 8)), [(3, 10)]),
        (lambda x: F.transpose(x, (1, 0, 2)), [(5, 3, 8)]),
        (lambda x: F.transpose(x, (1, 0, 2)), [(5, 3, 7)]),
        (lambda x: F.transpose(x, (1, 0)), [(40, 70)]),
    ],
)
def test_what_is_only_moved_keeps_its_bits(config, function, shapes):
    arrays = [drawn(config, *shape, seed=seed) for seed, shape in enumerate(shapes)]
    y = computed(config, function, *arrays)
    np.testing.assert_array_equal(y, in_single(function, *arrays).astype(DTYPES[config]))


@configs
@pytest.mark.parametrize("columns", [6, 7])
def test_rows_of_tables_keep_their_bits(config, columns):
    index, table = np.array([2, 0, 2, 3]), drawn(config, 4, columns)
    np.testing.assert_array_equal(computed(config, F.embed, index, table), table[index])


@configs
def test_the_kernel_in_float32_is_what_runs(config):
    arrays = [nn.NdArray.from_numpy_array(drawn(config, 4, 5)), nn.NdArray.from_numpy_array(drawn(config, 5, 6))]
    (call,) = nn.explain(F.affine, *arrays, using=f"cpu:{config}").calls
    assert call.chosen.note == "kernel in float32"


LARGE = {
    "softmax": (lambda x: F.softmax(x, axis=-1), (60, 7, 300)),
    "softmax in the middle": (lambda x: F.softmax(x, axis=1), (60, 70, 30)),
    "maxima": (lambda x: F.max_pooling(x, (3, 3), stride=(2, 2)), (4, 30, 21, 40)),
    "averages": (lambda x: F.average_pooling(x, (2, 2)), (100, 30, 22)),
    "filters": (lambda x, w, b: F.depthwise_convolution(x, w, b, pad=(1, 1)), (6, 8, 30, 40), (8, 3, 3), (8,)),
    "groups": (lambda x, w: F.convolution(x, w, stride=(2, 2), group=4), (6, 8, 40, 40), (12, 2, 3, 3)),
}


@configs
@pytest.mark.parametrize("name", LARGE)
def test_large_arrays_are_taken_in_chunks_of_units(config, name):
    function, *shapes = LARGE[name]
    arrays = [drawn(config, *shape, seed=seed) for seed, shape in enumerate(shapes)]
    before, expected = pool.thread_count(), in_single(function, *arrays).astype(DTYPES[config])
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            np.testing.assert_array_equal(computed(config, function, *arrays), expected)
    finally:
        pool.set_thread_count(before)


def test_gradients_of_averages_are_taken_in_chunks():
    def gradient(config):
        with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
            x = nn.Variable.from_numpy_array(array.astype("f" if config == "float" else "e"), need_grad=True)
            y = F.average_pooling(x, (2, 2))
            y.forward()
            y.backward(nn.NdArray.from_numpy_array(gy))
            return x.g

    array, gy = drawn("half", 50, 40, 40), drawn("half", 50, 20, 20, seed=1)
    np.testing.assert_array_equal(gradient("half"), gradient("float").astype("e"))


def test_results_do_not_depend_on_the_threads():
    x, w = drawn("half", 8, 32, 28, 28), drawn("half", 32, 32, 3, 3, seed=1)
    before, results = pool.thread_count(), []
    try:
        for count in (1, 2, 3):
            pool.set_thread_count(count)
            results.append(computed("half", lambda x, w: F.convolution(x, w, pad=(1, 1)), x, w))
    finally:
        pool.set_thread_count(before)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_an_error_of_the_kernel_is_told_as_that_of_float32():
    with nn.context_scope(Context(["cpu:half"], fallback="raise")):
        x = nn.NdArray.from_numpy_array(drawn("half", 4, 10))
        with pytest.raises(IndexError, match="SoftmaxCrossEntropy"):
            F.softmax_cross_entropy(x, nn.NdArray.from_numpy_array(np.full((4, 1), 10)))


def test_a_training_step_has_the_gradients_of_float32():
    def gradients(config, dtype):
        with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
            x, w = (nn.Variable.from_numpy_array(a.astype(dtype), need_grad=True) for a in arrays)
            y = F.mean(F.relu(F.convolution(x, w, pad=(1, 1))))
            y.forward()
            y.backward(64.0)
            return x.g.astype("d"), w.g.astype("d")

    arrays = drawn("half", 2, 8, 10, 10), drawn("half", 16, 8, 3, 3, seed=1)
    with np.errstate(all="raise"):
        for found, expected in zip(gradients("half", "e"), gradients("float", "f"), strict=True):
            # The sum of products of some rounded factors.
            np.testing.assert_allclose(found, expected, atol=4e-3 * np.abs(expected).max())


def test_what_has_no_narrow_float_is_refused():
    desc = ArrayDesc((2, 3))
    call = Call(op_spec("Softmax"), (desc,), (desc,), {"axis": 1})
    assert widened.accepts(call, lambda _: True) == "no float is narrower than float32"
