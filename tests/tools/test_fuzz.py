"""Hostile calls and damaged files: a seeded round of both, and that the fuzzer counts what it says it does."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

if not sys.platform.startswith("linux"):
    pytest.skip("children are watched by /proc", allow_module_level=True)

from fuzzing import files, parent  # noqa: E402  # after the path is set

# What no library should be: each attempt ends in another way.
ODD = """
import os, time
from fuzzing.calls import Attempt

def after():
    pass

def refuse():
    raise ValueError("a call: it is wrong\\nWhat to do: mend it")

def foreign():
    raise OverflowError("int too large")

def crash():
    os.kill(os.getpid(), 11)

def hang():
    while True:
        pass

def fill():
    bytearray(1 << 34)

KINDS = [refuse, after, foreign, crash, hang, fill, lambda: os._exit(3)]

def draw(seed, number):
    return Attempt(f"attempt {number}", KINDS[number])
"""
OUTCOMES = ["refused", "right", "foreign", "crashing", "hanging", "foreign", "crashing"]


def tried(kind, numbers, limits=None):
    found = []
    parent.run(kind, 20261122, numbers, limits or parent.Limits(), lambda result: found.append(result) or True)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [("calls", 450), ("files", 250)])
def test_hostile_attempts_end_in_a_right_result_or_in_an_error_that_helps(kind, count):
    found = tried(kind, range(count))
    unclean = [result for result in found if result.outcome not in ("refused", "right")]
    assert not unclean, "\n".join(f"{r.outcome}: {r.number}: {r.text}\n    {r.detail}" for r in unclean)
    counts = Counter(result.outcome for result in found)
    assert len(found) == count
    assert min(counts["refused"], counts["right"]) > count / 10


@pytest.mark.slow
def test_each_way_to_end_is_counted_and_the_others_go_on(tmp_path, monkeypatch):
    (tmp_path / "odd_attempts.py").write_text(ODD, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = tried("odd_attempts", range(len(OUTCOMES)), parent.Limits(time_s=1))
    assert [(result.number, result.outcome) for result in found] == list(enumerate(OUTCOMES))
    assert "in hang" in found[4].detail
    assert "SIGSEGV" in found[3].detail


def test_equal_seeds_draw_equal_attempts():
    texts = [files.draw(7, number).text for number in range(20)]
    assert texts == [files.draw(7, number).text for number in range(20)]
    assert texts != [files.draw(8, number).text for number in range(20)]


def test_whole_files_are_read():
    files.whole_files_load()


@pytest.mark.slow
def test_the_command_reports_counts_and_says_by_its_exit_status_whether_all_was_clean():
    command = [sys.executable, ROOT / "tools" / "fuzz.py", "--only", "calls", "--count", "3", "--jobs", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert sum(report["counts"]["calls"].values()) == 3
    assert done.returncode == bool(report["unclean"])
