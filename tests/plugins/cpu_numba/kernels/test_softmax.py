"""Softmax, SoftmaxCrossEntropy and their gradients against NumPy in float64."""

import numpy as np
import pytest

from atled_cpu_numba.kernels import softmax

CASES = [((1, 1), 1), ((5, 3), 1), ((5, 3), 0), ((7, 1000), -1), ((2, 5, 4, 3), 1), ((3, 4, 300), 1), ((33,), 0)]
TOLERANCE = {"float32": 2e-6, "float64": 1e-14}

both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])
all_cases = pytest.mark.parametrize("shape, axis", CASES)


def draw(shape, dtype, seed=0):
    return (3 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def softmax_of(x, axis):
    e = np.exp(x.astype("d") - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def label_shape(shape, axis):
    return tuple(1 if i == axis % len(shape) else n for i, n in enumerate(shape))


def labels_for(shape, axis):
    return np.random.default_rng(1).integers(0, shape[axis], label_shape(shape, axis))


@both_dtypes
@all_cases
def test_softmax(run, parts, shape, axis, dtype):
    x = draw(shape, dtype)
    y = np.full(shape, np.nan, dtype)
    assert run(softmax, "Softmax", [x], [y], parts=parts, axis=axis) == 0
    np.testing.assert_allclose(y, softmax_of(x, axis), rtol=2 * TOLERANCE[dtype], atol=1e-37)


@both_dtypes
@all_cases
def test_cross_entropy_and_probabilities(run, parts, shape, axis, dtype):
    x, target = draw(shape, dtype), labels_for(shape, axis)
    y, p = np.full(target.shape, np.nan, dtype), np.full(shape, np.nan, dtype)
    assert run(softmax, "SoftmaxCrossEntropy", [x, target], [y, p], parts=parts, axis=axis) == 0
    expected = softmax_of(x, axis)
    np.testing.assert_allclose(p, expected, rtol=2 * TOLERANCE[dtype], atol=1e-37)
    chosen = np.take_along_axis(expected, target, axis=axis)
    np.testing.assert_allclose(y, -np.log(chosen), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@both_dtypes
@all_cases
def test_cross_entropy_grad(run, parts, shape, axis, dtype):
    p, target = softmax_of(draw(shape, dtype), axis).astype(dtype), labels_for(shape, axis)
    gy, gx = draw(target.shape, dtype), np.full(shape, np.nan, dtype)
    assert run(softmax, "SoftmaxCrossEntropyGrad", [gy, p, target], [gx], parts=parts, axis=axis) == 0
    expected = p.astype("d")
    picked = np.take_along_axis(expected, target, axis=axis) - 1
    np.put_along_axis(expected, target, picked, axis=axis)
    np.testing.assert_allclose(gx, expected * gy, rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("label", [-1, 4])
@pytest.mark.parametrize("shape, axis", [((6, 4), 1), ((3, 4, 5), 1)])
def test_a_label_out_of_range_gives_a_code_and_writes_nothing(run, shape, axis, label):
    x, target = draw(shape, "f"), labels_for(shape, axis)
    target.flat[-1] = label
    y, p = np.full(target.shape, 7, "f"), np.full(shape, 7, "f")
    code = run(softmax, "SoftmaxCrossEntropy", [x, target], [y, p], axis=axis)
    assert code > 0
    assert (y == 7).all()
    assert (p == 7).all()
    gx = np.full(shape, 7, "f")
    assert run(softmax, "SoftmaxCrossEntropyGrad", [y, p, target], [gx], axis=axis) == code
    assert (gx == 7).all()


def test_the_error_code_is_explained(make_call):
    x, target, y = np.zeros((2, 3), "f"), np.zeros((2, 1), np.int64), np.zeros((2, 1), "f")
    native = softmax.prepare(make_call("SoftmaxCrossEntropy", [x, target], [y, x], axis=1)).native
    assert native.errors == {1: "label out of range"}


def test_extreme_inputs(run):
    x = np.array([[1000, 0, -1000], [-np.inf, 0, 0], [np.nan, 0, 0], [-3e38, 3e38, 0], [-90, 0, 0]], "f")
    y = np.empty_like(x)
    assert run(softmax, "Softmax", [x], [y], axis=1) == 0
    expected = [[1, 0, 0], [0, 0.5, 0.5], [np.nan] * 3, [0, 1, 0], [0, 0.5, 0.5]]
    np.testing.assert_allclose(y, expected, atol=1e-37)


@both_dtypes
def test_rows_of_any_length(run, dtype):
    for length in (*range(2, 40), 63, 64, 65, 127, 150, 257, 1025):
        x = draw((2, length), dtype)
        x[1, length // 2] = -np.inf
        y = np.full(x.shape, np.nan, dtype)
        assert run(softmax, "Softmax", [x], [y], axis=1) == 0
        np.testing.assert_allclose(y, softmax_of(x, 1), rtol=2 * TOLERANCE[dtype])


@both_dtypes
def test_columns_of_any_number_have_the_same_bits(run, dtype):
    x = draw((5, 300), dtype)
    whole = np.full(x.shape, np.nan, dtype)
    assert run(softmax, "Softmax", [x], [whole], axis=0) == 0
    for columns in (*range(2, 40), 63, 64, 65, 127, 150, 257):
        y = np.full((5, columns), np.nan, dtype)
        assert run(softmax, "Softmax", [x[:, :columns].copy()], [y], axis=0) == 0
        np.testing.assert_array_equal(y, whole[:, :columns])


@both_dtypes
@pytest.mark.parametrize("columns", [5, 13, 37])
def test_extreme_inputs_in_columns(run, columns, dtype):
    kinds = np.array([[1000, 0, -1000], [-np.inf, 0, 0], [np.nan, 0, 0], [-3e38, 3e38, 0], [-90, 0, 0]], dtype)
    expected = np.array([[1, 0, 0], [0, 0.5, 0.5], [np.nan] * 3, [0, 1, 0], [0, 0.5, 0.5]])
    places = np.arange(columns) % len(kinds)
    y = np.full((3, columns), np.nan, dtype)
    assert run(softmax, "Softmax", [kinds[places].T.copy()], [y], axis=0) == 0
    np.testing.assert_allclose(y.T, expected[places], atol=1e-37)


def test_the_loss_of_an_impossible_label_is_bounded(run):
    x, target = np.array([[0, 200]], "f"), np.zeros((1, 1), np.int64)
    y, p = np.empty((1, 1), "f"), np.empty((1, 2), "f")
    assert run(softmax, "SoftmaxCrossEntropy", [x, target], [y, p], axis=1) == 0
    np.testing.assert_allclose(y, -np.log(np.finfo("f").tiny), rtol=1e-6)


def test_other_labels_and_empty_arrays_are_refused(make_call):
    x, y = np.zeros((2, 3), "f"), np.zeros((2, 1), "f")
    call = make_call("SoftmaxCrossEntropy", [x, np.zeros((2, 1), np.int32)], [y, x], axis=1)
    assert softmax.accepts(call) == "takes int64 labels, not int32"
    empty = np.zeros((0, 3), "f")
    assert "empty" in softmax.accepts(make_call("Softmax", [empty], [empty], axis=1))


@pytest.mark.parametrize(
    "dtype, last, error", [("float32", -87.3, 3e-7), ("float64", -708, 2e-15)], ids=["float32", "float64"]
)
def test_exponentials_have_the_digits_of_their_dtype(run, dtype, last, error):
    beyond = [last - 0.1, last - 0.3, last - 0.5, last - 0.8, last - 1, 2 * last, -np.inf]
    x = np.concatenate([np.linspace(last, 0, 5001), -np.logspace(-18, 1, 2000), beyond]).astype(dtype)[None]
    y = np.full(x.shape, np.nan, dtype)
    assert run(softmax, "Softmax", [x], [y], axis=1) == 0
    found = y[0].astype("d") * (1 / y[0, 5000].astype("d"))  # x is 0 there, which is the maximum
    with np.errstate(under="ignore"):
        expected = np.exp(x[0].astype("d"))
    # exp, the sum, a division and a product: one or two roundings each; 0 or nearly that without normal numbers.
    np.testing.assert_allclose(found, expected, rtol=error, atol=100 * np.finfo(dtype).tiny * (1 / y[0, 5000]))
    assert found[-1] == found[-2] == 0
