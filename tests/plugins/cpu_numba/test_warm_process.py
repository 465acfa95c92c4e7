"""A process whose kernels are all compiled already loads no LLVM, and computes what the first one did.

So does the first process of a network whose kernels and formulas are all in the package.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from atled_cpu_numba import code_memory, shipped_objects

pytestmark = pytest.mark.skipif(not code_memory.IS_KNOWN, reason="LLVM places the code here")

# LeNet of small images, by parameters that are the same in each process.
_NETWORK = """
import sys
import numpy as np
import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S

nn.seed(3)
rng = np.random.default_rng(0)
x = nn.Variable((4, 1, 28, 28))
h = F.max_pooling({activation}(PF.convolution(x, 8, (5, 5), name="c1")), (2, 2))
h = F.max_pooling(F.relu(PF.convolution(h, 8, (5, 5), name="c2")), (2, 2))
y = PF.affine(F.relu(PF.affine(h, 20, name="a1")), 10, name="a2")
for parameter in nn.get_parameters().values():
    parameter.d = rng.uniform(-0.3, 0.3, parameter.shape)
images = rng.uniform(0, 1, x.shape).astype(np.float32)
"""

_COMMON = _NETWORK.format(activation="F.relu")
_OWN = _NETWORK.format(activation="(lambda h: F.sin(h) * F.sigmoid(h) + 3)")  # nothing of it is in the package

_INFERENCE = """
result = nn.inference(y, [x])(images)
"""

_TRAINING = """
t = nn.Variable((4, 1))
loss = F.mean(F.softmax_cross_entropy(y, t))
solver = S.Adam(0.01)
solver.set_parameters(nn.get_parameters())
x.d, t.d = images, np.arange(4).reshape(4, 1)
for _ in range(2):
    loss.forward()
    solver.zero_grad()
    loss.backward()
    solver.update()
result = [loss.d, *(parameter.d for parameter in nn.get_parameters().values())]
"""

_FORMULA = """
import sys
import numpy as np
import atled as nn
import atled.functions as F

result = [F.sin(nn.NdArray.from_numpy_array(np.linspace(-2, 2, 100, dtype=np.float32))).data]
"""

_END = """
print("llvmlite.binding" in sys.modules, "numba" in sys.modules, *[float(np.sum(each)).hex() for each in result])
"""


def run(program: str, folder: Path, **settings: str) -> tuple[list[str], list[str]]:
    """Whether LLVM and numba were imported, and the sums of what was computed."""
    environment = {**os.environ, "ATLED_CACHE_DIR": str(folder), **settings}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    return words[:2], words[2:]


@pytest.mark.parametrize(
    ("program", "settings"),
    [
        (_OWN + _INFERENCE, {}),
        (_OWN + _TRAINING, {}),
        (_FORMULA, {"ATLED_CPU": "x86-64-v2"}),
    ],
    ids=["inference", "training", "another processor"],
)
def test_a_warm_process_loads_no_llvm(program: str, settings: dict[str, str], tmp_path: Path) -> None:
    (first, cold), (second, warm) = (run(program + _END, tmp_path, **settings) for _ in range(2))
    assert first[0] == "True" and second == ["False", "False"]
    assert cold == warm


@pytest.mark.skipif(bool(shipped_objects.why_unused()), reason="no object of the package is for this processor")
@pytest.mark.parametrize("program", [_COMMON + _INFERENCE, _COMMON + _TRAINING], ids=["inference", "training"])
def test_the_first_process_of_a_common_network_loads_none_and_stores_nothing(program: str, tmp_path: Path) -> None:
    loaded, _ = run(program + _END, tmp_path)
    assert loaded == ["False", "False"], "run make generated, if an archive is old"
    assert not list(tmp_path.iterdir())


def test_a_first_step_imports_no_pathlib_for_itself(tmp_path: Path) -> None:
    # What is imported before may bring it: that depends on the version of Python.
    program = f"""
import json, lzma, numpy.random, pluggy, sys, threading
before = "pathlib" in sys.modules
{_COMMON}{_TRAINING}
result = []
print(before or "pathlib" not in sys.modules)
"""
    assert run(program, tmp_path, ATLED_PLUGINS_ONLY="cpu-numba") == (["True"], [])


def test_the_doctor_needs_none(tmp_path: Path) -> None:
    program = """
import sys
from atled_cpu_numba import facts
found = facts.facts()
print("llvmlite.binding" in sys.modules, "numba" in sys.modules, found["compiles for"])
"""
    (first, told), (second, again) = (run(program, tmp_path) for _ in range(2))
    assert first == ["True", "False"] and second == ["False", "False"] and told == again
