"""Convolutions of one to three spatial axes, forward, by data and by weight, and deconvolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from atled.plugin import ArrayDesc, Call, Prepared, Registrar
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.products import Shape, by_cublas
from atled_cuda_cupy.kernels.sized import (
    by_axis,
    computed_bytes,
    either_layout,
    is_wide,
    kernel,
    of_one_float,
    sized,
    storing,
    types,
)
from atled_cuda_cupy.kernels.tiles import Tiled, choose, finish, tiled
from atled_cuda_cupy.launching import queued

_FARTHEST = 2**28  # places along an axis, padding included: sums of them count in 32 bits
_MOST_MAPS = 4  # per channel, for the kernels that take each channel by itself
_MOST_TAPS = 27  # of kernels that the compiler is told
_MOST_AT_ONCE = 9  # taps whose sums a thread has in registers
_DIVISORS = "CHANNELS", "KERNEL_1", "KERNEL_2", "TAPS", "WINDOWS_1", "WINDOWS_2", "WINDOW_COUNT"
_COUNTS = "CHANNEL_COUNT", "FILTER_COUNT", "SIZE_COUNT", "WINDOWS_COUNT"
_DEPTHWISE_DIVISORS = *_COUNTS, "SIZE_1", "SIZE_2", "WINDOWS_1", "WINDOWS_2"
_LEAST_WINDOWS = 1024  # that a block sums at least

_FORWARD = "Convolution", "DepthwiseConvolution"
_BACK = "ConvolutionDataGrad", "Deconvolution", "DepthwiseDeconvolution"
_WEIGHT = "ConvolutionWeightGrad"


class _Images:
    """How images lie in memory: (images, channels, places), or with the channels last.

    step: between images.  channel: between channels.  place: between places.
    """

    def __init__(self, desc: ArrayDesc, axis: int, is_last: bool) -> None:
        self.size = desc.shape[axis:-1] if is_last else desc.shape[axis + 1 :]
        self.channels = desc.shape[-1] if is_last else desc.shape[axis]
        self.count, places = math.prod(desc.shape[:axis]), math.prod(self.size)
        self.step = self.channels * places
        self.channel, self.place = (1, self.channels) if is_last else (places, 1)

    def places(self) -> dict[str, int]:
        """The distance between neighbours along each axis."""
        steps = [self.place * math.prod(self.size[axis + 1 :]) for axis in range(len(self.size))]
        return by_axis("PLACE", steps, 0)


class _Geometry:
    """A convolution, whichever of its arrays is computed: of `image` to `maps`."""

    def __init__(self, call: Call) -> None:
        attributes, name = call.attributes, call.spec.name
        self.is_last = call.channel_last
        given, second, output = call.inputs[0], call.inputs[1], call.outputs[0]
        assert given is not None and second is not None
        axis = attributes["base_axis"]
        image, maps = (output, given) if name in _BACK else (given, second if name == _WEIGHT else output)
        self.image, self.maps = _Images(image, axis, self.is_last), _Images(maps, axis, self.is_last)
        self.axes = len(self.image.size)
        if name == _WEIGHT:
            self.kernel = attributes["kernel"]
        elif name.startswith("Depthwise"):
            self.kernel = second.shape[1:]
        else:
            self.kernel = second.shape[1:-1] if self.is_last else second.shape[2:]
        self.taps = math.prod(self.kernel)
        if name.startswith("Depthwise"):
            self.groups = self.image.channels
        else:
            self.groups = attributes["group"]
        self.depth, self.each = self.image.channels // self.groups, self.maps.channels // self.groups
        self.pad, self.stride, self.dilation = attributes["pad"], attributes["stride"], attributes["dilation"]

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel is better taken by itself than as a product of matrices."""
        return self.depth == 1 and self.each <= _MOST_MAPS

    def windows(self) -> dict[str, int]:
        """The sizes that say how windows lie."""
        named = (("KERNEL", self.kernel, 1), ("PAD", self.pad, 0), ("STRIDE", self.stride, 1))
        sizes = {one: value for name, values, missing in named for one, value in by_axis(name, values, missing).items()}
        return {**sizes, **by_axis("DILATION", self.dilation, 1)}

    def bias(self, call: Call) -> tuple[int, int]:
        """Of the bias: how many elements of the output in a row have the same, and how many there are."""
        output = self.image if call.spec.name in _BACK else self.maps
        return output.channel, output.channels


