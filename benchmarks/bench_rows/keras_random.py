"""A million random numbers by a function of the Keras-style backend, beside NumPy's generator."""

from __future__ import annotations

import importlib

import numpy as np

from harness.case import Case

COUNT = 1_000_000
PROBABILITY = 0.3


def numbers(library: str, kind: str) -> Case:
    """float32 in a new array at each call; kind: "uniform", "normal" or "binomial", which NumPy makes as bool."""
    if library == "numpy":
        generator = np.random.default_rng(0)
        return Case(
            {
                "uniform": lambda: generator.random(COUNT, np.float32),
                "normal": lambda: generator.standard_normal(COUNT, np.float32),
                "binomial": lambda: generator.random(COUNT, np.float32) < PROBABILITY,
            }[kind]
        )
    backend = importlib.import_module("atled.keras_backend")
    rng, moments = backend.make_rng(1), {"p": PROBABILITY} if kind == "binomial" else {}
    return Case(backend.function([], getattr(backend, f"random_{kind}")((COUNT,), rng=rng, **moments)))
