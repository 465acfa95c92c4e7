"""Where gradients of reductions and elementwise functions are a matter of convention, and where sums would overflow."""

import numpy as np
import pytest

import atled.keras_backend as B


def gradient(call, *values):
    """Of the sum of a call, with respect to its first operand."""
    inputs = [B.placeholder(ndim=np.ndim(each)) for each in values]
    return B.function(inputs, B.gradients(B.sum(call(*inputs)), inputs[0]))(*values)


def test_each_of_several_largest_elements_gets_the_whole_gradient(backend):
    ties = [[1, 3, 3], [2, 2, 0]]
    np.testing.assert_array_equal(gradient(lambda x: B.max(x, axis=1), ties), [[0, 1, 1], [1, 1, 0]])
    np.testing.assert_array_equal(gradient(lambda x: -B.min(-x), ties), [[0, 1, 1], [0, 0, 0]])


def test_both_of_two_equal_operands_get_the_whole_gradient(backend):
    for function in (B.maximum, B.minimum):
        np.testing.assert_array_equal(gradient(lambda x, y, f=function: f(x, y), [1, 2], [1, 2]), [1, 1])
        np.testing.assert_array_equal(gradient(lambda y, x, f=function: f(x, y), [1, 2], [1, 2]), [1, 1])


def test_slopes_at_kinks(backend):
    np.testing.assert_array_equal(gradient(B.abs, [-2, 0, 2]), [-1, 0, 1])
    np.testing.assert_array_equal(gradient(lambda x: B.clip(x, 0, 1), [-1, 0, 0.5, 1, 2]), [0, 1, 1, 1, 0])
    np.testing.assert_array_equal(gradient(B.sqrt, [-1, 0, 4]), [0, np.inf, 0.25])
    np.testing.assert_array_equal(gradient(lambda x: B.round(x) + B.sign(x) * x, [0.4, -2]), [1, -1])


def test_logsumexp_neither_overflows_nor_underflows(backend):
    x = B.placeholder(ndim=1)
    f = B.function([x], B.logsumexp(x))
    assert f([1e4, 1e-4]) == 1e4
    assert f([-1e4, -1e4]) == pytest.approx(-1e4 + np.log(2))
    assert f([-np.inf, -np.inf]) == -np.inf


def test_the_gradient_of_logsumexp_is_the_softmax_of_large_numbers(backend):
    np.testing.assert_allclose(gradient(B.logsumexp, [1000, 1000 + np.log(3)]), [0.25, 0.75], rtol=1e-4)


def test_logdiffexp_does_not_overflow(backend):
    x = B.placeholder(ndim=1)
    assert B.function([x], B.logdiffexp(x))([1000, 1001]) == pytest.approx(1001 + np.log1p(-np.exp(-1.0)))


def test_logdiffexp_drops_its_axis_unless_told_to_keep_it(backend):
    x, values = B.placeholder(ndim=2), np.array([[1.0, 2], [2, 5], [0, 4]], np.float32)
    expected = np.log(np.exp(values[:, 1]) - np.exp(values[:, 0]))
    found = B.function([x], [B.logdiffexp(x, -1), B.logdiffexp(x.T, axis=0, keepdims=True), B.logdiffexp(x[1])])(values)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)
    np.testing.assert_allclose(found[1], expected[None], rtol=1e-5)
    np.testing.assert_allclose(found[2], expected[1], rtol=1e-5)
    with pytest.raises(ValueError, match=r"logdiffexp\(.*\(3, 2\)\), written at .*axis 0 has 3 elements"):
        B.function([x], B.logdiffexp(x, 0))(values)


def test_the_gradient_of_a_product_is_right_where_elements_are_zero(backend):
    np.testing.assert_array_equal(gradient(B.prod, [2, 0, 3]), [0, 6, 0])
    np.testing.assert_array_equal(gradient(B.prod, [0, 0, 3]), [0, 0, 0])


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), [1], [-3, -1], np.int64(1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes_are_given_in_any_form(axis, keepdims):
    x, values = B.placeholder(ndim=3), np.arange(24.0).reshape(2, 3, 4)
    expected = values.sum(tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims)
    found = B.sum(x, axis=axis, keepdims=keepdims)
    np.testing.assert_array_equal(B.function([x], found)(values), expected)
    assert found.ndim == expected.ndim


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: B.mean(x, axis=3), ValueError, r"mean\(x: float32, 3 axes\): axis 3 is out of range"),
        (lambda x: B.max(x, axis=(0, 0)), ValueError, r"max\(x"),
        (lambda x: B.any(x, axis="rows"), TypeError, "any with axis='rows'"),
        (lambda x: B.cumsum(x, axis=5), ValueError, r"cumsum\(x"),
        (lambda x: B.argmax(x, axis=1.5), TypeError, r"argmax with axis=1\.5"),
        (lambda x: B.logdiffexp(x, axis=7), ValueError, "axis=7"),
        (lambda x: B.all([]), ValueError, "all of an empty list"),
    ],
)
def test_axes_that_are_not_there_are_refused_where_they_are_written(call, error, text):
    with pytest.raises(error, match=text):
        call(B.placeholder(ndim=3, name="x"))


def test_an_empty_axis_has_a_sum_and_no_maximum(backend):
    x = B.placeholder(ndim=2)
    np.testing.assert_array_equal(B.function([x], B.sum(x, axis=0))(np.ones((0, 2))), [0, 0])
    with pytest.raises(ValueError, match="max"):
        B.function([x], B.max(x, axis=0))(np.ones((0, 2)))
