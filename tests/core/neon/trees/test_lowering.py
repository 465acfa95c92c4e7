"""Op-trees run as programs of the core."""

import numpy as np


def test_a_tree_is_computed_where_it_is_assigned(be):
    x, y = be.array(np.arange(12.0).reshape(3, 4)), be.array(np.ones((3, 1)))
    out = be.zeros((3, 4))
    out[:] = be.tanh(x) * y + be.sum(x, axis=1) / 2 - 0.5
    expected = np.tanh(x.get()) + x.get().sum(1, keepdims=True) / 2 - 0.5
    np.testing.assert_allclose(out.get(), expected, rtol=1e-5)


def test_views_are_operands_and_targets(be):
    x = be.array(np.arange(12.0).reshape(3, 4))
    x[:, ::2] = be.dot(x, x.T)[0]["shape"][0] * x[:, 1::2]
    expected = np.arange(12.0).reshape(3, 4)
    expected[:, ::2] = 3 * expected[:, 1::2]
    np.testing.assert_array_equal(x.get(), expected)
