"""What every run of the tests shares: how many processes there are, what they show, what the collector passes over."""

from __future__ import annotations

import gc

import hypothesis
import pytest

from atled_cpu_numba.threads import usable_processors

# An example that takes long on a busy machine is no failure.
hypothesis.settings.register_profile("atled", deadline=None)
hypothesis.settings.load_profile("atled")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Of `-n auto`: one for each processor; 0, which is none besides this one, where there is one only."""
    count = usable_processors()
    return count if count > 1 else 0


def pytest_collection_finish() -> None:
    """The tests themselves are some million objects, which each `gc.collect()` of a test would go through."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Fewer dots where there are several processes; with -v a line per test, as ever."""
    if getattr(config.option, "numprocesses", None) and config.get_verbosity() <= 0:
        config.pluginmanager.register(_Dots())


class _Dots:
    """One dot for a hundred tests that pass: each dot wakes whoever reads them, and nobody counts tens of thousands."""

    def __init__(self) -> None:
        self._passed = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Category, letter, word; None leaves it to others."""
        if report.when != "call" or not report.passed or hasattr(report, "wasxfail"):
            return None
        self._passed += 1
        if self._passed % 5000 == 0:
            return "passed", f". {self._passed}\n", ""
        return "passed", "" if self._passed % 100 else ".", ""
