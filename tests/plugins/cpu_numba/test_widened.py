"""Calls in half and bf16 by kernels of float32: what they compute, what runs them, what is refused."""

from functools import partial

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import ArrayDesc, Call, op_spec
from atled_contexts import Context, discovery
from atled_cpu_numba import pool, widened
from atled_cpu_numba.kernels import labels, narrow_units
from atled_cpu_numba.kernels.convolution import choice
from atled_cpu_numba.kernels.shared.launch import narrow_dtypes
from narrow_numbers import any_numbers

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
    "two halves": (lambda x: F.crelu(x, axis=2), (4, 5, 7, 9)),
    "two exponential halves": (lambda x: F.celu(x, alpha=0.7), (3, 40, 11)),
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
        (lambda x: F.random_crop(x, (4, 3), seed=5), [(3, 7, 9)]),
        (lambda x: F.random_flip(x, (1, 2), seed=5), [(3, 7, 9)]),
        (lambda x: F.random_shift(x, (2, 3), seed=5), [(3, 7, 9)]),
    ],
)
def test_what_is_only_moved_keeps_its_bits(config, function, shapes):
    arrays = [drawn(config, *shape, seed=seed) for seed, shape in enumerate(shapes)]
    y = computed(config, function, *arrays)
    np.testing.assert_array_equal(y, in_single(function, *arrays).astype(DTYPES[config]))


@configs
@pytest.mark.parametrize("columns", [1, 3, 6, 7, 33, 75])
def test_rows_of_tables_keep_their_bits(config, columns):
    index, table = np.array([2, 0, 2, 3]), drawn(config, 4, columns)
    np.testing.assert_array_equal(computed(config, F.embed, index, table), table[index])


@configs
@pytest.mark.parametrize("shape, axis", [((40, 33), 1), ((7, 5, 9), 1), ((6, 4), 0), ((3, 0, 4), 2), ((0, 4), 1)])
def test_losses_of_probabilities_read_them_as_they_are(config, shape, axis):
    x = np.abs(drawn(config, *shape))
    x.reshape(-1)[:4] = np.array([0, np.inf, np.nan, 1e-6])[: x.size]
    single = x.astype("f")

    def loss(x):
        return F.categorical_cross_entropy(x, labels_of(x, axis), axis=axis)

    # NaN of bf16 is none to NumPy.
    expected = computed("float", loss, single).astype(DTYPES[config]).astype("f")
    np.testing.assert_array_equal(computed(config, loss, x).astype("f"), expected)


@configs
@pytest.mark.parametrize("shape", [(3, 5), (33, 70)])
def test_binary_errors_and_copies_take_numbers_as_they_are(config, shape):
    x, target = (drawn(config, *shape, seed=seed) for seed in (0, 1))
    x.reshape(-1)[:4] = 0.5, np.nan, np.inf, -np.inf
    expected = ((x.astype("f") >= 0.5) != (target.astype("f") >= 0.5)).astype("f")
    np.testing.assert_array_equal(computed(config, F.binary_error, x, target).astype("f"), expected)
    for copy in (lambda x: F.clip_grad_by_value(x, x, x), F.clip_grad_by_norm):
        np.testing.assert_array_equal(computed(config, copy, x).view(np.uint16), x.view(np.uint16))


LARGEST = {"half": (1.0, 1e4, 1e-6), "bf16": (1.0, 1e37, 1e-37, 1e-39)}


@configs
@pytest.mark.parametrize("shape", [(1, 3), (5, 300), (40, 7, 9), (2, 70000)])
@pytest.mark.parametrize("eps", [0.5, -3.0])
def test_noise_is_that_of_float64_rounded(config, shape, eps):
    for size in LARGEST[config]:
        x = (np.random.default_rng(0).standard_normal(shape) * size).astype(DTYPES[config])
        wide = x.astype("d").reshape(shape[0], -1)
        expected = eps * wide / np.sqrt((wide**2).sum(1, keepdims=True) + 1e-8)
        found = computed(config, lambda x: F.vat_noise(x, x, base_axis=1, eps=eps), x)
        assert found.dtype == DTYPES[config]
        digits, least = {"half": (2.0**-11, 2.0**-25), "bf16": (2.0**-8, 1e-40)}[config]  # half of the last digit
        np.testing.assert_allclose(found.astype("d").reshape(wide.shape), expected, digits * 1.001, least)


