"""Sizes that only a run knows: they are computed first, and what is specialized for them is found again."""

import numpy as np
import pytest

import atled.keras_backend as B
from atled.keras_backend.compiling import specialized


def test_a_size_may_depend_on_data(backend):
    x, n = B.variable(np.arange(6)), B.placeholder(ndim=0, dtype="int32")
    f = B.function([n], [B.sum(x[: n + 1]), B.zeros_like(x[:n])])
    for count in (1, 3, 1):
        total, zeros = f(count)
        assert (total, zeros.shape) == (sum(range(count + 1)), (count,))


def test_sizes_may_depend_on_values_of_parts_of_such_sizes():
    x, n = B.variable(np.arange(6)), B.placeholder(ndim=0, dtype="int32")
    f = B.function([n], B.tile(x[: B.cast(B.max(x[:n]), "int32")], (2,)))
    assert f(3).tolist() == [0, 1, 0, 1]
    assert f(5).tolist() == [0, 1, 2, 3] * 2


def test_updates_are_made_once_where_sizes_are_computed_first():
    x, n, count = B.variable(np.arange(6)), B.placeholder(ndim=0, dtype="int32"), B.variable(0.0)
    f = B.function([n], B.sum(x[:n]), updates=[(count, count + 1.0)])
    assert [f(each).item() for each in (2, 3, 2)] == [1, 3, 1]
    assert count.get_value() == 3


def test_what_is_specialized_for_values_is_bounded(monkeypatch):
    monkeypatch.setattr(specialized, "VALUES_LIMIT", 2)
    x, n = B.variable(np.arange(6)), B.placeholder(ndim=0, dtype="int32")
    f = B.function([n], B.sum(x[:n]))
    assert [f(each).item() for each in (1, 2, 3, 4, 1)] == [0, 1, 3, 6, 0]
    (stage,) = f._known.values()
    assert len(stage._found) == 2


def test_a_plan_is_that_of_the_last_stage():
    x, n = B.variable(np.arange(6)), B.placeholder(ndim=0, dtype="int32")
    f = B.function([n], B.exp(B.sum(x[:n])))
    f(3)
    assert "Exp" in str(f.plan)


def test_a_size_that_makes_no_sense_is_refused_with_nothing_assigned():
    x, n, count = B.placeholder(ndim=1), B.placeholder(ndim=0, dtype="int32"), B.variable(0.0)
    f = B.function([x, n], B.reshape(x, (n, 2)), updates=[(count, count + 1.0)])
    assert f(np.arange(6), 3).shape == (3, 2)
    with pytest.raises(ValueError, match=r"reshape.*test_specialized\.py"):
        f(np.arange(6), 4)
    assert count.get_value() == 1
