"""Slices by index along an axis, and the adjoint. What is out of range is told by the flag."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from atled.plugin import ArrayDesc, Call, Prepared, Registrar, op_spec
from atled_cuda_cupy.compiling import template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.arrangement import division, unit_count
from atled_cuda_cupy.kernels.embedding import TableGrad, accepts_computing, accepts_embed
from atled_cuda_cupy.kernels.indexing import is_wide, units_text
from atled_cuda_cupy.launching import Launch, Step, queued

_THREADS, _ITEMS = 256, 4  # as in indexing.cuh
_ALIGNED = 256  # bytes that parts of the workspace are aligned to
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
    if not math.prod(gx.shape[:axis]) > 1 and (sorted_sums := _sorted(call)) is not None:
        return sorted_sums
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


def _sorted(call: Call) -> Prepared | None:
    """As the gradient of a table by indices counted from the front, where that sorts; None where it does not."""
    (gy, index), gx = call.inputs, call.outputs[0]
    assert gy is not None
    assert index is not None
    axis, rows = call.attributes["axis"], gx.shape[call.attributes["axis"]]
    width = math.prod(gx.shape[axis + 1 :])
    descs = ArrayDesc((index.size, width), gy.dtype), ArrayDesc((index.size,), index.dtype)
    table = Call(
        op_spec("EmbedGrad"), descs, (ArrayDesc((rows, width), gx.dtype),), {"n": rows}, device_id=call.device_id
    )
    grad = TableGrad(table)
    if not gx.size or grad.is_searched or accepts_computing(table) is not True:
        return None
    steps, workspace, note = grad.sorted_steps()
    where = device(call.device_id)
    text = template("indexing") + template("counting_from_front")
    count = Launch(where, text, "count_from_front", where.blocks(index.size), _THREADS, (index.size, rows), {})
    own = -(-8 * index.size // _ALIGNED) * _ALIGNED

    def all_steps(
        gy: Any, index: Any, gx: Any, memory: Any, *flag: Any
    ) -> Sequence[Step]:  # Any: arrays of this device
        start = memory.data.ptr
        return [(count, (index, start), 0), *steps(gy, start, gx, start + own, *flag)]

    return queued(call, all_steps, workspace=own + workspace, note=note, may_fail=_MAY_FAIL)


def register(registrar: Registrar) -> None:
    """Hand both over."""
    registrar.implementation("Take", "cuda", prepare_take, accepts=accepts_embed, note="kernel", integers=True)
    registrar.implementation("TakeGrad", "cuda", prepare_take_grad, accepts=accepts_computing, note="kernel")
