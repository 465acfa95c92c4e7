"""What all runs of the tests share: --quick, --draw, how many processes, what they show, what is not garbage."""

from __future__ import annotations

import gc
import zlib
from collections.abc import Iterator

import hypothesis
import numpy as np
import pytest

from atled_cpu_numba.threads import usable_processors


def pytest_addoption(parser: pytest.Parser) -> None:
    """The loop of editing has no minutes."""
    parser.addoption(
        "--quick",
        action="store_true",
        help="no slow tests, none that start processes, and of each parametrised one the first and the last case",
    )
    parser.addoption(
        "--draw",
        type=int,
        default=0,
        metavar="NUMBER",
        help="other initial parameters for all tests that do not say which; a bound that fails under one is too narrow",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under `--quick`, leave out what `make test` runs besides."""
    if config.getoption("--quick", False):  # there is none where pytest was started in another folder
        from quick import selected

        chosen = {id(item) for item in selected(items)}
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in chosen])
        items[:] = [item for item in items if id(item) in chosen]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test draws without a seed is the same in each run, alone or among others: a failure can be had again."""
    np.random.seed(zlib.crc32(f"{item.config.getoption('--draw', 0)} {item.nodeid}".encode()))


@pytest.fixture(autouse=True, scope="session")
def whole_plans() -> Iterator[None]:
    """Plans are whole at their first run, too: whether they would be in parts depends on what the store has."""
    from atled.graph.compile import plans  # here: some tests look at what `import atled` imports

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "MAY_BE_IN_PARTS", False)
        yield


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
    """One dot for a hundred tests without a fault: each wakes whoever reads them, and nobody counts thousands."""

    def __init__(self) -> None:
        self._count = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Category, letter, word; None leaves it to others."""
        has_passed = report.when == "call" and report.passed
        if not (has_passed or report.skipped) or hasattr(report, "wasxfail"):
            return None
        self._count += 1
        letter = "" if self._count % 100 else "." if self._count % 5000 else f". {self._count}\n"
        return ("passed", letter, "") if has_passed else ("skipped", letter, "SKIPPED")
