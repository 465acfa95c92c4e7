"""Calls that tests draw from a seed: results and gradients on backend cpu against the reference in float64.

Each array lies in memory of its own between bytes that must stay, and holds NaN until something is written to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.array_desc import ArrayDesc
from atled.arrays.guarded import GuardedArray
from atled.arrays.storage import HostStorage
from atled.dtypes import is_float
from atled.graph.run.shared_workspace import SharedWorkspace
from atled.type_configs import compute_dtype
from atled_contexts import Context
from atled_cpu_numba import pool

TOLERANCE = {"float": 3e-5, "half": 3e-2, "bf16": 2e-1, "double": 1e-11}
"""Of the largest element of a result, or of 1 where that is smaller; what is misplaced is off by more."""

# A float seed takes a second or two; the other dtypes have kernels of their own, or casts around those of float32.
CASES = pytest.mark.parametrize(
    "config, seed", [("float", 0), ("float", 1), ("float", 2), ("half", 3), ("bf16", 4), ("double", 5)]
)

THREADS = (1, 3)

Build = Callable[..., Any]  # of Variables: a Variable, or a sequence of them
_BYTE = np.dtype(np.uint8)
_NO_SHELF: Any = SimpleNamespace(free=[], limit=0, is_large=False, capacity=0)


@contextmanager
def guarded_memory() -> Iterator[None]:
    """Within, the engine takes host memory from guarded arrays; AssertionError if something was written beside one."""
    guards: list[GuardedArray] = []
    make = HostStorage.__init__

    def made(storage: HostStorage, nbytes: int, *arguments: Any) -> None:
        make(storage, nbytes, *arguments)
        guards.append(GuardedArray(ArrayDesc((nbytes,), _BYTE)))
        values = guards[-1].values
        storage._buffer = (values, values.ctypes.data)
        storage.address = values.ctypes.data
        storage.exported = True  # arrays of such memory never come round again
        storage._shelf = _NO_SHELF  # nor does it enter the pool

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HostStorage, "__init__", made)
        patch.setattr(SharedWorkspace, "part", lambda _, offset, nbytes: HostStorage(nbytes))
        yield
    for guard in guards:
        assert guard.is_intact, f"{guard.damage} of an array of {guard.values.size} bytes something was written"


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Within, so many threads work on a large kernel."""
    before = pool.thread_count()
    pool.set_thread_count(count)
    try:
        yield
    finally:
        pool.set_thread_count(before)


def computed(context: str, build: Build, arrays: Sequence[np.ndarray], seed: int = 1) -> dict[str, np.ndarray]:
    """Results and gradients of the arrays of floats, by name; the gradients of the results are drawn from the seed."""
    rng = np.random.default_rng(seed)
    with nn.context_scope(Context([context], fallback="raise")), nn.auto_forward(False):
        inputs = [_variable(x) for x in arrays]
        made = build(*inputs)
        results = list(made) if isinstance(made, list | tuple) else [made]
        seeds = [rng.standard_normal(y.shape).astype("f") for y in results]
        root = results[0]
        if len(results) > 1:
            root = F.sink(*(y * nn.Variable.from_numpy_array(gy) for y, gy in zip(results, seeds, strict=True)))
        root.forward(clear_no_need_grad=False)
        wanted = {f"gradient {number}": x for number, x in enumerate(inputs) if x.need_grad}
        for x in wanted.values():
            x.grad.zero()
        root.backward(seeds[0] if len(results) == 1 else None)
        found = {f"result {number}": _values(y.data) for number, y in enumerate(results)}
        return {**found, **{name: _values(x.grad) for name, x in wanted.items()}}


def _variable(array: np.ndarray) -> nn.Variable:
    """One that holds the array in its dtype."""
    made = nn.Variable(array.shape, need_grad=is_float(array.dtype))
    made.data.cast(array.dtype)[...] = array
    return made


def _values(array: nn.NdArray) -> np.ndarray:
    """A copy in float64, from the dtype in which they are."""
    return array.cast(array.dtype).astype(np.float64)


def check(
    build: Build, arrays: Sequence[np.ndarray], what: str, config: str = "float", tolerance: float | None = None
) -> None:
    """Results and gradients on backend cpu are those of the reference, and have the same bits on any count of threads.

    arrays: whole numbers, or floats, which are rounded to the dtype of the type config first.
    what: the call, in words.  tolerance: None for the usual one of the type config.
    """
    given = rounded(arrays, config)
    expected = computed("reference:double", build, given)
    found = []
    for count in THREADS:
        with threads(count), guarded_memory():
            found.append(computed(f"cpu:{config}", build, given))
    for name, wanted in expected.items():
        one, other = (results[name] for results in found)
        np.testing.assert_array_equal(one, other, f"{name} on {THREADS} threads, {what}")
        assert_close(one, wanted, TOLERANCE[config] if tolerance is None else tolerance, f"{name}, {what}")


def rounded(arrays: Sequence[np.ndarray], config: str) -> list[np.ndarray]:
    """The arrays of floats as what the dtype of a type config holds of them, in float32, or float64 for double."""
    dtype, wide = compute_dtype(config), np.float64 if config == "double" else np.float32
    return [x.astype(dtype).astype(wide) if is_float(x.dtype) else x for x in arrays]


def assert_close(found: np.ndarray, wanted: np.ndarray, tolerance: float, what: str) -> None:
    """AssertionError unless they have one shape and differ by no more than a share of the largest element."""
    assert found.shape == wanted.shape, f"{found.shape} instead of {wanted.shape}: {what}"
    error = np.abs(found - wanted).max(initial=0)
    assert error <= tolerance * np.abs(wanted).max(initial=1), f"off by {error}: {what}"
