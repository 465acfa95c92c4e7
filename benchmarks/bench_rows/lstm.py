"""Training steps of an LSTM whose last output is classified: the sequence in one call, or cell by cell."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench_rows.recorded import recorded
from bench_rows.solvers import recorded_solver, torch_solver
from bench_rows.torch_variant import TORCH, TorchVariant
from bench_rows.training import jax_step, stepping
from harness.case import Case

_STEPS, _BATCH, _INPUTS, _HIDDEN, _CLASSES = 50, 32, 128, 256, 10
_BATCH_COUNT = 4

# The gates of the common weights are input, forget, new content, output: so have torch, JAX's case here and `F.lstm`.
# Cells of NNabla have input, output, forget, new content.
_CELL_ORDER = [0, 3, 1, 2]

Batches = Iterator[tuple[np.ndarray, np.ndarray]]


def lstm_step(library: str, is_sequence: bool) -> Case:
    """One step of Adam, reading the loss; 50 steps, batch 32, 128 inputs, 256 hidden."""
    data = _batches()
    if library in TORCH:
        step = _torch_step(TorchVariant(library), data, is_sequence)
    elif library == "jax":
        step = _jax_step(data, is_sequence)
    else:
        step = _recorded_step(library, data, is_sequence)
    return stepping(step)


def _batches() -> Batches:
    rng = np.random.default_rng(6)
    made = [
        (
            rng.standard_normal((_STEPS, _BATCH, _INPUTS), dtype=np.float32),
            rng.integers(0, _CLASSES, (_BATCH, 1)).astype(np.int32),
        )
        for _ in range(_BATCH_COUNT)
    ]
    while True:
        yield from made


def _weights() -> tuple[np.ndarray, np.ndarray]:
    """Of the recurrence, (4, hidden, inputs + hidden); of the classifier, (hidden, classes). Biases start from 0."""
    rng = np.random.default_rng(5)
    recurrent = rng.standard_normal((4, _HIDDEN, _INPUTS + _HIDDEN), dtype=np.float32)
    return recurrent / np.float32(20), rng.standard_normal((_HIDDEN, _CLASSES), dtype=np.float32) / np.float32(16)


def _recorded_step(library: str, data: Batches, is_sequence: bool) -> Callable[[], float]:
    api = recorded(library)
    nn, F, PF = api.nn, api.F, api.PF
    recurrent, classifier = _weights()
    x = nn.Variable((_STEPS, _BATCH, _INPUTS))
    t = nn.Variable((_BATCH, 1))
    if is_sequence:
        weight, bias = (
            nn.parameter.get_parameter_or_create(name, shape, initializer)
            for name, shape, initializer in (
                ("W", (1, 4, _HIDDEN, _INPUTS + _HIDDEN), recurrent[np.newaxis]),
                ("b", (1, 1, 4, _HIDDEN), np.zeros((1, 1, 4, _HIDDEN), np.float32)),
            )
        )
        h, c = (nn.Variable((1, 1, _BATCH, _HIDDEN)) for _ in range(2))
        h.d = c.d = 0
        last = F.reshape(F.lstm(x, h, c, weight, bias=bias)[1], (_BATCH, _HIDDEN))
    else:
        # (inputs + hidden, 4, hidden), the gates in the cells' order.
        w = np.ascontiguousarray(recurrent[_CELL_ORDER].transpose(2, 0, 1))
        cell = PF.LSTMCell(_BATCH, _HIDDEN)
        for step_input in F.split(x, axis=0):
            last = cell(step_input, w_init=w)
    loss = F.mean(F.softmax_cross_entropy(PF.affine(last, _CLASSES, w_init=classifier, name="last"), t))
    solver = recorded_solver(api, "adam")
    solver.set_parameters(nn.get_parameters())

    def step() -> float:
        x.d, t.d = next(data)
        loss.forward(clear_no_need_grad=True)
        solver.zero_grad()
        loss.backward(clear_buffer=True)
        solver.update()
        return float(loss.d)

    return step


def _torch_step(variant: TorchVariant, data: Batches, is_sequence: bool) -> Callable[[], float]:
    torch = variant.torch
    functional = importlib.import_module("torch.nn.functional")
    recurrent, classifier = _weights()
    layer = (torch.nn.LSTM if is_sequence else torch.nn.LSTMCell)(_INPUTS, _HIDDEN)
    flat = torch.from_numpy(recurrent.reshape(4 * _HIDDEN, -1))
    with torch.no_grad():
        # torch has two biases that are added; one of them stays 0, as the others have only one.
        for parameter, value in zip(layer.parameters(), (flat[:, :_INPUTS], flat[:, _INPUTS:], 0, 0), strict=True):
            parameter.copy_(value) if isinstance(value, torch.Tensor) else parameter.zero_()
    *_, unused_bias = layer.parameters()
    unused_bias.requires_grad_(False)
    w = variant.tensor(classifier.T).requires_grad_(True)
    b = torch.zeros(_CLASSES, requires_grad=True)
    solver = torch_solver(torch, "adam", [p for p in (*layer.parameters(), w, b) if p.requires_grad])

    def loss_of(x: Any, t: Any) -> Any:
        if is_sequence:
            last = layer(x)[1][0][0]
        else:
            state = None
            for step_input in x.unbind(0):
                state = layer(step_input, state)
            last = state[0]
        return functional.cross_entropy(functional.linear(last, w, b), t)

    built = variant.built(loss_of)
    x = torch.empty(_STEPS, _BATCH, _INPUTS)
    t = torch.empty(_BATCH, dtype=torch.int64)

    def step() -> float:
        inputs, labels = next(data)
        x.copy_(torch.from_numpy(inputs))
        t.copy_(torch.from_numpy(labels[:, 0]))
        loss = built(x, t)
        solver.zero_grad(set_to_none=True)
        loss.backward()
        solver.step()
        return float(loss.item())

    return step


def _jax_step(data: Batches, is_sequence: bool) -> Callable[[], float]:
    jax = importlib.import_module("jax")
    recurrent, classifier = _weights()
    flat = recurrent.reshape(4 * _HIDDEN, -1).T
    values = {
        "wx": flat[:_INPUTS],
        "wh": flat[_INPUTS:],
        "b": np.zeros(4 * _HIDDEN, np.float32),
        "w last": classifier,
        "b last": np.zeros(_CLASSES, np.float32),
    }

    def cell(p: Any, state: Any, from_input: Any) -> Any:
        h, c = state
        i, f, g, o = jax.numpy.split(from_input + h @ p["wh"], 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jax.numpy.tanh(g)
        return jax.nn.sigmoid(o) * jax.numpy.tanh(c), c

    def loss_of(p: Any, statistics: Any, x: Any, t: Any) -> Any:
        zeros = jax.numpy.zeros((_BATCH, _HIDDEN), np.float32)
        state = (zeros, zeros)
        if is_sequence:
            from_inputs = x @ p["wx"] + p["b"]
            state, _ = jax.lax.scan(lambda state, each: (cell(p, state, each), None), state, from_inputs)
        else:
            for step_input in x:
                state = cell(p, state, step_input @ p["wx"] + p["b"])
        scores = jax.nn.log_softmax(state[0] @ p["w last"] + p["b last"])
        return -jax.numpy.take_along_axis(scores, t, 1).mean(), statistics

    parameters = {name: jax.device_put(value) for name, value in values.items()}
    return jax_step(jax, loss_of, "adam", parameters, {}, data)