@configs
@pytest.mark.parametrize("among", [np.nan, np.inf])
def test_noise_of_what_is_no_number(config, among):
    x = np.ones((3, 70))
    x[1, 3] = among
    with np.errstate(invalid="ignore"):
        expected = x / np.sqrt((x**2).sum(1, keepdims=True) + 1e-8)
    found = computed(config, lambda x: F.vat_noise(x, x, base_axis=1, eps=1.0), x.astype(DTYPES[config]))
    np.testing.assert_allclose(found.astype("d"), expected, 2.0**-8)


@pytest.mark.parametrize("config", ["float", "double", *DTYPES])
@pytest.mark.parametrize("kept", [np.float32, np.float64, np.float16])
def test_gradients_are_handed_to_noise_of_any_dtype(config, kept):
    dtype = {"float": np.float32, "double": np.float64, **DTYPES}[config]
    gy = np.random.default_rng(0).standard_normal((3, 45)).astype(dtype)
    gy[0, :3] = np.nan, np.inf, -0.0
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")), nn.trace() as trace:
        x, w = nn.Variable(gy.shape, need_grad=True), nn.Variable(gy.shape)
        for variable, array in ((x, gy), (w, np.zeros(gy.shape, kept))):
            variable.data = nn.NdArray.from_numpy_array(array)
        y = F.vat_noise(x, w, base_axis=1, eps=0.5)
        y.forward()
        y.backward(nn.NdArray.from_numpy_array(gy))
        found = w.data.data
    assert ("VATNoiseGrad", "kernel") in {(row.op, row.note) for row in trace.rows()}
    assert found.dtype == kept
    np.testing.assert_array_equal(found.astype("d"), (gy.astype("d") * 0.5).astype(kept).astype("d"))


@configs
@pytest.mark.parametrize("shape, axis", [((9, 1), 1), ((31, 67), 1), ((5, 600), 1), ((3, 40, 7), 1), ((33, 5), 0)])
def test_errors_of_the_largest_are_those_of_float32(config, shape, axis):
    rng = np.random.default_rng(0)
    x = any_numbers(rng, shape, DTYPES[config])  # many equal ones, and what is no number
    labels = rng.integers(0, shape[axis], [1 if at == axis else size for at, size in enumerate(shape)])
    found, single = (
        computed(given, lambda x: F.top_n_error(x, nn.NdArray.from_numpy_array(labels), axis=axis, n=3), array)
        for given, array in ((config, x), ("float", x.astype("f")))
    )
    assert found.dtype == DTYPES[config]
    np.testing.assert_array_equal(found.astype("f"), single)


@configs
@pytest.mark.parametrize("value", [0.1, -1e9, 3e38, 65519.9, np.inf, np.nan])
def test_arrays_of_one_value_are_rounded(config, value):
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")), nn.auto_forward():
        y = F.constant(value, (3, 70)).d
    with np.errstate(over="ignore"):
        expected = np.full((3, 70), value, "f").astype(DTYPES[config])
    assert y.dtype == DTYPES[config]
    np.testing.assert_array_equal(y.astype("f"), expected.astype("f"))


@configs
@pytest.mark.parametrize("shape", [(5, 7), (40, 300), (3, 4, 50)])
def test_divergences_are_those_of_float32_rounded_once(config, shape):
    p, q = (np.abs(drawn(config, *shape, seed=seed)) for seed in (0, 1))
    expected = in_single(F.kl_multinomial, p, q).astype(DTYPES[config])
    np.testing.assert_array_equal(computed(config, F.kl_multinomial, p, q), expected)


@pytest.mark.parametrize("dtype", DTYPES.values())
def test_losses_of_probabilities_need_no_copy_of_them(dtype):
    x, target, y = ArrayDesc((64, 1000), dtype), ArrayDesc((64, 1), np.dtype(np.int64)), ArrayDesc((64, 1), dtype)
    call = Call(op_spec("CategoricalCrossEntropy"), (x, target), (y,), {"axis": 1})
    assert widened.prepare(call, labels.prepare).workspace < x.nbytes


