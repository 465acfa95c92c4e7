"""Pooling: averages and maxima of windows, and their gradients, by resampling without an index tensor."""

from __future__ import annotations

import math

from atled.plugin import ArrayDesc, Call, Prepared, Registrar
from atled_cudnn import graphs, launching, plans
from atled_cudnn.confirmed import FIRST_MAXIMUM
from atled_cudnn.constants import AVERAGE_WITH_PADDING, AVERAGE_WITHOUT_PADDING, MAXIMUM
from atled_cudnn.descriptors import Node
from atled_cudnn.graphs import Windows
from atled_cudnn.launching import Problem
from atled_cudnn.library import version, version_text

_X, _Y, _GX, _GY = 1, 2, 3, 4  # unique ids
_MOST_AXES = 3


def register(registrar: Registrar) -> None:
    """Hand all of them over."""
    for op in ("AveragePooling", "AveragePoolingGrad", "MaxPooling", "MaxPoolingGradByValue"):
        omits = ("place",) if op == "MaxPooling" else ()
        registrar.implementation(
            op, "cudnn", prepare, accepts=accepts, note="cuDNN", layout=lambda call: "", omits=omits
        )


def accepts(call: Call) -> bool | str:
    """True where cuDNN has an engine for the call, else the reason."""
    if call.channel_last:
        return "cuDNN compiles its pooling of channel-last images anew in each process, about a second per shape"
    if call.spec.name == "MaxPooling" and call.wanted[1]:
        return "cuDNN gives no places of maxima"
    if call.spec.name == "MaxPoolingGradByValue":
        reason = _unconfirmed(call)
        if reason:
            return reason
    return launching.answer(call, describe)


def prepare(call: Call) -> Prepared:
    """One execution of a plan."""
    return launching.prepared(call, describe)


def _unconfirmed(call: Call) -> str:
    if not call.device_id:
        return "whether the first of equal maxima gets the gradient depends on the device"
    name = plans.properties(int(call.device_id)).name
    if (version(), name) in FIRST_MAXIMUM:
        return ""
    return (
        f"whether cuDNN {version_text(version())} on {name} gives the gradient of equal maxima to the first, and takes "
        "NaN for a maximum, is not confirmed"
    )


def describe(call: Call) -> Problem | str:
    """The call as a graph, or why there is none."""
    axes = len(call.attributes["kernel"])
    if axes > _MOST_AXES:
        return f"cuDNN pools over {_MOST_AXES} axes at most, not over {axes}"
    is_gradient = "Grad" in call.spec.name
    images, pooled = _pair(call)
    mode = _mode(call, images, pooled)
    if isinstance(mode, str):
        return mode
    windows, dtype, made = _windows(call, images, pooled), images.dtype, len(call.reads)
    if not is_gradient:
        operation = graphs.pooling(mode, _tensor(_X, images, call), _tensor(_Y, pooled, call), windows, dtype)
        return Problem(graphs.graph(operation), {_X: 0, _Y: made})
    values, places = None, {_GY: 0, _GX: made}
    if mode == MAXIMUM:
        values = (_tensor(_X, images, call), _tensor(_Y, pooled, call))
        places |= {_X: 1, _Y: 2}
    gx, gy = _tensor(_GX, images, call), _tensor(_GY, pooled, call)
    return Problem(graphs.graph(graphs.pooling_gradient(mode, gx, gy, windows, dtype, values)), places)


def _pair(call: Call) -> tuple[ArrayDesc, ArrayDesc]:
    """What is pooled and what comes of it, or their gradients."""
    first, made = call.inputs[0], call.outputs[0]
    assert first is not None
    return (made, first) if "Grad" in call.spec.name else (first, made)


def _mode(call: Call, images: ArrayDesc, pooled: ArrayDesc) -> int | str:
    """What is computed of the windows, or why cuDNN has not that."""
    if call.spec.name.startswith("Max"):
        return MAXIMUM
    overhangs = sees_padding_only = False
    for n, count, k, s, p in _axes(call, images, pooled):
        overhangs |= (count - 1) * s - p + k > n + p
        sees_padding_only |= p >= k or (count - 1) * s - p >= n
    has_padding = any(call.attributes["pad"])
    if call.attributes["including_pad"] and has_padding:
        return "cuDNN counts what lies beyond the padding" if overhangs else AVERAGE_WITH_PADDING
    return "cuDNN divides by 0 where a window sees padding only" if sees_padding_only else AVERAGE_WITHOUT_PADDING


def _axes(call: Call, images: ArrayDesc, pooled: ArrayDesc) -> list[tuple[int, int, int, int, int]]:
    """Per pooled axis its size, how many windows there are, then kernel, stride and pad."""
    kernel, stride, pad = (call.attributes[name] for name in ("kernel", "stride", "pad"))
    sizes, counts = images.shape[-len(kernel) :], pooled.shape[-len(kernel) :]
    return list(zip(sizes, counts, kernel, stride, pad, strict=True))


def _windows(call: Call, images: ArrayDesc, pooled: ArrayDesc) -> Windows:
    kernel, before, behind, stride = [], [], [], []
    for n, count, k, s, p in _axes(call, images, pooled):
        kernel.append(k)
        before.append(p)
        stride.append(s)
        # As much as makes cuDNN count as many windows: (n + before + behind - k) // s + 1.
        behind.append(p if (n + 2 * p - k) // s + 1 == count else max(0, (count - 1) * s + k - n - p))
    one, none = [1] * (2 - len(kernel)), [0] * (2 - len(kernel))  # a first axis of size 1 goes along with a single one
    return Windows([*one, *kernel], [*none, *before], [*none, *behind], [*one, *stride])


def _tensor(number: int, desc: ArrayDesc, call: Call) -> Node:
    """(B..., S...) as (N, C, S...); the last axis of B is C."""
    leading, sizes = desc.shape[: -len(call.attributes["kernel"])], desc.shape[-len(call.attributes["kernel"]) :]
    dims = (math.prod(leading[:-1]), *(leading[-1:] or (1,)), *[1] * (2 - len(sizes)), *sizes)
    return graphs.tensor(number, dims, desc.dtype, False)
