"""What every run of the tests shares: how many processes there are, and what the garbage collector need not look at."""

from __future__ import annotations

import gc

import pytest

from atled_cpu_numba.threads import usable_processors


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Of `-n auto`: one for each processor; 0, which is none besides this one, where there is one only."""
    count = usable_processors()
    return count if count > 1 else 0


def pytest_collection_finish() -> None:
    """The tests themselves are some million objects, which each `gc.collect()` of a test would go through."""
    gc.collect()
    gc.freeze()
