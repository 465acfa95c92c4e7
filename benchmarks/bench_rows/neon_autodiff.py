"""Gradients of neon's op-trees by Autodiff: of a small tree that is built at each step, and of batch normalization."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from bench_rows.neon_trees import EPSILON
from bench_rows.neon_trees import batch_norm as peer_batch_norm
from bench_rows.torch_variant import TORCH, TorchVariant
from harness.case import Case

STEPS = 100
"""Trees that one run of the case differentiates."""


def known_tree(library: str, side: int) -> Case:
    """`x * y + tanh(x) * z - 0.5 * y`, built anew; its gradients as trees, which are assigned. In torch the same."""
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(side, side)).astype(np.float32) for _ in range(3)]
    if library in TORCH:
        variant = TorchVariant(library)
        torch = variant.torch
        leaves = [variant.tensor(array).requires_grad_(True) for array in arrays]
        ones = variant.tensor(np.ones((side, side), np.float32))
        function = variant.built(lambda x, y, z: x * y + torch.tanh(x) * z - 0.5 * y)

        def gradients() -> Any:
            return torch.autograd.grad(function(*leaves), leaves, ones)

        def run_torch() -> None:
            for _ in range(STEPS):
                gradients()

        return Case(run_torch, lambda: [each.cpu().numpy() for each in gradients()])
    be, autodiff = _backend()
    tensors = [be.array(array) for array in arrays]
    x, y, z = tensors
    outs = [be.empty((side, side)) for _ in tensors]

    def run() -> None:
        for _ in range(STEPS):
            trees = autodiff(x * y + be.tanh(x) * z - 0.5 * y, be).get_grad_op_tree(tensors)
            for out, tree in zip(outs, trees, strict=True):
                out[:] = tree

    return Case(run, lambda: [run(), *(out.get() for out in outs)][1:])


def batch_norm(library: str, side: int) -> Case:
    """Batch normalization of rows as a tree, and the gradients of input, scale and shift for an error, by Autodiff."""
    if library != "atled":
        return peer_batch_norm(library, side)
    random = np.random.default_rng(0)
    shapes = (side, side), (side, 1), (side, 1), (side, side)
    be, autodiff = _backend()
    x, gamma, beta, error = (be.array(random.normal(size=shape).astype(np.float32)) for shape in shapes)
    out, *gradients = (be.empty(shape) for shape in (shapes[0], *shapes[:3]))

    def run() -> None:
        tree = gamma * ((x - be.mean(x, axis=1)) / be.sqrt(be.var(x, axis=1) + EPSILON)) + beta
        out[:] = tree
        autodiff(tree, be, error).back_prop_grad([x, gamma, beta], gradients)

    return Case(run, lambda: [run(), *(each.get() for each in (out, *gradients))][1:])


def _backend() -> Any:
    """A backend on the host, and Autodiff."""
    backends = importlib.import_module("atled.neon.backends")
    return backends.gen_backend("cpu"), backends.Autodiff
