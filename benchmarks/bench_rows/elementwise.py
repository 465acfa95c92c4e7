"""Fused arithmetic and reductions over large arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench_rows.expression import Expression, expression_case
from harness.case import Case


def _fused_recorded(api: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    F = api.F
    return F.mul2(F.tanh(F.add2(F.mul2(a, b), c)), F.sigmoid(d))


def _fused_torch(torch: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return torch.tanh(a * b + c) * torch.sigmoid(d)


def _fused_jax(jax: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return jax.numpy.tanh(a * b + c) * jax.nn.sigmoid(d)


def _fused_numpy(a: Any, b: Any, c: Any, d: Any) -> Any:
    return np.tanh(a * b + c) / (1 + np.exp(-d))


def fused(library: str, size: int, backward: bool) -> Case:
    """`tanh(a * b + c) * sigmoid(d)` on `size` elements."""

    def inputs(rng: np.random.Generator) -> list[np.ndarray]:
        return [rng.standard_normal(size, dtype=np.float32) for _ in range(4)]

    return expression_case(
        Expression(inputs, _fused_recorded, _fused_torch, _fused_jax, _fused_numpy), library, backward
    )


def total(library: str, axis: int | None, rows: int = 1000, columns: int = 1000) -> Case:
    """The sum of rows x columns elements over one axis, or of all."""
    # torch takes no None here.
    axes = (0, 1) if axis is None else (axis,)
    expression = Expression(
        lambda rng: [rng.standard_normal((rows, columns), dtype=np.float32)],
        lambda api, x: api.F.sum(x, axis=axis),
        lambda torch, x: torch.sum(x, axes),
        lambda jax, x: jax.numpy.sum(x, axes),
        lambda x: np.sum(x, axes),
    )
    return expression_case(expression, library, backward=False)


def power(library: str, size: int, backward: bool) -> Case:
    """`x0 ** x1` of `size` elements, bases above 0, and the gradients of both."""

    def inputs(rng: np.random.Generator) -> list[np.ndarray]:
        return [rng.uniform(0.5, 2, size).astype(np.float32), rng.standard_normal(size, dtype=np.float32)]

    def gradients(gy: Any, x0: Any, x1: Any) -> Any:
        y = x0**x1
        return y, gy * x1 * x0 ** (x1 - 1), gy * y * np.log(x0)

    expression = Expression(
        inputs,
        lambda api, x0, x1: api.F.pow2(x0, x1),
        lambda torch, x0, x1: torch.pow(x0, x1),
        lambda jax, x0, x1: jax.numpy.power(x0, x1),
        lambda x0, x1: x0**x1,
        gradients,
    )
    return expression_case(expression, library, backward)
