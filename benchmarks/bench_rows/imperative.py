"""The cost of computing at once: one addition of four elements."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from bench_rows.recorded import recorded
from bench_rows.torch_variant import TORCH, TorchVariant
from harness.case import Case

ADDITIONS = 100

_A = np.array([1, 2, 3, 4], np.float32)
_B = np.array([0.5, 0.25, 0, -1], np.float32)


def addition(library: str) -> Case:
    """`add2(a, b)` of NdArrays, or a library's own addition of its own arrays, 100 times.

    NNabla 1.39 looks for a module that is not there at every call, so a busy file system trebles its time.
    """
    if library == "numpy":
        return _repeated(np.add, _A, _B, np.asarray)
    if library in TORCH:
        variant = TorchVariant(library)
        a, b = variant.tensor(_A), variant.tensor(_B)
        return _repeated(variant.torch.add, a, b, lambda found: found.cpu().numpy())
    if library == "jax":
        jax = importlib.import_module("jax")
        # Nothing reads the results, so the last one is waited for: they are computed in order.
        return _repeated(jax.numpy.add, jax.device_put(_A), jax.device_put(_B), np.asarray, jax.block_until_ready)
    api = recorded(library)
    a, b = (api.nn.NdArray.from_numpy_array(values) for values in (_A, _B))
    return _repeated(api.F.add2, a, b, lambda found: found.data.copy())


def _repeated(
    add: Callable[[Any, Any], Any],
    a: Any,
    b: Any,
    read: Callable[[Any], np.ndarray],
    finish: Callable[[Any], object] | None = None,
) -> Case:
    def run() -> None:
        for _ in range(ADDITIONS):
            found = add(a, b)
        if finish is not None:
            finish(found)

    return Case(run, lambda: [read(add(a, b))])
