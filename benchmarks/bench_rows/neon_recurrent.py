"""Recurrent steps by neon's layer calls, both ways, beside NumPy step by step, as neon's CPU backend does it."""

from __future__ import annotations

import importlib

import numpy as np

from harness.case import Case

STEPS, UNITS, BATCH = 20, 128, 32


def unroll(library: str, kind: str) -> Case:
    """20 steps of 128 units on 32 columns; kind: "fprop" (`h = tanh(W h + x + b)`) or "bprop"."""
    random = np.random.default_rng(0)
    padded = (UNITS, (STEPS + 1) * BATCH)
    w, states, fed = (random.normal(size=shape).astype(np.float32) / 10 for shape in ((UNITS, UNITS), padded, padded))
    bias = random.normal(size=(UNITS, 1)).astype(np.float32)
    written = np.array(states if kind == "fprop" else fed)
    start = written.copy()
    if library == "numpy":
        steps = _forward if kind == "fprop" else _backward
        other = fed if kind == "fprop" else states

        def run() -> None:
            written[...] = start
            steps(w, written, other, bias)

        return Case(run, lambda: [run(), written.copy()][1:])
    be = importlib.import_module("atled.neon.backends").gen_backend("cpu", batch_size=BATCH)
    tanh = importlib.import_module("atled.neon.transforms").Tanh()
    weight, target, first, bias_in = (be.array(array) for array in (w, written, start, bias))
    others = be.array(fed if kind == "fprop" else states)
    views, other_views = ([each[:, n * BATCH : (n + 1) * BATCH] for n in range(STEPS + 1)] for each in (target, others))
    transposed, about = weight.T, (UNITS, STEPS, STEPS, tanh)

    def run_ours() -> None:
        target[:] = first
        if kind == "fprop":
            be.compound_rnn_unroll_fprop(weight, views[:-1], other_views[1:], views[1:], bias_in, *about)
        else:
            be.compound_rnn_unroll_bprop(transposed, views[:-1], views[1:], other_views[1:], *about)

    return Case(run_ours, lambda: [run_ours(), target.get()][1:])


def _step(array: np.ndarray, number: int) -> np.ndarray:
    return array[:, number * BATCH : (number + 1) * BATCH]


def _forward(w: np.ndarray, states: np.ndarray, fed: np.ndarray, bias: np.ndarray) -> None:
    made = np.empty((UNITS, BATCH), np.float32)
    for number in range(STEPS):
        np.dot(w, _step(states, number), out=made)
        _step(states, number + 1)[...] = np.tanh(made + _step(fed, number + 1) + bias)


def _backward(w: np.ndarray, errors: np.ndarray, states: np.ndarray, _: np.ndarray) -> None:
    for number in reversed(range(STEPS)):
        delta = _step(errors, number + 1)
        delta *= 1 - _step(states, number + 1) ** 2
        _step(errors, number)[...] += np.dot(w.T, delta)
