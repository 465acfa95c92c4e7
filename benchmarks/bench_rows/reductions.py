"""Extrema and products of large matrices, and their elements moved."""

from __future__ import annotations

import numpy as np

from bench_rows.expression import Expression, expression_case
from harness.case import Case

_SHAPE = (1000, 1000)


def maximum(library: str, axis: int | None) -> Case:
    """The maxima over one axis, or of all; torch finds their places over an axis, too."""
    expression = Expression(
        lambda rng: [rng.standard_normal(_SHAPE, dtype=np.float32)],
        lambda api, x: api.F.max(x, axis=axis),
        lambda torch, x: torch.max(x) if axis is None else torch.max(x, axis)[0],
        lambda jax, x: jax.numpy.max(x, axis),
        lambda x: np.max(x, axis),
    )
    return expression_case(expression, library, backward=False)


def product(library: str, axis: int | None) -> Case:
    """The products over one axis, or of all, of numbers near 1."""
    expression = Expression(
        lambda rng: [rng.uniform(0.99, 1.01, _SHAPE).astype(np.float32)],
        lambda api, x: api.F.prod(x, axis=axis),
        lambda torch, x: torch.prod(x) if axis is None else torch.prod(x, axis),
        lambda jax, x: jax.numpy.prod(x, axis),
        lambda x: np.prod(x, axis),
    )
    return expression_case(expression, library, backward=False)


def flip(library: str, axis: int) -> Case:
    """The order along one axis reversed."""
    expression = Expression(
        lambda rng: [rng.standard_normal(_SHAPE, dtype=np.float32)],
        lambda api, x: api.F.flip(x, (axis,)),
        lambda torch, x: torch.flip(x, (axis,)),
        lambda jax, x: jax.numpy.flip(x, axis),
        lambda x: np.flip(x, axis).copy(),
    )
    return expression_case(expression, library, backward=False)


def pad(library: str) -> Case:
    """Images padded by zeros, one pixel at each side."""
    expression = Expression(
        lambda rng: [rng.standard_normal((16, 64, 32, 32), dtype=np.float32)],
        lambda api, x: api.F.pad(x, (1, 1, 1, 1)),
        lambda torch, x: torch.nn.functional.pad(x, (1, 1, 1, 1)),
        lambda jax, x: jax.numpy.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))),
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))),
    )
    return expression_case(expression, library, backward=False)
