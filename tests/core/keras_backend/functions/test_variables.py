"""Variables, placeholders, and expressions in the shape of others."""

import numpy as np
import pytest

import atled.keras_backend as B


@pytest.mark.parametrize("value", [3, 2.5, [1, 2], [[True, False]], np.arange(4), np.float64(2)])
def test_a_variable_is_of_floatx_whatever_its_value_is(value):
    for floatx in ("float32", "float64"):
        with B.settings(floatx=floatx):
            found = B.variable(value, name="w")
        assert (found.dtype, found.get_value().dtype, found.name) == (floatx, floatx, "w")
        np.testing.assert_array_equal(found.get_value(), value)


def test_a_variable_of_an_expression_has_its_value(backend):
    w = B.variable([1, 2])
    assert B.get_value(B.variable(w * 3, dtype="int32")).tolist() == [3, 6]
    other = B.variable(w)
    B.set_value(w, [5, 5])
    assert B.get_value(other).tolist() == [1, 2]


def test_a_variable_keeps_no_memory_of_its_value():
    values = np.ones(3, np.float32)
    w = B.variable(values)
    values[:] = 7
    assert w.get_value().tolist() == [1, 1, 1]


@pytest.mark.parametrize("shape", [(2, 3), [2, 3], 4, (), (0, 2), np.array([1, 2])])
def test_zeros_and_ones(shape):
    for function, numpy in ((B.zeros, np.zeros), (B.ones, np.ones)):
        found = function(shape, dtype="int16", name="v")
        np.testing.assert_array_equal(found.get_value(), numpy(shape, "int16"))
        assert (found.dtype, found.name) == ("int16", "v")


def test_sizes_of_variables_are_sizes_of_new_ones():
    w = B.variable(np.ones((2, 3)))
    assert B.get_variable_shape(B.zeros((w.shape[1], w.shape[0] + 1))) == (3, 3)
    assert B.eval(B.eye(w.shape[0])).tolist() == [[1, 0], [0, 1]]


def test_what_is_like_a_variable_is_one(backend):
    w, x = B.variable(np.ones((2, 3))), B.placeholder(ndim=2)
    assert B.get_value(B.zeros_like(w, name="velocity")).shape == (2, 3)
    assert B.ones_like(w, dtype="int32").dtype == "int32"
    like = B.ones_like(x)
    with pytest.raises(TypeError, match="no variable"):
        B.get_value(like)
    assert B.function([x], like)(np.zeros((3, 2))).tolist() == [[1, 1]] * 3


def test_placeholders():
    assert B.placeholder(shape=(None, 3)).ndim == 2
    assert B.placeholder(ndim=0, dtype="int32", sparse=True, name="n").dtype == "int32"
    assert B.placeholder(()).ndim == 0


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: B.placeholder(), ValueError, "neither shape nor ndim"),
        (lambda: B.placeholder((2, 3), ndim=1), ValueError, "has 2 entries, ndim is 1"),
        (lambda: B.placeholder(ndim=-1), ValueError, "ndim=-1"),
        (lambda: B.placeholder(ndim=1, dtype="str"), TypeError, "dtype 'str'"),
        (lambda: B.zeros((2, -1)), ValueError, "negative"),
        (lambda: B.zeros(2.5), TypeError, "no whole number"),
        (lambda: B.zeros((B.placeholder(ndim=1).shape[0],)), ValueError, "none of them"),
        (lambda: B.variable("word"), TypeError, "a variable of a str"),
        (lambda: B.variable(None), TypeError, "a variable of a NoneType"),
    ],
)
def test_what_makes_none_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_what_says_no_count_of_axes_is_refused():
    with pytest.raises(TypeError, match="do not say how many axes"):
        B.placeholder(shape=3)
    with pytest.raises(TypeError, match="do not say how many axes"):
        B.placeholder(ndim="2")
    assert B.placeholder(shape=B.placeholder(ndim=2).shape).ndim == 2


def test_rows_of_different_lengths_are_refused():
    v = B.variable(1.0)
    for made in (lambda: B.variable([[1], [1, 2]]), lambda: B.maximum(v, [[1], [1, 2]])):
        with pytest.raises(TypeError, match="give rows of one length"):
            made()
