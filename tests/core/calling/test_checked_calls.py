"""Calls that were checked before are recorded again without being checked: only those that are the same throughout."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import atled as nn
import atled.functions as F
from atled.arrays.memory import clear_memory_cache

pytestmark = pytest.mark.usefixtures("backend")


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    clear_memory_cache()


def leaf(*shape: int) -> nn.Variable:
    return nn.Variable.from_numpy_array(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


def test_a_value_that_only_equals_a_checked_one_is_checked():
    x = leaf(2, 3, 4)
    assert F.sum(x, axis=1).shape == (2, 4)
    assert F.transpose(x, (0, 2, 1)).shape == (2, 4, 3)
    with pytest.raises(TypeError):
        F.sum(x, axis=True)
    with pytest.raises(TypeError):
        F.transpose(x, (False, 2, True))


def test_the_sign_of_a_zero_is_that_of_the_call():
    x = nn.Variable.from_numpy_array(np.ones(1, np.float32))
    for zero in (0.0, -0.0, 0.0):
        y = F.mul_scalar(x, zero)
        y.forward()
        assert np.signbit(y.d[0]) == np.signbit(zero)


def test_shapes_and_contexts_are_those_of_the_call():
    assert [F.sum(leaf(2, size), axis=1, keepdims=True).shape for size in (3, 4, 3)] == [(2, 1)] * 3
    assert [F.reshape(leaf(6), shape).shape for shape in ((2, 3), (3, 2), [2, 3])] == [(2, 3), (3, 2), (2, 3)]
    for name in ("reference:float", "reference:double"):
        with nn.context_scope(nn.Context([name])):
            assert F.relu(leaf(3)).parent.context.backend == [name]


def test_calls_that_are_alike_keep_what_is_theirs():
    x, z = leaf(2, 6), leaf(2, 6)
    z.d = -z.d
    x.need_grad = z.need_grad = True
    first, second = F.max(x, axis=1), F.max(z, axis=1)  # the places of the maxima are kept for the gradient
    for y in (first, second):
        y.forward()
    for y in (first, second):
        y.backward()
    assert_array_equal(x.g, np.eye(6)[[5, 5]])
    assert_array_equal(z.g, np.eye(6)[[0, 0]])


def test_random_calls_that_are_alike_draw_for_themselves():
    first, second = F.rand(shape=(64,)), F.rand(shape=(64,))
    nn.forward_all([first, second])
    assert (first.d != second.d).any()


def test_a_refused_call_is_refused_each_time():
    x, y = leaf(2, 3), leaf(3, 2)
    for _ in range(3):
        with pytest.raises(ValueError, match="Add2"):
            F.add2(x, y)
        with pytest.raises(ValueError, match="Dropout"):
            F.dropout(x, 2.0)
