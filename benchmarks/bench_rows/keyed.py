"""Programs that are described at each call: three ops on 8x8, and the update of one variable."""

from __future__ import annotations

import importlib

import numpy as np

from bench_rows.torch_variant import TORCH, TorchVariant
from harness.case import Case

PROGRAMS = 100
"""Runs of a program that one run of the case makes."""

_RANDOM = np.random.default_rng(0)
_X, _Y = (_RANDOM.normal(size=(8, 8)).astype(np.float32) for _ in range(2))


def three_ops(library: str, is_kept: bool) -> Case:
    """`(x + y - x) * y` by a description, made anew each time or kept; in torch three calls."""
    if library in TORCH:
        variant = TorchVariant(library)
        torch = variant.torch
        x, y = variant.tensor(_X), variant.tensor(_Y)

        def run_torch() -> None:
            for _ in range(PROGRAMS):
                torch.mul(torch.sub(torch.add(x, y), x), y)

        return Case(run_torch, lambda: [torch.mul(torch.sub(torch.add(x, y), x), y).cpu().numpy()])
    nn, keyed = importlib.import_module("atled"), importlib.import_module("atled.keyed")
    a, b = (nn.NdArray.from_numpy_array(values) for values in (_X, _Y))

    def described() -> object:
        d = keyed.Description()
        x, y = d.leaf(a), d.leaf(b)
        d.result(d.call("Mul2", d.call("Sub2", d.call("Add2", x, y), x), y))
        return d

    kept = described()

    def run() -> None:
        for _ in range(PROGRAMS):
            (kept if is_kept else described()).run()

    return Case(run, lambda: [described().run()[0].data.copy()])


def update(library: str) -> Case:
    """`v = v * 0.9 + x`, a program that is kept: by assignment, in JAX by a jit function that gives the next value."""
    if library == "jax":
        jax = importlib.import_module("jax")
        step = jax.jit(lambda v, x: v * 0.9 + x)
        held = [jax.device_put(_X), jax.device_put(_Y)]

        def run_jax() -> None:
            for _ in range(PROGRAMS):
                held[0] = step(*held)
            held[0].block_until_ready()

        return Case(run_jax, lambda: [np.asarray(step(_X, _Y))])
    nn, keyed = importlib.import_module("atled"), importlib.import_module("atled.keyed")
    v, x = (nn.NdArray.from_numpy_array(values) for values in (_X, _Y))
    d = keyed.Description()
    leaf = d.leaf(v)
    d.assign(leaf, d.call("Add2", d.call("Mul2", leaf, d.number(0.9)), d.leaf(x)))

    def run() -> None:
        for _ in range(PROGRAMS):
            d.run()

    def results() -> list[np.ndarray]:
        v.data = _X
        d.run()
        return [v.data.copy()]

    return Case(run, results)
