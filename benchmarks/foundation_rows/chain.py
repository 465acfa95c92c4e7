"""The cost of an op itself: a static graph of 200 elementwise ops on four elements."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from foundation_rows.recorded import recorded
from harness.case import Case

REPEATS = 50
OPS = 4 * REPEATS

_START = np.array([0.1, -0.2, 0.3, -0.4], np.float32)
_OTHERS = tuple(np.array(values, np.float32) for values in ([0.5, 1, -1, 2], [1.1, 0.9, 1, 1.2], [0.1, 0.2, -0.1, 0]))


def chain(library: str, backward: bool) -> Case:
    """50 times `h = tanh(h + a) * b - c`; with `backward` also the gradients of the input, a, b and c."""
    return _torch(backward) if library == "torch" else _recorded(library, backward)


def _recorded(library: str, backward: bool) -> Case:
    api = recorded(library)
    leaves = [api.nn.Variable.from_numpy_array(values, need_grad=backward) for values in (_START, *_OTHERS)]
    h, a, b, c = leaves
    for _ in range(REPEATS):
        h = api.F.sub2(api.F.mul2(api.F.tanh(api.F.add2(h, a)), b), c)

    def run_forward() -> None:
        h.forward()

    def run_both() -> None:
        h.forward()
        for leaf in leaves:
            leaf.grad.zero()
        h.backward()

    def results() -> list[np.ndarray]:
        (run_both if backward else run_forward)()
        return [h.d.copy()] + [leaf.g.copy() for leaf in leaves if backward]

    return Case(run_both if backward else run_forward, results)


def _torch(backward: bool) -> Case:
    torch = importlib.import_module("torch")
    leaves = [torch.tensor(values, requires_grad=backward) for values in (_START, *_OTHERS)]
    ones = torch.ones(4)

    def forward() -> Any:
        h, a, b, c = leaves
        for _ in range(REPEATS):
            h = torch.sub(torch.mul(torch.tanh(torch.add(h, a)), b), c)
        return h

    def run_both() -> Any:
        h = forward()
        for leaf in leaves:
            leaf.grad = None
        h.backward(ones)
        return h

    def results() -> list[Any]:
        h = run_both() if backward else forward()
        return [h.detach().clone(), *(leaf.grad.clone() for leaf in leaves if backward)]

    return Case(run_both if backward else forward, results)
