"""The harness of the benchmarks: processes, rounds, comparison, report."""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from harness import chart, command, report, rounds, worker
from harness.case import Goal, Row
from harness.environment import process_environment
from harness.neighbour import Neighbour
from harness.process import LibraryError, LibraryProcess
from harness.rounds import Comparison, Effort, Outcome, difference_of, measure_row
from harness.worker import measure

HERE = str(Path(__file__).parent)
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def processes():
    environment = {**os.environ, "PYTHONPATH": HERE}
    with LibraryProcess(sys.executable, environment) as ours, LibraryProcess(sys.executable, environment) as peer:
        yield {"ours": ours, "peer": peer}


def row(function: str, **values) -> Row:
    return Row("toy", f"toy_cases:{function}", ("ours", "peer"), **values)


@pytest.mark.slow
def test_every_library_is_timed_in_every_round_and_compared(processes):
    outcome = measure_row(row("make", per=10), processes, {}, Effort(3, 0.002))
    assert {library: len(times) for library, times in outcome.figures.items()} == {"ours": 3, "peer": 3}
    assert outcome.notes == {"ours": "by ours", "peer": "by peer"}
    found = outcome.comparisons["peer"]
    assert found.difference == 0 and found.agrees
    assert found.lowest <= found.ratio <= found.highest
    assert 0 < outcome.median("ours") < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "reason"), [("fail", "RuntimeError: no such kernel"), ("die", "its process ended with status 3")]
)
def test_a_peer_that_fails_is_named_and_leaves_the_others(processes, function, reason):
    outcome = measure_row(row(function), processes, {}, Effort(2, 0.002))
    assert outcome.failures == {"peer": reason}
    assert len(outcome.figures["ours"]) == 2 and not outcome.comparisons
    assert report.failures_of([outcome]) == [f"peer failed: {reason} (toy)"]
    assert report.table_of([outcome])[1][3] == "failed"


@pytest.mark.slow
def test_a_library_whose_process_died_comes_back_for_the_next_row(processes):
    measure_row(row("die"), processes, {}, Effort(1, 0.002))
    outcome = measure_row(row("make"), processes, {}, Effort(1, 0.002))
    assert not outcome.failures and "peer" in outcome.comparisons


@pytest.mark.slow
def test_between_requests_a_library_is_stopped(processes):
    for _ in range(2):
        measure_row(row("make"), processes, {}, Effort(1, 0.002))
        for process in processes.values():
            found = os.waitid(os.P_PID, process._process.pid, os.WSTOPPED | os.WNOWAIT)
            assert found is not None and found.si_status == signal.SIGSTOP


