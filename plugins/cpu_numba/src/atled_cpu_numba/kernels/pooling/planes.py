"""Pooling over one or two trailing axes: maxima, averages, sums and their gradients; `slices` brings more to two.

The forward kernels go through a row of windows in vectors, see `window_rows`; for those that networks use most see
`pairs` and `windows`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from atled.plugin import ArrayDesc, Call, Prepared, op_spec
from atled_cpu_numba.kernels.pooling import channel_last, maxima, turned, windows
from atled_cpu_numba.kernels.pooling import slices as slice_pooling
from atled_cpu_numba.kernels.pooling.block import PLACE_OUT_OF_RANGE, Block, window_words
from atled_cpu_numba.kernels.pooling.pairs import MOST_PAST_CACHES, PAIRS, PAIRS_ALONE, PAIRS_PAST_CACHES, PLANES
from atled_cpu_numba.kernels.pooling.slices import MOST_BYTE_PLACES
from atled_cpu_numba.kernels.reduction import any_axes
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import (
    REALS,
    STREAMED_BYTES,
    fitting_shares,
    in_lines,
    is_brief,
    kernels_by_dtype,
    launch,
    narrow_dtypes,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import NO_WORD, filled
from atled_cpu_numba.kernels.shared.leading_axes import Axis
from atled_cpu_numba.kernels.shared.pieces import in_pieces
from atled_cpu_numba.store import Kernel

_ONE_ROW = Axis(1, 1, 1, 0, 1, 1)  # the height of a call with one axis
_ERRORS = {PLACE_OUT_OF_RANGE: "place out of range"}
_MOST_WINDOW = 3  # columns of windows for which there are kernels that read vectors of them
_ELEMENTS_PER_US = 1000.0  # a cautious rate of one core, for the number of shares


def _build_placed(dtype: str, *, gathering: bool) -> Callable[..., int]:
    """MaxPoolingGather or its adjoint, MaxPoolingGrad: values go between windows and the elements at their places."""
    from atled_cpu_numba.codegen import bytes8, ints32, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def placed(block, part, parts):
        w = words(block)
        height, width, rows = w[Block.height], w[Block.width], w[Block.rows]
        columns, kernel_w = w[Block.columns], w[Block.kernel_w]
        inputs, windows, wide = height * width, rows * columns, w[Block.wide]
        first, after = w[Block.planes] * part // parts, w[Block.planes] * (part + 1) // parts
        narrow_places, wide_places = bytes8(w[Block.place]), ints32(w[Block.place])
        lowest, highest = 0, -1
        for j in range(first * windows, after * windows):
            here = wide_places[j] if wide != 0 else narrow_places[j]
            lowest = min(lowest, here)
            highest = max(highest, here)
        if lowest < 0 or highest >= w[Block.kernel_h] * kernel_w:
            return PLACE_OUT_OF_RANGE
        for plane in range(first, after):
            large = floats(w[Block.large] + size * plane * inputs)
            small = floats(w[Block.small] + size * plane * windows)
            if not gathering:
                for j in range(inputs):
                    large[j] = number(0)
            for i in range(rows):
                for j in range(columns):
                    window = i * columns + j
                    at = plane * windows + window
                    here = np.uint32(wide_places[at] if wide != 0 else narrow_places[at])
                    place_row = here // np.uint32(kernel_w)
                    row = i * w[Block.stride_h] - w[Block.pad_h] + np.int64(place_row)
                    column = j * w[Block.stride_w] - w[Block.pad_w] + np.int64(here - place_row * np.uint32(kernel_w))
                    inside = row >= 0 and row < height and column >= 0 and column < width
                    if gathering:
                        small[window] = large[row * width + column] if inside else number(0)
                    elif inside:
                        large[row * width + column] += small[window]
        return 0

    return placed


def _build_average(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.window_rows import make_sum_row

    element, floats = SIZES[dtype], Real(dtype).pointer
    sum_row, sum_row_1, sum_row_2 = (make_sum_row(stride, dtype) for stride in (0, 1, 2))
    sum_row_pairs = make_sum_row(2, dtype, pairs=True)

    @kernel
    def average_pooling(block, part, parts):
        w = words(block)
        planes, height, width = w[Block.planes], w[Block.height], w[Block.width]
        rows, columns = w[Block.rows], w[Block.columns]
        kernel_h, kernel_w, stride_h = w[Block.kernel_h], w[Block.kernel_w], w[Block.stride_h]
        stride_w, pad_h, pad_w = w[Block.stride_w], w[Block.pad_h], w[Block.pad_w]
        margin_h, margin_w = (pad_h, pad_w) if w[Block.including_pad] != 0 else (0, 0)
        adds = w[Block.adds] != 0
        factor_at = w[Block.workspace] + part * w[Block.share_bytes]
        factors_at = factor_at + 64
        factor, factors = floats(factor_at), floats(factors_at)
        for j in range(columns):
            left = j * stride_w - pad_w
            counted = max(1, min(left + kernel_w, width + margin_w) - max(left, -margin_w))
            factors[j] = 1.0 / (1 if adds else counted)
        for plane in range(planes * part // parts, planes * (part + 1) // parts):
            x = w[Block.large] + element * plane * height * width
            for i in range(rows):
                y = w[Block.small] + element * (plane * rows + i) * columns
                top = i * stride_h - pad_h
                counted = max(1, min(top + kernel_h, height + margin_h) - max(top, -margin_h))
                factor[0] = 1.0 / (1 if adds else counted)
                first = max(0, top)
                count = max(0, min(height, top + kernel_h) - first)
                if stride_w == 2 and kernel_w == 2:
                    sum_row_pairs((x, width, first, count, 2, 2, pad_w, columns, y, factors_at, factor_at))
                elif stride_w == 1:
                    sum_row_1((x, width, first, count, kernel_w, 1, pad_w, columns, y, factors_at, factor_at))
                elif stride_w == 2:
                    sum_row_2((x, width, first, count, kernel_w, 2, pad_w, columns, y, factors_at, factor_at))
                else:
                    sum_row((x, width, first, count, kernel_w, stride_w, pad_w, columns, y, factors_at, factor_at))
        return 0

    return average_pooling


def _build_average_grad(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.window_rows import make_scale_row, make_spread_pairs

    element, floats = SIZES[dtype], Real(dtype).pointer
    scale_row, spread_pairs = make_scale_row(dtype), make_spread_pairs(dtype)

    @kernel
    def average_pooling_grad(block, part, parts):
        w = words(block)
        planes, height, width = w[Block.planes], w[Block.height], w[Block.width]
        rows, columns = w[Block.rows], w[Block.columns]
        kernel_h, kernel_w, stride_h = w[Block.kernel_h], w[Block.kernel_w], w[Block.stride_h]
        stride_w, pad_h, pad_w = w[Block.stride_w], w[Block.pad_h], w[Block.pad_w]
        margin_h, margin_w = (pad_h, pad_w) if w[Block.including_pad] != 0 else (0, 0)
        adds = w[Block.adds] != 0
        factor_at = w[Block.workspace] + part * w[Block.share_bytes]
        factors_at = factor_at + 64
        sums_at = factors_at + (w[Block.share_bytes] - 64) // 2
        factor, factors, sums = floats(factor_at), floats(factors_at), floats(sums_at)
        pairs = kernel_w == 2 and stride_w == 2 and pad_w == 0
        for j in range(columns):
            left = j * stride_w - pad_w
            counted = max(1, min(left + kernel_w, width + margin_w) - max(left, -margin_w))
            factors[j] = 1.0 / (1 if adds else counted)
        for plane in range(planes * part // parts, planes * (part + 1) // parts):
            summed = -1, -1  # the rows of windows that the row above is of
            for h in range(height):
                # First the windows over this row are added up, then their sum goes to each column of the kernel.
                first = max(0, (h + pad_h - kernel_h + stride_h) // stride_h)
                after = min(rows, (h + pad_h) // stride_h + 1)
                gx_at = w[Block.large] + element * (plane * height + h) * width
                gx = floats(gx_at)
                if first >= after:
                    for j in range(width):
                        gx[j] = 0.0
                    continue
                if summed == (first, after):
                    above = floats(gx_at - element * width)
                    for j in range(width):
                        gx[j] = above[j]
                    continue
                summed = first, after
                for i in range(first, after):
                    top = i * stride_h - pad_h
                    counted = max(1, min(top + kernel_h, height + margin_h) - max(top, -margin_h))
                    factor[0] = 1.0 / (1 if adds else counted)
                    gy = w[Block.small] + element * (plane * rows + i) * columns
                    scale_row((gy, factors_at, factor_at, columns, 1 if i > first else 0, sums_at))
                done = 0
                if pairs:
                    done = min(columns, width // 2)
                    spread_pairs((sums_at, done, gx_at))
                for j in range(2 * done, width):
                    gx[j] = 0.0
                if done == columns:
                    continue
                for s in range(kernel_w):
                    left = s - pad_w
                    low = max(done, (-left + stride_w - 1) // stride_w) if left < 0 else done
                    high = min(columns, (width - 1 - left) // stride_w + 1) if left < width else 0
                    if stride_w == 1:
                        for j in range(low, high):
                            gx[left + j] += sums[j]
                    else:
                        for j in range(low, high):
                            gx[left + stride_w * j] += sums[j]
        return 0

    return average_pooling_grad


_AVERAGES = kernels_by_dtype("average_pooling", _build_average)
_AVERAGES_GRAD = kernels_by_dtype("average_pooling_grad", _build_average_grad)
_KERNELS = {
    "MaxPooling": maxima.MAXIMA,
    "MaxPoolingGrad": kernels_by_dtype("max_pooling_grad", partial(_build_placed, gathering=False)),
    "MaxPoolingGather": kernels_by_dtype("max_pooling_gather", partial(_build_placed, gathering=True)),
    "AveragePooling": _AVERAGES,
    "AveragePoolingGrad": _AVERAGES_GRAD,
    "SumPooling": _AVERAGES,
    "SumPoolingGrad": _AVERAGES_GRAD,
}

# Words of inputs and outputs.
_ARGUMENTS = {
    "MaxPooling": (Block.large, Block.small, Block.place),
    "MaxPoolingGrad": (Block.small, Block.place, Block.large),
    "MaxPoolingGather": (Block.large, Block.place, Block.small),
    "AveragePooling": (Block.large, Block.small),
    "AveragePoolingGrad": (Block.small, Block.large),
    "SumPooling": (Block.large, Block.small),
    "SumPoolingGrad": (Block.small, Block.large),
}
_FORWARD_SUMS = ("AveragePooling", "SumPooling")


def accepts(call: Call) -> bool | str:
    """Whether the floats are float32 or float64."""
    refused = refuse_floats(call, REALS, floats=(0,))
    if refused:
        return refused
    if call.attributes.get("channel_last") and call.spec.name != "MaxPoolingGather":  # which is not asked for them
        return channel_last.accepts(call)
    axes = len(call.attributes["kernel"])
    place = (*call.inputs[1:], *call.outputs[1:])  # of maxima
    wanted = np.uint8 if math.prod(call.attributes["kernel"]) <= MOST_BYTE_PLACES else np.int32
    if place and (place[0] is None or place[0].dtype != wanted):
        return f"takes places as {np.dtype(wanted)}"
    # Places within a plane are counted in 32 bits.
    return all(math.prod(desc.shape[-axes:]) < 2**31 for desc in (*call.inputs, *call.outputs) if desc is not None) or (
        "takes no planes of 2^31 elements or more"
    )


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: all floats.

    By windows of 2 x 2 that tile planes, and by short windows of which no places are wanted; with channels behind by
    most windows.
    """
    if call.attributes.get("channel_last"):
        return channel_last.narrow_arguments(call)
    large, small = _arrays(call)
    descs = [*call.inputs, *call.outputs]
    if call.spec.name not in PAIRS or any(d is None or d.strides for d in descs):
        return ()
    axes = axes_of(call)
    is_planar = all(axis.is_passed_through for axis in axes[:-2])
    is_narrow = large.dtype == small.dtype and large.dtype.name in narrow_dtypes()
    if not (is_planar and is_narrow):
        return ()
    name, (height, width) = call.spec.name, (_ONE_ROW, *axes)[-2:]
    are_short = _makes_values_alone(call) and windows.kernel_for(name, large.dtype.name, height, width) is not None
    if not (are_short or _are_pairs((height, width))):
        return ()
    return tuple(n for n, desc in enumerate(descs) if desc is not None and desc.dtype == large.dtype)


