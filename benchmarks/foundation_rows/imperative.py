"""The cost of computing at once: one addition of four elements."""

from __future__ import annotations

import importlib

import numpy as np

from foundation_rows.recorded import recorded
from harness.case import Case

ADDITIONS = 100

_A = np.array([1, 2, 3, 4], np.float32)
_B = np.array([0.5, 0.25, 0, -1], np.float32)


def addition(library: str) -> Case:
    """`add2(a, b)` of NdArrays (`torch.add` of tensors), 100 times.

    NNabla 1.39 looks for a module that is not there at every call, so a busy file system trebles its time.
    """
    if library == "torch":
        torch = importlib.import_module("torch")
        add, a, b = torch.add, torch.tensor(_A), torch.tensor(_B)
        return Case(_repeated(add, a, b), lambda: [add(a, b)])
    api = recorded(library)
    add, a, b = api.F.add2, api.nn.NdArray.from_numpy_array(_A), api.nn.NdArray.from_numpy_array(_B)
    return Case(_repeated(add, a, b), lambda: [add(a, b).data.copy()])


def _repeated(add, a, b):  # untyped: three libraries' functions and arrays
    def run() -> None:
        for _ in range(ADDITIONS):
            add(a, b)

    return run
