"""Training steps of networks of neon's layers, with all of their Python, beside torch's eager steps."""

from __future__ import annotations

import importlib
from collections.abc import Callable
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

_COMPARED_STEPS = 4


def step(library: str, network: str) -> Case:
    """A training step by momentum on one of three batches of 128 in turn, of a network of `SHAPES`; gives the cost."""
    random = np.random.default_rng(0)
    sizes = SIZES[network]
    shape = (BATCH, *(sizes if isinstance(sizes, tuple) else (sizes,)))
    batches = [(random.normal(size=shape).astype(np.float32), random.integers(CLASSES, size=BATCH)) for _ in range(3)]
    parameters = [_start(random, shape) for shape in SHAPES[network]]
    run = _ours(network, batches, parameters) if library == "atled" else _torch(library, network, batches, parameters)
    count = 0

    def next_step() -> float:
        nonlocal count
        count += 1
        return run(count % len(batches))

    return Case(next_step, lambda: [np.array([next_step() for _ in range(_COMPARED_STEPS)])])


def _start(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    return (random.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def _ours(network: str, batches: list[tuple[np.ndarray, np.ndarray]], parameters: list[np.ndarray]) -> Any:
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
    net = layers.Sequential(dense)
    net.configure(SIZES[network])
    net.allocate()
    net.allocate_deltas()
    cost = layers.GeneralizedCost(transforms.CrossEntropyMulti())
    cost.initialize(net)
    owners = [layer for layer in net.layers if layer.has_params]
    for layer, values in zip(owners, parameters, strict=True):
        layer.W[:] = _as_neon(values)
    rule = optimizers.GradientDescentMomentum(RATE, MOMENTUM)
    data = [
        (be.array(np.ascontiguousarray(x.reshape(BATCH, -1).T)), be.array(np.eye(CLASSES, dtype=np.float32)[:, t]))
        for x, t in batches
    ]

    def run(number: int) -> float:
        x, t = data[number]
        y = net.fprop(x)
        value = cost.get_cost(y, t)
        net.bprop(cost.get_errors(y, t))
        rule.optimize(net.layers_to_optimize, epoch=0)
        return float(value[0, 0])

    return run


def _as_neon(values: np.ndarray) -> np.ndarray:
    """The same values as a layer of neon has them: filters as columns, biases as one."""
    return values.reshape(len(values), -1).T if values.ndim == 4 else values.reshape(len(values), -1)


def _torch(
    library: str, network: str, batches: list[tuple[np.ndarray, np.ndarray]], parameters: list[np.ndarray]
) -> Callable[[int], float]:
    variant = TorchVariant(library)
    torch = variant.torch
    function = torch.nn.functional
    given = [variant.tensor(each).requires_grad_(True) for each in parameters]
    rule = torch.optim.SGD(given, lr=RATE, momentum=MOMENTUM)
    data = [(variant.tensor(x), variant.tensor(t)) for x, t in batches]

    def network_of(x: Any) -> Any:
        dense = given
        if network == "conv":
            for weight in given[:2]:
                x = function.max_pool2d(function.relu(function.conv2d(x, weight)), 2)
            x, dense = x.flatten(1), given[2:]
        return function.linear(function.relu(function.linear(x, *dense[:2])), *dense[2:])

    def run(number: int) -> float:
        x, t = data[number]
        rule.zero_grad()
        value = function.cross_entropy(network_of(x), t)
        value.backward()
        rule.step()
        return float(value.detach())

    return run