def _makes_values_alone(call: Call) -> bool:
    """Whether it is a call forward of which no places of maxima are wanted."""
    return call.spec.name in _FORWARD_SUMS or (call.spec.name == "MaxPooling" and not call.wanted[1])


def prepare(call: Call) -> Prepared:
    """MaxPooling: x -> y, place.  MaxPoolingGrad: gy, place -> gx.  MaxPoolingGather: ggx, place -> y.

    AveragePooling, SumPooling: x -> y.  AveragePoolingGrad, SumPoolingGrad: gy -> gx.
    """
    if call.attributes.get("channel_last"):
        return channel_last.prepare(call)
    axes = axes_of(call)
    # What is passed through is more planes.
    if len(axes) > 2 and not all(axis.is_passed_through for axis in axes[:-2]):
        return slice_pooling.prepare(call, axes, _prepare_planar)
    height, width = (_ONE_ROW, *axes)[-2:]
    is_part = width.result > 1 or height.result > 1
    if turned.fits(call, axes):
        return turned.prepare(call)
    if call.spec.name in _FORWARD_SUMS and is_part and width.kernel > _MOST_WINDOW and _are_tiles((height, width)):
        return any_axes.prepare(_over_axes(call, height, width))
    return _prepare_planar(call)


def _arrays(call: Call) -> tuple[ArrayDesc, ArrayDesc]:
    """The larger array and the smaller one."""
    first, result = call.inputs[0], call.outputs[0]
    assert first is not None
    return (result, first) if call.spec.name.endswith("Grad") else (first, result)


