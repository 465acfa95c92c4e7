"""neon's BiRNN as programs call it, forward and both ways with the gradients of the weights, beside torch's RNN."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from bench_rows.torch_variant import TORCH, TorchVariant
from harness.case import Case

STEPS, ROWS, UNITS, BATCH = 20, 64, 128, 32

_PARTS = (("W_input", "weight_ih_l0"), ("W_recur", "weight_hh_l0"), ("b", "bias_ih_l0"))
"""What neon and torch call the parameters of a direction, less the end that says which direction."""


def birnn(library: str, backward: bool) -> Case:
    """64 inputs, 128 units per direction, 20 steps of 32; backward: also the errors of inputs and all gradients."""
    random = np.random.default_rng(0)
    shapes = {"W_input": (UNITS, ROWS), "W_recur": (UNITS, UNITS), "b": (UNITS, 1)}
    weights = {
        f"{name}_{way}": (random.normal(size=shapes[name]) / 10).astype(np.float32) for name in shapes for way in "fb"
    }
    x = random.normal(size=(ROWS, STEPS * BATCH)).astype(np.float32)
    error = random.normal(size=(2 * UNITS, STEPS * BATCH)).astype(np.float32)
    if library in TORCH:
        return _torch(TorchVariant(library), weights, x, error, backward)
    be = importlib.import_module("atled.neon.backends").gen_backend("cpu", batch_size=BATCH)
    layer = _layer(weights)
    inputs, given, came = be.array(x), be.array(error), be.array(error)

    def run() -> None:
        layer.fprop(inputs)
        if backward:
            # The layer above writes its deltas anew in each step.
            came[:] = given
            layer.bprop(came)

    def results() -> list[np.ndarray]:
        run()
        made = [layer.outputs.get()]
        if backward:
            made += [layer.deltas.get()]
            made += [getattr(layer, f"d{name}_{way}").get() for name, _ in _PARTS for way in "fb"]
        return made

    return Case(run, results)


def _layer(weights: dict[str, np.ndarray]) -> Any:
    """A layer with these weights, which has memory for everything."""
    layers = importlib.import_module("atled.neon.layers")
    tanh = importlib.import_module("atled.neon.transforms").Tanh()
    rows = 2 * (ROWS + UNITS + 1)
    layer = layers.BiRNN(UNITS, np.zeros((rows, UNITS), np.float32), activation=tanh, reset_cells=True)
    layer.configure((ROWS, STEPS))
    layer.prev_layer = True
    layer.allocate()
    pool = layers.DeltasTree()
    layer.allocate_deltas(pool)
    pool.allocate_buffers()
    layer.set_deltas(pool)
    for name, values in weights.items():
        getattr(layer, name)[:] = values
    return layer


def _torch(
    variant: TorchVariant, weights: dict[str, np.ndarray], x: np.ndarray, error: np.ndarray, backward: bool
) -> Case:
    torch = variant.torch
    rnn = torch.nn.RNN(ROWS, UNITS, bidirectional=True)
    for way, end in (("f", ""), ("b", "_reverse")):
        for name, theirs in _PARTS:
            values = weights[f"{name}_{way}"]
            parameter = getattr(rnn, theirs + end)
            parameter.data = variant.tensor(values.reshape(tuple(parameter.shape)))
        getattr(rnn, f"bias_hh_l0{end}").data.zero_()
    # (rows, steps * batch) is (steps, batch, rows) there.
    inputs, came = (variant.tensor(each.T.reshape(STEPS, BATCH, -1)) for each in (x, error))
    inputs.requires_grad_(backward)
    parameters = [getattr(rnn, theirs + end) for _, theirs in _PARTS for end in ("", "_reverse")]

    def forward() -> Any:
        with torch.set_grad_enabled(backward):
            return rnn(inputs)[0]

    def run() -> Any:
        outputs = forward()
        return (outputs, *torch.autograd.grad(outputs, [inputs, *parameters], came)) if backward else (outputs,)

    def results() -> list[np.ndarray]:
        made = [each.detach().cpu().numpy() for each in run()]
        sequences, gradients = made[: 1 + backward], made[2:]
        turned = [each.reshape(STEPS * BATCH, -1).T for each in sequences]
        return [*turned, *(each.reshape(len(each), -1) for each in gradients)]

    return Case(run, results)
