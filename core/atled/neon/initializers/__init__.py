"""Initializers: the first values of weights."""

from __future__ import annotations

from atled.neon.initializers.initializer import (
    Array,
    Constant,
    Gaussian,
    GlorotUniform,
    IdentityInit,
    Initializer,
    Kaiming,
    Orthonormal,
    Uniform,
    Xavier,
)

__all__ = [
    "Array",
    "Constant",
    "Gaussian",
    "GlorotUniform",
    "IdentityInit",
    "Initializer",
    "Kaiming",
    "Orthonormal",
    "Uniform",
    "Xavier",
]
