"""Activations with a channel axis: CReLU and CELU, which double it, and PReLU, a formula with a slope per channel."""

from __future__ import annotations

import math

from atled.plugin import ArrayDesc, Call, Prepared, Registrar, op_spec
from atled_cuda_cupy.compiling import template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels import elementwise
from atled_cuda_cupy.kernels.arrangement import division, unit_count
from atled_cuda_cupy.kernels.indexing import accepts_floats, is_wide
from atled_cuda_cupy.launching import Launch, queued


def prepare_doubling(call: Call) -> Prepared:
    """Each element is read once and gives two."""
    (x,), axis = call.inputs, call.attributes["axis"]
    assert x is not None
    run, where = math.prod(x.shape[axis:]), device(call.device_id)
    pack = unit_count(x.dtype.itemsize, run) if run else 1
    storage, real = type_names(x.dtype)
    defines = {"T": storage, "A": real, "PACK": pack, "EXPONENTIAL": int(call.spec.name == "CELU")}
    launch = Launch(
        where,
        template("indexing") + template("packs") + template("doubling"),
        "doubled",
        where.blocks(x.size // pack),
        256,
        (x.size // pack, *division(max(run // pack, 1))),
        defines,
        floats=call.float_count,
        wide=is_wide(2 * x.size),
    )
    return queued(call, launch)


def prepare_prelu(call: Call) -> Prepared:
    """The formula that its gradient is that of, over slopes that broadcast along the channels."""
    x, slope = call.inputs
    assert x is not None
    assert slope is not None
    program = op_spec("BroadcastPReLU").program
    assert program is not None
    axis = call.attributes["base_axis"]
    shape = tuple(slope.size if number == axis else 1 for number in range(x.ndim))
    operands = x, ArrayDesc(shape, slope.dtype), call.outputs[0]
    launch = elementwise.launch_formula(device(call.device_id), program, operands)
    return queued(call, launch)


def register(registrar: Registrar) -> None:
    """Hand all of them over."""
    for op in ("CReLU", "CELU"):
        registrar.implementation(op, "cuda", prepare_doubling, accepts=accepts_floats, note="kernel")
    registrar.implementation("PReLU", "cuda", prepare_prelu, accepts=elementwise.accepts, note="formula")
