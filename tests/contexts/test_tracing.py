"""Trace: what is collected, by whom, and how it reads."""

import json
import threading

import pytest

from atled_contexts import Trace, active_trace, trace, tracing


def test_a_trace_is_active_in_its_block_only():
    assert active_trace() is None
    with pytest.raises(KeyError), trace() as t:
        assert active_trace() is t
        raise KeyError
    assert active_trace() is None


def test_rows_add_up_per_op_and_backend_and_the_longest_comes_first():
    with trace() as t:
        t.record("Affine", "cpu", "tiled", 0.25, calls=2)
        t.record("Convolution", "cpu", "direct", 1.0, bytes_moved=64)
        t.record("Affine", "reference", "NumPy", 0.5, fallback=True, calls=3)
        t.record("Affine", "cpu", "", 0.25)
    rows = [(row.op, row.backend, row.note, row.calls, row.seconds, row.fallbacks, row.bytes_moved) for row in t.rows()]
    assert rows == [
        ("Convolution", "cpu", "direct", 1, 1.0, 0, 64),
        ("Affine", "cpu", "tiled", 3, 0.5, 0, 0),
        ("Affine", "reference", "NumPy", 3, 0.5, 3, 0),
    ]


def test_json_holds_rows_transfers_and_totals():
    with trace() as t:
        t.record("Affine", "cpu", "tiled", 0.5, fallback=True, bytes_moved=10)
        t.transfer("CpuArray", "sim:0", 100)
        t.transfer("CpuArray", "sim:0", 50)
    found = json.loads(json.dumps(t.to_json()))
    assert found["rows"][0]["op"] == "Affine" and found["rows"][0]["fallbacks"] == 1
    assert found["transfers"] == [{"count": 2, "destination": "sim:0", "nbytes": 150, "source": "CpuArray"}]
    assert (found["calls"], found["seconds"], found["fallbacks"], found["bytes_moved"]) == (1, 0.5, 1, 10)


def test_an_outer_trace_gets_all_of_an_inner_one():
    with trace() as outer:
        outer.record("A", "cpu", "", 1.0)
        with trace() as inner:
            active_trace().record("A", "cpu", "", 2.0, fallback=True)
            active_trace().transfer("x", "y", 5)
        assert active_trace() is outer
    assert [(row.calls, row.seconds) for row in inner.rows()] == [(1, 2.0)]
    assert [(row.calls, row.seconds, row.fallbacks) for row in outer.rows()] == [(2, 3.0, 1)]
    assert [(row.count, row.nbytes) for row in outer.transfers()] == [(1, 5)]


def test_the_table_is_aligned_and_within_80_columns():
    with trace() as t:
        t.record("Convolution", "cpu", "direct", 0.0123, calls=12)
        t.record("AVeryLongNameOfAnOpWithoutAnyEnd" * 2, "a_backend_with_a_long_name", "", 2e-6, fallback=True)
        t.record("Affine", "cpu", "", 3e-7, calls=10**9, bytes_moved=3 * 2**20)
        t.transfer("CpuCachedArray", "SimArray", 4096)
    lines = str(t).splitlines()
    assert max(map(len, lines)) <= 80
    assert len({len(line) for line in lines[:-1]}) == 1
    assert lines[0].split() == ["op", "backend", "calls", "time", "share", "fallbacks", "moved"]
    assert lines[1].split() == ["Convolution", "cpu", "12", "12.3", "ms", "100%", "-", "-"]
    assert lines[3].split() == ["Affine", "cpu", "1000000k", "300", "ns", "0%", "-", "3", "MiB"]
    assert lines[4].split()[0] == "total"
    assert lines[5] == "moved CpuCachedArray -> SimArray: 1 x, 4 KiB"


def test_an_empty_trace_reads_well():
    with trace() as t:
        pass
    assert t.rows() == () and len(str(t).splitlines()) == 2