@configs
def test_the_kernel_in_float32_is_what_runs(config):
    arrays = [nn.NdArray.from_numpy_array(drawn(config, 4, 5)), nn.NdArray.from_numpy_array(drawn(config, 5, 6))]
    (call,) = nn.explain(F.affine, *arrays, using=f"cpu:{config}").calls
    assert call.chosen.note == "kernel in float32"


WINOGRAD = {
    "whole vectors": (F.convolution, (2, 16, 12, 16), (16, 16, 3, 3)),
    "rows that fill no vectors": (F.convolution, (3, 13, 11, 7), (19, 13, 3, 3)),
    "long rows": (F.convolution, (1, 7, 9, 50), (32, 7, 3, 3)),
    "one image of few channels": (F.convolution, (1, 6, 30, 30), (40, 6, 3, 3)),
    "shares of maps": (F.convolution, (1, 64, 8, 8), (300, 64, 3, 3)),
    "a bias": (F.convolution, (2, 16, 14, 14), (24, 16, 3, 3), (24,)),
    "5 x 5": (partial(F.convolution, pad=(2, 2)), (2, 16, 14, 14), (16, 16, 5, 5)),
    "an adjoint": (F.deconvolution, (2, 16, 13, 13), (16, 20, 3, 3)),
    "3 taps": (partial(F.convolution, pad=(1,)), (2, 33, 183), (49, 33, 3), (49,)),
    "7 taps along the height": (partial(F.convolution, pad=(3, 0)), (2, 40, 17, 17), (33, 40, 7, 1)),
    "lines in chunks, dilated": (partial(F.convolution, pad=(5,), dilation=(5,)), (1, 128, 1500), (130, 128, 3)),
}


@configs
@pytest.mark.parametrize("name", WINOGRAD)
def test_winograd_widens_what_it_collects(config, name):
    function, *shapes = WINOGRAD[name]
    arrays = [drawn(config, *shape, seed=seed) for seed, shape in enumerate(shapes)]
    if name == "3 taps":
        arrays[0][0, 3, 2:5] = np.inf, -np.inf, np.nan
    if name == "whole vectors":
        arrays[0][0, 3, 5, 2:5] = np.inf, -np.inf, np.nan
    before, expected = pool.thread_count(), in_single(function, *arrays).astype(DTYPES[config])
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            y = computed(config, function, *arrays)
            # NaN of bf16 is none to NumPy.
            np.testing.assert_array_equal(y.astype("f"), expected.astype("f"))
    finally:
        pool.set_thread_count(before)


@pytest.mark.parametrize("dtype", narrow_dtypes())
@pytest.mark.parametrize("kernel", [(3, 3), (3, 1), (1, 7)])
def test_winograd_needs_no_copy_of_its_input_in_float32(dtype, kernel):
    shapes = (8, 64, 28, 28), (16, 64, *kernel), (8, 16, 29 - kernel[0], 29 - kernel[1])
    x, w, y = (ArrayDesc(shape, np.dtype(dtype)) for shape in shapes)
    geometry = {"pad": (0, 0), "stride": (1, 1), "dilation": (1, 1)}
    call = Call(op_spec("Convolution"), (x, w), (y,), {**geometry, "base_axis": 1, "group": 1, "channel_last": False})
    single = choice.prepare(widened.wide(call))
    assert "winograd" in single.note
    casts = 2 * (w.size + y.size) * np.float32().nbytes  # with room for their blocks
    assert widened.prepare(call, choice.prepare).workspace < single.workspace + casts < single.workspace + 4 * x.size


def cross_entropies(x, axis=1):
    """Of drawn labels."""
    return F.softmax_cross_entropy(x, labels_of(x, axis), axis=axis)


def labels_of(x, axis=1):
    shape = tuple(1 if n == axis else size for n, size in enumerate(x.shape))
    return nn.NdArray.from_numpy_array(np.random.default_rng(5).integers(0, x.shape[axis], shape))


