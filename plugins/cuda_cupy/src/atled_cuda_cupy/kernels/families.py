"""All families of kernels."""

from __future__ import annotations

import importlib
from types import ModuleType

_NAMES = (
    "augmentation",
    "binarized",
    "channel_activation",
    "convolution",
    "elementwise",
    "embedding",
    "errors",
    "fourier",
    "indexing",
    "local_response",
    "normalization",
    "patterns",
    "pooling",
    "products",
    "random",
    "rearranging",
    "recurrent",
    "reduction",
    "regions",
    "scanning",
    "single_formulas",
    "softmax",
    "sorting",
    "streams",
    "taking",
)

FAMILIES: tuple[ModuleType, ...] = tuple(importlib.import_module(f"atled_cuda_cupy.kernels.{name}") for name in _NAMES)
"""The families of kernels; each has `register(registrar)`."""
