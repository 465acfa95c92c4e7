"""Op-trees run as programs of the core."""

import numpy as np
import pytest


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


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_integers_are_compared_with_numbers_beyond_their_dtype(be, dtype):
    values = np.array([[0, 1, 100]])
    x, out = be.array(values, dtype=dtype), be.zeros((1, 3))
    for number in (-1000, -1, 100, 300, 2**40):
        for tree, wanted in (
            (x < number, values < number),
            (x >= number, values >= number),
            (x == number, values == number),
            (number != x, number != values),
        ):
            out[:] = tree
            np.testing.assert_array_equal(out.get(), wanted)
    with pytest.raises(OverflowError, match="Python number"):
        out[:] = be.maximum(x, 2**40)
