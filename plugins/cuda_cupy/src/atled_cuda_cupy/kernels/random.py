"""Ops that draw random numbers: the same ones as the reference, each block of four computed from its number alone."""

from __future__ import annotations

from collections.abc import Mapping

from atled.plugin import Call, Prepared, Registrar
from atled_cuda_cupy.compiling import has_type, template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.broadcasting import MOST_NARROW
from atled_cuda_cupy.launching import Launch, queued

STATE_WORDS = 2
"""Key and call count of a random state, behind the floats of a call."""
_DRAWN = {"Rand": "UNIFORM", "Randn": "NORMAL", "Randint": "WHOLE"}
_BLOCK = 4  # numbers of one draw
_THREADS = 256


def register(registrar: Registrar) -> None:
    """Hand over the ops."""
    for op in _DRAWN:
        registrar.implementation(op, "cuda", prepare_numbers, accepts=accepts, note="Philox")
    registrar.implementation("Dropout", "cuda", prepare_dropout, accepts=accepts, note="Philox", omits=("mask",))


def accepts(call: Call) -> bool | str:
    """True for the dtypes that kernels have a type for, else the reason."""
    desc = call.outputs[0]
    return True if has_type(desc) else f"kernels have no type for {desc.dtype}"


def prepare_numbers(call: Call) -> Prepared:
    """An array of numbers, four per thread."""
    attributes = call.attributes
    low = attributes.get("low", 0)
    count = attributes.get("high", 0) - low
    launch = _launch(call, "draw_numbers", "numbers", {"DRAWN": _DRAWN[call.spec.name]})
    return queued(call, lambda state, y: [(launch, (y, low, count), 0)])


def prepare_dropout(call: Call) -> Prepared:
    """Dropout, four elements per thread."""
    launch = _launch(call, "dropout", "dropout", {"A": type_names(call.outputs[0].dtype)[1]})
    return queued(call, lambda x, state, y, mask: [(launch, (x, y, mask), 0)])


def _launch(call: Call, name: str, file: str, defines: Mapping[str, str]) -> Launch:
    y = call.outputs[0]
    return Launch(
        device(call.device_id),
        "".join(map(template, ("elementwise", "philox", file))),
        name,
        device(call.device_id).blocks(-(-y.size // _BLOCK), _THREADS) if y.size else 0,
        _THREADS,
        (y.size,),
        {"T": type_names(y.dtype)[0], **defines},
        floats=call.float_count + STATE_WORDS,
        wide=y.size >= MOST_NARROW,
    )