LARGE = {
    "errors of the largest": (lambda x: F.top_n_error(x, labels_of(x), n=3), (90, 700)),
    "the largest": (lambda x: F.top_k_data(x, 5), (90, 700)),
    "softmax": (lambda x: F.softmax(x, axis=-1), (60, 7, 300)),
    "softmax in the middle": (lambda x: F.softmax(x, axis=1), (60, 70, 30)),
    "softmax of long columns": (lambda x: F.softmax(x, axis=1), (3, 20, 40, 50)),
    "softmax of columns that are too long": (lambda x: F.softmax(x, axis=0), (500, 100)),
    "cross entropies": (cross_entropies, (90, 700)),
    "cross entropies of maps": (cross_entropies, (70, 20, 9, 11)),
    "cross entropies of columns": (partial(cross_entropies, axis=0), (70, 900)),
    "maxima": (lambda x: F.max_pooling(x, (3, 3), stride=(2, 2)), (4, 30, 21, 40)),
    "averages": (lambda x: F.average_pooling(x, (2, 2)), (100, 30, 22)),
    "sums": (lambda x: F.sum_pooling(x, (3, 3), stride=(2, 2)), (4, 30, 21, 40)),
    "averages, channels behind": (partial(F.average_pooling, kernel=(2, 2), channel_last=True), (5, 31, 22, 19)),
    "sums, channels behind": (partial(F.sum_pooling, kernel=(3, 3), channel_last=True), (3, 62, 40, 16)),
    "maxima, channels behind": (partial(F.max_pooling, kernel=(3, 2), channel_last=True), (3, 62, 40, 17)),
    "maxima of small planes, turned": (partial(F.max_pooling, kernel=(7, 7)), (4, 70, 14, 14)),
    "filters": (lambda x, w, b: F.depthwise_convolution(x, w, b, pad=(1, 1)), (6, 8, 30, 40), (8, 3, 3), (8,)),
    "filters of images": (lambda x, w: F.depthwise_convolution(x, w, pad=(1, 1)), (9, 7, 60, 60), (7, 3, 3)),
    "filters with strides": (lambda x, w: F.convolution(x, w, stride=(2, 2), group=8), (6, 8, 41, 40), (16, 1, 5, 5)),
    "filters of volumes": (
        lambda x, w: F.convolution(x, w, pad=(1, 1, 1), group=8),
        (3, 8, 5, 12, 20),
        (8, 1, 3, 3, 3),
    ),
    "adjoints": (lambda x, w: F.deconvolution(x, w, stride=(2, 2), group=8), (6, 8, 20, 20), (8, 1, 3, 3)),
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


def test_calls_in_float32_and_those_of_units_keep_the_conditions():
    conditions = {"device_id": "0", "deterministic": True, "local_errors": True, "by_operands": True}
    narrow = [ArrayDesc((6, 8, 8), np.float16), ArrayDesc((6, 4, 4), np.float16), ArrayDesc((6, 4, 4), np.uint8)]
    geometry = {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0), "ignore_border": True}
    call = Call(
        op_spec("MaxPooling"),
        (narrow[0],),
        tuple(narrow[1:]),
        geometry,
        type_config="half",
        wanted=(True, False),
        **conditions,
    )
    in_float32 = widened.wide(call)
    units = narrow_units.units_of(in_float32)
    assert units.total == 6
    for made, count in ((in_float32, 6), (units.of(2), 2)):
        assert {name: getattr(made, name) for name in conditions} == conditions
        assert (made.wanted, made.type_config, made.attributes) == ((True, False), "float", geometry)
        assert made.inputs == (ArrayDesc((count, 8, 8)),)
        assert made.outputs == (ArrayDesc((count, 4, 4)), ArrayDesc((count, 4, 4), np.uint8))


