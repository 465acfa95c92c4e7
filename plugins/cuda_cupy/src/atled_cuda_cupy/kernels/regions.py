"""Pooling of regions of interest, its gradient and the adjoint of that."""

from __future__ import annotations

import numpy as np

from atled.plugin import Call, Prepared, Registrar
from atled_cuda_cupy.compiling import type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.sized import is_wide, kernel, sized, types
from atled_cuda_cupy.launching import queued

_FLOATS = "float16", "bfloat16", "float32", "float64"
_NAMES = {
    "RoiPooling": "pool_regions",
    "RoiPoolingGather": "gather_regions",
    "RoiPoolingGrad": "pool_regions_back",
}


def accepts(call: Call) -> bool | str:
    """True for floats that kernels have, else the reason."""
    first, rois = call.inputs[:2]
    assert first is not None
    assert rois is not None
    for desc in (first, rois):
        if desc.dtype.name not in _FLOATS:
            return f"no kernel computes in {desc.dtype}"
    place = call.outputs[1] if call.spec.name == "RoiPooling" else call.inputs[2]
    assert place is not None
    return place.dtype == np.int32 or f"places are int32, not {place.dtype}"


def prepare(call: Call) -> Prepared:
    """One launch, a thread for each cell, or for each element of the images."""
    name = call.spec.name
    first, rois, result, where = call.inputs[0], call.inputs[1], call.outputs[0], device(call.device_id)
    assert first is not None
    assert rois is not None
    image, cells = (result, first) if name == "RoiPoolingGrad" else (first, result)
    images, channels, height, width = image.shape
    boxes, _, rows, columns = cells.shape
    sizes = {
        "COUNT": image.size,
        "CELLS": cells.size,
        "BOXES": boxes,
        "IMAGES": images,
        "CHANNELS": max(channels, 1),
        "HEIGHT": height,
        "WIDTH": width,
        "ELEMENTS": max(height * width, 1),
        "ROWS": max(rows, 1),
        "COLUMNS": max(columns, 1),
    }
    count = max(result.size, cells.size, boxes)
    launch = sized(
        where,
        kernel("regions", _NAMES[name]),
        _NAMES[name],
        sizes,
        where.blocks(count) if count else 0,
        256,
        {**types(result), "R": type_names(rois.dtype)[0], "B": type_names(rois.dtype)[1]},
        divisors=("CHANNELS", "ELEMENTS", "ROWS", "COLUMNS"),
        floats=call.float_count,
        wide=is_wide(call),
    )
    return queued(call, launch, may_fail="an image of a box, or a place, is out of range")


def register(registrar: Registrar) -> None:
    """Hand all of them over."""
    for op in _NAMES:
        registrar.implementation(op, "cuda", prepare, accepts=accepts, note="kernel")
