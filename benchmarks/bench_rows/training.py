"""Training steps: copy a batch in, forward, zero_grad, backward, update, read the loss."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench_rows.networks import NETWORKS, Network, batches, initial_parameters, is_statistic
from bench_rows.recorded import recorded
from bench_rows.solvers import JaxSolver, recorded_solver, torch_solver
from bench_rows.torch_variant import TORCH, TorchVariant
from harness.case import Case

Batches = Iterator[tuple[np.ndarray, np.ndarray]]

# Losses of the first steps are compared; later ones drift apart by rounding.
_COMPARED_STEPS = 4

_BN_EPS = 1e-5


def training_step(library: str, network: str, dynamic: bool = False) -> Case:
    """One step of a network of `networks.py`, on one of some batches in turn.

    dynamic: NNabla and atled make the graph anew each time, and compute while they make it.
    """
    chosen = NETWORKS[network]
    data = batches(chosen)
    if library in TORCH:
        step = _torch_step(TorchVariant(library), chosen, data)
    elif library == "jax":
        step = _jax_step(chosen, data)
    else:
        step = _recorded_step(library, chosen, data, dynamic)
    return stepping(step)


def stepping(step: Callable[[], float]) -> Case:
    """The case of a training step that returns the loss."""
    return Case(step, lambda: [np.array([step() for _ in range(_COMPARED_STEPS)])])


class RecordedLayers:
    """NNabla's and atled's; see `networks.Layers`."""

    def __init__(self, api: Any) -> None:
        self._F, self._PF = api.F, api.PF
        self.relu, self.tanh = api.F.relu, api.F.tanh

    def convolution(self, h: Any, maps: int, kernel: int, name: str, pad: int = 0, stride: int = 1) -> Any:
        window = {"pad": (pad, pad), "stride": (stride, stride)}
        return self._PF.convolution(h, maps, (kernel, kernel), name=name, **window)

    def batch_normalization(self, h: Any, name: str) -> Any:
        return self._PF.batch_normalization(h, eps=_BN_EPS, name=name)

    def affine(self, h: Any, size: int, name: str) -> Any:
        return self._PF.affine(h, size, name=name)

    def max_pooling(self, h: Any, size: int) -> Any:
        return self._F.max_pooling(h, (size, size))

    def average_pooling(self, h: Any, size: int) -> Any:
        return self._F.average_pooling(h, (size, size))


def _recorded_step(library: str, network: Network, data: Batches, dynamic: bool) -> Callable[[], float]:
    api = recorded(library)
    layers = RecordedLayers(api)
    x = api.nn.Variable((network.batch, *network.shape))
    t = api.nn.Variable((network.batch, 1))

    def made() -> Any:
        return api.F.mean(api.F.softmax_cross_entropy(network.scores(layers, x), t))

    static_loss = made()
    for name, values in initial_parameters(network).items():
        api.nn.get_parameters(grad_only=False)[name].d = values
    solver = recorded_solver(api, network.solver)
    solver.set_parameters(api.nn.get_parameters())

    def step() -> float:
        x.d, t.d = next(data)
        if dynamic:
            with api.nn.auto_forward():
                loss = made()
        else:
            loss = static_loss
            loss.forward(clear_no_need_grad=True)
        solver.zero_grad()
        loss.backward(clear_buffer=True)
        solver.update()
        return float(loss.d)

    return step


class _TorchLayers:
    """torch's, with parameters by name; see `networks.Layers`."""

    def __init__(self, functional: Any, parameters: dict[str, Any]) -> None:
        self._F, self._parameters = functional, parameters
        self.relu = functional.relu

    def tanh(self, h: Any) -> Any:
        return h.tanh()

    def convolution(self, h: Any, maps: int, kernel: int, name: str, pad: int = 0, stride: int = 1) -> Any:
        w, b = self._parameters[f"{name}/conv/W"], self._parameters[f"{name}/conv/b"]
        return self._F.conv2d(h, w, b, stride=stride, padding=pad)

    def batch_normalization(self, h: Any, name: str) -> Any:
        mean, variance, gamma, beta = (
            self._parameters[f"{name}/bn/{kind}"] for kind in ("mean", "var", "gamma", "beta")
        )
        return self._F.batch_norm(h, mean, variance, gamma, beta, training=True, eps=_BN_EPS)

    def affine(self, h: Any, size: int, name: str) -> Any:
        return self._F.linear(h.flatten(1), self._parameters[f"{name}/affine/W"], self._parameters[f"{name}/affine/b"])

    def max_pooling(self, h: Any, size: int) -> Any:
        return self._F.max_pool2d(h, size)

    def average_pooling(self, h: Any, size: int) -> Any:
        return self._F.avg_pool2d(h, size)


