"""Trace: what is collected, by whom, and how it reads."""

import json
import threading

import pytest

from atled_contexts import active_trace, trace


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
