"""Pooling of images whose channels lie behind: in vectors of channels, as the images of `cut_lanes`.

Those of half and bf16 are asked for so as well, for `widened` has them computed in float32. Where each element is in
few windows the kernels take them as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from atled.plugin import ArrayDesc, Call, Prepared
from atled_cpu_numba.kernels.pooling import cut_lanes, last_maxima
from atled_cpu_numba.kernels.pooling.cut_block import AXES, Block, write_geometry
from atled_cpu_numba.kernels.shared.launch import ANY, narrow_dtypes
from atled_cpu_numba.kernels.shared.layout import filled

_LEAST_CHANNELS = 8  # fewer are but a part of a vector, and transposing them takes less
_MOST_BYTE_PLACES = 256
_SUMS = ("AveragePooling", "AveragePoolingGrad", "SumPooling", "SumPoolingGrad")
_MAXIMA = ("MaxPooling", "MaxPoolingGrad")


def accepts(call: Call) -> bool | str:
    """Whether a call with channel_last is taken, else why not."""
    axes = len(call.attributes["kernel"])
    return _refusal(call, [_spatial(desc, axes, is_last=True) for desc in _arrays(call)], _arrays(call)[0].shape[-1])


def layout(call: Call) -> str:
    """In which order of axes the images of a call are wanted: "" where both are taken, see `Implementation.layout`."""
    axes, (large, small) = len(call.attributes["kernel"]), _arrays(call)
    if call.attributes.get("channel_last"):
        return ""
    if large.ndim <= axes:
        return "channel_first"
    spatial = [_spatial(desc, axes, is_last=False) for desc in (large, small)]
    return "" if _refusal(call, spatial, large.shape[-1 - axes]) is True else "channel_first"


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: all floats, unless gradients are sums of several."""
    large, small = _arrays(call)
    descs = [*call.inputs, *call.outputs]
    if (
        large.dtype != small.dtype
        or large.dtype.name not in narrow_dtypes()
        or any(d is None or d.strides for d in descs)
    ):
        return ()
    kernel, stride = call.attributes["kernel"], call.attributes["stride"]
    if call.spec.name.endswith("Grad"):
        spatial = (_spatial(desc, len(kernel), is_last=True) for desc in (large, small))
        along = zip(*spatial, kernel, stride, call.attributes["pad"], strict=True)
        is_maximum = call.spec.name in _MAXIMA
        if not all(k <= s if is_maximum else cut_lanes.is_divided(n, m, k, s, p) for n, m, k, s, p in along):
            return ()
    return tuple(n for n, desc in enumerate(descs) if desc is not None and desc.dtype == large.dtype)


def prepare(call: Call) -> Prepared:
    """AveragePooling, SumPooling: x -> y, or gy -> gx of their gradients.

    MaxPooling: x -> y, place.  MaxPoolingGrad: gy, place -> gx.
    """
    name, attributes, (large, small) = call.spec.name, call.attributes, _arrays(call)
    axes = len(attributes["kernel"])
    sizes, windows = (_spatial(desc, axes, is_last=True) for desc in (large, small))
    if name in _MAXIMA:
        return last_maxima.prepare(call, large, small, sizes, windows)
    divisor = 1
    if name.startswith("Average"):
        divisor = math.prod(attributes["kernel"]) if _is_whole(call) else 0
    words = filled(Block, outer=math.prod(large.shape[: -1 - axes]), inner=large.shape[-1], divisor=divisor)
    write_geometry(words, sizes, windows, attributes)
    is_grad = name.endswith("Grad")
    arguments = (Block.small, Block.large) if is_grad else (Block.large, Block.small)
    seen = small.size * math.prod(attributes["kernel"]) + large.size
    return cut_lanes.prepare(
        "WindowSumGrad" if is_grad else "WindowSum", large.dtype.name, words, arguments, seen, None
    )


def _arrays(call: Call) -> tuple[ArrayDesc, ArrayDesc]:
    """The larger array and the smaller one."""
    first, result = call.inputs[0], call.outputs[0]
    assert first is not None
    return (result, first) if call.spec.name.endswith("Grad") else (first, result)


def _spatial(desc: ArrayDesc, axes: int, *, is_last: bool) -> Sequence[int]:
    end = desc.ndim - is_last
    return desc.shape[end - axes : end]


def _refusal(call: Call, spatial: Sequence[Sequence[int]], channels: int) -> bool | str:
    """Why a call is not computed with channels behind; True if it is.  spatial: sizes of the two arrays."""
    attributes, (large, _) = call.attributes, _arrays(call)
    name, axes = call.spec.name, len(attributes["kernel"])
    most = last_maxima.AXES if name in _MAXIMA else AXES
    if name not in (*_SUMS, *_MAXIMA):
        return f"{name} takes no channels behind"
    if large.dtype.name not in ANY:
        return f"takes no channels behind in {large.dtype}"
    if channels < _LEAST_CHANNELS:
        return f"takes channels behind from {_LEAST_CHANNELS} on"
    if axes > most:
        return f"takes channels behind windows over up to {most} axes, not {axes}"
    if name in _MAXIMA and math.prod(attributes["kernel"]) > _MOST_BYTE_PLACES:
        return f"takes channels behind windows of up to {_MOST_BYTE_PLACES} places"
    along = zip(*spatial, *(attributes[word] for word in ("kernel", "stride", "pad")), strict=True)
    if any(not n or p >= k or (count - 1) * s - p >= n for n, count, k, s, p in along):
        return "takes channels behind windows of which each sees an element"
    if attributes.get("including_pad") and any(attributes["pad"]) and not attributes["ignore_border"]:
        return "takes channels behind windows that are not cut at the padded border"
    return True


def _is_whole(call: Call) -> bool:
    """Whether all windows of an average count the elements of the kernel."""
    return bool(call.attributes["including_pad"] and call.attributes["ignore_border"])
