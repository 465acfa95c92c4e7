"""Poolings of drawn arrays, with equal maxima and NaN, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import atled as nn


def drawn(shape: Sequence[int], *, nan: float = 0.0) -> np.ndarray:
    """Few whole numbers, so that maxima are equal; nan: the share of NaN among them."""
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, shape).astype(np.float32)
    if nan:
        x[rng.random(shape) < nan] = np.nan
    return x


def computed(
    context: nn.Context, function: Callable[..., Any], x: np.ndarray, **attributes: Any
) -> tuple[np.ndarray, np.ndarray, Sequence[Any]]:
    """Values, the gradient, and the rows of what computed them."""
    with nn.context_scope(context), nn.trace() as trace:
        v = nn.Variable.from_numpy_array(x, need_grad=True)
        y = function(v, **attributes)
        y.forward()
        y.backward(np.random.default_rng(1).integers(-9, 9, y.shape).astype(np.float32))
    return y.d.copy(), v.g.copy(), trace.rows()
