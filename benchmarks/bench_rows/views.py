"""Chains and products that read views of arrays and write into them, as programs that are kept."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.case import Case

SIDE, PRODUCT_SIDE = 1000, 512


def chain(library: str, kind: str) -> Case:
    """`out = tanh(a * b + c) * sigmoid(d)`; kind: "strided" (`out[:, ::2]`), "transposed" (`a.T`), "contiguous"."""
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(SIDE, SIDE)).astype(np.float32) for _ in range(4)]
    out = np.zeros((SIDE, 2 * SIDE if kind == "strided" else SIDE), np.float32)

    def first(a: Any) -> Any:
        return a.T if kind == "transposed" else a

    def target(x: Any) -> Any:
        return x[:, ::2] if kind == "strided" else x

    if library == "numpy":
        a, b, c, d = arrays

        def run() -> None:
            target(out)[...] = np.tanh(first(a) * b + c) / (1 + np.exp(-d))

        return Case(run, lambda: [run(), out][1:])

    def describe(program: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        total = program.call("Add2", program.call("Mul2", program.leaf(first(a)), program.leaf(b)), program.leaf(c))
        return program.call("Mul2", program.call("Tanh", total), program.call("Sigmoid", program.leaf(d)))

    return _program(describe, arrays, out, target)


def product(library: str) -> Case:
    """The product of two matrices, written into the middle columns of a wider one; in NumPy multiplied, then copied."""
    random = np.random.default_rng(0)
    a, b = (random.normal(size=(PRODUCT_SIDE, PRODUCT_SIDE)).astype(np.float32) for _ in range(2))
    out, made = np.zeros((PRODUCT_SIDE, 2 * PRODUCT_SIDE), np.float32), np.empty_like(a)
    columns = slice(PRODUCT_SIDE // 2, PRODUCT_SIDE // 2 + PRODUCT_SIDE)
    if library == "numpy":

        def run() -> None:
            np.matmul(a, b, out=made)
            out[:, columns] = made

        return Case(run, lambda: [run(), out][1:])

    def describe(program: Any, a: Any, b: Any) -> Any:
        return program.call("BatchMatmul", program.leaf(a), program.leaf(b))

    return _program(describe, [a, b], out, lambda x: x[:, columns])


def _program(describe: Callable[..., Any], arrays: list[np.ndarray], out: np.ndarray, target: Any) -> Case:
    """A program of ours that assigns what it computes of arrays to a view of `out`."""
    nn = importlib.import_module("atled")
    keyed, views = importlib.import_module("atled.keyed"), importlib.import_module("atled.arrays.views")
    held = nn.NdArray.from_numpy_array(out)
    program = keyed.Description()
    value = describe(program, *(views.View(nn.NdArray.from_numpy_array(array)) for array in arrays))
    program.assign(program.leaf(target(views.View(held))), value)
    return Case(program.run, lambda: [program.run(), held.data.copy()][1:])
