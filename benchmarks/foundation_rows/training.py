"""Training steps of whole networks with Adam: copy a batch in, forward, zero_grad, backward, update, read the loss."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from foundation_rows.networks import NETWORKS, Network, batches, initial_weights
from foundation_rows.recorded import recorded
from harness.case import Case

Batches = Iterator[tuple[np.ndarray, np.ndarray]]

# Losses of the first steps are compared; later ones drift apart by rounding.
_COMPARED_STEPS = 4


def training_step(library: str, network: str) -> Case:
    """One step of a network of `networks.py`, on one of some batches in turn."""
    chosen = NETWORKS[network]
    data = itertools.cycle(batches(chosen))
    step = _torch_step(chosen, data) if library == "torch" else _recorded_step(library, chosen, data)
    return Case(step, lambda: [np.array([step() for _ in range(_COMPARED_STEPS)])])


def _recorded_step(
    library: str, network: Network, data: Iterator[tuple[np.ndarray, np.ndarray]]
) -> Callable[[], float]:
    api = recorded(library)
    x = api.nn.Variable((network.batch, *network.shape))
    t = api.nn.Variable((network.batch, 1))
    loss = api.F.mean(api.F.softmax_cross_entropy(network.recorded(api, x), t))
    parameters = api.nn.get_parameters()
    for name, values in initial_weights(network).items():
        parameters[name].d = values
    solver = api.S.Adam(1e-3)
    solver.set_parameters(parameters)

    def step() -> float:
        x.d, t.d = next(data)
        loss.forward(clear_no_need_grad=True)
        solver.zero_grad()
        loss.backward(clear_buffer=True)
        solver.update()
        return float(loss.d)

    return step


def _torch_step(network: Network, data: Batches) -> Callable[[], float]:
    torch = importlib.import_module("torch")
    functional = importlib.import_module("torch.nn.functional")
    x = torch.empty(network.batch, *network.shape)
    t = torch.empty(network.batch, dtype=torch.int64)
    parameters: dict[str, Any] = {}
    for name, values in initial_weights(network).items():
        # torch keeps the weights of linear layers transposed.
        parameters[name] = torch.from_numpy(np.ascontiguousarray(values.T if values.ndim == 2 else values))
    for name, size in network.biases.items():
        parameters[name] = torch.zeros(size)
    for name, size in network.normalized.items():
        parameters |= {name + "/beta": torch.zeros(size), name + "/gamma": torch.ones(size)}
    for parameter in parameters.values():
        parameter.requires_grad_(True)
    solver = torch.optim.Adam(list(parameters.values()), lr=1e-3, fused=True)
    statistics = {
        name + kind: make(size)
        for name, size in network.normalized.items()
        for kind, make in (("/mean", torch.zeros), ("/var", torch.ones))
    }
    parameters |= statistics

    def step() -> float:
        images, labels = next(data)
        x.copy_(torch.from_numpy(images))
        t.copy_(torch.from_numpy(labels[:, 0]))
        loss = functional.cross_entropy(network.torch(functional, parameters, x), t)
        solver.zero_grad(set_to_none=True)
        loss.backward()
        solver.step()
        return float(loss.item())

    return step
