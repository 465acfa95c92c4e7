"""What JAX makes of the loops in rows of the benchmark: a recurrent layer with gradients, a moving average."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def recurrent(arrays: Sequence[np.ndarray], activation: str) -> Callable[[], Sequence[Any]]:
    """`h = activation(h w + x + b)`, of `jax.nn`: the sum of all h, its gradients by x, the first h, w, b."""
    jax = importlib.import_module("jax")
    activate = getattr(jax.nn, activation)

    def total(x: Any, h: Any, w: Any, b: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = activate(h @ w + row + b)
            return h, h

        return jax.lax.scan(step, h, x)[1].sum()

    function = jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2, 3)))
    inputs = [jax.device_put(array) for array in arrays]

    def run() -> Sequence[Any]:
        y, gradients = jax.block_until_ready(function(*inputs))
        return [y, *gradients]

    return run


def average(arrays: Sequence[np.ndarray], rate: float) -> Callable[[], Sequence[Any]]:
    """`s = s + rate (x - s)`: all s."""
    jax = importlib.import_module("jax")

    def step(s: Any, row: Any) -> Any:
        s = s + rate * (row - s)
        return s, s

    function = jax.jit(lambda x, s: jax.lax.scan(step, s, x)[1])
    inputs = [jax.device_put(array) for array in arrays]
    return lambda: [jax.block_until_ready(function(*inputs))]