def accepts(call: Call) -> bool | str:
    """True for what the kernels compute, else the reason."""
    if reason := of_one_float(call):
        return reason
    geometry = _Geometry(call)
    if geometry.axes > 3:
        return "the kernels know three spatial axes at most"
    farthest = max(
        size + 2 * pad + stride + kernel * dilation
        for size, pad, stride, kernel, dilation in zip(
            geometry.image.size, geometry.pad, geometry.stride, geometry.kernel, geometry.dilation, strict=True
        )
    )
    return farthest < _FARTHEST or f"the kernels count places along an axis up to {_FARTHEST}, not to {farthest}"


def prepare(call: Call) -> Prepared:
    """Convolutions and what multiplies weights: forward, or back."""
    geometry = _Geometry(call)
    if geometry.is_depthwise:
        return _prepare_depthwise(call, geometry)
    shape = _pointwise(call, geometry)
    if shape is not None and shape.is_for_cublas:
        return by_cublas(call, shape, geometry.bias(call), is_swapped=not geometry.is_last)
    made = (_back if call.spec.name in _BACK else _forward)(call, geometry)

    def steps(*arguments: Any) -> Sequence[Any]:  # Any: arrays of this device
        (x, weight, *bias, y), attached, workspace = call.split(arguments)
        return made.steps((weight, x, *(bias or [None]), y), attached, workspace)

    return queued(call, steps, workspace=made.workspace, note=f"implicit product, {made.note}")


def _pointwise(call: Call, geometry: _Geometry) -> Shape | None:
    """The product of matrices that a convolution of single elements is, but by weight; None: it is of windows."""
    is_plain = geometry.taps == geometry.groups == math.prod(geometry.stride) == 1 and not any(geometry.pad)
    if not is_plain:
        return None
    images, places = geometry.maps.count, math.prod(geometry.maps.size)
    channels, maps, is_back = geometry.image.channels, geometry.maps.channels, call.spec.name in _BACK
    results, depth = (channels, maps) if is_back else (maps, channels)
    if geometry.is_last:
        return Shape(images * places, results, depth, 1, (False, not is_back))
    return Shape(results, places, depth, images, (is_back, False), is_shared=True)


def _forward(call: Call, geometry: _Geometry) -> Tiled:
    image, maps, each, depth = geometry.image, geometry.maps, geometry.each, geometry.depth * geometry.taps
    columns = maps.count * math.prod(maps.size)
    own = {
        "A_GROUP_STEP": each * depth,
        "A_ROW_STEP": depth,
        "B_GROUP_STEP": geometry.depth * image.channel,
        "Y_GROUP_STEP": each * maps.channel,
        "Y_ROW_STEP": maps.channel,
        **_window_sizes(geometry),
    }
    return _tiled(call, geometry, "FORWARD", (each, columns, depth), own, (True, geometry.is_last))


