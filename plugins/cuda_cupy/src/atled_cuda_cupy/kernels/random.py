"""Ops that draw random numbers: the same ones as the reference, each block of four computed from its number alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from atled.plugin import Call, Prepared, Registrar
from atled_cuda_cupy.compiling import has_type, template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.broadcasting import MOST_NARROW
from atled_cuda_cupy.launching import Launch, queued

_NAMES = {"Rand": "draw_uniform", "Randn": "draw_normal", "Randint": "draw_whole", "Dropout": "dropout"}
_DEFINES = {"Rand": "UNIFORM", "Randn": "NORMAL", "Randint": "WHOLE", "Dropout": "DROPOUT"}
_BLOCK = 4  # numbers of one draw
_THREADS = 256
STATE_WORDS = 2
"""Key and call count of a random state, behind the floats of a call."""


def register(registrar: Registrar) -> None:
    """Hand over the ops."""
    for op, omits in (("Rand", ()), ("Randn", ()), ("Randint", ()), ("Dropout", ("mask",))):
        registrar.implementation(op, "cuda", prepare, accepts=accepts, note="Philox", omits=omits)


def accepts(call: Call) -> bool | str:
    """True for the dtypes that kernels have a type for, else the reason."""
    desc = call.outputs[0]
    return True if has_type(desc) else f"kernels have no type for {desc.dtype}"


def prepare(call: Call) -> Prepared:
    """One launch, a thread for each draw."""
    where, op = device(call.device_id), call.spec.name
    y = call.outputs[0]
    kind, real = type_names(y.dtype)
    launch = Launch(
        where,
        "".join(map(template, ("elementwise", "philox", "random"))),
        _NAMES[op],
        where.blocks(-(-y.size // _BLOCK), _THREADS) if y.size else 0,
        _THREADS,
        (y.size,),
        {"T": kind, "A": real, _DEFINES[op]: 1},
        floats=call.float_count + STATE_WORDS,
        wide=y.size >= MOST_NARROW,
    )
    given = _given(call)
    return queued(call, lambda *arrays: [(launch, given(*arrays), 0)])


def _given(call: Call) -> Callable[..., tuple[Any, ...]]:  # Any: arrays of this device
    """From the arrays of a run, in which the state is None, to those that the kernel takes."""
    if call.spec.name == "Dropout":
        return lambda x, state, y, mask: (x, y, mask)
    if call.spec.name == "Randint":
        low, high = call.attributes["low"], call.attributes["high"]
        return lambda state, y: (y, high - low, low)
    return lambda state, y: (y,)
