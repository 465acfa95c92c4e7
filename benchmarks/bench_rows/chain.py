"""The cost of an op itself: long chains of ops on few elements, static or made anew each time."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench_rows.expression import Expression, expression_case
from harness.case import Case

REPEATS = 50
ELEMENTWISE_OPS = 4 * REPEATS
PRODUCT_OPS = 2 * REPEATS


def _four_elements(_: np.random.Generator) -> list[np.ndarray]:
    values = ([0.1, -0.2, 0.3, -0.4], [0.5, 1, -1, 2], [1.1, 0.9, 1, 1.2], [0.1, 0.2, -0.1, 0])
    return [np.array(each, np.float32) for each in values]


def _elementwise_recorded(api: Any, h: Any, a: Any, b: Any, c: Any) -> Any:
    F = api.F
    for _ in range(REPEATS):
        h = F.sub2(F.mul2(F.tanh(F.add2(h, a)), b), c)
    return h


def _elementwise_torch(torch: Any, h: Any, a: Any, b: Any, c: Any) -> Any:
    for _ in range(REPEATS):
        h = torch.sub(torch.mul(torch.tanh(torch.add(h, a)), b), c)
    return h


def _elementwise_jax(jax: Any, h: Any, a: Any, b: Any, c: Any) -> Any:
    for _ in range(REPEATS):
        h = jax.numpy.tanh(h + a) * b - c
    return h


def _elementwise_numpy(h: Any, a: Any, b: Any, c: Any) -> Any:
    for _ in range(REPEATS):
        h = np.subtract(np.multiply(np.tanh(np.add(h, a)), b), c)
    return h


def _small_matrices(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.standard_normal(shape).astype(np.float32) for shape in ((4, 4), (4, 4), (4,))]


def _product_recorded(api: Any, h: Any, w: Any, b: Any) -> Any:
    for _ in range(REPEATS):
        h = api.F.tanh(api.F.affine(h, w, b))
    return h


def _product_torch(torch: Any, h: Any, w: Any, b: Any) -> Any:
    for _ in range(REPEATS):
        h = torch.tanh(torch.addmm(b, h, w))
    return h


def _product_jax(jax: Any, h: Any, w: Any, b: Any) -> Any:
    for _ in range(REPEATS):
        h = jax.numpy.tanh(h @ w + b)
    return h


CHAINS = {
    "elementwise": Expression(
        _four_elements, _elementwise_recorded, _elementwise_torch, _elementwise_jax, _elementwise_numpy
    ),
    "products": Expression(_small_matrices, _product_recorded, _product_torch, _product_jax),
}


def chain(library: str, name: str, backward: bool, dynamic: bool = False, is_anew: bool = False) -> Case:
    """50 times `h = tanh(h + a) * b - c` on four elements, or `h = tanh(h w + b)` on 4x4 ("products")."""
    return expression_case(CHAINS[name], library, backward, dynamic, is_anew)
