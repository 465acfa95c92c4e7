"""Installs as users do, from wheels into a fresh environment outside of the clone; `make check-wheels` runs it.

Needs pip and a package index. First `atled` alone, then `atled[cpu]`: README's ten lines, the version, doctor, a
warm-up and a part of the conformance kit, each from an empty folder. Then the plugins for NVIDIA GPUs, without a CuPy
and, where there is a C++ compiler, on the emulator.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_PLUGINS = ("cpu_numba", "sim", "cuda_cupy", "cudnn")
_PROJECTS = (_ROOT, *(_ROOT / "plugins" / name for name in _PLUGINS), _ROOT / "testing" / "cuda_emulator")
_CPU = 'pip install "atled[cpu]"'
_ON_EMULATOR = """
import atled_cuda_emulator
atled_cuda_emulator.install()
import numpy as np
import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S

nn.set_default_context(nn.Context("cuda", fallback="raise"))
x = nn.Variable.from_numpy_array(np.ones((2, 3), np.float32))
loss = F.mean(F.tanh(PF.affine(x, 4)) ** 2)
solver = S.Sgd(0.1)
solver.set_parameters(nn.get_parameters())
loss.forward()
before = float(loss.d)
solver.zero_grad()
loss.backward()
solver.update()
loss.forward()
assert 0 < loss.d < before, (before, loss.d)
print(loss.plan)
"""


class _Failure(Exception):
    """A step that did not do what users are told it does."""


class Place:
    """A fresh virtual environment, and an empty folder to run in."""

    def __init__(self, folder: Path) -> None:
        self._environment = folder / "venv"
        self._empty = folder / "empty"
        self._caches = folder / "caches"
        self._empty.mkdir()
        venv.create(self._environment, with_pip=True)
        scripts = "Scripts" if os.name == "nt" else "bin"
        self._python = self._environment / scripts / "python"

    def run(self, title: str, *words: str, says: Sequence[str] = (), status: int = 0, **settings: str) -> str:
        """Run Python with these arguments; what it printed, which must hold the texts `says`."""
        print(f"  {title}", flush=True)
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("ATLED_", "PYTHON"))}
        done = subprocess.run(
            [str(self._python), *words],
            cwd=self._empty,
            env={**kept, "ATLED_CACHE_DIR": str(self._caches), **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        missing = [text for text in says if text not in " ".join(done.stdout.split())]
        if done.returncode != status or missing:
            wanted = f", or it does not say {missing}" if missing else ""
            raise _Failure(f"{title}: exit status {done.returncode} instead of {status}{wanted}\n{done.stdout}")
        return done.stdout

    def install(self, *what: str) -> None:
        """pip install."""
        pip = ("-m", "pip", "--disable-pip-version-check", "--quiet", "install")
        self.run(f"pip install {' '.join(Path(word).name for word in what)}", *pip, *what)


def ten_lines() -> str:
    """README's first program."""
    page = (_ROOT / "README.md").read_text("utf-8")
    part = page[page.index("## Ten lines") :].partition("\n## ")[0]
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", part, re.DOTALL | re.MULTILINE))


def build_wheels(folder: Path) -> None:
    """The wheels of the library and its plugins."""
    print("building wheels", flush=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "wheel", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", str(folder), *map(str, _PROJECTS)], check=True)
    print(*(f"  {path.name}" for path in sorted(folder.glob("*.whl"))), sep="\n", flush=True)


def check_alone(place: Place, wheels: Path) -> None:
    """`atled` without a plugin: everything works, slowly, and it says so."""
    print("atled alone", flush=True)
    (wheel,) = wheels.glob("atled-*.whl")
    place.install(str(wheel))
    place.run("the version", "-m", "atled", "--version", says=["atled 0."])
    place.run("README's ten lines", "-c", ten_lines(), says=["ReferenceWarning", _CPU, "[10. 20. 30.]"])
    place.run("doctor", "-m", "atled", "doctor", says=["reference", _CPU], ATLED_NUM_THREADS="2")
    wanted = "import atled as nn\nnn.Context('cpu')"
    place.run("a Context for cpu", "-c", wanted, says=[f"What to do: {_CPU}"], status=1)


def check_cpu(place: Place, wheels: Path) -> None:
    """`atled[cpu]`: the fast backend is the default."""
    print("atled[cpu]", flush=True)
    place.install("--find-links", str(wheels), "atled[cpu]")
    place.run("README's ten lines", "-W", "error", "-c", ten_lines(), says=["[10. 20. 30.]"])
    place.run("doctor", "-m", "atled", "doctor", "cpu", says=["all that was asked for is usable: cpu"])
    place.run("a warm-up", "-m", "atled", "warmup", says=["ops are ready"])
    default = "import atled as nn\nassert nn.get_current_context().backend == ['cpu:float']"
    place.run("the default Context", "-c", default, ATLED_NUM_THREADS="2")
    refused = ["ATLED_NUM_THREADS='100000': is more than"]
    place.run("too many threads", "-m", "atled", "doctor", says=refused, status=1, ATLED_NUM_THREADS="100000")
    place.install("--find-links", str(wheels), "atled[conformance]")
    kit = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "atled.conformance")
    few = ("--atled-plugin", "cpu", "--atled-ops", "Affine,ReLU,Softmax", "--max-examples", "2")
    place.run("the conformance kit on three ops", *kit, *few, says=["passed"])


def check_gpu(place: Place, wheels: Path) -> None:
    """`atled[cuda]` where CuPy is missing: the CPU computes, and who asks is told why."""
    print("atled[cuda]", flush=True)
    place.install("--find-links", str(wheels), "atled[cuda]")
    why = ["CuPy is not installed", "What to do: pip install"]
    place.run("doctor", "-m", "atled", "doctor", "cuda", "cudnn", says=[why[0], "atled[cuda12]"], status=1)
    place.run("the default Context", "-W", "error", "-c", ten_lines(), says=["[10. 20. 30.]"])
    behind = "cudnn,cuda,cpu"
    place.run("cpu behind cuda", "-W", "error", "-c", ten_lines(), says=["[10. 20. 30.]"], ATLED_BACKENDS=behind)
    for name in ("cuda", "cudnn"):
        place.run(f"a Context for {name}", "-c", f"import atled as nn\nnn.Context({name!r})", says=why, status=1)
        preset = f"from atled.ext_utils import get_extension_context\nget_extension_context({name!r})"
        place.run(f"the preset {name}", "-c", preset, says=why, status=1)


def check_emulator(place: Place, wheels: Path) -> None:
    """`atled-cuda-emulator`: a step of training on the kernels of `cuda`."""
    print("atled-cuda-emulator", flush=True)
    if not any(map(shutil.which, ("g++", "clang++"))):
        print("  left out: there is no C++ compiler")
        return
    place.install("--find-links", str(wheels), "atled-cuda-emulator")
    place.run("a step of training", "-W", "error", "-c", _ON_EMULATOR, says=["device program", "Affine+Tanh"])


def main() -> int:
    """Build, install, try; 1 where something is not as users are told."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory(prefix="atled-wheels-") as name:
        folder = Path(name).resolve()
        wheels = folder / "wheels"
        try:
            build_wheels(wheels)
            place = Place(folder)
            check_alone(place, wheels)
            check_cpu(place, wheels)
            check_gpu(place, wheels)
            check_emulator(place, wheels)
        except (_Failure, subprocess.CalledProcessError) as failure:
            print(f"check-wheels: {failure}", file=sys.stderr)
            return 1
    print("all as README says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
