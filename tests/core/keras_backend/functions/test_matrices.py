"""Linear algebra: decompositions, and what is refused."""

import numpy as np
import pytest

import atled.keras_backend as B


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_a_matrix_is_the_product_of_its_decomposition(backend, shape):
    x, values = B.placeholder(ndim=2), np.random.default_rng(0).normal(size=shape).astype(np.float32)
    u, s, v = B.function([x], list(B.svd(x)))(values)
    assert (u.shape, s.shape, v.shape) == ((shape[0],) * 2, (min(shape),), (shape[1],) * 2)
    core = np.zeros(shape, np.float32)
    np.fill_diagonal(core, s)
    np.testing.assert_allclose(u @ core @ v, values, atol=1e-5)


def test_a_decomposition_has_gradients(backend):
    w = B.variable(np.array([[2.0, 0.5], [-1.0, 3.0]]), dtype="float64")
    u, s, v = B.svd(w)
    rebuilt = B.dot(u * s, v)
    np.testing.assert_allclose(B.eval(B.gradients(B.sum(rebuilt * rebuilt), w)), 2 * w.get_value(), rtol=1e-6)


def test_a_singular_system_is_refused_at_the_call(backend):
    a, b = B.placeholder(ndim=2), B.placeholder(ndim=1)
    with pytest.raises(ValueError, match="singular"):
        B.function([a, b], B.solve(a, b))([[1, 2], [2, 4]], [1, 1])


def test_fill_diagonal_takes_a_variable_of_one_element_or_one_per_row(backend):
    x, values = B.placeholder(ndim=2), np.ones((2, 3))
    for val in (7, [7], [7, 8]):
        found = B.function([x], B.fill_diagonal(x, B.variable(val)))(values)
        expected = values.copy()
        np.fill_diagonal(expected, val)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: B.diag(x), r"diag\(x: float32, 3 axes\): x has 3 axes"),
        (lambda x: B.svd(x), r"svd\("),
        (lambda x: B.solve(x, x), r"solve\("),
        (lambda x: B.fill_diagonal(x, 1), r"fill_diagonal\("),
    ],
)
def test_counts_of_axes_that_do_not_fit_are_refused_where_they_are_written(call, text):
    with pytest.raises(ValueError, match=text):
        call(B.placeholder(ndim=3, name="x"))


def test_products_of_integers_and_truth_values(cpu):
    k = B.placeholder(ndim=2, dtype="int32")
    values = np.array([[1, 2], [3, 4]])
    found = B.function([k], [B.dot(k, k), B.dot(k > 1, k > 2)])(values)
    np.testing.assert_array_equal(found[0], values @ values)
    np.testing.assert_array_equal(found[1], (values > 1).astype(int) @ (values > 2).astype(int))
