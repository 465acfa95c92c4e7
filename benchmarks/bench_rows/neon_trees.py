"""Expressions as neon's op-trees have them: a chain, and batch normalization with its gradients."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from bench_rows.torch_variant import TORCH, TorchVariant
from harness.case import Case

EPSILON = 1e-3


TREES = 100
"""Assignments that one run of `small` makes."""


def _expression(x: Any, y: Any, z: Any, tanh: Any) -> Any:
    return x * y + tanh(x) * z - 0.5 * y


def small(library: str, is_kept: bool) -> Case:
    """`out[:] = x * y + tanh(x) * z - 0.5 * y` of 8x8, the tree made anew each time or kept; in torch eager calls."""
    arrays = _arrays(8, 3)
    if library in TORCH:
        variant = TorchVariant(library)
        x, y, z, out = [variant.tensor(array) for array in (*arrays, arrays[0])]
        tanh = variant.torch.tanh

        def run_torch() -> None:
            for _ in range(TREES):
                out.copy_(_expression(x, y, z, tanh))

        return Case(run_torch, lambda: [run_torch(), out.cpu().numpy()][1:])
    be, (x, y, z), out = _tensors(arrays)
    kept = _expression(x, y, z, be.tanh)

    def run() -> None:
        for _ in range(TREES):
            out[:] = kept if is_kept else _expression(x, y, z, be.tanh)

    return Case(run, lambda: [run(), out.get()][1:])


def chain(library: str, side: int) -> Case:
    """`out[:] = x * y + tanh(x) * z - 0.5 * y`, a tree that is kept; in NumPy node by node."""
    arrays = _arrays(side, 3)
    if library == "numpy":
        (x, y, z), out = arrays, np.empty((side, side), np.float32)

        def run() -> None:
            out[...] = _expression(x, y, z, np.tanh)

        return Case(run, lambda: [run(), out.copy()][1:])
    if library in TORCH:
        variant = TorchVariant(library)
        torch = variant.torch
        tensors = [variant.tensor(array) for array in arrays]
        function = variant.built(lambda x, y, z: _expression(x, y, z, torch.tanh))

        def run_torch() -> Any:
            with torch.no_grad():
                return function(*tensors)

        return Case(run_torch, lambda: [run_torch().cpu().numpy()])
    if library == "jax":
        jax = importlib.import_module("jax")
        function = jax.jit(lambda x, y, z: _expression(x, y, z, jax.numpy.tanh))
        given = [jax.device_put(array) for array in arrays]
        return Case(lambda: function(*given).block_until_ready(), lambda: [np.asarray(function(*given))])
    be, tensors, target = _tensors(arrays)
    tree = _expression(*tensors, be.tanh)

    def run_tree() -> None:
        target[:] = tree

    return Case(run_tree, lambda: [run_tree(), target.get()][1:])


def _arrays(side: int, count: int) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.normal(size=(side, side)).astype(np.float32) for _ in range(count)]


def _tensors(arrays: list[np.ndarray]) -> tuple[Any, list[Any], Any]:
    """A backend of ours on the host, tensors of it with these values, and one for the result."""
    be = importlib.import_module("atled.neon.backends").gen_backend("cpu", rng_seed=0, batch_size=1)
    return be, [be.array(array) for array in arrays], be.zeros(arrays[0].shape)


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
