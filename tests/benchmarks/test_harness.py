"""The harness of the benchmarks: processes, rounds, comparison, report."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from harness import chart, command, report
from harness.case import Row
from harness.environment import process_environment
from harness.process import LibraryError, LibraryProcess
from harness.rounds import Comparison, Outcome, difference_of, measure_row
from harness.worker import measure

HERE = str(Path(__file__).parent)


@pytest.fixture
def processes():
    environment = {**os.environ, "PYTHONPATH": HERE}
    with LibraryProcess(sys.executable, environment) as ours, LibraryProcess(sys.executable, environment) as peer:
        yield {"ours": ours, "peer": peer}


def row(function: str, **values) -> Row:
    return Row("toy", f"toy_cases:{function}", ("ours", "peer"), **values)


def test_every_library_is_timed_in_every_round_and_compared(processes):
    outcome = measure_row(row("make", per=10), processes, {}, rounds=3, seconds=0.002)
    assert {library: len(times) for library, times in outcome.seconds.items()} == {"ours": 3, "peer": 3}
    assert outcome.notes == {"ours": "by ours", "peer": "by peer"}
    found = outcome.comparisons["peer"]
    assert found.difference == 0 and found.agrees
    assert found.lowest <= found.ratio <= found.highest
    assert 0 < outcome.median("ours") < 1e-4


@pytest.mark.parametrize(
    ("function", "reason"), [("fail", "RuntimeError: no such kernel"), ("die", "its process ended with status 3")]
)
def test_a_peer_that_fails_is_named_and_leaves_the_others(processes, function, reason):
    outcome = measure_row(row(function), processes, {}, rounds=2, seconds=0.002)
    assert outcome.failures == {"peer": reason}
    assert len(outcome.seconds["ours"]) == 2 and not outcome.comparisons
    assert any(reason in cell for line in report.table_lines([outcome]) for cell in line)


def test_a_missing_peer_is_named(processes):
    outcome = measure_row(row("make"), {"ours": processes["ours"]}, {"peer": "no Python 3.10"}, 1, 0.002)
    assert outcome.failures == {"peer": "no Python 3.10"}


def test_an_unknown_request_is_an_error_and_the_process_lives_on(processes):
    with pytest.raises(LibraryError, match="unknown request") as caught:
        processes["ours"].ask("jump")
    assert caught.value.summary.startswith("ValueError")
    assert processes["ours"].ask("drop") == {}


def test_a_slow_run_is_not_repeated():
    calls = []

    def run() -> None:
        calls.append(sum(range(200_000)))

    assert measure(run, seconds=1e-6) > 1e-6
    assert len(calls) == 1


def array(*values: float, shape: list[int] | None = None) -> dict:
    return {"shape": shape or [len(values)], "elements": list(values)}


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([], [], None),
        ([array(1, 2)], [array(1, 4)], 0.5),
        ([array(1, math.nan)], [array(1, math.nan)], 0),
        ([array(1, 2)], [array(1, math.nan)], math.inf),
        ([array(1, 2)], [array(1, 2, shape=[2, 1])], math.inf),
        ([array(1)], [], math.inf),
        ([array(shape=[0])], [array(shape=[0])], 0),
    ],
)
def test_difference_is_relative_to_the_largest_element(ours, theirs, expected):
    assert difference_of(ours, theirs) == expected


def test_environment_is_the_same_for_all_but_for_our_module_path(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    ours, peer = (process_environment(2, ours=flag) for flag in (True, False))
    assert ours.pop("PYTHONPATH") == "somewhere"
    assert ours == peer
    assert "OPENBLAS_CORETYPE" not in ours and "PYTHONDONTWRITEBYTECODE" not in ours
    assert ours["OMP_NUM_THREADS"] == ours["ATLED_NUM_THREADS"] == "2"


def outcome(ratio: float, agrees: bool = True) -> Outcome:
    comparison = Comparison(ratio, ratio / 2, ratio * 2, 1e-6, agrees)
    return Outcome(
        row("make", unit="us", of="op"),
        {"ours": [2e-6 * ratio], "peer": [2e-6]},
        {"ours": "kernel"},
        comparisons={"peer": comparison},
    )


def test_the_table_says_times_ratio_range_and_agreement():
    assert report.table_lines([outcome(0.5)]) == [
        ("toy", "us/op", "1", "peer", "2", "0.5", "0.25-1", "equal to 1e-06", "kernel")
    ]
    assert report.table_lines([outcome(0.5, agrees=False)])[0][7] == "DIFFER by 1e-06"


def test_the_plain_table_is_aligned(capsys, monkeypatch):
    monkeypatch.setattr(report.importlib.util, "find_spec", lambda name: None)
    report.print_table([outcome(0.5)], "title")
    title, head, line = capsys.readouterr().out.splitlines()
    assert title == "title" and head.index("peer") == line.index("peer")


def test_rows_that_a_peer_won_in_every_round_are_listed():
    assert report.lost_rows([outcome(0.5), outcome(1.5), outcome(4.0)]) == ["toy: 4 x peer"]


def test_the_json_file_holds_seconds_and_ratios(tmp_path):
    content = report.as_json("bench", [outcome(0.5)], {"cores": [1]})
    report.write_json(tmp_path / "new" / "bench.json", content)
    read = json.loads((tmp_path / "new" / "bench.json").read_text())
    assert read["cores"] == [1] and read["rows"][0]["seconds"] == {"ours": 1e-6, "peer": 2e-6}
    assert read["rows"][0]["ratios"]["peer"]["ratio"] == 0.5
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["bench.json"]


def test_the_chart_is_written(tmp_path):
    pytest.importorskip("matplotlib")
    chart.draw_chart(tmp_path / "bench.png", [outcome(0.5), outcome(2.0)], "title")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_an_unknown_row_is_refused_with_near_names():
    with pytest.raises(SystemExit, match="Near: toy"):
        command.run_benchmark("bench", [row("make")], "", ["--rows", "toi"])


def test_the_rows_of_the_foundation_have_cases_and_distinct_names():
    import foundation

    names = [each.name for each in foundation.ROWS]
    assert len(set(names)) == len(names)
    assert all(each.case.partition(":")[2] and each.libraries[0] == "atled" for each in foundation.ROWS)


def test_places_of_pooling_lie_in_their_windows():
    from foundation_rows.kernels import _window_places

    places = _window_places(2, 3, 4, 6)(np.random.default_rng(0))
    assert (places.shape, places.dtype) == ((2, 3, 4, 6), np.uint8)
    assert set(places.ravel().tolist()) == {0, 1, 2, 3}