def _back(call: Call, geometry: _Geometry) -> Tiled:
    image, maps, each = geometry.image, geometry.maps, geometry.each
    common = [math.gcd(stride, dilation) for stride, dilation in zip(geometry.stride, geometry.dilation, strict=True)]
    tap_steps = [stride // factor for stride, factor in zip(geometry.stride, common, strict=True)]
    backs = [dilation // factor for dilation, factor in zip(geometry.dilation, common, strict=True)]
    columns = image.count * math.prod(-(-size // step) for size, step in zip(image.size, geometry.stride, strict=True))
    depth = each * math.prod(-(-taps // step) for taps, step in zip(geometry.kernel, tap_steps, strict=True))
    filter_size = geometry.depth * geometry.taps
    own = {
        "A_GROUP_STEP": each * filter_size,
        "A_MAP_STEP": filter_size,
        "A_ROW_STEP": 1 if geometry.is_last else geometry.taps,
        "A_TAP_STEP": geometry.depth if geometry.is_last else 1,
        "B_GROUP_STEP": each * maps.channel,
        "Y_GROUP_STEP": geometry.depth * image.channel,
        "Y_ROW_STEP": image.channel,
        "CHANNELS": each,
        "CHANNEL_STEP": maps.channel,
        "IMAGES": image.count,
        "IMAGE_STEP": maps.step,
        "OWN_IMAGE_STEP": image.step,
        "OWN_PLACE_STEP": image.place,
        **by_axis("SIZE", maps.size, 1),
        **by_axis("WINDOWS", image.size, 1),
        **maps.places(),
        **by_axis("TAP_STEP", tap_steps, 1),
        **by_axis("BACK", backs, 1),
    }
    by_depth = not geometry.is_last and geometry.taps > 1, geometry.is_last
    return _tiled(call, geometry, "DATA", (geometry.depth, columns, depth), own, by_depth, math.prod(geometry.stride))


def prepare_weight_grad(call: Call) -> Prepared:
    """The gradient by weight."""
    geometry = _Geometry(call)
    if geometry.is_depthwise:
        return _prepare_depthwise_weight(call, geometry)
    maps, each = geometry.maps, geometry.each
    columns, depth = geometry.depth * geometry.taps, maps.count * math.prod(maps.size)
    own = {
        "A_GROUP_STEP": each * maps.channel,
        "A_ROW_STEP": maps.channel,
        "B_GROUP_STEP": geometry.depth * geometry.image.channel,
        "Y_GROUP_STEP": each * columns,
        "Y_ROW_STEP": columns,
        **_window_sizes(geometry),
    }
    by_depth = not geometry.is_last, not geometry.is_last
    made = _tiled(call, geometry, "WEIGHT", (each, columns, depth), own, by_depth)

    def steps(*arguments: Any) -> Sequence[Any]:  # Any: arrays of this device
        (x, gy, gw), attached, workspace = call.split(arguments)
        return made.steps((gy, x, None, gw), attached, workspace)

    return queued(call, steps, workspace=made.workspace, note=f"implicit product, {made.note}")


def _window_sizes(geometry: _Geometry) -> dict[str, int]:
    """Where windows are: of the image, and as places of the maps."""
    return {
        "CHANNELS": geometry.depth,
        "CHANNEL_STEP": geometry.image.channel,
        "IMAGE_STEP": geometry.image.step,
        "OWN_IMAGE_STEP": geometry.maps.step,
        "OWN_PLACE_STEP": geometry.maps.place,
        **by_axis("SIZE", geometry.image.size, 1),
        **by_axis("WINDOWS", geometry.maps.size, 1),
        **geometry.image.places(),
    }


def _tiled(
    call: Call,
    geometry: _Geometry,
    kind: str,
    shape: tuple[int, int, int],
    own: dict[str, int],
    by_depth: tuple[bool, bool],
    phases: int = 1,
) -> Tiled:
    """shape: rows, columns, depth.  by_depth: whether a, and b, have neighbours in depth side by side."""
    copies, is_double = geometry.groups * phases, computed_bytes(call.outputs[0]) == 8
    tiling = choose(*shape, copies, device(call.device_id).multiprocessors, is_double, has_largest=kind != "DATA")
    sizes = {
        "TAPS": geometry.taps,
        "WINDOW_COUNT": math.prod(geometry.maps.size),
        **own,
        **geometry.windows(),
    }
    defines = {
        "AXES": geometry.axes,
        "CHANNEL_LAST": int(geometry.is_last),
        "A_BY_DEPTH": int(by_depth[0]),
        "B_BY_DEPTH": int(by_depth[1]),
        "BIAS_BY_ROW": 1,
        "IS_ONE_PHASE": int(phases == 1),
    }
    return tiled(call, kind, shape, geometry.groups, sizes, tiling, copies, defines, geometry.bias(call), _DIVISORS)


def _depthwise_sizes(geometry: _Geometry) -> tuple[dict[str, int], Sequence[str], dict[str, object]]:
    """Sizes, those of them that the compiler is told, and what else it is told."""
    sizes = {
        "CHANNEL_COUNT": geometry.image.channels,
        "MAPS": geometry.each,
        "FILTER_COUNT": geometry.maps.channels,
        "SIZE_COUNT": math.prod(geometry.image.size),
        "WINDOWS_COUNT": math.prod(geometry.maps.size),
        **by_axis("SIZE", geometry.image.size, 1),
        **by_axis("WINDOWS", geometry.maps.size, 1),
        **geometry.windows(),
    }
    told = ("KERNEL", "STRIDE", "DILATION") if geometry.taps <= _MOST_TAPS else ()
    known = ["MAPS", *(f"{one}_{axis}" for one in told for axis in range(3))]
    return sizes, known, {"AXES": geometry.axes, "CHANNEL_LAST": int(geometry.is_last)}


def _prepare_depthwise(call: Call, geometry: _Geometry) -> Prepared:
    where, y = device(call.device_id), call.outputs[0]
    sizes, known, defines = _depthwise_sizes(geometry)
    name = "depthwise_back" if call.spec.name in _BACK else "depthwise"
    text, grid = storing(call) + kernel("depthwise", name), where.blocks(y.size) if y.size else 0
    launch = sized(
        where,
        text,
        name,
        {"COUNT": y.size, **sizes},
        grid,
        256,
        {**defines, **types(y)},
        known=known,
        divisors=_DEPTHWISE_DIVISORS,
        floats=call.float_count,
        wide=is_wide(call),
    )

    def steps(*arguments: Any) -> Sequence[Any]:  # Any: arrays of this device
        (x, weight, *bias, result), attached, _ = call.split(arguments)
        return [(launch, (x, weight, *(bias or [None]), result, *attached), 0)]

    return queued(call, steps, note="depthwise")


def _prepare_depthwise_weight(call: Call, geometry: _Geometry) -> Prepared:
    where, gw = device(call.device_id), call.outputs[0]
    sizes, known, defines = _depthwise_sizes(geometry)
    maps = geometry.maps
    depth = maps.count * math.prod(maps.size)
    wanted = min(max(1, 8 * where.multiprocessors // max(maps.channels, 1)), -(-depth // _LEAST_WINDOWS))
    part = max(1, -(-depth // max(wanted, 1)))
    parts = max(1, -(-depth // part))
    at_once = min(geometry.taps, _MOST_AT_ONCE)
    text = kernel("depthwise", "depthwise_weight")
    launch = sized(
        where,
        text,
        "depthwise_weight",
        {"IMAGES": maps.count, "PART_DEPTH": part, **sizes},
        maps.channels * parts,
        256,
        {**defines, **types(gw), "AT_ONCE": at_once},
        known=known,
        divisors=_DEPTHWISE_DIVISORS,
        wide=is_wide(call),
    )
    end = finish(where, call, parts, 1, 1, source=types(gw)["A"])

    def steps(*arguments: Any) -> Sequence[Any]:  # Any: arrays of this device
        (x, gy, result), attached, workspace = call.split(arguments)
        return [(launch, (x, gy, *workspace), 0), (end, (*workspace, None, result, *attached), 0)]

    workspace = max(1, parts * gw.size * computed_bytes(gw))
    return queued(call, steps, workspace=workspace, note=f"depthwise, {parts} parts")


def register(registrar: Registrar) -> None:
    """Hand all of them over."""
    for op in (*_FORWARD, *_BACK, _WEIGHT):
        made, output = (prepare_weight_grad, "gw") if op == _WEIGHT else (prepare, "gx" if op.endswith("Grad") else "y")
        registrar.implementation(
            op, "cuda", made, accepts=accepts, note="kernel", layout=either_layout, attaches=(output,)
        )
