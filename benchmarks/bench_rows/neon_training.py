"""Training of networks of neon's layers by `Model.fit`, with all of its Python, beside torch's eager steps."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench_rows.torch_variant import TorchVariant
from harness.case import Case

BATCH, CLASSES = 128, 10
RATE, MOMENTUM = 0.01, 0.9
SIZES = {"mlp": 784, "conv": (3, 32, 32)}
SHAPES = {
    "mlp": [(100, 784), (100,), (CLASSES, 100), (CLASSES,)],
    "conv": [(16, 3, 5, 5), (32, 16, 5, 5), (500, 800), (500,), (CLASSES, 500), (CLASSES,)],
}
"""Parameters of the networks, as torch has them: `mlp` is 784-100-10, `conv` has two convolutions of 5x5 without
biases, each with a rectifier and a maximum of 2x2 behind, then 500 and 10 units with biases."""

_COMPARED_STEPS = 6


STEPS = {"mlp": 400, "conv": 40}
"""Steps that one run makes: of ours a call of `Model.fit`, which runs the first ones one by one, and records one."""


def training(library: str, network: str) -> Case:
    """Training steps by momentum on a batch of 128, of a network of `SHAPES`; costs of the first ones are compared."""
    random = np.random.default_rng(0)
    sizes = SIZES[network]
    shape = (BATCH, *(sizes if isinstance(sizes, tuple) else (sizes,)))
    batch = random.normal(size=shape).astype(np.float32), random.integers(CLASSES, size=BATCH)
    parameters = [_start(random, shape) for shape in SHAPES[network]]
    run = _ours(network, batch, parameters) if library == "atled" else _torch(library, network, batch, parameters)
    return Case(lambda: run(STEPS[network]), lambda: [np.array(run(_COMPARED_STEPS))])


def _start(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    return (random.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


class _Costs:
    """Data of one batch, which comes again, and callbacks that note its costs."""

    def __init__(self, model: Any, batch: tuple[Any, Any], count: int) -> None:
        self._model, self._batch, self._count = model, batch, count
        self.nbatches = count
        self.costs: list[float] = []

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return itertools.repeat(self._batch, self._count)

    def on_minibatch_end(self, epoch: int, minibatch: int) -> None:
        self.costs.append(float(self._model.cost.cost[0, 0]))

    def nothing(self, *given: int) -> None:
        """What else callbacks are told."""

    on_train_begin = on_train_end = on_epoch_begin = on_epoch_end = on_minibatch_begin = nothing


def _ours(
    network: str, batch: tuple[np.ndarray, np.ndarray], parameters: list[np.ndarray]
) -> Callable[[int], list[float]]:
    be = importlib.import_module("atled.neon.backends").gen_backend("cpu", rng_seed=0, batch_size=BATCH)
    layers, initializers, optimizers, transforms = (
        importlib.import_module(f"atled.neon.{name}") for name in ("layers", "initializers", "optimizers", "transforms")
    )
    init, relu, softmax = initializers.Constant(0.0), transforms.Rectlin(), transforms.Softmax()
    dense = [
        layers.Affine(500 if network == "conv" else 100, init, bias=init, activation=relu),
        layers.Affine(CLASSES, init, bias=init, activation=softmax),
    ]
    if network == "conv":
        maps = [(layers.Conv((5, 5, n), init, activation=relu), layers.Pooling(2)) for n in (16, 32)]
        dense = [each for pair in maps for each in pair] + dense
    model = importlib.import_module("atled.neon.models").Model(dense)
    model.initialize(SIZES[network])
    for layer, values in zip(model.layers_to_optimize, parameters, strict=True):
        layer.W[:] = _as_neon(values)
    rule = optimizers.GradientDescentMomentum(RATE, MOMENTUM)
    cost = layers.GeneralizedCost(transforms.CrossEntropyMulti())
    x, labels = batch
    tensors = be.array(np.ascontiguousarray(x.reshape(BATCH, -1).T)), be.array(np.eye(CLASSES)[:, labels])

    def run(count: int) -> list[float]:
        data = _Costs(model, tensors, count)
        model.fit(data, cost, rule, model.epoch_index + 1, data)
        return data.costs

    return run


def _as_neon(values: np.ndarray) -> np.ndarray:
    """The same values as a layer of neon has them: filters as columns, biases as one."""
    return values.reshape(len(values), -1).T if values.ndim == 4 else values.reshape(len(values), -1)


def _torch(
    library: str, network: str, batch: tuple[np.ndarray, np.ndarray], parameters: list[np.ndarray]
) -> Callable[[int], list[float]]:
    variant = TorchVariant(library)
    torch = variant.torch
    function = torch.nn.functional
    given = [variant.tensor(each).requires_grad_(True) for each in parameters]
    rule = torch.optim.SGD(given, lr=RATE, momentum=MOMENTUM)
    x, labels = (variant.tensor(each) for each in batch)

    def network_of(x: Any) -> Any:
        dense = given
        if network == "conv":
            for weight in given[:2]:
                x = function.max_pool2d(function.relu(function.conv2d(x, weight)), 2)
            x, dense = x.flatten(1), given[2:]
        return function.linear(function.relu(function.linear(x, *dense[:2])), *dense[2:])

    def step() -> float:
        rule.zero_grad()
        value = function.cross_entropy(network_of(x), labels)
        value.backward()
        rule.step()
        return float(value.detach())

    return lambda count: [step() for _ in range(count)]