def _torch_step(variant: TorchVariant, network: Network, data: Batches) -> Callable[[], float]:
    torch = variant.torch
    functional = importlib.import_module("torch.nn.functional")
    parameters = {}
    for name, values in initial_parameters(network).items():
        if name.endswith("/affine/W"):
            values = np.ascontiguousarray(values.T)  # torch keeps the weights of linear layers transposed
        parameters[name] = variant.tensor(values.reshape(-1) if "/bn/" in name else values)
        parameters[name].requires_grad_(not is_statistic(name))
    solver = torch_solver(torch, network.solver, [p for p in parameters.values() if p.requires_grad])
    layers = _TorchLayers(functional, parameters)
    loss_of = variant.built(lambda x, t: functional.cross_entropy(network.scores(layers, x), t))
    x = variant.tensor(np.zeros((network.batch, *network.shape), np.float32))
    t = torch.empty(network.batch, dtype=torch.int64)

    def step() -> float:
        images, labels = next(data)
        x.copy_(torch.from_numpy(images))
        t.copy_(torch.from_numpy(labels[:, 0]))
        loss = loss_of(x, t)
        solver.zero_grad(set_to_none=True)
        loss.backward()
        solver.step()
        return float(loss.item())

    return step


class _JaxLayers:
    """JAX's, with parameters by name; new running statistics are put in their place. See `networks.Layers`."""

    def __init__(self, jax: Any, parameters: dict[str, Any]) -> None:
        self._jax, self.parameters = jax, parameters
        self.relu, self.tanh = jax.nn.relu, jax.numpy.tanh

    def convolution(self, h: Any, maps: int, kernel: int, name: str, pad: int = 0, stride: int = 1) -> Any:
        w, b = self.parameters[f"{name}/conv/W"], self.parameters[f"{name}/conv/b"]
        return self._jax.lax.conv_general_dilated(h, w, (stride, stride), [(pad, pad)] * 2) + b[:, None, None]

    def batch_normalization(self, h: Any, name: str) -> Any:
        mean, variance = h.mean((0, 2, 3), keepdims=True), h.var((0, 2, 3), keepdims=True)
        for kind, new in (("mean", mean), ("var", variance)):
            old = self.parameters[f"{name}/bn/{kind}"]
            self.parameters[f"{name}/bn/{kind}"] = 0.9 * old + 0.1 * self._jax.lax.stop_gradient(new)
        gamma, beta = self.parameters[f"{name}/bn/gamma"], self.parameters[f"{name}/bn/beta"]
        return (h - mean) * (gamma * self._jax.lax.rsqrt(variance + _BN_EPS)) + beta

    def affine(self, h: Any, size: int, name: str) -> Any:
        w, b = self.parameters[f"{name}/affine/W"], self.parameters[f"{name}/affine/b"]
        return h.reshape(h.shape[0], -1) @ w + b

    def max_pooling(self, h: Any, size: int) -> Any:
        return self._pooled(h, size, -np.inf, self._jax.lax.max)

    def average_pooling(self, h: Any, size: int) -> Any:
        return self._pooled(h, size, 0.0, self._jax.lax.add) / size**2

    def _pooled(self, h: Any, size: int, start: float, reduce: Any) -> Any:
        window = (1, 1, size, size)
        return self._jax.lax.reduce_window(h, start, reduce, window, window, "VALID")


def _jax_step(network: Network, data: Batches) -> Callable[[], float]:
    jax = importlib.import_module("jax")
    values = initial_parameters(network)
    statistics = {name: jax.device_put(value) for name, value in values.items() if is_statistic(name)}
    parameters = {name: jax.device_put(value) for name, value in values.items() if not is_statistic(name)}

    def loss_of(parameters: Any, statistics: Any, x: Any, t: Any) -> Any:
        layers = _JaxLayers(jax, {**parameters, **statistics})
        scores = jax.nn.log_softmax(network.scores(layers, x))
        loss = -jax.numpy.take_along_axis(scores, t, 1).mean()
        return loss, {name: layers.parameters[name] for name in statistics}

    return jax_step(jax, loss_of, network.solver, parameters, statistics, data)


def jax_step(
    jax: Any, loss_of: Callable[..., Any], solver_name: str, parameters: Any, statistics: Any, data: Batches
) -> Callable[[], float]:
    """One compiled step; loss_of: (parameters, statistics, x, t) -> (loss, new statistics)."""
    solver = JaxSolver(jax, solver_name)
    state = solver.initial(parameters)

    def update(parameters: Any, statistics: Any, state: Any, x: Any, t: Any) -> Any:
        (loss, new_statistics), gradients = jax.value_and_grad(loss_of, has_aux=True)(parameters, statistics, x, t)
        return loss, *solver.updated(parameters, gradients, state), new_statistics

    # Old values are given up, so that new ones may take their memory.
    compiled = jax.jit(update, donate_argnums=(0, 1, 2))

    def step() -> float:
        nonlocal parameters, statistics, state
        loss, parameters, state, statistics = compiled(parameters, statistics, state, *next(data))
        return float(loss)

    return step
