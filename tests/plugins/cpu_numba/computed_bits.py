"""Program of test_equal_bits: prints a digest of the bits of each result, by kind, as JSON."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import atled as nn
import atled.functions as F
import atled.solvers as S

# Everywhere: sums in the order stated, one rounding per element, numbers that are moved, compared or counted. The order
# itself is tested in test_sums.py; here it is the steps that a sum carries.
EVERYWHERE: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "mean absolute error": (lambda x, t: F.mean(F.absolute_error(x, t)), [(37, 109), (37, 109)]),
    "broadcast sum": (lambda x, b: x + b, [(37, 109), (1, 109)]),
    "average pooling": (lambda x: F.average_pooling(x, (2, 2)), [(2, 3, 26, 34)]),
    "product": (lambda x, y: x * y, [(37, 109), (37, 109)]),
    "quotient": (lambda x, y: x / (F.abs(y) + 1), [(37, 109), (37, 109)]),
    "rectifier": (lambda x: F.leaky_relu(x), [(37, 109)]),
}
# Where processors have fused multiply-add instructions: what has products in sums, and so every function.
FUSED: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "tanh": (lambda x: F.tanh(x), [(37, 109)]),
    "sin": (lambda x: F.sin(x), [(37, 109)]),
    "fused steps": (lambda x, y, z: F.tanh(x * y + z) * F.sigmoid(y), [(37, 109)] * 3),
    "softmax": (lambda x: F.softmax(x, axis=1), [(37, 109)]),
    "normalization": (lambda x, b, g: _normalized(x, b, g), [(3, 5, 13, 17), (1, 5, 1, 1), (1, 5, 1, 1)]),
}


def _normalized(x: Any, beta: Any, gamma: Any) -> Any:
    mean, variance = (nn.Variable.from_numpy_array(np.zeros(beta.shape, np.float32)) for _ in range(2))
    return F.batch_normalization(x, beta, gamma, mean, variance, batch_stat=True)


def _digest(arrays: Any) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()


def _results(function: Callable[..., Any], shapes: list[tuple[int, ...]]) -> Iterator[np.ndarray]:
    """The result and the gradients of the inputs."""
    rng = np.random.default_rng(1)
    inputs = [
        nn.Variable.from_numpy_array(rng.standard_normal(shape).astype(np.float32), need_grad=True) for shape in shapes
    ]
    with nn.auto_forward(False):
        y = function(*inputs)
    y.forward()
    yield y.d
    for x in inputs:
        x.grad.zero()
    y.backward(nn.NdArray.from_numpy_array(rng.standard_normal(y.shape).astype(np.float32)))
    for x in inputs:
        yield x.g


def _random() -> Iterator[np.ndarray]:
    nn.seed(3)
    for y in (F.rand(shape=(1009,)), F.randint(0, 1000, shape=(1009,)), F.dropout(F.constant(1.5, (1009,)), 0.3)):
        y.forward()
        yield y.d


def _training() -> Iterator[np.ndarray]:
    rng = np.random.default_rng(4)
    x = nn.Variable.from_numpy_array(rng.standard_normal((1009,)).astype(np.float32), need_grad=True)
    for solver in (S.Adam(0.01), S.Momentum(0.1)):
        solver.set_parameters({"x": x})
        for _ in range(3):
            x.g = rng.standard_normal((1009,))
            solver.update()
        yield x.d


def main(arguments: list[str]) -> None:
    """Compute on backend cpu what is equal everywhere; given "fused", also what is equal where processors have FMA."""
    with nn.context_scope(nn.Context("cpu:float", fallback="raise")):
        found = {name: _digest(_results(*case)) for name, case in EVERYWHERE.items()}
        digests = {"everywhere": {**found, "random numbers": _digest(_random())}}
        if "fused" in arguments:
            found = {name: _digest(_results(*case)) for name, case in FUSED.items()}
            digests["fused"] = {**found, "solvers": _digest(_training())}
    print(json.dumps(digests))


if __name__ == "__main__":
    main(sys.argv[1:])
