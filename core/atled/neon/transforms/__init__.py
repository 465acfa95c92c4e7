"""Transforms: the activations of layers."""

from __future__ import annotations

from atled.neon.transforms.activation import (
    Explin,
    Identity,
    Logistic,
    Normalizer,
    PixelwiseSoftmax,
    Rectlin,
    Rectlinclip,
    Sign,
    Softmax,
    Tanh,
)
from atled.neon.transforms.transform import Transform

__all__ = [
    "Explin",
    "Identity",
    "Logistic",
    "Normalizer",
    "PixelwiseSoftmax",
    "Rectlin",
    "Rectlinclip",
    "Sign",
    "Softmax",
    "Tanh",
    "Transform",
]
