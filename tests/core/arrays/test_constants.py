"""What was computed from arrays, kept while nobody writes them."""

from __future__ import annotations

import gc
import logging
import threading

import numpy as np
import pytest

import atled as nn
from atled.arrays.cell import ArrayCell
from atled.arrays.constants import Constant, ConstantStore
from atled.arrays.epoch import WRITES
from atled.logger import logger


@pytest.fixture
def store():
    yield ConstantStore(limit_bytes=1000)
    _ALIVE.clear()


_ALIVE = []


def array(value=1.0):
    """One that lives as long as its test."""
    _ALIVE.append(nn.NdArray.from_numpy_array(np.full(4, value, np.float32)))
    return _ALIVE[-1]


def made(store, constant, nbytes=100, before=0):
    """Whether it is kept now, after a run that wanted it."""
    now = next(WRITES)
    return store.make(constant, nbytes, lambda storage: None, now, before or now) is not None


def is_kept(constant):
    return constant.get(next(WRITES)) is not None


def test_one_form_of_an_array_is_one_constant_while_somebody_wants_it(store):
    cell = array().cell
    first = store.find("form", (cell,))
    assert store.find("form", (cell,)) is first
    assert store.find("another form", (cell,)) is not first
    assert store.find("form", (array().cell,)) is not first


def test_it_is_due_when_its_array_was_the_same_at_two_looks(store):
    constant = store.find("form", (array().cell,))
    assert not constant.is_due(next(WRITES))
    assert constant.is_due(next(WRITES))


def test_a_write_makes_it_stale(store):
    values = array()
    constant = store.find("form", (values.cell,))
    assert made(store, constant) and is_kept(constant)
    values.data = 2.0
    assert not is_kept(constant)


def test_a_view_that_may_be_written_through_makes_it_stale_for_as_long_as_it_lives(store):
    values = array()
    constant = store.find("form", (values.cell,))
    view = values.data
    assert not made(store, constant)
    del view
    assert made(store, constant) and is_kept(constant)


def test_what_is_written_while_it_is_made_is_not_kept(store):
    values = array()
    constant = store.find("form", (values.cell,))
    now = next(WRITES)
    assert store.make(constant, 100, lambda storage: values.fill(2), now, now) is None
    assert not is_kept(constant)


def test_patience_grows_with_what_was_made_in_vain_and_is_back_when_it_pays():
    values = array()
    constant = Constant((values.cell,))

    def looks_until_due():
        count = 1
        while not constant.is_due(next(WRITES)):
            count += 1
        constant.keep(None, next(WRITES))
        return count

    found = []
    for _ in range(9):
        values.data = 2.0
        found.append(looks_until_due())
    assert found[:4] == [2, 3, 5, 9] and max(found) == found[-1] == 65
    for _ in range(4):
        constant.get(next(WRITES))
    values.data = 2.0
    assert looks_until_due() == 2


def test_those_used_longest_ago_make_room(store):
    constants = [store.find(number, (array().cell,)) for number in range(4)]
    for constant in constants[:3]:
        assert made(store, constant, 300)
    assert is_kept(constants[0])
    assert made(store, constants[3], 300)
    assert [is_kept(constant) for constant in constants] == [True, False, True, True]
    assert store.kept_bytes() == 900


def test_a_plan_drops_nothing_that_it_used_itself_since_its_last_run_and_says_so_once(store, caplog, monkeypatch):
    monkeypatch.setattr(logger, "propagate", True)
    mine = [store.find(number, (array().cell,)) for number in range(3)]
    before = next(WRITES)
    with caplog.at_level(logging.WARNING, logger=logger.name):
        assert [made(store, constant, 400, before) for constant in mine] == [True, True, False]
        assert not made(store, store.find("large", (array().cell,)), 1001)
    assert len(caplog.records) == 1
    assert "do not fit" in caplog.text and "set_constants_limit" in caplog.text
    assert not any(mine[2].is_due(next(WRITES)) for _ in range(60))


def test_a_smaller_limit_drops_at_once(store):
    constants = [store.find(number, (array().cell,)) for number in range(3)]
    assert all(made(store, constant, 300) for constant in constants)
    store.set_limit(400)
    assert [is_kept(constant) for constant in constants] == [False, False, True]
    store.clear()
    assert store.kept_bytes() == 0


def test_it_goes_with_the_last_plan_that_wants_it(store):
    constant = store.find("form", (array().cell,))
    assert made(store, constant)
    del constant
    gc.collect()
    assert store.kept_bytes() == 0


def test_it_goes_with_its_array(store):
    values = nn.NdArray.from_numpy_array(np.ones(4, np.float32))
    constant = store.find("form", (values.cell,))
    assert made(store, constant)
    del values
    assert constant.kept is None and not is_kept(constant)


def test_threads_that_want_one_at_a_time_make_it_once(store):
    constant = store.find("form", (array().cell,))
    counted, start = [], threading.Barrier(4)

    def want():
        start.wait()
        store.make(constant, 100, counted.append, next(WRITES), next(WRITES))

    threads = [threading.Thread(target=want) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counted) == 1


def test_an_array_that_is_being_written_counts_as_changed():
    cell = ArrayCell(1)
    number = next(WRITES)
    cell.settle()
    cell.writer = threading.get_ident()
    assert not cell.is_unchanged_since(next(WRITES))
    cell.writer = 0
    assert cell.is_unchanged_since(next(WRITES)) and not cell.is_unchanged_since(number)


def test_the_statistics_of_memory_count_them():
    counted = nn.memory_statistics()["caches"]
    assert {"constants", "bytes of constants"} <= set(counted)


@pytest.mark.parametrize("wrong, kind", [("1", TypeError), (-1, ValueError)])
def test_a_limit_is_a_count_of_bytes(wrong, kind):
    with pytest.raises(kind, match="set_constants_limit"):
        nn.set_constants_limit(wrong)
