"""The values that calls are given."""

import numpy as np
import pytest

import atled.keras_backend as B


def identity(ndim, dtype="float32"):
    x = B.placeholder(ndim=ndim, dtype=dtype, name="x")
    return B.function([x], x)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        (np.arange(4.0).reshape(2, 2), [[0, 1], [2, 3]]),
        (np.arange(4, dtype=np.int16).reshape(2, 2).T, [[0, 2], [1, 3]]),
        (np.zeros((0, 3)), np.zeros((0, 3))),
        ([[True, False]], [[1, 0]]),
    ],
)
def test_arrays_and_lists_are_cast(given, expected):
    found = identity(2)(given)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)


def test_numbers_have_no_axes_and_are_cast_down():
    assert identity(0)(2.5) == 2.5
    assert identity(0, "int32")(2.75) == 2
    assert identity(0, "float16")(1e9) == np.inf
    assert identity(0)(np.float64(3)).dtype == np.float32


def test_a_value_of_another_count_of_axes_is_refused():
    with pytest.raises(TypeError, match=r"shape \(3,\) for the input .*'x'.*test_given.py.*\n?.*1 axis, the input 2"):
        identity(2)([1, 2, 3])
    with pytest.raises(TypeError, match="0 axes, the input 1"):
        identity(1)(1.0)


def test_a_call_has_one_value_for_each_input():
    with pytest.raises(TypeError, match="with 2 values: it has 1 input\n"):
        identity(0)(1, 2)
    with pytest.raises(TypeError, match="with 0 values"):
        identity(0)()


@pytest.mark.parametrize("count", [1, 2])
def test_a_list_of_the_values_is_refused_as_the_call_of_another_backend(count):
    inputs = [B.placeholder(ndim=1) for _ in range(count)]
    with pytest.raises(TypeError, match=r"one by one, f\(a, b\)"):
        B.function(inputs, inputs[0])([np.ones(2)] * count)


@pytest.mark.parametrize("given", ["text", None, [[1], [2, 3]], 1j, {"a": 1}])
def test_what_is_no_numbers_is_refused(given):
    with pytest.raises(TypeError, match="'x'"):
        identity(0)(given)


def test_an_expression_is_no_value():
    with pytest.raises(TypeError, match="it is an expression"):
        identity(0)(B.variable(1.0))
