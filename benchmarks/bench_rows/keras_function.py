"""Functions of the Keras-style backend with updates: a counter, a logistic step, a step of contrastive divergence."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench_rows.starting import seconds_of
from harness.case import Case

COUNTS = 1000
"""Calls of the counter that one run of the case is."""

_EXAMPLES, _ROWS, _PIXELS, _CLASSES, _RATE = 2048, 512, 784, 10, 0.1
_BATCH, _HIDDEN, _MOMENTUM, _RBM_RATE = 100, 500, 0.9, 0.05
_SIZES = 2  # batch sizes of one reading: JAX takes a second for each

Step = Callable[[np.ndarray], Any]
"""A step on the examples of some numbers, which gives the loss before it."""


def counter(library: str) -> Case:
    """One variable that each call counts up by one."""
    if library == "jax":
        jax = importlib.import_module("jax")
        add = jax.jit(lambda count: count + 1.0, donate_argnums=0)
        state = [jax.device_put(np.float32(0))]

        def run_jax() -> None:
            count = state[0]
            for _ in range(COUNTS):
                count = add(count)
            state[0] = jax.block_until_ready(count)

        return Case(run_jax)
    backend = importlib.import_module("atled.keras_backend")
    count = backend.variable(0.0)
    function = backend.function([], [], updates=[(count, count + 1.0)])

    def run() -> None:
        for _ in range(COUNTS):
            function()

    return Case(run)


def logistic(library: str) -> Case:
    """Logistic regression 784 to 10: loss, gradient and update for 512 examples, by their numbers."""
    step, batch = _STEPS["logistic", library](), np.arange(_ROWS, dtype=np.int32)
    return Case(lambda: step(batch), lambda: [np.array(step(batch)) for _ in range(3)])


def contrastive_divergence(library: str) -> Case:
    """A restricted Boltzmann machine 784 to 500, CD-1 on 100 examples: weights, biases and momentum are updated."""
    step, batch = _STEPS["rbm", library](), np.arange(_BATCH, dtype=np.int32)
    return Case(lambda: step(batch))


def batch_size(library: str, network: str) -> Case:
    """Seconds of a step with a batch size that was not there before, of a function that had two others."""
    step = _STEPS[network, library]()
    for size in (100, 99):
        step(np.arange(size, dtype=np.int32))
    sizes = iter(range(101, _EXAMPLES))

    def run() -> float:
        start = time.perf_counter()
        for _ in range(_SIZES):
            step(np.arange(next(sizes), dtype=np.int32))
        return (time.perf_counter() - start) / _SIZES

    return Case(run, is_reading=True)


def first_step(library: str, network: str, is_warm: bool) -> Case:
    """Seconds from process start to the end of the first step; is_warm: we need not compile anything anew.

    JAX compiles in each process, as it does unless it is told to keep what it compiled.
    """
    code = f"from bench_rows.keras_function import step_once; step_once({library!r}, {network!r})"
    return seconds_of(code, is_warm and library == "atled")


def step_once(library: str, network: str) -> None:
    """Build it, and make one step."""
    _STEPS[network, library]()(np.arange(_BATCH, dtype=np.int32))


def _digits() -> tuple[np.ndarray, np.ndarray]:
    """Examples and their classes, one of ten each."""
    rng = np.random.default_rng(0)
    examples = rng.normal(size=(_EXAMPLES, _PIXELS)).astype(np.float32)
    return examples, np.eye(_CLASSES, dtype=np.float32)[rng.integers(0, _CLASSES, _EXAMPLES)]


def _logistic() -> Step:
    backend = importlib.import_module("atled.keras_backend")
    examples, classes = map(backend.variable, _digits())
    parameters = w, b = backend.zeros((_PIXELS, _CLASSES)), backend.zeros((_CLASSES,))
    x, y = (backend.placeholder(ndim=2) for _ in range(2))
    z = x.dot(w) + b
    loss = backend.mean(backend.sum((backend.logsumexp(z, axis=1, keepdims=True) - z) * y, axis=1))
    gradients = backend.gradients(loss, [w, b])
    updates = [(each, each - gradient * _RATE) for each, gradient in zip(parameters, gradients, strict=True)]
    index = backend.placeholder(ndim=1, dtype="int32")
    step: Step = backend.function([index], loss, updates=updates, givens={x: examples[index], y: classes[index]})
    return step


def _jax_logistic() -> Step:
    jax = importlib.import_module("jax")
    examples, classes = map(jax.device_put, _digits())

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        z = x @ parameters[0] + parameters[1]
        return jax.numpy.mean(jax.numpy.sum((jax.nn.logsumexp(z, axis=1, keepdims=True) - z) * y, axis=1))

    def update(parameters: Any, index: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(parameters, examples[index], classes[index])
        return [each - _RATE * gradient for each, gradient in zip(parameters, gradients)], value  # noqa: B905  # 3.10

    function = jax.jit(update, donate_argnums=0)
    shapes = (_PIXELS, _CLASSES), (_CLASSES,)
    state = [[jax.device_put(np.zeros(shape, np.float32)) for shape in shapes]]

    def step(batch: np.ndarray) -> Any:
        state[0], value = jax.block_until_ready(function(state[0], batch))
        return value

    return step


def _rbm_arrays() -> tuple[np.ndarray, list[np.ndarray]]:
    """Examples; weights and the biases of both layers."""
    rng = np.random.default_rng(0)
    weights = rng.normal(scale=0.01, size=(_PIXELS, _HIDDEN)).astype(np.float32)
    biases = [np.zeros(size, np.float32) for size in (_PIXELS, _HIDDEN)]
    return (rng.random((_EXAMPLES, _PIXELS)) < 0.3).astype(np.float32), [weights, *biases]


def _rbm() -> Step:
    backend = importlib.import_module("atled.keras_backend")
    arrays, start = _rbm_arrays()
    examples, parameters = backend.variable(arrays), [backend.variable(each) for each in start]
    w, b, c = parameters
    rng = backend.make_rng(1)
    x, index = backend.placeholder(ndim=2), backend.placeholder(ndim=1, dtype="int32")

    def sampled(p: Any) -> Any:
        return backend.random_binomial(p.shape, p=p, rng=rng)

    def energy(v: Any) -> Any:
        return -v.dot(b) - backend.sum(backend.log(1.0 + backend.exp(v.dot(w) + c)), axis=1)

    hidden = sampled(backend.sigmoid(x.dot(w) + c))
    visible = backend.stop_gradient(sampled(backend.sigmoid(hidden.dot(w.T) + b)))
    loss = backend.mean(energy(x)) - backend.mean(energy(visible))
    updates = []
    for parameter, gradient in zip(parameters, backend.gradients(loss, parameters), strict=True):
        momentum = backend.zeros_like(parameter)
        moved = momentum * _MOMENTUM - gradient * _RBM_RATE
        updates += [(momentum, moved), (parameter, parameter + moved)]
    step: Step = backend.function([index], loss, updates=updates, givens={x: examples[index]})
    return step


def _jax_rbm() -> Step:
    jax = importlib.import_module("jax")
    random, sigmoid = jax.random, jax.nn.sigmoid
    arrays, start = _rbm_arrays()
    examples = jax.device_put(arrays)

    def energy(parameters: Any, v: Any) -> Any:
        w, b, c = parameters
        return -(v @ b) - jax.numpy.sum(jax.numpy.log(1.0 + jax.numpy.exp(v @ w + c)), axis=1)

    def update(parameters: Any, momenta: Any, key: Any, index: Any) -> Any:
        w, b, c = parameters
        x = examples[index]
        key, first, second = random.split(key, 3)
        hidden = random.bernoulli(first, sigmoid(x @ w + c)).astype(x.dtype)
        visible = random.bernoulli(second, sigmoid(hidden @ w.T + b)).astype(x.dtype)

        def loss(parameters: Any) -> Any:
            return jax.numpy.mean(energy(parameters, x)) - jax.numpy.mean(energy(parameters, visible))

        value, gradients = jax.value_and_grad(loss)(parameters)
        pairs = zip(momenta, gradients)  # noqa: B905  # Python 3.10 reads this file, too
        momenta = [_MOMENTUM * each - _RBM_RATE * gradient for each, gradient in pairs]
        return [each + moved for each, moved in zip(parameters, momenta)], momenta, key, value  # noqa: B905  # as above

    function = jax.jit(update, donate_argnums=(0, 1, 2))
    parameters = [jax.device_put(each) for each in start]
    state = [[parameters, [jax.numpy.zeros_like(each) for each in parameters], random.key(1)]]

    def step(batch: np.ndarray) -> Any:
        *state[0], value = jax.block_until_ready(function(*state[0], batch))
        return value

    return step


def _torch_rbm() -> Step:
    torch = importlib.import_module("torch")
    arrays, start = _rbm_arrays()
    examples = torch.from_numpy(arrays)
    parameters = w, b, c = [torch.from_numpy(each) for each in start]
    momenta = [torch.zeros_like(each) for each in parameters]

    def step(batch: np.ndarray) -> Any:
        # The gradients by hand: they are means of products, and autograd takes longer.
        x = examples[torch.from_numpy(batch)]
        p = torch.sigmoid(torch.addmm(c, x, w))
        hidden = torch.bernoulli(p)
        visible = torch.bernoulli(torch.sigmoid(torch.addmm(b, hidden, w.T)))
        q = torch.sigmoid(torch.addmm(c, visible, w))
        gradients = (x.T @ p).sub_(visible.T @ q), (x - visible).sum(0), (p - q).sum(0)
        for parameter, momentum, gradient in zip(parameters, momenta, gradients):  # noqa: B905  # as above
            momentum.mul_(_MOMENTUM).add_(gradient, alpha=_RBM_RATE / len(batch))
            parameter.add_(momentum)
        return w

    return step


_STEPS: dict[tuple[str, str], Callable[[], Step]] = {
    ("logistic", "atled"): _logistic,
    ("logistic", "jax"): _jax_logistic,
    ("rbm", "atled"): _rbm,
    ("rbm", "jax"): _jax_rbm,
    ("rbm", "torch"): _torch_rbm,
}
