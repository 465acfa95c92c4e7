"""A selection of the tests for the loop of editing: `make quick`."""

from __future__ import annotations

from types import FunctionType

import pytest

CASES = 2  # of a parametrised test


def selected(items: list[pytest.Function]) -> list[pytest.Function]:
    """Of each test that is not slow the first case and the last one."""
    cases: dict[str, list[pytest.Function]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    chosen = []
    for of_one in cases.values():
        if not is_slow(of_one[0]):
            count = min(len(of_one), CASES)
            chosen += [of_one[i * (len(of_one) - 1) // max(1, count - 1)] for i in range(count)]
    return chosen


def is_slow(item: pytest.Function) -> bool:
    """Whether a test is marked so, or starts processes itself or by a function of its file."""
    if item.get_closest_marker("slow") is not None:
        return True
    function = item.function
    used = [function, *(function.__globals__.get(name) for name in function.__code__.co_names)]
    codes = [value.__code__ for value in used if isinstance(value, FunctionType)]
    return any("subprocess" in code.co_names for code in codes if code.co_filename == function.__code__.co_filename)
