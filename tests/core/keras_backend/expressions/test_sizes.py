"""Sizes of expressions."""

import numpy as np
import pytest

import atled.keras_backend as B


def test_sizes_are_indexed_and_iterated(backend):
    x = B.placeholder(ndim=3)
    first, *rest = x.shape
    found = B.function([x], [x.shape, first, rest[-1], x.shape[-1], x.shape[1:], x.size])(np.ones((2, 3, 4)))
    expected = [[2, 3, 4], 2, 4, 4, [3, 4], 24]
    for each, value in zip(found, expected, strict=True):
        assert each.dtype == np.int64
        np.testing.assert_array_equal(each, value)


def test_a_size_that_is_not_there_is_refused():
    with pytest.raises(IndexError, match="there are 2"):
        B.placeholder(ndim=2).shape[2]


def test_the_shape_of_a_variable_is_evaluated():
    w = B.variable(np.ones((2, 5)))
    np.testing.assert_array_equal(B.eval(w.shape), [2, 5])
    assert B.eval(w.shape[0]).shape == () and B.eval(B.shape(w * 2)[1]) == 5


def test_arithmetic_of_sizes_makes_sizes(backend):
    x = B.placeholder(ndim=2)
    half = x.shape[0] // 2
    f = B.function([x], [B.reshape(x, (half, 2, -1)), x[half:], B.arange(half + 1), B.zeros_like(x[:half])])
    for rows in (4, 6):
        values = np.arange(rows * 3.0).reshape(rows, 3)
        found = f(values)
        np.testing.assert_array_equal(found[0], values.reshape(rows // 2, 2, 3))
        np.testing.assert_array_equal(found[1], values[rows // 2 :])
        np.testing.assert_array_equal(found[2], np.arange(rows // 2 + 1))
        assert found[3].shape == (rows // 2, 3)


@pytest.mark.parametrize("shapes", [((2, 3), (3, 4)), ((1, 1), (1, 1)), ((0, 3), (3, 2)), ((5, 2), (2, 0))])
def test_one_function_takes_any_sizes(backend, shapes):
    x, w = B.placeholder(ndim=2), B.placeholder(ndim=2)
    y = B.sigmoid(B.dot(x, w))
    f = B.function([x, w], [y, B.sum(y, axis=0) / x.shape[0] if shapes[0][0] else B.sum(y, axis=0)])
    a, b = (np.full(shape, 0.5, np.float32) for shape in shapes)
    expected = 1 / (1 + np.exp(-a @ b))
    found = f(a, b)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)
    np.testing.assert_allclose(found[1], expected.sum(0) / max(len(a), 1), rtol=1e-5)


def test_shapes_of_shapes_are_joined(backend):
    x = B.placeholder(ndim=2)
    joined = B.concatenate([x.shape[:1], np.array([1, 2]), B.stack([x.shape[1] // 2])])
    values = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(B.function([x], B.reshape(x, joined))(values), values.reshape(3, 1, 2, 2))


def test_sizes_that_are_data_are_computed_first(backend):
    n = B.placeholder(ndim=0, dtype="int32")
    f = B.function([n], [B.arange(n), B.tile(B.ones((2,)), n + 1)])
    for count in (3, 0):
        numbers, tiles = f(count)
        np.testing.assert_array_equal(numbers, np.arange(count))
        assert tiles.shape == (2 * (count + 1),)


def test_what_is_no_size_is_refused():
    x = B.placeholder(ndim=2)
    with pytest.raises(TypeError, match=r"a size of reshape: 2\.5 is no whole number"):
        B.reshape(x, (2.5,))
    with pytest.raises(TypeError, match="how many sizes"):
        B.reshape(x, B.placeholder(ndim=1, dtype="int64"))
