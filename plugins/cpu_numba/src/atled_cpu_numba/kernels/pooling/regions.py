"""Pooling of regions of interest, its gradient and the adjoint of that."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.launch import REALS, kernels_by_dtype, launch, refuse_floats, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout


@layout
class Block:
    """What the kernels read."""

    image: int  # address of x or gx
    rois: int  # address
    cells: int  # address of y or gy
    place: int  # address, int32
    images: int
    channels: int
    height: int
    width: int
    boxes: int
    rows: int  # cells of a box
    columns: int
    scale: int  # bits of a float64


_IMAGE_OUT_OF_RANGE, _PLACE_OUT_OF_RANGE = 1, 2
_ERRORS = {
    _IMAGE_OUT_OF_RANGE: "a box of an image that is not there, or with a coordinate that is not finite: out of range",
    _PLACE_OUT_OF_RANGE: "place out of range",
}
_CELLS_PER_US = 10.0  # a cautious rate of one core, for the number of shares
_FARTHEST = float(2**30)  # corners beyond are beyond every image


def _build_forward(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import float64_of_bits, ints32, words
    from atled_cpu_numba.kernels.shared.options import Real, inlined, kernel

    real = Real(dtype)
    number, floats = real.kind, real.pointer

    @inlined
    def corner(value, scale):
        scaled = number(value * number(scale))
        return np.int64(max(min(np.rint(scaled), number(_FARTHEST)), number(-_FARTHEST)))

    @inlined
    def cut(first, last, cell, count, size):
        length = max(last - first + 1, 1)
        begin, end = first + cell * length // count, first + ((cell + 1) * length + count - 1) // count
        return min(max(begin, 0), size), min(max(end, 0), size)

    @kernel
    def roi_pooling(block, part, parts):
        w = words(block)
        boxes, channels, height, width = w[Block.boxes], w[Block.channels], w[Block.height], w[Block.width]
        rows, columns, scale = w[Block.rows], w[Block.columns], float64_of_bits(w[Block.scale])
        x, rois, y = floats(w[Block.image]), floats(w[Block.rois]), floats(w[Block.cells])
        place = ints32(w[Block.place])
        for r in range(boxes):
            for k in range(5):
                if not abs(rois[5 * r + k]) < np.inf:
                    return _IMAGE_OUT_OF_RANGE
            if rois[5 * r] <= -1 or rois[5 * r] >= w[Block.images]:
                return _IMAGE_OUT_OF_RANGE
        for each in range(boxes * channels * part // parts, boxes * channels * (part + 1) // parts):
            r = each // channels
            left, top = corner(rois[5 * r + 1], scale), corner(rois[5 * r + 2], scale)
            right, bottom = corner(rois[5 * r + 3], scale), corner(rois[5 * r + 4], scale)
            base = (np.int64(rois[5 * r]) * channels + each - r * channels) * height * width
            for i in range(rows):
                begin_i, end_i = cut(top, bottom, i, rows, height)
                for j in range(columns):
                    begin_j, end_j = cut(left, right, j, columns, width)
                    best, found = number(0), -1
                    for h in range(begin_i, end_i):
                        for at in range(h * width + begin_j, h * width + end_j):
                            value = x[base + at]
                            if found < 0 or value > best or (value != value and best == best):
                                best, found = value, at
                    y[(each * rows + i) * columns + j] = best
                    place[(each * rows + i) * columns + j] = np.int32(found)
        return 0

    return roi_pooling


def _build_placed(dtype: str, gathering: bool) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints32, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    number, floats = real.kind, real.pointer

    @kernel
    def roi_placed(block, part, parts):
        w = words(block)
        boxes, channels, images = w[Block.boxes], w[Block.channels], w[Block.images]
        cells, elements = w[Block.rows] * w[Block.columns], w[Block.height] * w[Block.width]
        image, rois, small, place = (
            floats(w[Block.image]),
            floats(w[Block.rois]),
            floats(w[Block.cells]),
            ints32(w[Block.place]),
        )
        for r in range(boxes):
            for k in range(5):
                if not abs(rois[5 * r + k]) < np.inf:
                    return _IMAGE_OUT_OF_RANGE
            if rois[5 * r] <= -1 or rois[5 * r] >= images:
                return _IMAGE_OUT_OF_RANGE
        for at in range(boxes * channels * cells):
            if place[at] < -1 or place[at] >= elements:
                return _PLACE_OUT_OF_RANGE
        # A share has some of the channels of all boxes: no two shares write one element.
        first, after = channels * part // parts, channels * (part + 1) // parts
        if not gathering:
            for n in range(images):
                for at in range((n * channels + first) * elements, (n * channels + after) * elements):
                    image[at] = number(0)
        for r in range(boxes):
            of_image = np.int64(rois[5 * r]) * channels
            for c in range(first, after):
                base = (of_image + c) * elements
                for at in range((r * channels + c) * cells, (r * channels + c + 1) * cells):
                    here = place[at]
                    if gathering:
                        small[at] = image[base + here] if here >= 0 else number(0)
                    elif here >= 0:
                        image[base + here] += small[at]
        return 0

    return roi_placed


_KERNELS = {
    "RoiPooling": kernels_by_dtype("roi_pooling", _build_forward),
    "RoiPoolingGather": kernels_by_dtype("roi_gather", _build_placed, True),
    "RoiPoolingGrad": kernels_by_dtype("roi_grad", _build_placed, False),
}


def accepts(call: Call) -> bool | str:
    """Whether the floats are all float32 or all float64."""
    return refuse_floats(call, REALS, floats=(0, 1)) or True


def prepare(call: Call) -> Prepared:
    """RoiPooling: x, rois -> y, place.

    RoiPoolingGrad: gy, rois, place -> gx.  RoiPoolingGather: x, rois, place -> y.
    """
    name = call.spec.name
    forward = name == "RoiPooling"
    first, rois, result = call.inputs[0], call.inputs[1], call.outputs[0]
    assert first is not None
    assert rois is not None
    image, cells = (result, first) if name == "RoiPoolingGrad" else (first, result)
    images, channels, height, width = image.shape
    words = filled(
        Block,
        images=images,
        channels=channels,
        height=height,
        width=width,
        boxes=rois.shape[0],
        rows=cells.shape[2],
        columns=cells.shape[3],
    )
    work_us = (cells.size + (0 if forward else image.size / 100)) / _CELLS_PER_US
    parts = share_count(work_us, math.prod(cells.shape[:2]) if forward else channels)
    arguments = {
        "RoiPooling": (Block.image, Block.rois, Block.cells, Block.place),
        "RoiPoolingGather": (Block.image, Block.rois, Block.place, Block.cells),
        "RoiPoolingGrad": (Block.cells, Block.rois, Block.place, Block.image),
    }[name]
    attributes = {"scale": Block.scale} if forward else None
    kernel = _KERNELS[name][image.dtype.name]
    return launch(kernel, words, arguments, parts=parts, attributes=attributes, errors=_ERRORS)
