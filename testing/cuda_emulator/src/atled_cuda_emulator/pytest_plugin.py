"""For pytest, by `-p atled_cuda_emulator.pytest_plugin`: the stand-in, in a process where no GPU can be used."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import atled_cuda_emulator
from atled_cuda_emulator import launching
from atled_cuda_emulator.compiling import Text


def _has_gpu() -> bool:
    """Whether CuPy is installed and the driver finds a device; CuPy is not imported for that."""
    if importlib.util.find_spec("cupy") is None or os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    try:
        driver = ctypes.CDLL("libcuda.so.1" if sys.platform != "win32" else "nvcuda.dll")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


_missing: str | None = None
if not atled_cuda_emulator.installed() and not _has_gpu():
    _missing = atled_cuda_emulator.unusable()
    if _missing is None:
        atled_cuda_emulator.install()


def pytest_addoption(parser: pytest.Parser) -> None:
    """How kernels run on the emulator, and what is counted; on a GPU these options do nothing."""
    group = parser.getgroup("CUDA emulator")
    group.addoption(
        "--cuda-orders",
        type=int,
        default=0,
        metavar="N",
        help="run so many launches of each kernel with barriers in three orders of threads, which must agree",
    )
    group.addoption("--cuda-devices", type=int, default=2, metavar="N", help="how many devices there are (default: 2)")
    group.addoption("--cuda-deferred", action="store_true", help="streams work when something waits, not before")
    group.addoption("--cuda-checked", action="store_true", help="check each access to memory; slower, needs g++")
    group.addoption("--cuda-shuffle", type=int, metavar="SEED", help="run the blocks of each launch in a random order")
    group.addoption(
        "--cuda-sources",
        metavar="FOLDER",
        help="fail if a kernel that a .cu or .cuh file there defines, or one that was loaded, never ran",
    )
    group.addoption("--cuda-texts", metavar="FOLDER", help="write the text of each kernel there, for other compilers")
    group.addoption("--cuda-count", metavar="FILE", help="write how many kernels ran, as JSON")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The machine has as many devices as asked for, before anything is on one."""
    folder = config.getoption("--cuda-sources")
    if folder and not Path(folder).is_dir():
        raise pytest.UsageError(f"--cuda-sources {folder}: no such folder: it would never miss a kernel")
    devices = config.getoption("--cuda-devices")
    if devices != 2 and atled_cuda_emulator.installed():
        atled_cuda_emulator.install(devices)


def pytest_report_header() -> str:
    """Where kernels run."""
    if _missing is not None:
        return f"CUDA device: none, what needs one is skipped: {_missing}"
    return f"CUDA device: {'emulator' if atled_cuda_emulator.installed() else 'the GPU of this machine'}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Without a compiler there is nothing to run kernels."""
    if _missing is not None:
        pytest.skip(_missing)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    """All tests as the options say."""
    option = session.config.getoption
    with ExitStack() as modes:
        if atled_cuda_emulator.installed():
            modes.enter_context(atled_cuda_emulator.compared_orders(option("--cuda-orders")))
            if option("--cuda-checked"):
                modes.enter_context(atled_cuda_emulator.checked_accesses())
            if option("--cuda-deferred"):
                modes.enter_context(atled_cuda_emulator.deferred())
            if (seed := option("--cuda-shuffle")) is not None:
                modes.enter_context(atled_cuda_emulator.thread_order("forward", shuffle_blocks=True, seed=seed))
        return (yield)


_WORKERS = "atled_cuda_emulator"  # what a process of pytest-xdist hands to the one that started it


class _Kernels:
    """Which kernels were loaded and which ran, in this process and in those that it started."""

    def __init__(self) -> None:
        self.asked: set[tuple[str, str]] = set()
        self.ran: Counter[tuple[str, str]] = Counter()

    def add(self, asked: Iterable[Sequence[str]], ran: Iterable[tuple[Sequence[str], int]]) -> None:
        """Those of one process; each by the key of its text and its name."""
        self.asked.update((key, name) for key, name in asked)
        for (key, name), count in ran:
            self.ran[key, name] += count

    def problems(self, folder: str | None) -> list[str]:
        """What never ran: of all that was loaded, and of all that the sources in a folder define."""
        names = {name for _, name in self.ran}
        paths = sorted(Path(folder).glob("**/*.cu*")) if folder else []
        defined = {name: path.name for path in paths for name in Text(path.read_text("utf-8")).kernels}
        never = [
            f"the kernel {name} of {file} never ran" for name, file in sorted(defined.items()) if name not in names
        ]
        idle = Counter(name for key, name in self.asked if (key, name) not in self.ran)
        return never + [
            f"{count} variants of the kernel {name} were loaded and never ran" for name, count in sorted(idle.items())
        ]


_kernels = _Kernels()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # Any: of pytest-xdist
    """What a process counted."""
    output = getattr(node, "workeroutput", {})
    if _WORKERS in output:
        _kernels.add(*output[_WORKERS])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the count; a kernel that never ran makes the run fail."""
    if not atled_cuda_emulator.installed():
        return
    if folder := session.config.getoption("--cuda-texts"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        for text in {text.key: text for text in launching.asked.values()}.values():
            (Path(folder) / f"{text.key}.cu").write_text(text.source)
    mine = [list(key) for key in launching.asked], [(list(key), n) for key, n in launching.launched.items()]
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_WORKERS] = mine
        return
    _kernels.add(*mine)
    option = session.config.getoption
    problems = _kernels.problems(option("--cuda-sources"))
    if file := option("--cuda-count"):
        facts = {"kernels": len(_kernels.asked), "ran": len(_kernels.ran), "launches": _kernels.ran.total()}
        Path(file).write_text(json.dumps(facts | {"never ran": problems}, indent=2) + "\n")
    if option("--cuda-sources") and problems and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How many kernels ran."""
    if _kernels.asked:
        ran, asked, launches = len(_kernels.ran), len(_kernels.asked), _kernels.ran.total()
        terminalreporter.write_line(f"CUDA kernels that ran on the emulator: {ran} of {asked}, in {launches} launches")
        if folder := config.getoption("--cuda-sources"):
            for problem in _kernels.problems(folder):
                terminalreporter.write_line(problem, red=True)
