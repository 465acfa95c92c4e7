"""Chains of integers, whose dtype follows from the operands."""

from __future__ import annotations

import importlib

import numpy as np

from harness.case import Case


def chain(library: str, dtype: str, size: int = 1_000_000) -> Case:
    """`maximum((x + y) * x - y, y)` modulo the range of the dtype, as a program that is kept."""
    bounds = np.iinfo(dtype)
    x, y = np.random.default_rng(0).integers(bounds.min, bounds.max, (2, size), dtype, endpoint=True)
    if library == "numpy":
        return Case(lambda: np.maximum((x + y) * x - y, y), lambda: [np.maximum((x + y) * x - y, y)])
    nn, keyed = importlib.import_module("atled"), importlib.import_module("atled.keyed")
    program = keyed.Description()
    a, b = (program.leaf(nn.NdArray.from_numpy_array(values)) for values in (x, y))
    product = program.call("Mul2", program.call("Add2", a, b), a)
    program.result(program.call("Maximum2", program.call("Sub2", product, b), b))
    return Case(program.run, lambda: [program.run()[0].data.copy()])
