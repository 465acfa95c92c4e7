"""Slices by index along an axis, and the adjoint. What is out of range is told by the flag."""

from __future__ import annotations

import math

from atled.plugin import Call, Prepared, Registrar
from atled_cuda_cupy.compiling import template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.arrangement import division, unit_count
from atled_cuda_cupy.kernels.embedding import accepts_computing, accepts_embed
from atled_cuda_cupy.kernels.indexing import is_wide, units_text
from atled_cuda_cupy.launching import Launch, queued

_THREADS, _ITEMS = 256, 4  # as in indexing.cuh
_MAY_FAIL = "an index is out of range"


def prepare_take(call: Call) -> Prepared:
    """One slice after the other, in units."""
    x, index = call.inputs
    assert x is not None
    assert index is not None
    axis, itemsize = call.attributes["axis"], x.dtype.itemsize
    outer, length = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    width = unit_count(itemsize, length) if length else 1
    each = max(length // width, 1)
    units = max(outer, 1) * index.size * each  # where there is nothing to move indices are looked at all the same
    words = [units, *division(each), *division(max(index.size, 1)), x.shape[axis], int(outer * length > 0)]
    where = device(call.device_id)
    launch = Launch(
        where,
        units_text("taking"),
        "take_slices",
        where.blocks(units, _THREADS, _ITEMS),
        _THREADS,
        words,
        {"ITEM": itemsize, "UNIT": itemsize * width},
        wide=is_wide(units, x.size),
    )
    return queued(call, launch, may_fail=_MAY_FAIL)


def prepare_take_grad(call: Call) -> Prepared:
    """Sums in the order of the indices: the same in every run."""
    index, gx, axis = call.inputs[1], call.outputs[0], call.attributes["axis"]
    assert index is not None
    length = math.prod(gx.shape[axis + 1 :])
    pack = unit_count(gx.dtype.itemsize, length) if length else 1
    packs = gx.size // pack
    storage, real = type_names(gx.dtype)
    launch = Launch(
        device(call.device_id),
        template("indexing") + template("packs") + template("adding_slices"),
        "add_slices",
        max(-(-packs // _THREADS), 1),
        _THREADS,
        (packs, max(length // pack, 1), gx.shape[axis], index.size),
        {"T": storage, "A": real, "PACK": pack},
        wide=is_wide(gx.size, index.size),
    )
    return queued(call, launch, may_fail=_MAY_FAIL)


def register(registrar: Registrar) -> None:
    """Hand both over."""
    registrar.implementation("Take", "cuda", prepare_take, accepts=accepts_embed, note="kernel", integers=True)
    registrar.implementation("TakeGrad", "cuda", prepare_take_grad, accepts=accepts_computing, note="kernel")
