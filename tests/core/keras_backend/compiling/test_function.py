"""Functions: values in, arrays out, variables updated."""

import numpy as np

import atled.keras_backend as B


def test_outputs_and_updates_are_computed_from_the_values_before(backend):
    x = B.placeholder(ndim=2)
    w = B.variable(np.eye(3, 2))
    total = B.variable(0.0)
    f = B.function([x], [x.dot(w) * 2.5, B.sum(x) + total], updates=[(total, total + B.sum(x))])
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    product, first = f(values)
    np.testing.assert_allclose(product, values[:, :2] * 2.5)
    assert (first, f(values[:2])[1], total.get_value()) == (66, 81, 81)


def test_sizes_are_known_before_anything_runs():
    x = B.placeholder(ndim=2)
    np.testing.assert_array_equal(B.function([x], B.sum(x, axis=0) / x.shape[0])(np.ones((4, 3))), np.ones(3))
