"""Tests, conformance kit, demo and benchmarks on an NVIDIA GPU, from wheels; `make gpu` runs it.

    python tools/gpu.py wheels                 build and fetch what a machine without network needs, into dist/gpu
    python tools/gpu.py wheels --python 3.12   the same for another Python than this one
    python tools/gpu.py tests kit demo bench   these parts, each of at most 8 minutes (default: all, 24 minutes)

Needs a GPU with its driver, CuPy 14, and for `cudnn` cuDNN 9, in this Python or beside it; torch for comparisons. The
wheels go into an environment of their own, .venv-gpu, that sees the site packages of this Python. What comes of a part
is written to benchmarks/results/ while it runs.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHEELS = ROOT / "dist" / "gpu"
RESULTS = ROOT / "benchmarks" / "results"
LIMITS_S = {"tests": 360, "kit": 480, "demo": 120, "bench": 480}

_PROJECTS = (".", "plugins/cpu_numba", "plugins/sim", "plugins/cuda_cupy", "plugins/cudnn", "testing/cuda_emulator")
# What may not be there, by the name of its module: the library's own needs, those of the tests, those of the demo.
_NEEDED = {
    "pluggy": "pluggy",
    "pytest": "pytest",
    "iniconfig": "iniconfig",
    "hypothesis": "hypothesis",
    "sortedcontainers": "sortedcontainers",
    "ml_dtypes": "ml_dtypes",
    "rich": "rich",
    "markdown_it": "markdown-it-py",
    "mdurl": "mdurl",
    "pygments": "pygments",
    "numba": "numba",
    "llvmlite": "llvmlite",
    "h5py": "h5py",
    "sklearn": "scikit-learn",
    "scipy": "scipy",
    "joblib": "joblib",
    "threadpoolctl": "threadpoolctl",
}
_PLATFORMS = ("manylinux2014_x86_64", *(f"manylinux_2_{minor}_x86_64" for minor in (17, 27, 28, 34)))


def make_wheels(python: str) -> None:
    """Wheels of this repository, and those that they need for that version of Python on Linux."""
    WHEELS.mkdir(parents=True, exist_ok=True)
    for old in WHEELS.glob("*.whl"):
        old.unlink()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    projects = [str(ROOT / project) for project in _PROJECTS]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(WHEELS), *projects], check=True)
    platforms = [word for platform in _PLATFORMS for word in ("--platform", platform)]
    wanted = ["--only-binary=:all:", "--no-deps", "--python-version", python, *platforms]
    subprocess.run([*pip, "download", *wanted, "--dest", str(WHEELS), *sorted(set(_NEEDED.values()))], check=True)
    print(f"{len(list(WHEELS.glob('*.whl')))} wheels in {WHEELS}")


def environment() -> Path:
    """The Python of .venv-gpu, with the wheels in it."""
    folder = ROOT / ".venv-gpu"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        # Where this Python is one of an environment, that of the system would not be what is beside it.
        (own,) = folder.glob("lib/python*/site-packages")
        (own / "beside.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")) + "\n")
    ours = [str(path) for path in sorted(WHEELS.glob("atled*.whl"))]
    if not ours:
        sys.exit(
            f"gpu: no wheels in {WHEELS}: python tools/gpu.py wheels makes them, on a machine with a package index"
        )
    missing = [name for module, name in _NEEDED.items() if importlib.util.find_spec(module) is None]
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--force-reinstall", *ours], check=True)
    if missing:
        subprocess.run([*pip, "--find-links", str(WHEELS), *missing], check=True)
    return python


def run(title: str, command: Sequence[str], until: float, log: str, folder: Path = ROOT) -> int:
    """Run a command until it ends or its time is up; its output goes to the terminal and to benchmarks/results/."""
    left = until - time.monotonic()
    print(f"gpu: {title}: {' '.join(command)}", flush=True)
    if left <= 0:
        print(f"gpu: {title}: no time left")
        return 1
    RESULTS.mkdir(exist_ok=True)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables["PYTHONUNBUFFERED"] = "1"
    with (RESULTS / f"{log}.log").open("w") as kept:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # so that what it starts ends with it
        )
        timer = _Alarm(left, process)
        assert process.stdout is not None
        for line in process.stdout:
            kept.write(line)
            kept.flush()
            print(line, end="", flush=True)
        status = process.wait()
        timer.stop()
    if timer.has_rung:
        print(f"gpu: {title}: its time is up; what there was is in {RESULTS}")
    return status


class _Alarm:
    """Ends a process and all that it started when its time is up."""

    def __init__(self, seconds: float, process: subprocess.Popen[str]) -> None:
        self.has_rung = False

        def ring(*_: object) -> None:
            self.has_rung = True
            os.killpg(process.pid, signal.SIGKILL)

        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def stop(self) -> None:
        """The process has ended."""
        signal.setitimer(signal.ITIMER_REAL, 0)


def tests(python: Path, until: float) -> int:
    """The plugins' own tests, on the device."""
    pytest = [str(python), "-m", "pytest", "-q", "-x" if os.environ.get("CI") else "--maxfail=50", "--durations=20"]
    folders = ("plugins/cuda_cupy/tests", "plugins/cudnn/tests")
    return run("tests", [*pytest, "-p", "no:cacheprovider", *folders], until, "gpu-tests")


def kit(python: Path, until: float) -> int:
    """The conformance kit for both plugins."""
    status = 0
    for plugin in ("cuda-cupy", "cudnn"):
        report = str(RESULTS / f"gpu-conformance-{plugin}.json")
        words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "atled.conformance"]
        command = [str(python), *words, "--atled-plugin", plugin, "--atled-report", report]
        status |= run(f"kit, {plugin}", command, until, f"gpu-kit-{plugin}", RESULTS)
    return status


def demo(python: Path, until: float) -> int:
    """The digits demo on both backends, and what doctor says."""
    status = run("doctor", [str(python), "-m", "atled", "doctor"], until, "gpu-doctor")
    for backend in ("cuda", "cudnn"):
        command = [str(python), "-m", "atled", "demo", "digits", "--context", backend]
        status |= run(f"demo, {backend}", command, until, f"gpu-demo-{backend}")
    return status


def bench(python: Path, until: float) -> int:
    """The benchmarks, a part of them after the other."""
    status = 0
    for part in ("host", "bandwidth", "steps", "products"):
        settings = ["--rounds", "5", "--seconds", "0.1", "--row-seconds", "4", "--cores", "2"]
        command = [str(python), "benchmarks/gpu.py", part, *settings]
        status |= run(f"benchmark, {part}", command, until, f"gpu-bench-{part}")
    return status


_PARTS = {"tests": tests, "kit": kit, "demo": demo, "bench": bench}


def main() -> int:
    """Do the parts that were asked for; 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"wheels, or some of {', '.join(_PARTS)} (default: all)"
    )
    parser.add_argument("--python", default=f"{sys.version_info[0]}.{sys.version_info[1]}", help="version, for wheels")
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in (*_PARTS, "wheels")]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are wheels, {', '.join(_PARTS)}")
    if options.parts == ["wheels"]:
        make_wheels(options.python)
        return 0
    if not list(WHEELS.glob("atled*.whl")):
        make_wheels(options.python)
    python = environment()
    statuses = {part: _PARTS[part](python, time.monotonic() + LIMITS_S[part]) for part in options.parts or _PARTS}
    for part, status in statuses.items():
        print(f"gpu: {part}: {'failed' if status else 'passed'}")
    return int(any(statuses.values()))


if __name__ == "__main__":
    sys.exit(main())
