"""Calls that were checked before are recorded again without being checked: only those that are the same throughout."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import atled as nn
import atled.functions as F
from atled.arrays.memory import clear_memory_cache
from atled.calling import apply, call_tables, function_text

pytestmark = pytest.mark.usefixtures("backend")


@pytest.fixture(autouse=True, params=["general", "by key"])
def nothing_known(request: pytest.FixtureRequest) -> None:
    """With functions as they begin, unless a test before completed them, and with complete ones."""
    if request.param == "by key":
        for name in FUNCTIONS_USED:
            complete(getattr(F, name))
    clear_memory_cache()


FUNCTIONS_USED = [
    *["add2", "add_scalar", "affine", "batch_normalization", "concatenate", "dropout", "max", "mul_scalar"],
    *["pow2_quantize", "rand", "relu", "reshape", "split", "sum", "tanh", "transpose"],
]


def complete(function: Callable[..., Any]) -> None:
    """Have a function find by key what a call is recorded from, as after many calls."""
    function.__globals__.get("_complete", lambda: None)()


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


def ones(count: int) -> list[nn.Variable]:
    return [nn.Variable.from_numpy_array(np.ones((1, 4), np.float32)) for _ in range(count)]


CALLS: list[Callable[..., Any]] = [
    F.tanh,
    lambda x: F.add2(x, x),
    lambda x: x * 1.5 + 2.0,
    lambda x: F.reshape(x, (x.size,)),
    lambda x: F.max(x, axis=1),
    lambda x: F.split(x, axis=1)[1],
    lambda x: F.concatenate(x, x, x, axis=0),
    lambda x: F.affine(x, F.transpose(x, (1, 0))),
    lambda x: F.affine(x, F.transpose(x, (1, 0)), F.sum(x, axis=1)),
    lambda x: F.dropout(x, 0.5, seed=7),
    lambda x: F.pow2_quantize(x, n=3, m=2),
    lambda x: F.batch_normalization(x, *ones(4), axes=[1]),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_calls_that_were_made_before_give_what_the_first_one_gave(number: int):
    call, found = CALLS[number], []
    for size in (3, 3, 5, 3, 5):
        x = leaf(size, 4)
        x.d = np.sin(x.d)
        x.need_grad = True
        x.grad.zero()
        y = call(x)
        y.forward()
        F.sum(y).forward()
        y.backward()
        found.append((y.shape, y.d.tobytes(), x.g.tobytes(), y.parent.name, str(y.parent.context)))
    assert found[0] == found[1] == found[3]
    assert found[2] == found[4]


def test_what_is_known_is_recorded_without_being_looked_for_by_all_that_is_checked(monkeypatch: pytest.MonkeyPatch):
    x = leaf(2, 3)
    for name in ("affine", "max", "split", "tanh"):
        complete(getattr(F, name))

    def recorded() -> None:
        F.affine(F.tanh(x), F.transpose(x, (1, 0)))
        F.max(x, axis=1)
        F.split(x, axis=0)

    complete(F.transpose)
    recorded()
    monkeypatch.setattr(apply, "_applied", None)
    recorded()


def test_many_calls_complete_a_function(monkeypatch: pytest.MonkeyPatch):
    elu = function_text._Functions()["ELU"]  # another one than F.elu, which may be complete already
    names = elu.__globals__
    seen: list[None] = []

    def complete_none() -> None:
        seen.append(None)
        names["_counted"] = itertools.count()

    monkeypatch.setitem(names, "_complete", complete_none)
    monkeypatch.setitem(names, "_counted", itertools.count(200))
    x = leaf(2)
    elu(x)
    assert not seen
    for _ in range(100):
        assert elu(x).shape == (2,)
    assert len(seen) == 1


def test_numbers_that_equal_checked_ones_are_refused_each_time():
    x = leaf(2, 3)
    for _ in range(3):
        assert F.sum(x, axis=1).shape == (2,)
        assert F.reshape(x, (3, 2)).shape == (3, 2)
        for refused in (np.bool_(True), "1", [True], 1.5):
            with pytest.raises((TypeError, ValueError)):
                F.sum(x, axis=refused)
        with pytest.raises(TypeError):
            F.reshape(x, (3, True + True, True))
        with pytest.raises(TypeError):
            F.mul_scalar(x, "2")
        with pytest.raises((TypeError, ValueError)):
            F.mul_scalar(x, 10**400)
        with pytest.raises(TypeError):
            F.add2(x, np.ones((2, 3)))


def test_using_counts_for_calls_that_were_made_before():
    x = leaf(2, 3)
    for _ in range(3):
        for name in ("reference:float", "reference:double"):
            assert F.relu(x, using=name).parent.context.backend == [name]
        assert F.relu(x).parent.context.backend != ["reference:double"]


def test_what_calls_are_recorded_from_is_counted_and_forgotten(monkeypatch: pytest.MonkeyPatch):
    def known() -> int:
        return nn.memory_statistics()["caches"]["calls to record from"]

    complete(F.tanh)
    assert known() == 0
    for size in (2, 3, 2):
        assert F.tanh(leaf(size)).shape == (size,)
    assert known() == 2
    monkeypatch.setattr(call_tables, "_LIMIT", 8)
    for size in range(100):
        assert F.tanh(leaf(size)).shape == (size,)
        assert 1 <= known() <= 8
    clear_memory_cache()
    assert known() == 0
    assert F.tanh(leaf(2)).shape == (2,)
