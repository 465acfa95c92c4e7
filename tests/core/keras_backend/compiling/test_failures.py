"""Errors of runs name the expression and the line where it was written."""

import numpy as np
import pytest

import atled as nn
import atled.keras_backend as B
from atled.keras_backend.compiling.failures import located


def test_an_index_that_is_out_of_range_is_located(backend):
    data, index = B.variable(np.arange(4), name="data"), B.placeholder(ndim=1, dtype="int32", name="index")
    with pytest.raises(IndexError, match=r"data.*index.*written at .*test_failures\.py:\d+: .*out of range"):
        B.function([index], data[index])([4])


def test_what_fails_within_scans_and_branches_is_located(backend):
    data, index = B.variable(np.arange(4), name="data"), B.placeholder(ndim=2, dtype="int32", name="index")

    def step(row):
        inner, _ = B.scan(lambda k: B.ifelse(k > 3, data[k], data[0]), sequences=row)
        return inner

    s, _ = B.scan(step, sequences=index)
    with pytest.raises(IndexError, match=r"data.*written at .*test_failures\.py:\d+: .*out of range"):
        B.function([index], s)([[0, 1], [2, 4]])


def test_a_singular_system_is_located(backend):
    a = B.placeholder(ndim=2, name="a")
    with pytest.raises(ValueError, match=r"solve\(a.*written at .*test_failures\.py:\d+: .*singular"):
        B.function([a], B.solve(a, a))(np.zeros((2, 2)))


def test_where_several_may_have_failed_all_are_named():
    a, index = B.variable(np.arange(4), name="a"), B.placeholder(ndim=1, dtype="int32")
    with pytest.raises(IndexError) as told:
        B.function([index], [a[index], (a * 2.0)[index]])([9])
    assert str(told.value).count("written at") == 2
    assert str(told.value).count("What to do") == 1


def test_sizes_that_do_not_fit_are_told_with_the_names_of_expressions(backend):
    x, w = B.placeholder(ndim=2, name="x"), B.variable(np.ones((3, 2)), name="w")
    with pytest.raises(ValueError, match=r"dot\(x: float32 \(4, 4\), w: float32 \(3, 2\)\), written at .*:\d+: "):
        B.function([x], x.dot(w))(np.ones((4, 4)))


def test_an_error_with_more_than_a_text_stays_what_it_is():
    x = B.variable([1.0, 2.0])
    error = nn.VerificationError("Sin(x: [2]): another value than that of its reference", op="Sin")
    assert located(error, [B.sin(x)]) is None
    assert "written at" in str(located(ValueError("Sin(x: [2]): wrong"), [B.sin(x)]))


def test_of_many_that_may_have_failed_some_are_named():
    a, index = B.variable(np.arange(4), name="a"), B.placeholder(ndim=1, dtype="int32")
    written: list = []
    exec("\n".join(["written.append(a[index] * 2)"] * 50), {"written": written, "a": a, "index": index})  # a line each
    with pytest.raises(IndexError, match="one of 42 more") as told:
        B.function([index], sum(written))([9])
    assert str(told.value).count("written at") == 8