def axes_of(call: Call) -> list[Axis]:
    """The axes of the windows."""
    large, small = _arrays(call)
    count = len(call.attributes["kernel"])
    geometry = (call.attributes[name] for name in ("kernel", "pad", "stride"))
    return list(map(Axis, large.shape[-count:], small.shape[-count:], *geometry, (1,) * count))


def _prepare_planar(call: Call) -> Prepared:
    """Pooling over one or two axes."""
    name = call.spec.name
    large, small = _arrays(call)
    axes = axes_of(call)[-2:]
    planes = math.prod(large.shape[: -len(axes)])
    height, width = (_ONE_ROW, *axes)[-2:]
    dtype, alone = large.dtype.name, name == "MaxPooling" and not call.wanted[1]
    kernel, note = _special(name, dtype, height, width, alone)
    found = windows.kernel_for(name, dtype, height, width) if _makes_values_alone(call) else None
    share_bytes = strip = 0
    if kernel is None and found is not None:
        kernel, note, share_bytes = found, "short windows", windows.share_bytes(dtype, width)
    elif name.startswith(_FORWARD_SUMS):
        # A factor for each column of windows, one for the row, or the sum of some rows.
        share_bytes = 64 + 2 * in_lines(large.dtype.itemsize * small.shape[-1])
    elif kernel is None and name == "MaxPooling":
        strip, share_bytes = maxima.strip_columns(dtype, height, width), maxima.share_bytes(dtype, height, width)
    words = filled(
        Block,
        planes=planes,
        including_pad=int(call.attributes.get("including_pad", False)),
        adds=int(name.startswith("Sum")),
        share_bytes=share_bytes,
        wide=int(height.kernel * width.kernel > MOST_BYTE_PLACES),
        strip=strip,
        **window_words(height, width),
    )
    work_us = (large.size + small.size) / _ELEMENTS_PER_US
    parts = fitting_shares(share_count(work_us, planes), max(1, share_bytes))
    arguments = (*_ARGUMENTS[name][:2], NO_WORD) if alone else _ARGUMENTS[name]
    prepared = launch(
        kernel or (maxima.MAXIMA_ALONE if alone else _KERNELS[name])[dtype],
        words,
        (*arguments, *((Block.workspace,) if share_bytes else ())),
        parts=parts,
        is_brief=is_brief(work_us, planes),
        workspace=share_bytes * parts,
        errors=_ERRORS if name in ("MaxPoolingGrad", "MaxPoolingGather") else None,
        note=note,
    )
    if not planes:
        return prepared
    past = None
    is_pairs = name in PAIRS and kernel is PAIRS[name][dtype]
    if is_pairs and large.nbytes >= STREAMED_BYTES and large.shape[-1] <= MOST_PAST_CACHES:
        past = PAIRS_PAST_CACHES[name].get(dtype) if name in PAIRS_PAST_CACHES else None
    return in_pieces(prepared, call, planes, alone=past)


