"""Code for other processors passes tests, too: the short form of `make check-processors`."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import check_processors  # after the path is set
from check_processors import Outcome


@pytest.mark.slow
def test_code_for_older_processors_passes():
    outcomes = check_processors.short()
    assert {name: outcome.failures for name, outcome in outcomes.items()} == {name: [] for name in outcomes}
    assert all(outcome.passed for outcome in outcomes.values())


def test_the_page_tells_what_failed_and_what_was_not_run():
    passed = Outcome(20, 0, 3, 1.0, [])
    rows = {
        "haswell": {"kernels": passed, "accuracy": Outcome(9, 1, 0, 1.0, ["a.py::b"]), "conformance": passed},
        "znver4": "not run: this machine lacks sse4a",
    }
    text = check_processors.page(rows, 10)
    assert "every 10th test" in text
    assert "| `haswell` | 20 passed | 1 of 10 failed | 20 passed |" in text
    assert "| `znver4` | not run: this machine lacks sse4a |" in text
    assert "- `haswell`: `a.py::b`" in text


@pytest.mark.slow
def test_tests_that_end_otherwise_are_no_pass():
    with pytest.raises(RuntimeError, match="no_such_file"):
        check_processors.run("host", ["tests/no_such_file.py"])
