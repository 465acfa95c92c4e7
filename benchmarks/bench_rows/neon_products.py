"""Products by neon's layer calls, `compound_dot` and `batched_dot`, beside NumPy's of the same arrays."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.case import Case

SIDE = 1024
ITEMS, MATRIX = 32, 128
SMALL = (128, 64, 32)
PRODUCTS = 100
"""Products that one run of `small_dot` makes."""


def compound_dot(library: str, kind: str) -> Case:
    """`C = A B`; kind: "plain", "transposed" (`A.T`), "scaled" (`0.5 A B + 0.3 C`), "view" (C is a part of columns)."""
    a, b = _arrays((SIDE, SIDE), (SIDE, SIDE))
    wide = kind == "view"
    out = np.zeros((SIDE, SIDE * (1 + wide)), np.float32)
    columns = slice(SIDE // 2, SIDE // 2 + SIDE) if wide else slice(None)
    factors = {"alpha": 0.5, "beta": 0.3} if kind == "scaled" else {}
    if library == "numpy":
        target, made = out[:, columns], np.empty_like(a)
        first = a.T if kind == "transposed" else a

        def run() -> None:
            if wide:
                np.matmul(first, b, out=made)
                target[...] = made
            elif factors:
                np.dot(first, b, out=made)
                np.multiply(made, np.float32(factors["alpha"]), out=made)
                np.multiply(target, np.float32(factors["beta"]), out=target)
                np.add(target, made, out=target)
            else:
                np.dot(first, b, out=target)

        return Case(run, _results_of(run, out))
    be = _backend()
    x, y, c = (be.array(array) for array in (a, b, out))
    first, part = x.T if kind == "transposed" else x, c[:, columns]
    return _case(lambda: be.compound_dot(first, y, part, **factors), c)


def small_dot(library: str) -> Case:
    """`C = A B` of (128, 64) and (64, 32), again and again."""
    a, b = _arrays(SMALL[:2], SMALL[1:])
    out = np.zeros((SMALL[0], SMALL[2]), np.float32)
    if library == "numpy":

        def run() -> None:
            for _ in range(PRODUCTS):
                np.dot(a, b, out=out)

        return Case(run, _results_of(run, out))
    be = _backend()
    x, y, c = (be.array(array) for array in (a, b, out))

    def run_ours() -> None:
        for _ in range(PRODUCTS):
            be.compound_dot(x, y, c)

    return _case(run_ours, c)


def batched_dot(library: str, use: int) -> Case:
    """use 1: `C[x] = A B[x]`, 2: `C[x] = A.T B[x]`, 3: `C = sum over x of A[x] B[x].T`."""
    shapes = [(MATRIX, MATRIX), (ITEMS, MATRIX, MATRIX)]
    a, b = _arrays(shapes[use == 3], shapes[1])
    out = np.zeros(shapes[use != 3], np.float32)
    if library == "numpy":
        first, second = a.T if use == 2 else a, b.transpose(0, 2, 1) if use == 3 else b
        made = np.empty_like(b)

        def run() -> None:
            np.matmul(first, second, out=made if use == 3 else out)
            if use == 3:
                np.sum(made, axis=0, out=out)

        return Case(run, _results_of(run, out))
    be = _backend()
    x, y, c = (be.array(array) for array in (a, b, out))
    operands = x.T if use == 2 else x, y.T if use == 3 else y
    return _case(lambda: be.batched_dot(*operands, c), c)


def _arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.normal(size=shape).astype(np.float32) for shape in shapes]


def _backend() -> Any:
    return importlib.import_module("atled.neon.backends").gen_backend("cpu")


def _results_of(run: Callable[[], object], out: np.ndarray) -> Callable[[], list[np.ndarray]]:
    """What a run makes of `out` where that is zero."""

    def results() -> list[np.ndarray]:
        out[...] = 0
        run()
        return [out.copy()]

    return results


def _case(run: Callable[[], object], target: Any) -> Case:
    """The same of ours, which writes a tensor."""

    def results() -> list[np.ndarray]:
        target.fill(0)
        run()
        return [target.get()]

    return Case(run, results)
