"""Expressions as neon's op-trees have them: a chain, and batch normalization with its gradients."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from bench_rows.torch_variant import TORCH, TorchVariant
from harness.case import Case

EPSILON = 1e-3


def chain(library: str, side: int) -> Case:
    """`out = x * y + tanh(x) * z - 0.5 * y`."""
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(side, side)).astype(np.float32) for _ in range(3)]
    if library == "numpy":
        (x, y, z), out = arrays, np.empty((side, side), np.float32)

        def run() -> None:
            out[...] = x * y + np.tanh(x) * z - np.float32(0.5) * y

        return Case(run, lambda: [run(), out.copy()][1:])
    if library in TORCH:
        variant = TorchVariant(library)
        torch = variant.torch
        tensors = [variant.tensor(array) for array in arrays]
        function = variant.built(lambda x, y, z: x * y + torch.tanh(x) * z - 0.5 * y)

        def run_torch() -> Any:
            with torch.no_grad():
                return function(*tensors)

        return Case(run_torch, lambda: [run_torch().cpu().numpy()])
    if library == "jax":
        jax = importlib.import_module("jax")
        function = jax.jit(lambda x, y, z: x * y + jax.numpy.tanh(x) * z - 0.5 * y)
        given = [jax.device_put(array) for array in arrays]
        return Case(lambda: function(*given).block_until_ready(), lambda: [np.asarray(function(*given))])
    d, (x, y, z) = _description(arrays)
    total = d.call("Add2", d.call("Mul2", x, y), d.call("Mul2", d.call("Tanh", x), z))
    (out,) = _assigned(d, [d.call("Sub2", total, d.call("Mul2", y, d.number(0.5)))], [(side, side)])
    return Case(d.run, lambda: [d.run(), out.data.copy()][1:])


def batch_norm(library: str, side: int) -> Case:
    """`gamma * (x - mean) / sqrt(var + epsilon) + beta` of rows, and the gradients of all three for an error."""
    random = np.random.default_rng(0)
    shapes = (side, side), (side, 1), (side, 1), (side, side)
    x, gamma, beta, error = (random.normal(size=shape).astype(np.float32) for shape in shapes)
    if library == "numpy":
        return _numpy_batch_norm(x, gamma, beta, error)
    if library in TORCH:
        variant = TorchVariant(library)
        torch = variant.torch
        leaves = [variant.tensor(array).requires_grad_(True) for array in (x, gamma, beta)]
        errors = variant.tensor(error)

        def normalized(x: Any, gamma: Any, beta: Any) -> Any:
            mean, variance = x.mean(1, keepdim=True), x.var(1, keepdim=True, unbiased=False)
            return gamma * ((x - mean) / torch.sqrt(variance + EPSILON)) + beta

        function = variant.built(normalized)

        def run() -> list[Any]:
            y = function(*leaves)
            return [y, *torch.autograd.grad(y, leaves, errors)]

        return Case(run, lambda: [each.detach().cpu().numpy() for each in run()])
    d, leaves = _description([x, gamma, beta, error])
    mean = d.call("Mean", leaves[0], axes=(1,), keep_dims=True)
    centred = d.call("Sub2", leaves[0], mean)
    variance = d.call("Mean", d.call("Mul2", centred, centred), axes=(1,), keep_dims=True)
    deviation = d.call("PowScalar", d.call("Add2", variance, d.number(EPSILON)), val=0.5)
    scaled = d.call("Mul2", leaves[1], d.call("Div2", centred, deviation))
    y = d.call("Add2", scaled, leaves[2])
    values = [y, *d.gradients(y, leaves[:3], leaves[3])]
    outs = _assigned(d, values, [shapes[0], *shapes[:3]])
    return Case(d.run, lambda: [d.run(), *(out.data.copy() for out in outs)][1:])


def _numpy_batch_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, error: np.ndarray) -> Case:
    """Four trees, node by node, as neon's own backend evaluates them: what they have in common is computed by each."""
    epsilon, count = np.float32(EPSILON), np.float32(x.shape[1])

    def centred() -> np.ndarray:
        return x - np.mean(x, axis=1, keepdims=True)

    def deviation() -> np.ndarray:
        return np.sqrt(np.var(x, axis=1, keepdims=True) + epsilon)

    def of_centred() -> np.ndarray:
        return error * gamma / deviation()

    def of_variance() -> np.ndarray:
        of_deviation = np.sum(-(error * gamma) * centred() / (deviation() * deviation()), axis=1, keepdims=True)
        return of_deviation * np.float32(0.5) / deviation()

    def run() -> list[np.ndarray]:
        y = centred() / deviation() * gamma + beta
        by_mean = np.sum(-of_centred(), axis=1, keepdims=True) / count
        of_x = of_centred() + by_mean + of_variance() * (np.float32(2) * centred() / count)
        of_gamma = np.sum(error * (centred() / deviation()), axis=1, keepdims=True)
        return [y, of_x, of_gamma, np.sum(error, axis=1, keepdims=True)]

    return Case(run, run)


def _description(arrays: list[np.ndarray]) -> tuple[Any, list[int]]:
    """A description of ours, and leaves of arrays with these values."""
    nn, keyed = importlib.import_module("atled"), importlib.import_module("atled.keyed")
    d = keyed.Description()
    return d, [d.leaf(nn.NdArray.from_numpy_array(array)) for array in arrays]


def _assigned(d: Any, values: list[int], shapes: list[tuple[int, ...]]) -> list[Any]:
    """Arrays to which a description assigns values."""
    nn = importlib.import_module("atled")
    outs = [nn.NdArray.from_numpy_array(np.zeros(shape, np.float32)) for shape in shapes]
    for out, value in zip(outs, values, strict=True):
        d.assign(out, value)
    return outs
