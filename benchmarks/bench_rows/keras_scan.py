"""Scans of the Keras-style backend: a Gibbs chain, a recurrent layer of 50 steps, 1000 steps on four numbers."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from bench_rows import jax_loops
from harness.case import Case

ROWS, VISIBLE, HIDDEN, GIBBS_STEPS = 100, 784, 500, 5
_STEPS, _BATCH, _UNITS = 50, 32, 64
SHORT_STEPS, _NUMBERS, _RATE = 1000, 4, 0.1


def gibbs(library: str) -> Case:
    """Five times hidden from visible units and back, sampled each time; the chain goes on at each call."""
    rng = np.random.default_rng(0)
    shapes = ((VISIBLE, HIDDEN), (VISIBLE,), (HIDDEN,))
    arrays = [rng.normal(scale=0.01, size=shape).astype(np.float32) for shape in shapes]
    arrays.append((rng.random((ROWS, VISIBLE)) < 0.3).astype(np.float32))
    return Case(_jax_gibbs(*arrays) if library == "jax" else _gibbs(*arrays))


def recurrent(library: str) -> Case:
    """`h = sigmoid(h w + x + b)`: the sum of all h, and its gradients by x, the first h, w and b."""
    rng = np.random.default_rng(8)
    shapes = ((_STEPS, _BATCH, _UNITS), (_BATCH, _UNITS), (_UNITS, _UNITS), (_UNITS,))
    arrays = [rng.standard_normal(shape, dtype=np.float32) / np.float32(10) for shape in shapes]
    peers = {"jax": partial(jax_loops.recurrent, activation="sigmoid"), "torch": _torch_recurrent}
    run = peers.get(library, _recurrent)(arrays)
    return Case(run, lambda: [np.array(result) for result in run()])


def average(library: str) -> Case:
    """`s = s + rate (x - s)`: all s."""
    rng = np.random.default_rng(9)
    arrays = [rng.standard_normal(shape, dtype=np.float32) for shape in ((SHORT_STEPS, _NUMBERS), (_NUMBERS,))]
    run = jax_loops.average(arrays, _RATE) if library == "jax" else _average(arrays)
    return Case(run, lambda: [np.array(result) for result in run()])


def _gibbs(w: np.ndarray, b: np.ndarray, c: np.ndarray, v: np.ndarray) -> Callable[[], object]:
    backend = importlib.import_module("atled.keras_backend")
    weights, visible, hidden, chain = map(backend.variable, (w, b, c, v))
    rng = backend.make_rng(1)

    def step(v: Any) -> Any:
        p = backend.sigmoid(v.dot(weights) + hidden)
        h = backend.random_binomial((ROWS, HIDDEN), p=p, rng=rng)
        p = backend.sigmoid(h.dot(weights.T) + visible)
        return backend.random_binomial((ROWS, VISIBLE), p=p, rng=rng)

    samples, updates = backend.scan(step, outputs_info=[chain], n_steps=GIBBS_STEPS)
    return backend.function([], [], updates=[*updates.items(), (chain, samples[-1])])


def _jax_gibbs(w: np.ndarray, b: np.ndarray, c: np.ndarray, v: np.ndarray) -> Callable[[], object]:
    jax = importlib.import_module("jax")
    random, sigmoid = jax.random, jax.nn.sigmoid

    def chain(w: Any, b: Any, c: Any, v: Any, key: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            v, key = carry
            key, first, second = random.split(key, 3)
            h = random.bernoulli(first, sigmoid(v @ w + c)).astype(v.dtype)
            v = random.bernoulli(second, sigmoid(h @ w.T + b)).astype(v.dtype)
            return (v, key), None

        return jax.lax.scan(step, (v, key), None, length=GIBBS_STEPS)[0]

    function = jax.jit(chain, donate_argnums=(3, 4))
    weights = [jax.device_put(each) for each in (w, b, c)]
    state = [(jax.device_put(v), random.key(1))]

    def run() -> None:
        state[0] = jax.block_until_ready(function(*weights, *state[0]))

    return run


def _recurrent(arrays: Sequence[np.ndarray]) -> Callable[[], Sequence[Any]]:
    backend = importlib.import_module("atled.keras_backend")
    x, h, w, b = variables = [*map(backend.variable, arrays)]
    rows, _ = backend.scan(lambda row, h: backend.sigmoid(h.dot(w) + row + b), outputs_info=[h], sequences=[x])
    total = backend.sum(rows)
    function = backend.function([], [total, *backend.gradients(total, variables)])
    return lambda: function()


def _torch_recurrent(arrays: Sequence[np.ndarray]) -> Callable[[], Sequence[Any]]:
    torch = importlib.import_module("torch")
    x, h0, w, b = inputs = [torch.from_numpy(array).requires_grad_() for array in arrays]

    def run() -> Sequence[Any]:
        h, total = h0, 0.0
        for row in x:
            h = torch.sigmoid(torch.addmm(b, h, w) + row)
            total = total + h.sum()
        return [total.detach(), *torch.autograd.grad(total, inputs)]

    return run


def _average(arrays: Sequence[np.ndarray]) -> Callable[[], Sequence[Any]]:
    backend = importlib.import_module("atled.keras_backend")
    x, s = map(backend.variable, arrays)
    rows, _ = backend.scan(lambda row, s: s + _RATE * (row - s), outputs_info=[s], sequences=[x])
    function = backend.function([], [rows])
    return lambda: function()
