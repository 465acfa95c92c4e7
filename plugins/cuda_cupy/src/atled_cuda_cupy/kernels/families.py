"""All families of kernels."""

from __future__ import annotations

from types import ModuleType

from atled_cuda_cupy.kernels import (
    augmentation,
    binarized,
    channel_activation,
    convolution,
    elementwise,
    embedding,
    errors,
    fourier,
    indexing,
    normalization,
    pooling,
    products,
    random,
    rearranging,
    recurrent,
    reduction,
    single_formulas,
    softmax,
    sorting,
)

FAMILIES: tuple[ModuleType, ...] = (
    augmentation,
    binarized,
    channel_activation,
    convolution,
    elementwise,
    embedding,
    errors,
    fourier,
    indexing,
    normalization,
    pooling,
    products,
    random,
    rearranging,
    recurrent,
    reduction,
    single_formulas,
    softmax,
    sorting,
)
"""The families of kernels; each has `register(registrar)`."""
