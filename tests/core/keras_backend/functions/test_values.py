"""Values of variables, read and written, and of expressions."""

import numpy as np
import pytest

import atled.keras_backend as B


@pytest.fixture
def w(backend):
    return B.variable([[1, 2], [3, 4]], name="w")


def test_values_are_copies(w):
    B.get_value(w)[:] = 0
    B.eval(w)[:] = 0
    given = np.zeros((2, 2), np.float32)
    B.set_value(w, given)
    given[:] = 5
    assert B.get_value(w).tolist() == [[0, 0], [0, 0]]


def test_values_are_cast(w):
    B.set_value(w, np.array([[1, 0], [0, True]]))
    assert w.get_value().dtype == np.float32
    n = B.variable(0, dtype="int32")
    B.set_value(n, 2.7)
    assert n.get_value() == 2


def test_functions_see_what_was_set(w):
    f = B.function([], B.sum(w))
    assert f() == 10
    B.set_value(w, [[0, 0], [0, 1]])
    assert f() == 1


def test_another_shape_is_taken_and_another_count_of_axes_is_not(w):
    f = B.function([], [w.shape, B.sum(w, axis=0)], updates=[(w, w * 2)])
    f()
    B.set_value(w, np.ones((3, 1)))
    shape, total = f()
    assert (shape.tolist(), total.tolist(), B.get_variable_shape(w)) == ([3, 1], [3], (3, 1))
    with pytest.raises(ValueError, match=r"(?s)'w'.*these have 1: \(3,\)"):
        B.set_value(w, [1, 2, 3])
    assert B.get_value(w).tolist() == [[2], [2], [2]]


def test_several_are_set_together_or_not_at_all(w):
    other = B.variable(1.0)
    B.batch_set_value([(w, np.eye(2)), (other, 2)])
    assert [each.tolist() for each in B.batch_get_value([w, other])] == [[[1, 0], [0, 1]], 2]
    with pytest.raises(ValueError, match="axes"):
        B.batch_set_value([(other, 3), (w, 3)])
    assert B.get_value(other) == 2


def test_values_of_what_is_no_variable_are_refused(w):
    for call in (B.get_value, B.get_variable_shape, lambda x: B.set_value(x, 1)):
        with pytest.raises(TypeError, match="it is no variable"):
            call(w * 2)
    with pytest.raises(TypeError, match="get_value of a ndarray"):
        B.get_value(np.ones(2))
    with pytest.raises(TypeError, match="values for the variable"):
        B.set_value(w, [["a", "b"]])


def test_eval(w):
    assert B.eval(B.sum(w)) == 10
    assert B.eval(w.shape[1]).shape == ()
    assert B.eval(3.5) == 3.5
    with pytest.raises(ValueError, match="'x'"):
        B.eval(B.placeholder(ndim=1, name="x") + 1)


def test_what_an_expression_is(w):
    assert (B.ndim(w.T), B.dtype(w > 1), B.eval(B.shape(w)).tolist()) == (2, "bool", [2, 2])
    assert type(B.ndim(w)) is int and type(B.dtype(w)) is str
