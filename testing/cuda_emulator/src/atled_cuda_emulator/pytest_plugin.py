"""For pytest, by `-p atled_cuda_emulator.pytest_plugin`: the stand-in, in a process where no GPU can be used."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import atled_cuda_emulator
from atled_cuda_emulator import launching

_GLOBAL = re.compile(r"__global__[^(;]*?(?:__launch_bounds__\s*\([^)]*\))?[^(;]*?\b(\w+)\s*\(")


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
    group.addoption("--cuda-deferred", action="store_true", help="streams work when something waits, not before")
    group.addoption("--cuda-shuffle", type=int, metavar="SEED", help="run the blocks of each launch in a random order")
    group.addoption(
        "--cuda-sources",
        metavar="FOLDER",
        help="fail if a kernel that a .cu or .cuh file there defines, or one that was asked for, never ran",
    )
    group.addoption("--cuda-texts", metavar="FOLDER", help="write the text of each kernel there, for other compilers")
    group.addoption("--cuda-count", metavar="FILE", help="write how many kernels ran, as JSON")


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
            if option("--cuda-deferred"):
                modes.enter_context(atled_cuda_emulator.deferred())
            if (seed := option("--cuda-shuffle")) is not None:
                modes.enter_context(atled_cuda_emulator.thread_order("forward", shuffle_blocks=True, seed=seed))
        return (yield)


class _Count:
    """Which kernels ran, of those that there are."""

    def __init__(self, folder: str | None) -> None:
        self.asked = len(launching.asked)
        self.ran = len(launching.launched)
        self.idle = sorted(name for key, name in launching.asked if (key, name) not in launching.launched)
        ran = {name for _, name in launching.launched}
        paths = sorted(path for path in Path(folder or "").glob("**/*.cu*")) if folder else []
        defined = {name: path.name for path in paths for name in _GLOBAL.findall(path.read_text())}
        self.unused = [f"{name} of {file}" for name, file in sorted(defined.items()) if name not in ran]

    def problems(self) -> list[str]:
        """What never ran."""
        never = [f"the kernel {one} never ran" for one in self.unused]
        return never + [f"a kernel {name} was loaded and never ran" for name in self.idle]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the count; a kernel that never ran makes the run fail."""
    if not atled_cuda_emulator.installed():
        return
    option = session.config.getoption
    count = _Count(option("--cuda-sources"))
    if file := option("--cuda-count"):
        facts = {"kernels": count.asked, "ran": count.ran, "launches": launching.launched.total()}
        Path(file).write_text(json.dumps(facts | {"never ran": count.problems()}, indent=2) + "\n")
    if folder := option("--cuda-texts"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        for text in {text.key: text for text in launching.asked.values()}.values():
            (Path(folder) / f"{text.key}.cu").write_text(text.source)
    if option("--cuda-sources") and count.problems() and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How many kernels ran."""
    if atled_cuda_emulator.installed() and launching.asked:
        count = _Count(config.getoption("--cuda-sources"))
        terminalreporter.write_line(f"CUDA kernels that ran on the emulator: {count.ran} of {count.asked}")
        if config.getoption("--cuda-sources"):
            for problem in count.problems():
                terminalreporter.write_line(problem, red=True)
