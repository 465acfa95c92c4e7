"""In-place operators of NdArrays that were called before: the same results and errors as at the first call."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import atled as nn
import atled.functions as F
from atled.arrays.array import NdArray
from atled.calling.call_tables import forget_calls

pytestmark = pytest.mark.usefixtures("backend")

_TIMES = 3  # the first call is made the general way


def array(values, dtype=np.float32) -> NdArray:
    return NdArray.from_numpy_array(np.array(values, dtype))


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    forget_calls()


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "ipow"])
@pytest.mark.parametrize("second", [2.0, [[1.0, 2.0], [0.5, 2.0]], [[2.0], [1.0]]], ids=["number", "equal", "repeated"])
def test_a_repeated_in_place_operator_gives_what_the_operator_gives(name, second):
    change = getattr(operator, name)
    given = second if isinstance(second, float) else array(second)
    expected = array([[1, 2], [3, 4]])
    a = array(expected.data)
    for _ in range(_TIMES):
        expected = getattr(operator, name[1:])(expected, given)
        same = change(a, given)
        assert same is a
        assert_array_equal(a.data, expected.data)


def test_numbers_and_values_of_each_call_count():
    a, b = array([1, 1]), array([1, 2])
    for number in range(1, 4):
        a += number
        b.data = [number, -number]
        a += b
    assert_array_equal(a.data, [13, 1])


def test_an_array_that_is_not_written_yet_is_zeros():
    a = array([1, 2])
    for _ in range(_TIMES):
        a += nn.NdArray((2,))
        a.zero()
        a += 1
    assert_array_equal(a.data, [1, 1])


def test_an_array_over_the_same_memory_in_another_shape_is_read_as_it_was():
    a, b = array([[1], [2]]), array([[1, 1]])
    for other in (b, b, NdArray.over(array([[5, 7]]).cell, (1, 2))):
        with pytest.raises(ValueError, match="Add2"):
            a += other  # the result has another shape
    square = array([[1, 2], [3, 4]])
    for _ in range(_TIMES):
        square += array([[1, 1], [1, 1]])
    before = square.data.copy()
    square += NdArray.over(square.cell, (2, 2))
    assert_array_equal(square.data, 2 * before)
    row = array([[1, 2]])
    row += array([[1, 1]])
    row += array([[1, 1]])
    with pytest.raises(ValueError, match="Add2"):
        row += NdArray.over(row.cell, (2, 1))
    assert_array_equal(row.data, [[3, 4]])


def test_a_change_of_dtype_is_the_same_each_time():
    for _ in range(_TIMES):
        a, b = array([1, 2], np.int64), array([1, 2], np.float64)
        a += b
        assert a.dtype == np.float32
        assert_array_equal(a.data, [2, 4])


def test_a_graph_reads_what_an_operator_left():
    x = nn.Variable.from_numpy_array(np.float32([1, 2]))
    y = F.tanh(x)
    for number in range(_TIMES):
        y.forward()
        data = x.data
        data += 1
        y.forward()
        np.testing.assert_allclose(y.d, np.tanh(np.float32([2 + number, 3 + number])), rtol=1e-6)


def test_a_trace_sees_calls_that_were_made_before():
    a = array([1, 2])
    for _ in range(_TIMES):
        a += 1
    with nn.trace() as trace:
        a += 1
    assert [(row.op, row.calls) for row in trace.rows()] == [("AddScalar", 1)]
    assert_array_equal(a.data, [5, 6])
