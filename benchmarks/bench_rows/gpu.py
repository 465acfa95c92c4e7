"""Cases on a GPU: those of the other modules there, and what only a device has: copies, launches, memory, programs."""

from __future__ import annotations

import importlib
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench_rows import precision
from bench_rows.expression import Expression, expression_case
from bench_rows.imperative import ADDITIONS
from bench_rows.starting import run_python
from bench_rows.torch_variant import TORCH
from harness.case import Case

PRODUCTS = 200
_HOST_SAMPLES = 50
_SETTLING_RUNS = 10
_SETTLED_STEPS = 20

_ADD = """
extern "C" __global__ void add(const float *a, const float *b, float *y) {
    y[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
}
"""


def on_gpu(library: str, case: str, precision_name: str = "float", moved: int = 0, **arguments: Any) -> Case:
    """A case of another module on a GPU.

    case: "module:function".  precision_name: see `precision`.
    moved: bytes that the row must read and write; the library "copy" copies as many, half of them read.
    """
    if library == "copy":
        return _copy(moved)
    precision.chosen = precision_name
    module, function = case.split(":")
    made: Case = getattr(importlib.import_module(module), function)(library=library, **arguments)
    if not made.is_reading:
        made.finish = _finish_of(library)
    return made


def _finish_of(library: str) -> Callable[[], object]:
    if library in TORCH:
        return importlib.import_module("torch").cuda.synchronize
    nn = importlib.import_module("atled")
    place = nn.get_current_context()
    extension = importlib.import_module("atled.ext_utils").import_extension_module("cuda")
    return lambda: extension.synchronize(place.device_id)


def _copy(moved: int) -> Case:
    cupy = importlib.import_module("cupy")
    source = cupy.random.default_rng(0).integers(0, 256, moved // 2, dtype=cupy.uint8)
    target = cupy.empty_like(source)
    return Case(lambda: cupy.copyto(target, source), finish=cupy.cuda.runtime.deviceSynchronize)


def limit(library: str, seconds: float) -> Case:
    """A time to keep below, as a library of its own."""
    return Case(lambda: seconds, is_reading=True)


def product(library: str, size: int) -> Case:
    """A product of two square matrices."""
    expression = Expression(
        lambda rng: [rng.standard_normal((size, size), dtype=np.float32) for _ in range(2)],
        lambda api, a, b: api.F.batch_matmul(a, b),
        lambda torch, a, b: torch.matmul(a, b),
    )
    return expression_case(expression, library, backward=False)


def _chain_recorded(api: Any, h: Any, w: Any) -> Any:
    for _ in range(PRODUCTS):
        h = api.F.batch_matmul(h, w)
    return h


def _chain_torch(torch: Any, h: Any, w: Any) -> Any:
    for _ in range(PRODUCTS):
        h = torch.matmul(h, w)
    return h


def tiny_products(library: str, seconds: float = 0) -> Case:
    """200 products of 4x4 matrices, each of the one before; seconds: what the library "limit" takes."""
    if library == "limit":
        return limit(library, seconds)
    orthogonal = np.linalg.qr(np.random.default_rng(3).standard_normal((4, 4)))[0].astype(np.float32)
    expression = Expression(lambda rng: [orthogonal, orthogonal], _chain_recorded, _chain_torch)
    return expression_case(expression, library, backward=False)


def host_time(library: str, seconds: float) -> Case:
    """Seconds of the host for the program of `tiny_products`, the device being idle before each."""
    if library == "limit":
        return limit(library, seconds)
    case = on_gpu(library, "bench_rows.gpu:tiny_products")
    finish = case.finish
    assert finish is not None
    for _ in range(_SETTLING_RUNS):
        case.run()

    def run() -> float:
        taken = []
        for _ in range(_HOST_SAMPLES):
            finish()
            start = time.perf_counter()
            case.run()
            taken.append(time.perf_counter() - start)
        return float(np.median(taken))

    return Case(run, is_reading=True)


def launches(library: str) -> Case:
    """An imperative addition of four elements 100 times; the library "cupy + 3 us" launches a raw kernel instead."""
    if library in TORCH or library == "atled-gpu":
        return on_gpu(library, "bench_rows.imperative:addition")
    cupy = importlib.import_module("cupy")
    kernel = cupy.RawKernel(_ADD, "add")
    a, b, y = (cupy.ones(4, cupy.float32) for _ in range(3))

    def run() -> float:
        cupy.cuda.runtime.deviceSynchronize()
        start = time.perf_counter()
        for _ in range(ADDITIONS):
            kernel((1,), (4,), (a, b, y))
        cupy.cuda.runtime.deviceSynchronize()
        return time.perf_counter() - start + ADDITIONS * 3e-6

    run()
    return Case(lambda: float(np.median([run() for _ in range(_HOST_SAMPLES)])), is_reading=True)


_STEPS = """
from bench_rows import gpu
case = gpu.on_gpu({library!r}, {case!r}, {precision!r}, **{arguments!r})
for _ in range({steps}):
    case.run()
case.finish()
"""
_RESERVED = {
    "torch": "import torch; print(torch.cuda.max_memory_reserved())",
    "atled": "import cupy; print(cupy.get_default_memory_pool().total_bytes())",
}


def peak_memory(library: str, case: str, precision_name: str, **arguments: Any) -> Case:
    """Bytes that a library has reserved of the device after some training steps, in a process of its own."""
    steps = _STEPS.format(
        library=library, case=case, precision=precision_name, arguments=arguments, steps=_SETTLED_STEPS
    )
    code = steps + _RESERVED[library.partition("-")[0]]
    return Case(lambda: float(run_python(code)), is_reading=True)


_FIRST_STEP = """
import time
from bench_rows import gpu
start = time.perf_counter()
small = dict(shape=(1, 1, 8, 8), maps=1, kernel=3, pad=1, groups=1, backward=False)
case = gpu.on_gpu({library!r}, "bench_rows.layers:convolution", **small)
case.run(); case.finish()
ready = time.perf_counter()
case = gpu.on_gpu({library!r}, "bench_rows.training:training_step", network="lenet")
case.run(); case.finish()
print(time.perf_counter() - ready)
"""


def first_step(library: str, is_warm: bool, seconds: float) -> Case:
    """Seconds of the first step of LeNet, after a first convolution of another shape; is_warm: kernels are kept.

    seconds: what the library "limit" takes.
    """
    if library == "limit":
        return limit(library, seconds)
    code = _FIRST_STEP.format(library=library)
    kept = tempfile.TemporaryDirectory()  # lives as long as the case
    if is_warm:
        run_python(code, _caches_in(kept.name))
        return Case(lambda: float(run_python(code, _caches_in(kept.name))), is_reading=True)

    def run() -> float:
        with tempfile.TemporaryDirectory() as empty:
            return float(run_python(code, _caches_in(empty)))

    return Case(run, is_reading=True)


def first_step_of_process(library: str) -> Case:
    """Seconds from the start of a process to the end of its first step of LeNet; all that is compiled is kept."""
    code = _STEPS.format(
        library=library,
        case="bench_rows.training:training_step",
        precision="float",
        arguments={"network": "lenet"},
        steps=1,
    )
    run_python(code)

    def run() -> float:
        start = time.perf_counter()
        run_python(code)
        return time.perf_counter() - start

    return Case(run, is_reading=True)


def _caches_in(folder: str) -> dict[str, str]:
    return {
        name: os.path.join(folder, name.lower()) for name in ("ATLED_CACHE_DIR", "CUPY_CACHE_DIR", "CUDA_CACHE_PATH")
    }
