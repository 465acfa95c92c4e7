"""Small trainings whose every array can be compared, for tests of who has which memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import atled as nn
import atled.functions as F
import atled.solvers as S


def leaf(values: Any, need_grad: bool | None = None) -> nn.Variable:
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


def run_in_threads(*tasks: Callable[[], object]) -> None:
    """Run all tasks at the same time; raise the first error of any."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(tasks))

    def guarded(task: Callable[[], object]) -> None:
        try:
            barrier.wait()
            task()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=nn.bind(lambda task=task: guarded(task))) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class Net:
    """A network with state, a view, a draw and a product, all of it made from one seed.

    middle: a value in the middle; nobody else holds those beside it.
    """

    def __init__(self, seed: int, width: int = 6, is_held: bool = True) -> None:
        rng = np.random.default_rng(seed)
        self.x = leaf(rng.standard_normal((8, 5)))
        self.t = leaf(rng.integers(0, 3, (8, 1)))
        self.w = leaf(rng.standard_normal((5, width)), True)
        self.b = leaf(np.zeros(width), True)
        self.v = leaf(rng.standard_normal((width, 3)), True)
        self.mean, self.variance = leaf(np.zeros((1, width)), False), leaf(np.ones((1, width)), False)
        beta, gamma = leaf(np.zeros((1, width)), True), leaf(np.ones((1, width)), True)
        h = F.affine(self.x, self.w, bias=self.b)
        h = F.batch_normalization(h, beta, gamma, self.mean, self.variance)
        middle = F.tanh(F.reshape(h, (8, width)) * 2 - 0.5)
        h = F.dropout(middle, 0.2, seed=seed)
        self.middle = middle if is_held else None
        self.loss = F.mean(F.softmax_cross_entropy(F.affine(h, self.v), self.t))
        self.parameters = {"w": self.w, "b": self.b, "v": self.v, "beta": beta, "gamma": gamma}
        self.solver = S.Adam(0.05)
        self.solver.set_parameters(self.parameters)

    def step(self) -> None:
        self.loss.forward()
        self.solver.zero_grad()
        self.loss.backward()
        self.solver.update()

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of everything."""
        found = {"loss": self.loss.d, "mean": self.mean.d, "variance": self.variance.d}
        if self.middle is not None:
            found |= {"middle": self.middle.d, "its gradient": self.middle.g}
        for name, parameter in self.parameters.items():
            found |= {name: parameter.d, f"gradient of {name}": parameter.g}
        return {name: array.copy() for name, array in found.items()}


def trained(seed: int, steps: int, width: int = 6) -> dict[str, np.ndarray]:
    """What a training gives that runs alone."""
    net = Net(seed, width)
    for _ in range(steps):
        net.step()
    return net.arrays()


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Equal but for the last bits: a value that somebody holds may be computed in another order."""
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=2e-4, atol=2e-5, err_msg=name)


def churn(count: int = 30) -> None:
    """Take memory of many sizes and write into all of it: whoever uses freed memory reads these numbers."""
    arrays = [nn.NdArray((size,)) for size in (3, 5, 15, 18, 30, 40, 48, 200, 500) for _ in range(count)]
    for array in arrays:
        array.data = -77.0
    for array in arrays:
        F.identity(array)
