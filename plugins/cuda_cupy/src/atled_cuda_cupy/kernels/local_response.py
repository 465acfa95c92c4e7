"""Local response normalization."""

from __future__ import annotations

import math

from atled.plugin import Call, Prepared, Registrar
from atled_cuda_cupy.compiling import template
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.sized import is_wide, of_one_float, sized, types
from atled_cuda_cupy.launching import queued


def accepts(call: Call) -> bool | str:
    """True for one dtype that kernels compute in, else the reason."""
    return of_one_float(call) or True


def prepare(call: Call) -> Prepared:
    """One launch, a thread for each element."""
    where, y, axis = device(call.device_id), call.outputs[0], call.attributes["axis"]
    sizes = {
        "COUNT": y.size,
        "MAPS": max(y.shape[axis], 1),
        "INNER": max(math.prod(y.shape[axis + 1 :]), 1),
        "SIDE": call.attributes["size"],
    }
    grid = where.blocks(y.size) if y.size else 0
    launch = sized(
        where,
        template("local_response"),
        "local_response",
        sizes,
        grid,
        256,
        types(y),
        divisors=("MAPS", "INNER"),
        floats=call.float_count,
        wide=is_wide(call),
    )
    return queued(call, launch)


def register(registrar: Registrar) -> None:
    """Hand it over."""
    registrar.implementation("LRN", "cuda", prepare, accepts=accepts, note="kernel")
