"""Random descriptions agree with NumPy on every backend that computes on this machine; what disagrees is told."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import fuzz_descriptions  # after the path is set
from atled_contexts import Context
from fuzzing_descriptions import drawing


@pytest.mark.parametrize("number", range(40))
@pytest.mark.parametrize("backend", ["reference", "cpu", "sim"])
def test_a_random_description_gives_what_numpy_gives(backend, number):
    fuzz_descriptions.check(1, number, Context([f"{backend}:float"]))


def test_what_disagrees_is_told_with_its_steps(monkeypatch):
    monkeypatch.setattr(drawing, "OPS", (drawing.Op("Add2", np.subtract, 2),))
    with pytest.raises(AssertionError, match=r"--seed 0 --number(.|\n)*Add2 of"):
        for number in range(20):
            fuzz_descriptions.check(0, number, Context(["reference:float"]))
