"""What a fresh interpreter needs: time and memory of an import, of the first training step, of a few steps."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from harness.case import Case

_TIMEOUT_S = 300

# Where the libraries keep what they have compiled, one folder for each.
_CACHES = ("ATLED_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR")
# JAX keeps by default only what took a second to compile.
_KEEP_ALL = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}

# Who installs a library for processors has no plugins for devices beside it, as this repository's environment has:
# their discovery takes a twentieth of the time to a first result.
_FOR_PROCESSORS = {"ATLED_PLUGINS_ONLY": "cpu-numba"}

_STEPS = """
from bench_rows.training import training_step
run = training_step({library!r}, {network!r}).run
for _ in range({steps}):
    run()
"""

# Not getrusage: its peak counts the parent's memory too, which a child shares until it becomes another program.
_PRINT_MEMORY = """
print(next(line for line in open("/proc/self/status") if line.startswith("{field}:")).split()[1])
"""


def import_time(library: str) -> Case:
    """Seconds of `python -c "import library"`, process start and end included."""
    command = f"import {library}"
    run_python(command)  # writes bytecode, and brings files into memory
    return Case(lambda: _timed(command), is_reading=True)


def import_memory(library: str) -> Case:
    """Resident bytes after the import. Linux only."""
    return Case(lambda: _memory(f"import {library}", "VmRSS"), is_reading=True)


def first_step(library: str, is_warm: bool, network: str = "mlp") -> Case:
    """Seconds from process start to the end of a network's first step; is_warm: nothing is to be compiled anew."""
    return seconds_of(_STEPS.format(library=library, network=network, steps=1), is_warm)


def peak_memory(library: str, network: str) -> Case:
    """Greatest resident bytes of a process that does ten training steps. Linux only."""
    return peak_of(_STEPS.format(library=library, network=network, steps=10))


def seconds_of(code: str, is_warm: bool) -> Case:
    """Seconds that a process takes which runs the code on a processor; is_warm: nothing is to be compiled anew."""
    if is_warm:
        # Lives as long as the case.
        folder = tempfile.TemporaryDirectory()
        variables = _FOR_PROCESSORS | _caches_in(folder.name)
        run_python(code, variables)
        return Case(lambda: _timed(code, variables), is_reading=True)

    def run() -> float:
        with tempfile.TemporaryDirectory() as empty:
            return _timed(code, _FOR_PROCESSORS | _caches_in(empty))

    run_python(code, _FOR_PROCESSORS)
    return Case(run, is_reading=True)


def peak_of(code: str) -> Case:
    """Greatest resident bytes of a process that runs the code on a processor. Linux only."""
    run_python(code, _FOR_PROCESSORS)  # what is compiled once does not count
    return Case(lambda: _memory(code, "VmHWM"), is_reading=True)


def _caches_in(folder: str) -> dict[str, str]:
    return {**{name: os.path.join(folder, name.lower()) for name in _CACHES}, **_KEEP_ALL}


def _timed(code: str, variables: dict[str, str] | None = None) -> float:
    start = time.perf_counter()
    run_python(code, variables)
    return time.perf_counter() - start


def _memory(code: str, field: str) -> float:
    return float(run_python(code + _PRINT_MEMORY.format(field=field), _FOR_PROCESSORS)) * 1024


def run_python(code: str, variables: dict[str, str] | None = None) -> str:
    """What the last line says that a fresh interpreter prints which runs the code."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **(variables or {})},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{done.stderr}\na fresh interpreter failed: {(done.stderr.splitlines() or [code])[-1]}")
    return (done.stdout.splitlines() or [""])[-1]
