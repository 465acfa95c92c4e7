"""Caches forget what nobody asked for lately, are counted, and are cleared together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.arrays.array import NdArray
from atled.arrays.spares import set_spares_limit, spares_of
from atled.graph import rebuilt, rebuilt_forward
from atled.graph.compile.plans import PLANS, SHAPES_LIMIT, PlanCache
from atled.limits.caches import Generations, cache_counts, register_cache


@pytest.fixture
def cache() -> Iterator[Generations[int]]:
    made: Generations[int] = Generations("numbers of a test", 3)
    yield made
    register_cache("numbers of a test", lambda: 0, lambda: None)


def test_what_is_asked_for_stays_and_the_rest_goes(cache):
    for number in range(3):
        cache.add(number, number)
    cache.add(3, 3)  # the three are the old generation now
    assert cache.get(0) is None and cache.find_old(0) == 0 and cache.get(0) == 0
    cache.add(4, 4)
    cache.add(5, 5)
    assert cache.find_old(0) == 0  # it was asked for
    assert cache.get(1) is None and cache.find_old(1) is None


def test_a_cache_holds_two_generations_at_most(cache):
    for number in range(1000):
        cache.add(number, number)
        assert cache_counts()["numbers of a test"] <= 6
    assert cache.add(999, 0) == 999  # what is there stays


@pytest.mark.usefixtures("cache")  # of the same name, which is left to others then
def test_a_generation_is_limited_by_its_weight_too():
    heavy: Generations[str] = Generations("numbers of a test", 100, weigh=len, weight_limit=10)
    for letter in "abc":
        heavy.add(letter, letter * 4)
    assert dict(heavy) == {"c": "cccc"} and heavy.find_old("a") == "aaaa"
    heavy.add("d", "d" * 50)
    assert dict(heavy) == {"d": "d" * 50} and heavy.find_old("b") is None
    heavy.clear()
    for letter in "abc":
        heavy.add(letter, letter * 3)
    assert len(heavy) == 3


def test_clearing_forgets_both_generations(cache):
    for number in range(5):
        cache.add(number, number)
    nn.clear_memory_cache()
    assert cache_counts()["numbers of a test"] == 0


def test_the_least_recently_used_plan_goes_first():
    plans = PlanCache("plans of a test", 2)
    plans.get("a", lambda: 1), plans.get("b", lambda: 2), plans.find("a"), plans.get("c", lambda: 3)
    assert (plans.find("a"), plans.find("b"), plans.find("c")) == (1, None, 3)


class Finalized:
    """Something that computes when it is dropped."""

    def __init__(self, compute):
        self._compute = compute

    def __del__(self):
        self._compute()


def test_what_a_finalizer_plans_while_plans_are_forgotten_is_found_from_then_on():
    plans = PlanCache("plans of a test", 2)
    plans.get("a", lambda: Finalized(lambda: plans.get("a", lambda: 1)))
    plans.clear()
    assert plans.find("a") == 1
    plans.get("b", lambda: 2), plans.find("a"), plans.get("c", lambda: 3)
    assert (plans.find("a"), plans.find("b"), plans.find("c")) == (1, None, 3)


def test_a_plan_that_is_forgotten_right_after_it_was_found_is_given_all_the_same():
    class Key(str):
        """At its second comparison plans are forgotten, as a handler of a signal may do in any code of Python's."""

        __hash__ = str.__hash__

        def __eq__(self, other):
            comparisons.append(other)
            if len(comparisons) == 2:
                plans.clear()
            return str.__eq__(self, other)

    comparisons = []
    plans = PlanCache("plans of a test", 2)
    plans.get("a", lambda: 1)
    assert plans.find(Key("a")) == 1
    assert len(comparisons) == 2 and plans.find("a") is None


def test_the_plans_of_all_shapes_that_are_remembered_fit():
    """Else a program with some hundred lengths of sentences, one after the other, plans every step again."""
    weight = nn.Variable.from_numpy_array(np.ones((3, 4), np.float32), need_grad=True)

    def train(rows: int) -> None:
        x = nn.Variable.from_numpy_array(np.ones((rows, 3), np.float32))
        labels = nn.Variable.from_numpy_array(np.zeros((rows, 1), np.float32))
        loss = F.mean(F.softmax_cross_entropy(F.tanh(F.affine(x, weight)), labels))
        loss.forward(clear_no_need_grad=True)
        loss.backward(clear_buffer=True)

    for remembered in (rebuilt.REBUILT, rebuilt_forward.REBUILT):
        remembered.clear()
        assert remembered.limit == SHAPES_LIMIT
    PLANS.clear()
    train(5)
    before = len(PLANS)
    train(6)
    assert 0 < (len(PLANS) - before) * SHAPES_LIMIT <= PLANS.limit


def test_plans_are_limited_by_their_steps():
    plans = PlanCache("plans of a test", 100, steps_limit=3)
    for key in "abcde":
        plans.get(key, lambda: object())
    assert [key for key in "abcde" if plans.find(key) is not None] == ["c", "d", "e"]


def test_what_was_compiled_is_counted_and_cleared_and_made_again():
    x = nn.Variable.from_numpy_array(np.ones((3, 7), np.float32))
    y = F.tanh(x) * 2
    y.forward()
    assert nn.memory_statistics()["caches"]["plans"] > 0
    nn.clear_memory_cache()
    # Code is no cache: what a plan holds stays with that.
    assert [name for name, count in cache_counts().items() if count and "code" not in name] == []
    y.forward()
    z = F.tanh(x) * 2
    z.forward()
    np.testing.assert_array_equal(y.d, z.d)


def test_rings_that_grow_keep_within_the_limit_together():
    nn.clear_memory_cache()
    rings = [spares_of(NdArray, (1 << 16) - number, np.dtype(np.float32)) for number in range(6)]
    held = [ring.new() for ring in rings for _ in range(40)]
    assert len({id(each) for each in held}) == 240  # 60 MiB, of which each ring would keep 8
    assert 0 < sum(ring.count * ring.nbytes for ring in rings) <= (32 + 8) << 20
    nn.clear_memory_cache()


def test_arrays_of_256_kib_come_round_and_larger_ones_do_not():
    nn.clear_memory_cache()
    for size, count in ((1 << 16, 1), ((1 << 16) + 1, 0)):
        spares = spares_of(NdArray, size, np.dtype(np.float32))
        for _ in range(3):
            spares.get()
        assert (spares.count, spares.is_kept) == (count, count > 0)
    nn.clear_memory_cache()


def test_spare_arrays_keep_within_the_limit():
    dtype = np.dtype(np.float32)
    rings = []
    try:
        set_spares_limit(100_000)
        for number in range(400):
            rings.append(spares_of(NdArray, 3000 + number, dtype))
            for _ in range(10):
                rings[-1].new()
        assert 0 < sum(ring.count * ring.size * 4 for ring in rings) <= 100_000 + 64 * 100_000
        set_spares_limit(0)
        none = spares_of(NdArray, 2999, dtype)
        none.new()
        assert none.count == 0
    finally:
        set_spares_limit(1 << 30)
        nn.clear_memory_cache()
