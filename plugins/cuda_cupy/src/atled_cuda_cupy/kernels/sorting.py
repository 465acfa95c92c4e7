"""The k largest elements of each sample."""

from __future__ import annotations

import math
from typing import Any

from atled.plugin import Call, Prepared, Registrar
from atled_cuda_cupy.compiling import template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels import reduction
from atled_cuda_cupy.launching import Launch, queued

_SHARED = 40960  # bytes of shared memory, in which those chosen are sorted; every GPU has them
_WIDE = 2**30  # elements from which on places take 64 bits
_LONG = 16384  # elements of a row for which blocks are large


def accepts(call: Call) -> bool | str:
    """True, or the reason: the order of many is for the host."""
    if _places(call) * _place_bytes(call) > _SHARED:
        return f"the kernel sorts {_SHARED} bytes of keys and places at most"
    return reduction.accepts(call)


def _places(call: Call) -> int:
    """For those chosen, if their order matters: a power of two."""
    return max(2, 1 << (call.attributes["k"] - 1).bit_length()) if _is_sorted(call) else 0


def _place_bytes(call: Call) -> int:
    x = call.inputs[0]
    assert x is not None
    return (8 if x.dtype.itemsize == 8 else 4) + (8 if x.size >= _WIDE else 4)


def _is_sorted(call: Call) -> bool:
    return bool(call.attributes["reduce"] or call.wanted[1])


def prepare_top_k(call: Call) -> Prepared:
    """TopKData: a block for each sample."""
    (x,), where = call.inputs, device(call.device_id)
    assert x is not None
    axis, k = call.attributes["base_axis"], call.attributes["k"]
    rows, size = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
    is_double = x.dtype.itemsize == 8
    stored, real = type_names(x.dtype)
    places = _places(call)
    defines = {
        "T": stored,
        "A": real,
        "KEY": "unsigned long long" if is_double else "unsigned int",
        "WIDE_KEY": int(is_double),
        "BLOCK": 1024 if size >= _LONG else 256,
        "SORTED": places,
        "BY_SIZE": int(call.attributes["abs"]),
        "REDUCES": int(call.attributes["reduce"]),
    }
    shared = places * _place_bytes(call)
    source, words, block = template("top_k"), (rows, size, k), int(str(defines["BLOCK"]))
    launch = Launch(where, source, "top_k", rows, block, words, defines, shared, wide=x.size >= _WIDE)

    def steps(x: Any, y: Any, index: Any) -> Any:  # Any: arrays of this device
        return [(launch, (x, y, index), 0)]

    return queued(call, steps)


def register(registrar: Registrar) -> None:
    """Hand it over."""
    registrar.implementation("TopKData", "cuda", prepare_top_k, accepts=accepts, note="kernel", omits=("index",))
