"""Random programs of neon's API agree with NumPy on each backend of this machine; what disagrees is told."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import fuzz_trees  # after the path is set
from atled.neon.backends import cleanup_backend
from fuzzing_trees import drawing


@pytest.fixture(autouse=True)
def no_backend_is_left():
    yield
    cleanup_backend()


@pytest.mark.parametrize("number", range(20))
@pytest.mark.parametrize("backend", ["reference", "cpu", "sim"])
def test_a_random_program_gives_what_numpy_gives(backend, number):
    fuzz_trees.check(1, number, backend, has_reference=backend == "cpu")


def test_what_disagrees_is_told_with_its_steps(monkeypatch):
    monkeypatch.setattr(drawing, "BINARY", (drawing.Op("add", lambda be, a, b: a + b, np.subtract),))
    with pytest.raises(AssertionError, match=r"--seed 0 --number(.|\n)*add\("):
        for number in range(20):
            fuzz_trees.check(0, number, "reference")