@pytest.mark.slow
def test_a_library_ends_with_a_benchmark_that_is_killed():
    program = """
import os, sys
from harness.process import LibraryProcess
process = LibraryProcess(sys.executable, os.environ)
process.make(60, case="toy_cases:make", library="ours", arguments={})
print(process._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([HERE, str(BENCHMARKS)])}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    worker = int(done.stdout)
    assert done.returncode == -signal.SIGKILL
    end = time.monotonic() + 60
    while os.path.exists(f"/proc/{worker}") and time.monotonic() < end:
        state = Path(f"/proc/{worker}/stat").read_text().rsplit(")", 1)[1].split()[0]
        if state == "Z":  # ended; whoever adopted it has not asked yet
            return
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{worker}")


@pytest.mark.slow
def test_making_a_case_has_a_limit(processes):
    measure_row(row("make"), processes, {}, Effort(1, 0.002))  # the processes are up
    outcome = measure_row(row("linger"), processes, {}, Effort(1, 0.002, make_s=1))
    assert outcome.failures == {"peer": "make: no answer within 1 s"}


@pytest.mark.slow
def test_a_row_ends_when_its_time_is_used_up(processes):
    outcome = measure_row(row("reading"), processes, {}, Effort(1000, 0.002, row_s=0.05))
    assert 1 <= len(outcome.figures["ours"]) < 1000


@pytest.mark.slow
def test_a_reading_is_taken_as_it_is_once_a_round(processes):
    outcome = measure_row(row("reading"), processes, {}, Effort(3, 0.002))
    assert outcome.figures == {"ours": [1e6, 2e6, 3e6], "peer": [2e6, 4e6, 6e6]}
    assert outcome.comparisons["peer"].ratio == 0.5


@pytest.mark.slow
def test_short_runs_take_turns_within_a_round_and_a_ratio_is_of_one_turn(monkeypatch):
    """A machine that is twice as slow in every second turn of all libraries leaves the ratio as it is."""
    asked: list[str] = []
    figures = {"ours": itertools.cycle([1.0, 2.0, 1.0]), "peer": itertools.cycle([4.0, 8.0, 4.0])}

    def process(library: str) -> SimpleNamespace:
        def ask(do: str, **request) -> dict:
            if do == "measure":
                assert request["seconds"] == pytest.approx(0.2 / 8)
                asked.append(library)
            return {"figure": next(figures[library])} if do == "measure" else {}

        return SimpleNamespace(ask=ask, make=lambda *_, **__: {"results": [], "note": "", "run_s": 1e-6})

    outcome = measure_row(row("make"), {name: process(name) for name in figures}, {}, Effort(2, 0.2))
    assert asked == [*("ours", "peer", "peer", "ours") * 8]
    assert outcome.figures == {"ours": [1.0, 1.0], "peer": [4.0, 4.0]}
    assert outcome.ratios == {"peer": [0.25, 0.25]}
    assert outcome.comparisons["peer"] == Comparison(0.25, 0.25, 0.25, None, True)


@pytest.mark.parametrize(
    ("runs", "seconds", "turns"),
    [([1e-6, 1e-3], 0.2, 8), ([0.01, 0.02], 0.2, 3), ([1e-6, 0.1], 0.2, 1), ([1e-6], 0.01, 1), ([None, 1e-6], 0.2, 1)],
)
def test_a_turn_holds_some_runs_of_the_slowest_library(runs, seconds, turns):
    assert rounds._turns_of(runs, Effort(3, seconds)) == turns


@pytest.mark.slow
def test_a_case_is_warmed_up_before_it_is_timed(processes):
    outcome = measure_row(row("slow_at_first"), processes, {}, Effort(1, 0.002))
    assert outcome.median("ours") < 0.3


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be bound to cores here")
def test_every_round_is_timed_again_with_a_busy_neighbour(processes):
    with Neighbour(sorted(os.sched_getaffinity(0))) as neighbour:
        outcome = measure_row(row("make"), processes, {}, Effort(2, 0.002, neighbour=neighbour))
    assert {library: len(times) for library, times in outcome.busy.items()} == {"ours": 2, "peer": 2}
    heading, line = report.neighbour_table_of([outcome])
    assert heading == ("row", "ours", "peer", "range", "goal", "reached")
    assert float(line[1]) > 0 and line[4] == "2.5"
    assert "seconds_by_round_with_neighbour" in report.as_json("bench", [outcome], {})["rows"][0]


@pytest.mark.slow
def test_a_missing_peer_is_named(processes):
    outcome = measure_row(row("make"), {"ours": processes["ours"]}, {"peer": "no Python 3.10"}, Effort(1, 0.002))
    assert outcome.failures == {"peer": "no Python 3.10"}


@pytest.mark.slow
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


@pytest.mark.parametrize(("mean", "expected"), [(False, 0.001), (True, 0.0109)])
def test_the_median_leaves_out_a_rare_pause_and_the_mean_does_not(monkeypatch, mean, expected):
    now = 0.0
    pauses = itertools.cycle([*[0.001] * 9, 0.1])

    def run() -> None:
        nonlocal now
        now += next(pauses)

    monkeypatch.setattr(worker, "time", SimpleNamespace(perf_counter=lambda: now))
    assert measure(run, 20, mean=mean) == pytest.approx(expected, rel=0.02)


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


def test_malloc_is_tuned_or_left_alone(monkeypatch):
    monkeypatch.setenv("MALLOC_TOP_PAD_", "17")
    tuned, default = (process_environment(1, ours=True, malloc=malloc) for malloc in ("tuned", "default"))
    assert int(tuned["MALLOC_MMAP_THRESHOLD_"]) > 1 << 30
    assert not [name for name in default if name.startswith("MALLOC_")]


def outcome(ratio: float, agrees: bool = True, goal: Goal | None = None, other: float | None = None) -> Outcome:
    """We take `ratio` times the 2 us of "peer"; "other" is there if our ratio to it is given."""
    ratios = {"peer": ratio, **({} if other is None else {"other": other})}
    ours = 2e-6 * ratio
    return Outcome(
        Row("toy", "toy_cases:make", ("ours", *ratios), unit="us", of="op", goal=goal),
        {"ours": [ours], **{peer: [ours / value] for peer, value in ratios.items()}},
        notes={"ours": "kernel"},
        comparisons={peer: Comparison(value, value / 2, value * 2, 1e-6, agrees) for peer, value in ratios.items()},
    )


def test_the_table_says_times_best_peer_ratio_range_and_agreement():
    heading = ("row", "unit", "ours", "peer", "best peer", "ratio", "range", "results", "how")
    line = ("toy", "us/op", "1", "2", "peer", "0.5", "0.25-1", "equal to 1e-06", "kernel")
    assert report.table_of([outcome(0.5)]) == [heading, line]
    assert report.table_of([outcome(0.5, agrees=False)])[1][7] == "DIFFER: peer by 1e-06"


def test_the_best_peer_is_the_quickest_one():
    found = outcome(0.5, other=0.8)
    assert found.best_peer() == "other" and found.best_peer(["peer"]) == "peer" and found.best_peer(["none"]) is None


@pytest.mark.parametrize(
    ("goal", "cells"),
    [
        (Goal(0.6, ["peer"]), ("0.6 x peer (0.5)", "yes")),
        (Goal(0.4, ["peer"]), ("0.4 x peer (0.5)", "NO")),
        (Goal(0.6, ["other"]), ("0.6 x other", "NO")),
        (Goal(0.6, ["peer", "other"]), ("0.6 x peer or other", "NO")),
    ],
)
def test_a_goal_is_judged_by_the_quickest_peer_that_it_names(goal, cells):
    heading, line = report.table_of([outcome(0.5, goal=goal, other=0.8)])
    assert (line[heading.index("goal")], line[heading.index("reached")]) == cells
    written = report.as_json("bench", [outcome(0.5, goal=goal, other=0.8)], {})["rows"][0]
    assert written["best_peer"] == "other" and written["goal_reached"] is (cells[1] == "yes")


def test_a_goal_without_its_peer_is_not_judged():
    heading, line = report.table_of([outcome(0.5, goal=Goal(0.6, ["missing"]))])
    assert line[heading.index("goal")] == "0.6 x missing" and "reached" not in heading


def test_memory_is_shown_in_megabytes():
    found = Outcome(Row("memory", "m:f", ("ours",), unit="MB"), {"ours": [25e6]})
    assert report.table_of([found])[1][:3] == ("memory", "MB", "25")
    assert report.as_json("bench", [found], {})["rows"][0]["bytes"] == {"ours": 25e6}


def test_the_plain_table_is_aligned(capsys, monkeypatch):
    monkeypatch.setattr(report.importlib.util, "find_spec", lambda name: None)
    report.print_table(report.table_of([outcome(0.5)]), "title")
    title, head, line = capsys.readouterr().out.splitlines()
    assert title == "title" and head.index("best peer") == line.index("peer")


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
    outcomes = [outcome(0.5), outcome(2.0, goal=Goal(0.5, ["peer"]), other=0.3)]
    chart.draw_chart(tmp_path / "bench.png", outcomes, "title")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_an_unknown_row_is_refused_with_near_names():
    with pytest.raises(SystemExit, match="Near: toy"):
        command.run_benchmark("bench", [row("make")], "", ["--rows", "toi"])


def test_an_unknown_peer_is_refused_with_the_known_ones():
    with pytest.raises(SystemExit, match="compared with peer: name"):
        command.run_benchmark("bench", [row("make")], "", ["--peers", "pear"])


def test_the_chart_with_a_neighbour_is_written_without_rows_that_have_no_such_times(tmp_path):
    pytest.importorskip("matplotlib")
    timed = Outcome(row("make"), {"ours": [1.0], "peer": [2.0]}, busy={"ours": [2.0], "peer": [5.0]})
    chart.draw_neighbour_chart(tmp_path / "bench.png", [timed, Outcome(row("make"))], "title", 2.5)
    assert (tmp_path / "bench.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "stem"),
    [
        ([], "bench"),
        (["--cores", "2", "--neighbour"], "bench-2cores-neighbour"),
        (["--neighbour"], "bench-neighbour"),
        (["--cores", "2", "--neighbour", "one"], "bench-2cores-neighbour-on-one"),
        (["--malloc", "default"], "bench-default-malloc"),
        (["--malloc", "default", "--rows", "toy"], "bench-default-malloc-selection"),
        (["--peers"], "bench-selection"),
    ],
)
def test_what_is_measured_in_another_way_goes_to_files_of_its_own(arguments, stem):
    assert command._stem("bench", command._parse("", arguments)) == stem


def test_no_peers_leave_our_own_figures():
    assert [each.libraries for each in command._choose_peers([row("make")], [])] == [("ours",)]


def test_places_of_pooling_lie_in_their_windows():
    from bench_rows.kernels import _window_places

    places = _window_places(2, 3, 4, 6)(np.random.default_rng(0))
    assert (places.shape, places.dtype) == ((2, 3, 4, 6), np.uint8)
    assert set(places.ravel().tolist()) == {0, 1, 2, 3}
