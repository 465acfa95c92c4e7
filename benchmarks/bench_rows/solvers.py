"""The solvers of the libraries, with the same settings, and the update of many parameters at once."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench_rows.recorded import recorded
from bench_rows.torch_variant import TORCH, TorchVariant
from harness.case import Case

_RATE = {"adam": 1e-3, "momentum": 1e-2}
_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8
_MOMENTUM = 0.9

_PARAMETER_SIZES = [40_000, 160_000, 300_000] * 20
_COMPARED_UPDATES = 3


def recorded_solver(api: Any, name: str) -> Any:
    """NNabla's or atled's solver; name: "adam" or "momentum"."""
    return api.S.Adam(_RATE[name], _BETA1, _BETA2, _EPS) if name == "adam" else api.S.Momentum(_RATE[name], _MOMENTUM)


def torch_solver(torch: Any, name: str, parameters: Sequence[Any]) -> Any:
    """torch's quickest solver on a CPU; name: "adam" or "momentum"."""
    if name == "adam":
        return torch.optim.Adam(parameters, lr=_RATE[name], betas=(_BETA1, _BETA2), eps=_EPS, fused=True)
    return torch.optim.SGD(parameters, lr=_RATE[name], momentum=_MOMENTUM, fused=True)


class JaxSolver:
    """A solver in JAX; name: "adam" or "momentum"."""

    def __init__(self, jax: Any, name: str) -> None:
        self._jax, self._name = jax, name

    def initial(self, parameters: Any) -> Any:
        """The state before the first update."""
        zeros = [self._jax.tree.map(self._jax.numpy.zeros_like, parameters) for _ in range(2)]
        return (*zeros, 0) if self._name == "adam" else zeros[0]

    def updated(self, parameters: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
        """New parameters, new state."""
        rate, tree = _RATE[self._name], self._jax.tree
        if self._name == "momentum":
            velocity = tree.map(lambda v, g: _MOMENTUM * v + rate * g, state, gradients)
            return tree.map(lambda p, v: p - v, parameters, velocity), velocity
        mean, square, count = state
        count += 1
        mean = tree.map(lambda m, g: _BETA1 * m + (1 - _BETA1) * g, mean, gradients)
        square = tree.map(lambda v, g: _BETA2 * v + (1 - _BETA2) * g * g, square, gradients)
        step = rate * self._jax.numpy.sqrt(1 - _BETA2**count) / (1 - _BETA1**count)
        new = tree.map(lambda p, m, v: p - step * m / (self._jax.numpy.sqrt(v) + _EPS), parameters, mean, square)
        return new, (mean, square, count)


def adam_update(library: str) -> Case:
    """Adam's update of 10M parameters in 60 arrays, with gradients that stay."""
    rng = np.random.default_rng(7)
    values = [rng.standard_normal(size, dtype=np.float32) for size in _PARAMETER_SIZES]
    gradients = [rng.standard_normal(size, dtype=np.float32) for size in _PARAMETER_SIZES]
    if library in TORCH:
        run, parameters = _torch_update(TorchVariant(library), library, values, gradients)
    elif library == "jax":
        run, parameters = _jax_update(values, gradients)
    elif library == "numpy":
        run, parameters = _numpy_update(values, gradients)
    else:
        run, parameters = _recorded_update(library, values, gradients)

    def results() -> list[np.ndarray]:
        for _ in range(_COMPARED_UPDATES):
            run()
        return parameters()

    return Case(run, results)


def _recorded_update(library: str, values: Sequence[np.ndarray], gradients: Sequence[np.ndarray]) -> Any:
    api = recorded(library)
    solver = recorded_solver(api, "adam")
    variables = [api.nn.Variable(value.shape, need_grad=True) for value in values]
    solver.set_parameters({str(number): variable for number, variable in enumerate(variables)})
    solver.zero_grad()
    for variable, value, gradient in zip(variables, values, gradients, strict=True):
        variable.d, variable.g = value, gradient
    return solver.update, lambda: [variable.d.copy() for variable in variables]


def _torch_update(
    variant: TorchVariant, library: str, values: Sequence[np.ndarray], gradients: Sequence[np.ndarray]
) -> Any:
    torch = variant.torch
    tensors = [variant.tensor(value).requires_grad_(True) for value in values]
    for tensor, gradient in zip(tensors, gradients, strict=True):
        tensor.grad = variant.tensor(gradient)
    if library.endswith("-compile"):
        # The fused solver is one call already; the compiler fuses the other one.
        solver = torch.optim.Adam(tensors, lr=_RATE["adam"], betas=(_BETA1, _BETA2), eps=_EPS, foreach=True)
    else:
        solver = torch_solver(torch, "adam", tensors)
    return variant.built(solver.step), lambda: [tensor.detach().cpu().numpy().copy() for tensor in tensors]


def _jax_update(values: Sequence[np.ndarray], gradients: Sequence[np.ndarray]) -> Any:
    jax = importlib.import_module("jax")
    solver = JaxSolver(jax, "adam")
    parameters = [jax.device_put(value) for value in values]
    given = [jax.device_put(gradient) for gradient in gradients]
    state = solver.initial(parameters)
    compiled = jax.jit(solver.updated, donate_argnums=(0, 2))

    def run() -> None:
        nonlocal parameters, state
        parameters, state = jax.block_until_ready(compiled(parameters, given, state))

    return run, lambda: [np.asarray(parameter) for parameter in parameters]


def _numpy_update(values: Sequence[np.ndarray], gradients: Sequence[np.ndarray]) -> Any:
    means, squares = ([np.zeros_like(value) for value in values] for _ in range(2))
    first, second = (np.empty(max(_PARAMETER_SIZES), np.float32) for _ in range(2))
    count = 0

    def run() -> None:
        nonlocal count
        count += 1
        step = _RATE["adam"] * (1 - _BETA2**count) ** 0.5 / (1 - _BETA1**count)
        for p, g, m, v in zip(values, gradients, means, squares, strict=True):
            a, b = first[: p.size], second[: p.size]
            m *= _BETA1
            m += np.multiply(g, 1 - _BETA1, out=a)
            v *= _BETA2
            v += np.multiply(np.multiply(g, g, out=a), 1 - _BETA2, out=a)
            np.add(np.sqrt(v, out=a), _EPS, out=a)
            np.divide(np.multiply(m, step, out=b), a, out=b)
            p -= b

    return run, lambda: [value.copy() for value in values]
