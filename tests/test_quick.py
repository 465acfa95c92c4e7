"""`make quick`: some cases of each test, the same always, and none that takes long."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

from quick import CASES, selected


def plain() -> None:
    pass


def in_a_process() -> None:
    _run_python()


def _run_python() -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)


def cases(function: Any, count: int, *marks: str) -> list[Any]:
    return [
        SimpleNamespace(
            nodeid=f"{function.__name__}[{number}]",
            function=function,
            get_closest_marker=lambda name: name if name in marks else None,
        )
        for number in range(count)
    ]


def chosen(items: list[Any]) -> list[str]:
    return [item.nodeid for item in selected(items)]


def test_of_many_cases_some_are_chosen_at_equal_distances():
    assert CASES == 2
    assert chosen(cases(plain, 101)) == ["plain[0]", "plain[100]"]
    assert chosen(cases(plain, 2)) == ["plain[0]", "plain[1]"]
    assert chosen(cases(plain, 1)) == ["plain[0]"]


def test_slow_tests_and_those_that_start_processes_are_left_out():
    assert chosen(cases(plain, 2, "slow")) == []
    assert chosen(cases(in_a_process, 2)) == []
    assert chosen(cases(_run_python, 1)) == []
    assert chosen(cases(plain, 1, "gpu")) == ["plain[0]"]
