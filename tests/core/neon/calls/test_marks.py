"""Blocks and times."""

import time

import pytest

from atled.neon.backends.backend import Block


def test_blocks_are_numbers_and_change_nothing(be):
    assert [Block.epoch, Block.minibatch, Block.fprop, Block.bprop, Block.update] == [0, 1, 2, 3, 4]
    assert be.begin(Block.epoch, 1) is None
    assert be.end(block=Block.epoch, identifier=1) is None


def test_times_are_milliseconds_of_the_clock(be):
    start, end = be.init_mark(), be.init_mark()
    before = time.perf_counter()
    be.record_mark(start)
    be.record_mark(end)
    be.synchronize_mark(end)
    assert 0 <= be.get_time(start, end) <= 1000 * (time.perf_counter() - before)


def test_on_a_device_the_work_in_front_of_a_mark_is_waited_for(be, monkeypatch):
    waited = []
    monkeypatch.setattr("atled.neon.calls.marks.synchronize", waited.append)
    be.record_mark(be.init_mark())
    assert waited == [be.context]


def test_a_mark_without_a_time_is_refused(cpu):
    start, end = cpu.init_mark(), cpu.init_mark()
    cpu.record_mark(start)
    with pytest.raises(ValueError, match="not recorded"):
        cpu.get_time(start, end)
    with pytest.raises(ValueError, match="not recorded"):
        cpu.synchronize_mark(end)