GRADIENTS = {
    "averages": (lambda x: F.average_pooling(x, (2, 2)), (50, 40, 40)),
    "maxima": (lambda x: F.max_pooling(x, (2, 2)), (4, 50, 40, 40)),
    "sums": (lambda x: F.sum_pooling(x, (2, 2)), (4, 50, 40, 40)),
    "maxima, channels behind": (partial(F.max_pooling, kernel=(2, 2), channel_last=True), (5, 41, 22, 19)),
    "averages, channels behind": (partial(F.average_pooling, kernel=(3, 3), channel_last=True), (5, 41, 22, 19)),
    "maxima of windows that overlap": (lambda x: F.max_pooling(x, (3, 3), stride=(2, 2)), (4, 50, 21, 21)),
    "filters": (lambda x, w: F.convolution(x, w, pad=(1, 1), group=8), (6, 8, 30, 40), (8, 1, 3, 3)),
    "filters with strides": (lambda x, w: F.convolution(x, w, stride=(2, 2), group=8), (6, 8, 41, 40), (8, 1, 5, 5)),
    "several filters": (lambda x, w: F.convolution(x, w, pad=(2, 2), group=6), (5, 6, 30, 40), (12, 1, 5, 5)),
    "filters of volumes": (
        lambda x, w: F.convolution(x, w, pad=(1, 1, 1), group=8),
        (3, 8, 5, 12, 20),
        (8, 1, 3, 3, 3),
    ),
}


@configs
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_taken_in_chunks(config, name):
    function, *shapes = GRADIENTS[name]
    arrays = [drawn(config, *shape, seed=seed) for seed, shape in enumerate(shapes)]

    def gradients(config):
        dtype = DTYPES.get(config, np.dtype("f"))
        with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
            leaves = [nn.Variable.from_numpy_array(array.astype(dtype), need_grad=True) for array in arrays]
            y = function(*leaves)
            y.forward()
            gy = np.random.default_rng(9).integers(-4, 5, y.shape).astype(dtype)
            y.backward(nn.NdArray.from_numpy_array(gy))
            return [leaf.g for leaf in leaves]

    before, expected = pool.thread_count(), gradients("float")
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            for got, single in zip(gradients(config), expected, strict=True):
                np.testing.assert_array_equal(got, single.astype(DTYPES[config]))
    finally:
        pool.set_thread_count(before)


def from_table(table, shape=(6, 40)):
    """Rows of a table, many of them more than once."""
    return F.embed(nn.Variable.from_numpy_array(np.random.default_rng(5).integers(0, table.shape[0], shape)), table)


def losses(x, axis=1):
    labels = np.random.default_rng(5).integers(0, x.shape[axis], [n if a != axis else 1 for a, n in enumerate(x.shape)])
    return F.categorical_cross_entropy(x, nn.Variable.from_numpy_array(labels), axis=axis)


CHOSEN = {
    "rows of a table": (from_table, (50, 33)),
    "elements of a table": (from_table, (50, 1)),
    "threes of a table": (from_table, (50, 3)),
    "fours of a table": (from_table, (50, 4)),
    "short rows of a table": (partial(from_table, shape=(3,)), (5, 7)),
    "losses": (losses, (33, 70)),
    "losses of maps": (losses, (3, 5, 4, 7)),
    "maxima of rows": (lambda x: F.max(x, axis=1), (33, 70)),
    "minima of columns": (lambda x: F.min(x, axis=0), (33, 7)),
    "maxima in the middle": (lambda x: F.max(x, axis=1), (5, 17, 9)),
    "the maximum": (lambda x: F.max(x), (5, 17)),
}


@configs
@pytest.mark.parametrize("name", CHOSEN)
def test_gradients_of_what_is_chosen_are_those_of_float32_rounded_once(config, name):
    function, shape = CHOSEN[name]
    x = np.random.default_rng(0).uniform(0.1, 1, shape).astype(DTYPES[config])
    x.flat[0], x.flat[1] = np.nan, np.inf

    def gradient(config, dtype):
        with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
            leaf = nn.Variable(shape, need_grad=True)
            leaf.data = nn.NdArray.from_numpy_array(x.astype(dtype))
            y = function(leaf)
            y.forward()
            leaf.grad.zero()
            gy = np.random.default_rng(9).integers(-4, 5, y.shape)
            y.backward(nn.NdArray.from_numpy_array(gy.astype(dtype)))
            return leaf.grad.data

    before = pool.thread_count()
    expected = gradient("float", np.float32).astype(DTYPES[config]).astype("f")
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            np.testing.assert_array_equal(gradient(config, DTYPES[config]).astype("f"), expected)
    finally:
        pool.set_thread_count(before)