def _special(name: str, dtype: str, height: Axis, width: Axis, alone: bool) -> tuple[Kernel | None, str]:
    """The kernel of `pairs` for windows along these axes, if there is one; the note.  alone: maxima without places."""
    axes = (height, width)
    if any(axis.pad for axis in axes):
        return None, ""
    if dtype in REALS and all((axis.kernel, axis.result) == (axis.source, 1) for axis in axes) and name in PLANES:
        return PLANES[name][dtype], "whole planes"
    kernels = PAIRS_ALONE if alone else PAIRS.get(name)
    return (kernels[dtype], "2x2 tiles") if kernels and _are_pairs(axes) else (None, "")


def _are_pairs(axes: Sequence[Axis]) -> bool:
    """Whether windows of 2 x 2 take all of the planes once."""
    return _are_tiles(axes) and all(axis.kernel == 2 for axis in axes)


def _are_tiles(axes: Sequence[Axis]) -> bool:
    """Whether windows take all of the planes once."""
    return all((axis.pad, axis.stride, axis.source) == (0, axis.kernel, axis.kernel * axis.result) for axis in axes)


def _over_axes(call: Call, height: Axis, width: Axis) -> Call:
    """The averages or sums of windows that tile the planes: means or sums over two axes of four."""
    large, op = _arrays(call)[0], "Sum" if call.spec.name == "SumPooling" else "Mean"
    x = ArrayDesc((large.size // max(1, height.kernel * width.source), height.kernel, width.result, width.kernel))
    y = ArrayDesc((x.shape[0], width.result), large.dtype)
    return Call(op_spec(op), (x,), (y,), {"axes": (1, 3), "keep_dims": False})