def test_threads_record_into_one_trace():
    with trace() as t:
        threads = [
            threading.Thread(target=lambda: [t.record("A", "cpu", "", 0.5) for _ in range(500)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [(row.calls, row.seconds) for row in t.rows()] == [(2000, 1000.0)]


def test_events_keep_order_times_and_thread():
    with trace() as t:
        t.record("Affine", "cpu", "tiled", 0.5, start=t.start + 1.0, bytes_moved=8, fallback=True)
        t.transfer("host", "sim:0", 64)
    affine, copied = t.events()
    assert (affine.name, affine.where, affine.note, affine.start, affine.seconds) == (
        "Affine",
        "cpu",
        "tiled",
        t.start + 1.0,
        0.5,
    )
    assert affine.thread == (threading.get_ident(), threading.current_thread().name)
    assert (copied.name, copied.where, copied.bytes_moved, copied.seconds) == ("copy", "host -> sim:0", 64, 0.0)


def test_events_beyond_the_limit_are_counted_and_stay_in_the_rows(monkeypatch):
    monkeypatch.setattr(tracing, "EVENT_LIMIT", 3)
    with trace() as outer:
        for _ in range(2):
            with trace() as inner:
                for _ in range(4):
                    inner.record("A", "cpu", "", 0.1)
    assert (len(inner.events()), inner.dropped) == (3, 1)
    assert (len(outer.events()), outer.dropped) == (3, 3 + 2)
    assert outer.rows()[0].calls == 8


def test_a_chrome_trace_has_one_complete_event_per_execution_and_a_track_per_thread(tmp_path):
    with trace() as t:
        t.record("Affine", "cpu", "tiled", 0.25, start=t.start + 0.5)
        thread = threading.Thread(target=lambda: t.record("ReLU", "sim", "", 0.125, fallback=True), name="worker")
        thread.start()
        thread.join()
        t.transfer("host", "sim:0", 64)
    path = tmp_path / "trace.json"
    t.save_chrome(path)
    assert [found.name for found in tmp_path.iterdir()] == ["trace.json"]
    found = json.loads(path.read_text())
    events = found["traceEvents"]
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {"atled", threading.current_thread().name, "worker"}
    affine, relu = (event for event in events if event["ph"] == "X")
    assert (affine["name"], affine["cat"], affine["ts"], affine["dur"]) == (
        "Affine",
        "cpu",
        pytest.approx(5e5),
        pytest.approx(2.5e5),
    )
    assert affine["args"]["implementation"] == "tiled" and relu["args"]["fallback"] is True
    assert affine["tid"] != relu["tid"] and affine["pid"] == relu["pid"]
    (copied,) = (event for event in events if event["ph"] == "i")
    assert copied["args"] == {"where": "host -> sim:0", "implementation": "", "fallback": False, "bytes_moved": 64}
    assert found["otherData"]["dropped_events"] == 0


def test_a_chrome_trace_that_cannot_be_written_leaves_nothing(tmp_path):
    with trace() as t:
        t.record("A", "cpu", "", 0.1)
    with pytest.raises(OSError, match="absent"):
        t.save_chrome(tmp_path / "absent" / "trace.json")
    assert list(tmp_path.iterdir()) == []


def test_rows_say_which_clock_measured_them():
    with trace() as t:
        t.record("A", "cpu", "", 0.1)
        t.record("A", "gpu", "", 0.2, clock="device")
    assert {row.backend: row.clock for row in t.rows()} == {"cpu": "host", "gpu": "device"}


def test_every_implementation_of_a_row_is_counted_and_shown_if_wanted():
    with trace() as outer, trace() as t:
        t.record("Affine", "cpu", "kernel; direct, 8x48 tiles" + " and more" * 9, 0.25, calls=2)
        t.record("Affine", "cpu", "adopted reference", 0.5, calls=3)
    (row,) = t.rows()
    assert row.implementations["adopted reference"] == 3 and sum(row.implementations.values()) == row.calls == 5
    assert "adopted" not in str(t)
    lines = t.table(implementations=True).splitlines()
    assert lines[2] == "       3 x adopted reference"
    assert lines[3].startswith("       2 x kernel; direct") and max(map(len, lines)) <= 80
    assert outer.rows()[0].implementations == row.implementations


class Interrupted(str):
    """A note with which something else is computed when it is first looked at: as by a finalizer, or by a handler."""

    def __new__(cls, compute):
        made = super().__new__(cls, "note")
        made._waiting = [compute]
        return made

    def __bool__(self):
        if self._waiting:
            self._waiting.pop()()
        return True


def test_what_a_finalizer_computes_while_a_call_is_noted_is_noted_too():
    def record():
        collected.record("Outer", "cpu", Interrupted(lambda: collected.record("Inner", "cpu", "", 1.0)), 2.0)
        done.set()

    collected, done = Trace(), threading.Event()
    threading.Thread(target=record, daemon=True).start()
    assert done.wait(timeout=60)
    assert [(row.op, row.calls) for row in collected.rows()] == [("Outer", 1), ("Inner", 1)]


def test_a_trace_that_is_merged_into_itself_counts_twice():
    def merge():
        collected.merge(collected)
        done.set()

    collected, done = Trace(), threading.Event()
    collected.record("Tanh", "cpu", "", 1.0)
    collected.transfer("a", "b", 8)
    threading.Thread(target=merge, daemon=True).start()
    assert done.wait(timeout=60)
    assert [(row.op, row.calls) for row in collected.rows()] == [("Tanh", 2)]
    assert [(row.count, row.nbytes) for row in collected.transfers()] == [(2, 16)]
    assert len(collected.events()) == 4
