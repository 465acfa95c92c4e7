"""What functions refuse where they are made."""

import numpy as np
import pytest

import atled.keras_backend as B


@pytest.fixture
def x():
    return B.placeholder(ndim=2, name="x")


@pytest.fixture
def w():
    return B.variable(np.eye(2), name="w")


def refused(kind, match, *args, **kwargs):
    with pytest.raises(kind, match=match) as told:
        B.function(*args, **kwargs)
    assert "What to do:" in str(told.value)


def test_an_input_that_is_needed_and_not_listed_is_named_with_its_line(x, w):
    refused(ValueError, r"needs .*'x'.*test_arguments\.py", [], x.dot(w))
    refused(ValueError, "'x'", [], w, updates=[(w, x.dot(w))])
    refused(ValueError, "'x'", [], w, givens={w: x.dot(w)})
    assert B.function([], x.dot(w), givens={x: w})().tolist() == np.eye(2).tolist()


def test_an_input_is_there_once_and_is_no_variable(x, w):
    refused(ValueError, "'x'.* twice", [x, x], x)
    refused(TypeError, "value of its own", [w], w)
    refused(TypeError, "no expression", [3], x)
    refused(TypeError, "no list", x, x)


def test_inputs_that_nothing_needs_are_fine(x, w):
    assert B.function([x], B.sum(w))(np.zeros((1, 1))) == 2


def test_an_expression_may_be_an_input(x, w):
    product = x.dot(w)
    assert B.function([product], product * 2.0)(np.ones((1, 1))).tolist() == [[2]]


def test_a_variable_has_one_update_and_nothing_else_has_any(x, w):
    refused(ValueError, "two updates of .*'w'", [], [], updates=[(w, w), (w, w * 2.0)])
    refused(TypeError, "update of .*'x'.* no variable", [x], [], updates=[(x, x)])
    refused(TypeError, "update of str", [x], [], updates={"w": w})
    refused(TypeError, "no pairs", [x], [], updates=[w])
    refused(TypeError, "no pairs", [x], [], updates=3)


def test_new_values_fit_the_variable(w):
    count = B.variable(1, dtype="int32", name="count")
    refused(TypeError, r"it is int32, the new value float32.*\n?.*cast\(value, 'int32'\)", [], [], {count: count * 0.5})
    refused(TypeError, r"int64", [], [], updates=[(count, count + B.sum(count))])
    refused(TypeError, "it is float32, the new value float64", [], [], updates=[(w, B.cast(w, "float64"))])
    refused(TypeError, "it has 2 axes, the new value 0", [], [], updates=[(w, B.sum(w))])
    refused(TypeError, "it is int32, the new value float64", [], [], updates=[(count, 0.5)])
    refused(TypeError, "None", [], [], updates=[(count, None)])


def test_narrower_values_numbers_and_arrays_are_cast():
    wide, small = B.variable([1.0, 2.0], dtype="float64"), B.variable(3, dtype="int32")
    B.function([], [], updates={wide: B.cast(wide, "float32") * 2.0, small: 7})()
    assert (wide.get_value().tolist(), wide.get_value().dtype) == ([2, 4], np.float64)
    assert (small.get_value(), small.get_value().dtype) == (7, np.int32)
    B.function([], [], updates=[(wide, np.array([5, 6]))])()
    assert wide.get_value().tolist() == [5, 6]


def test_givens_fit_what_they_replace(x, w):
    refused(TypeError, "givens for .*'x'.*it has 2 axes, the new value 1", [], x, givens={x: w[0]})
    refused(TypeError, "givens for int", [], w, givens={3: w})
    refused(ValueError, "there are two", [], x, givens=[(x, w), (x, w)])
    refused(TypeError, r"float32, the new value float64", [], x, givens={x: B.cast(w, "float64")})
    assert B.function([], x, givens={x: np.ones((1, 2))})().dtype == np.float32


def test_outputs_are_expressions(x):
    refused(TypeError, "no expression", [x], [x, None])
    refused(TypeError, "no list", [x], 3.0)


def test_options_of_the_original_are_accepted_and_others_named(x):
    options = {"on_unused_input": "ignore", "allow_input_downcast": True, "mode": "FAST_RUN", "profile": False}
    assert B.function([x], B.sum(x), name="total", **options)(np.ones((2, 2))) == 4
    refused(TypeError, r"function\(givns=\.\.\.\).*\n.*'givens'", [x], x, givns={})
