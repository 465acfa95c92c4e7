"""Products as neon's layer calls have them, `compound_dot` and `batched_dot`, beside NumPy's of the same arrays."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.case import Case

SIDE = 1024
ITEMS, MATRIX = 32, 128


def compound_dot(library: str, kind: str) -> Case:
    """`C = A B`; kind: "plain", "transposed" (`A.T`), "scaled" (`0.5 A B + 0.3 C`), "view" (C is a part of columns)."""
    random = np.random.default_rng(0)
    a, b = (random.normal(size=(SIDE, SIDE)).astype(np.float32) for _ in range(2))
    wide = kind == "view"
    out = np.zeros((SIDE, SIDE * (1 + wide)), np.float32)
    columns = slice(SIDE // 2, SIDE // 2 + SIDE) if wide else slice(None)
    alpha, beta = (0.5, 0.3) if kind == "scaled" else (1.0, 0.0)
    if library == "numpy":
        target, made = out[:, columns], np.empty_like(a)
        first = a.T if kind == "transposed" else a

        def run() -> None:
            if wide:
                np.matmul(first, b, out=made)
                target[...] = made
            elif beta:
                np.dot(first, b, out=made)
                np.multiply(made, np.float32(alpha), out=made)
                np.multiply(target, np.float32(beta), out=target)
                np.add(target, made, out=target)
            else:
                np.dot(first, b, out=target)

        return Case(run, _results_of(run, out))

    def describe(d: Any, c: int, x: Any, y: Any) -> int:
        product = d.call("BatchMatmul", d.leaf(x.T if kind == "transposed" else x), d.leaf(y))
        if not beta:
            return product
        return d.call("Add2", d.call("Mul2", product, d.number(alpha)), d.call("Mul2", c, d.number(beta)))

    return _described(describe, [a, b], out, lambda view: view[:, columns])


def batched_dot(library: str, use: int) -> Case:
    """use 1: `C[x] = A B[x]`, 2: `C[x] = A.T B[x]`, 3: `C = sum over x of A[x] B[x].T`."""
    random = np.random.default_rng(0)
    shapes = [(MATRIX, MATRIX), (ITEMS, MATRIX, MATRIX)]
    a, b = (random.normal(size=shape).astype(np.float32) for shape in (shapes[use == 3], shapes[1]))
    out = np.zeros(shapes[use != 3], np.float32)
    if library == "numpy":
        first, second = a.T if use == 2 else a, b.transpose(0, 2, 1) if use == 3 else b
        made = np.empty_like(b)

        def run() -> None:
            np.matmul(first, second, out=made if use == 3 else out)
            if use == 3:
                np.sum(made, axis=0, out=out)

        return Case(run, _results_of(run, out))

    def describe(d: Any, c: int, x: Any, y: Any) -> int:
        if use == 3:
            return d.call("Sum", d.call("BatchMatmul", d.leaf(x), d.leaf(y.transpose((0, 2, 1)))), axes=(0,))
        first = x.T if use == 2 else x
        return d.call("BatchMatmul", d.leaf(first.broadcast_to((ITEMS, *first.shape))), d.leaf(y))

    return _described(describe, [a, b], out, lambda view: view)


def _results_of(run: Callable[[], object], out: np.ndarray) -> Callable[[], list[np.ndarray]]:
    """What a run makes of `out` where that is zero."""

    def results() -> list[np.ndarray]:
        out[...] = 0
        run()
        return [out.copy()]

    return results


def _described(
    describe: Callable[..., int], arrays: list[np.ndarray], out: np.ndarray, part: Callable[..., Any]
) -> Case:
    """A program of ours that assigns what it computes of views of the arrays to a part of `out`."""
    nn = importlib.import_module("atled")
    keyed, views = importlib.import_module("atled.keyed"), importlib.import_module("atled.arrays.views")
    held = nn.NdArray.from_numpy_array(out)
    d = keyed.Description()
    target = d.leaf(part(views.View(held)))
    d.assign(target, describe(d, target, *(views.View(nn.NdArray.from_numpy_array(array)) for array in arrays)))
    return Case(d.run, lambda: _results_of(d.run, held.data)())