def normalized(config, x, gy, *, then=lambda y: y):
    """Result, statistics and gradients of a batch normalization."""
    dtype = DTYPES.get(config, np.dtype("f"))
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
        shape = (1, x.shape[1], *[1] * (x.ndim - 2))
        leaves = [x.astype(dtype), *(drawn("bf16", *shape, seed=seed).astype(dtype) for seed in (5, 6))]
        leaves = [nn.Variable.from_numpy_array(leaf, need_grad=True) for leaf in leaves]
        mean, variance = (nn.Variable.from_numpy_array(np.zeros(shape, np.float32)) for _ in range(2))
        y = then(F.batch_normalization(*leaves, mean, variance, batch_stat=True))
        y.forward()
        y.backward(nn.NdArray.from_numpy_array(gy.astype(dtype)))
        return [y.d.copy(), mean.d.copy(), variance.d.copy(), *(leaf.g.copy() for leaf in leaves)]


@configs
@pytest.mark.parametrize("shape", [(3, 40, 5, 6), (4, 30, 7, 7), (2, 5, 50, 70), (6, 40, 3, 3)])
def test_normalization_widens_the_large_arrays_by_itself(config, shape):
    # Several channels in a stretch of memory, or several stretches in a channel, or by columns.
    x, gy = drawn(config, *shape).astype("f"), drawn(config, *shape, seed=1).astype("f")
    before, expected = pool.thread_count(), normalized("float", x, gy)
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            for got, single in zip(normalized(config, x, gy), expected, strict=True):
                np.testing.assert_array_equal(got, single.astype(got.dtype))
    finally:
        pool.set_thread_count(before)


def test_steps_beside_a_normalization_are_computed_on_the_way_in_half_too():
    x, gy = drawn("half", 4, 30, 9, 9), drawn("half", 4, 30, 9, 9, seed=1)
    y, *_, gx, gbeta, ggamma = normalized("half", x, gy, then=F.relu)
    apart, *_ = normalized("half", x, gy)
    np.testing.assert_array_equal(y, np.maximum(apart, 0))
    *_, gx_apart, gbeta_apart, ggamma_apart = normalized("half", x, np.where(apart > 0, gy, 0))
    for got, expected in ((gx, gx_apart), (gbeta, gbeta_apart), (ggamma, ggamma_apart)):
        np.testing.assert_array_equal(got, expected)


@configs
@pytest.mark.parametrize(
    "x, w, function",
    [
        ((2, 16, 12, 12), (24, 16, 3, 3), partial(F.convolution, pad=(1, 1))),
        ((1, 64, 7, 7), (64, 64, 3, 3), partial(F.convolution, pad=(1, 1))),
        ((2, 3, 40, 40), (32, 3, 7, 7), partial(F.convolution, pad=(3, 3), stride=(2, 2))),
        ((1, 32, 14, 14), (40, 32, 3, 3), partial(F.convolution, pad=(1, 1), stride=(2, 2))),
        ((2, 40, 11, 11), (70, 40, 1, 1), F.convolution),
        ((50, 70), (70, 101), F.affine),
    ],
)
def test_a_weight_that_stays_is_packed_once_and_never_stale(config, x, w, function):
    nn.clear_memory_cache()
    images, first, second = drawn(config, *x), drawn(config, *w, seed=1), drawn(config, *w, seed=2)
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
        weight = nn.Variable.from_numpy_array(first)
        y = function(nn.Variable.from_numpy_array(images), weight)
        found = []
        for values in (first, second):
            weight.d = values
            for _ in range(4):
                y.forward()
                found.append(y.d.copy())
            # Behind a change the engine waits some runs until it packs again.
            assert values is second or nn.memory_statistics()["caches"]["constants"] == 1
    for number, values in ((0, first), (4, second)):
        alone = computed(config, function, images, values)
        for got in found[number : number + 4]:
            np.testing.assert_array_equal(got, alone)


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
    registered = discovery.registry().implementations("Softmax", "cpu")
    (found,) = (each for each in registered if each.note == "kernel in float32")
    assert found.accepts(call) == "no float is narrower than float32"
