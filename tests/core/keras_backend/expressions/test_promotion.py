"""Dtypes of mixed operands."""

import itertools

import numpy as np
import pytest

import atled.keras_backend as B

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64")
FLOATS = ("float16", "float32", "float64")


def checked(expression, expected, dtype, inputs=(), values=()):
    """The dtype is said before anything runs, and is that of the result."""
    assert expression.dtype == dtype
    found = B.function(list(inputs), expression)(*values)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def placeholder(dtype):
    return B.placeholder(ndim=1, dtype=dtype), np.array([1, 0, 1], dtype)


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations_with_replacement(DTYPES, 2)))
def test_arrays_are_promoted_as_numpy_does_and_truth_values_count(first, second, cpu):
    (a, one), (b, two) = placeholder(first), placeholder(second)
    expected = "int8" if first == second == "bool" else np.result_type(one, two).name
    checked(a + b, [2, 0, 2], expected, [a, b], [one, two])


@pytest.mark.parametrize("dtype", DTYPES)
def test_python_numbers_widen_nothing(dtype, backend):
    a, one = placeholder(dtype)
    is_float = dtype in FLOATS
    checked(a * 2.5, one * 2.5, dtype if is_float else "float32", [a], [one])
    checked(a + 2, one + np.int64(2), "int8" if dtype == "bool" else dtype, [a], [one])
    checked(a * np.float64(2.5), one * 2.5, dtype if is_float else "float32", [a], [one])


@pytest.mark.parametrize(("first", "second"), [("int8", "int64"), ("bool", "int32"), ("uint8", "uint8")])
def test_quotients_of_integers_are_floatx(first, second, backend):
    (a, one), (b, _) = placeholder(first), placeholder(second)
    two = np.array([2, 3, 4], second)
    checked(a / b, one / two, "float32", [a, b], [one, two])
    with B.settings(floatx="float64"):
        checked(a / 2, one / 2, "float64", [a], [one])


def test_numpy_numbers_but_float64_are_arrays():
    x = B.placeholder(ndim=1)
    assert [(x * each).dtype for each in (np.float32(2), np.int8(2), np.int64(2))] == ["float32", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_comparisons_are_truth_values(dtype, cpu):
    a, one = placeholder(dtype)
    checked(a > 0.5, one > 0.5, "bool", [a], [one])
    checked(B.equal(a, a), one == one, "bool", [a], [one])  # an array, not a number


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(dtype, cpu):
    a, _ = placeholder(dtype)
    one = np.array([1, 0, 1], dtype)
    is_float = dtype in FLOATS
    for function, numpy in ((B.sum, np.sum), (B.prod, np.prod), (B.cumsum, np.cumsum), (B.max, np.max)):
        checked(function(a), numpy(one), numpy(one).dtype, [a], [one])
    checked(B.mean(a), one.mean(), dtype if is_float else "float32", [a], [one])
    checked(B.var(a), np.var(one, dtype="float64"), dtype if is_float else "float64", [a], [one])
    assert [each(a).dtype for each in (B.argmax, B.argmin, B.all)] == ["int64", "int64", "bool"]


def test_functions_of_floats_make_floats_of_integers():
    a, _ = placeholder("int32")
    assert [each(a).dtype for each in (B.exp, B.log, B.sigmoid, B.sqrt)] == ["float64"] * 4
    assert [each(a).dtype for each in (B.abs, B.square, B.sign, B.round)] == ["int32"] * 4
    assert (B.exp(2).dtype, B.clip(a, 0, 5).dtype, B.clip(a, 0.5, 5).dtype) == ("float32", "int32", "float32")
    assert (B.maximum(a, 1).dtype, B.pow(a, -1).dtype, (a // 2).dtype, (a % 2.0).dtype) == (
        "int32", "float32", "int32", "float32",
    )  # fmt: skip


def test_a_number_that_a_dtype_does_not_hold_is_refused():
    a, _ = placeholder("int8")
    with pytest.raises(OverflowError, match=r"(?s)operator \+\(placeholder: int8, 1 axis, 300\).*-128 to 127"):
        a + 300


def test_truth_values_beside_large_numbers_are_wide_enough():
    a, one = placeholder("bool")
    checked(a * 70000, one * 70000, "int32", [a], [one])


def test_what_has_no_dtype_is_named():
    with pytest.raises(TypeError, match=r"(?s)cast with dtype 'flaot32'.*did you mean 'float32'"):
        B.cast(1, "flaot32")
    with pytest.raises(TypeError, match="cast of a str"):
        B.cast("a", "float32")
    with pytest.raises(TypeError, match="nothing computes with complex128"):
        B.variable(1, dtype=complex)
