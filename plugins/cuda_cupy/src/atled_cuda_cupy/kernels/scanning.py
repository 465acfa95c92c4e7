"""Sums and products of all elements up to each one."""

from __future__ import annotations

import math
from typing import Any

from atled.plugin import Call, Prepared, Registrar
from atled_cuda_cupy.compiling import template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels import reduction
from atled_cuda_cupy.launching import Launch, queued

_BLOCK = 256
_THREADS_ENOUGH = 512  # per multiprocessor; with fewer rows, blocks share each


def prepare_scan(call: Call) -> Prepared:
    """CumSum and CumProd: a thread for each row where there are many, or short ones; else a block."""
    (x,), where, attributes = call.inputs, device(call.device_id), call.attributes
    assert x is not None
    axis, made = attributes["axis"], call.outputs[0].dtype
    count, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    rows = 0 if x.size == 0 else x.size // count
    by_columns = count <= 32 or rows >= _THREADS_ENOUGH * where.multiprocessors
    defines = {
        "T": type_names(x.dtype)[0],
        "Y": type_names(made)[0],
        "ACC": reduction.whole_type(made) or "double",
        "BLOCK": _BLOCK,
        "PRODUCTS": int(call.spec.name == "CumProd"),
        "EXCLUSIVE": int(attributes["exclusive"]),
        "REVERSE": int(attributes["reverse"]),
    }
    name, grid = ("scan_columns", -(-rows // _BLOCK)) if by_columns else ("scan_rows", rows)
    words, wide = (rows, count, max(inner, 1)), x.size >= 2**30
    launch = Launch(where, template("scan"), name, grid, _BLOCK, words, defines, wide=wide)

    def steps(x: Any, y: Any) -> Any:  # Any: arrays of this device
        return [(launch, (x, y), 0)]

    return queued(call, steps)


def register(registrar: Registrar) -> None:
    """Hand them over."""
    for op in ("CumSum", "CumProd"):
        facts: dict[str, Any] = {"accepts": reduction.accepts_whole, "integers": True}
        registrar.implementation(op, "cuda", prepare_scan, note="kernel", **facts)
