"""Poolings over one to three axes, both ways, averages of whole images, and unpooling."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from atled.plugin import ArrayDesc, Call, Prepared, Registrar
from atled_cuda_cupy.compiling import template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.sized import by_axis, either_layout, is_wide, kernel, of_one_float, sized, storing, types
from atled_cuda_cupy.launching import queued

_PLACES = "uint8", "int32"
_FARTHEST = 2**28  # places along an axis, padding included: sums of them count in 32 bits
_MOST_TAPS = 9  # of kernels that the compiler is told
_NEUTRAL: dict[str, object] = {"COUNTS_PAD": 0, "HAS_VALUES": 1, "IS_AVERAGE": 0, "P": "unsigned char"}
"""What the compiler is told of kernels that have nothing to do with it."""
_BACK = "AveragePoolingGrad", "MaxPoolingGrad", "SumPoolingGrad", "WindowMaxGrad", "WindowSumGrad"


class _Geometry:
    """Of a pooling: how its images and windows lie."""

    def __init__(self, call: Call) -> None:
        attributes = call.attributes
        self.kernel, self.is_last = attributes["kernel"], call.channel_last
        self.axes = count = len(self.kernel)
        one, output = call.inputs[0], call.outputs[0]
        assert one is not None
        image = output if call.spec.name in _BACK else one
        windows = one if call.spec.name in _BACK else output
        self.inner = image.shape[-1] if self.is_last else 1
        self.outer = math.prod(image.shape[: image.ndim - count - self.is_last])
        self.size = self._spatial(image)
        # Places have the windows behind the channels, whatever the images have.
        is_place = call.spec.name == "MaxPoolingPlaces"
        self.windows = windows.shape[windows.ndim - count :] if is_place else self._spatial(windows)
        self.pad = attributes.get("pad", (0,) * count)
        self.stride = attributes.get("stride", self.kernel)
        if call.spec.name.startswith("Window"):
            self._drop_axes()

    def _drop_axes(self) -> None:
        """Leave out axes that make no difference: of one element, and those in front along which nothing is pooled."""
        shapes = zip(self.size, self.windows, self.kernel, strict=True)
        kept = [axis for axis, shape in enumerate(shapes) if shape != (1, 1, 1)] or [self.axes - 1]
        while len(kept) > 1 and self.kernel[kept[0]] == self.stride[kept[0]] == 1:
            self.outer *= self.size[kept.pop(0)]
        self.axes = len(kept)
        for name in ("size", "windows", "kernel", "stride", "pad"):
            setattr(self, name, tuple(getattr(self, name)[axis] for axis in kept))

    def _spatial(self, desc: ArrayDesc) -> tuple[int, ...]:
        end = desc.ndim - self.is_last
        return desc.shape[end - self.axes : end]

    def sizes(self) -> dict[str, int]:
        """By the names in pooling.cuh."""
        return {
            "INNER": self.inner,
            "PLACES": self.outer * self.inner * math.prod(self.windows),
            **by_axis("SIZE", self.size, 1),
            **by_axis("WINDOWS", self.windows, 1),
            **by_axis("KERNEL", self.kernel, 1),
            **by_axis("PAD", self.pad, 0),
            **by_axis("STRIDE", self.stride, 1),
        }

    @property
    def are_windows_apart(self) -> bool:
        """Whether they do not overlap, and few elements lie between them."""
        pairs = zip(self.kernel, self.stride, strict=True)
        return all(size <= step for size, step in pairs) and math.prod(self.stride) <= 2 * _MOST_TAPS

    @property
    def cells(self) -> list[int]:
        """How many cells, which are a window and what lies before the next one, cover an image."""
        each = zip(self.size, self.pad, self.stride, strict=True)
        return [-(-(size + pad) // step) for size, pad, step in each]

    @property
    def farthest(self) -> int:
        """The farthest place along an axis that is counted."""
        each = zip(self.size, self.pad, self.kernel, self.stride, strict=True)
        return max(size + 2 * pad + kernel + stride for size, pad, kernel, stride in each)


def accepts(call: Call) -> bool | str:
    """True for what the kernels compute, else the reason."""
    if reason := of_one_float(call, among=_PLACES):
        return reason
    if call.spec.name == "GlobalAveragePooling":
        return True
    geometry = _Geometry(call)
    if geometry.axes > 3:
        return "the kernels know three spatial axes at most"
    farthest = max(geometry.farthest, math.prod(geometry.kernel))
    return farthest < _FARTHEST or f"the kernels count places up to {_FARTHEST}, not to {farthest}"


def _prepare(
    call: Call,
    name: str,
    given: Sequence[int | None],
    types_of: ArrayDesc | None = None,
    place: ArrayDesc | None = None,
    more: Mapping[str, object] | None = None,
    is_cut: bool = False,
    **facts: Any,
) -> Prepared:
    """One launch. given: which of the op's arrays the kernel takes, None for one that is absent.

    types_of: the array of floats.  place: that of places.  more: what else the compiler is told.
    is_cut: whether the kernel is one of cut_windows.cuh.
    """
    where, geometry, output = device(call.device_id), _Geometry(call), call.outputs[0]
    defines = {"AXES": geometry.axes, "LAST": int(geometry.is_last), **types(types_of or output)}
    defines = {**_NEUTRAL, **defines, **(more or {})}
    if place is not None:
        defines["P"] = type_names(place.dtype)[0]
    is_known = math.prod(geometry.kernel) <= _MOST_TAPS
    over, count = "SIZE" if call.spec.name in _BACK else "WINDOWS", output.size
    walked = ("WINDOWS",) if is_cut and over != "WINDOWS" else ()
    sizes = geometry.sizes()
    if call.spec.name in _BACK and is_known and geometry.are_windows_apart and not is_cut:
        name, over = f"{name}_apart", "CELLS"
        sizes |= by_axis("CELLS", geometry.cells, 1)
        count = geometry.outer * geometry.inner * math.prod(geometry.cells)
    launch = sized(
        where,
        storing(call) + (kernel("pooling", "") + kernel("cut_windows", name) if is_cut else kernel("pooling", name)),
        name,
        {"COUNT": count, **sizes},
        where.blocks(max(count, sizes["PLACES"])) if count + sizes["PLACES"] else 0,
        256,
        defines,
        known=[f"{one}_{axis}" for one in ("KERNEL", "STRIDE") for axis in range(3)] if is_known else (),
        divisors=["INNER", *(f"{one}_{axis}" for one in (over, *walked) for axis in range(3))],
        floats=call.float_count,
        wide=is_wide(call),
    )

    def steps(*arguments: Any) -> Sequence[Any]:  # Any: arrays of this device
        own, attached, flag = call.split(arguments)
        return [(launch, (*(None if one is None else own[one] for one in given), *attached, *flag), 0)]

    return queued(call, steps, **facts)


def prepare_maximum(call: Call) -> Prepared:
    """Maxima, and their places if those are wanted."""
    y, place = call.outputs
    return _prepare(call, "maximum_of", (0, 1, 2), types_of=y, place=place, more={"HAS_VALUES": 1})


def prepare_places(call: Call) -> Prepared:
    """The places of the maxima alone."""
    x, place = call.inputs[0], call.outputs[0]
    return _prepare(call, "maximum_of", (0, None, 1), types_of=x, place=place, more={"HAS_VALUES": 0})


def prepare_by_place(call: Call) -> Prepared:
    """The gradient by places, and its adjoint."""
    name = "maximum_back" if call.spec.name == "MaxPoolingGrad" else "gather"
    return _prepare(call, name, (0, 1, 2), place=call.inputs[1], may_fail="an index of a place is out of range")


def prepare_sums(call: Call) -> Prepared:
    """Sums and averages of windows, and their gradients."""
    is_average = call.spec.name.startswith("Average")
    more = {"IS_AVERAGE": int(is_average), "COUNTS_PAD": int(call.attributes.get("including_pad", False))}
    return _prepare(call, "sums_back" if call.spec.name in _BACK else "sums", (0, 1), more=more)


def prepare_window_maximum(call: Call) -> Prepared:
    """Maxima of windows cut to the array, and their places."""
    y, place = call.outputs
    return _prepare(call, "window_maximum", (0, 1, 2), types_of=y, place=place, is_cut=True)


def prepare_window_by_place(call: Call) -> Prepared:
    """The gradient of these by places, and its adjoint."""
    name = "window_maximum_back" if call.spec.name == "WindowMaxGrad" else "window_gather"
    failure = "an index of a place is out of range"
    return _prepare(call, name, (0, 1, 2), place=call.inputs[1], is_cut=True, may_fail=failure)


def prepare_window_sums(call: Call) -> Prepared:
    """Sums and averages of windows cut to the array, which are those without the padding, and their gradients."""
    more = {"IS_AVERAGE": int(call.attributes["average"]), "COUNTS_PAD": 0}
    return _prepare(call, "sums_back" if call.spec.name in _BACK else "sums", (0, 1), more=more)


def prepare_window_norm(call: Call) -> Prepared:
    """Norms of windows cut to the array."""
    return _prepare(call, "window_norm", (0, 1), is_cut=True)


def prepare_unpooling(call: Call) -> Prepared:
    """Each element over a window."""
    return _prepare(call, "repeated", (0, 1))


def prepare_global(call: Call) -> Prepared:
    """Averages of whole images, a block for each."""
    where, y = device(call.device_id), call.outputs[0]
    (x,) = call.inputs
    assert x is not None
    elements = math.prod(x.shape[2:])
    block = 32 if elements <= 256 else 256
    text = storing(call) + template("averages")
    sizes = {"COUNT": y.size, "SIZE": elements}
    defines = types(y)
    launch = sized(where, text, "averages", sizes, y.size, block, defines, floats=call.float_count, wide=is_wide(call))

    def steps(*arguments: Any) -> Sequence[Any]:  # Any: arrays of this device
        own, attached, _ = call.split(arguments)
        return [(launch, (*own, *attached), 0)]

    return queued(call, steps)


_OPS = {
    prepare_by_place: "MaxPoolingGather MaxPoolingGrad",
    prepare_global: "GlobalAveragePooling",
    prepare_maximum: "MaxPooling",
    prepare_places: "MaxPoolingPlaces",
    prepare_sums: "AveragePooling AveragePoolingGrad SumPooling SumPoolingGrad",
    prepare_unpooling: "Unpooling",
    prepare_window_by_place: "WindowMaxGather WindowMaxGrad",
    prepare_window_maximum: "WindowMax",
    prepare_window_norm: "WindowNorm",
    prepare_window_sums: "WindowSum WindowSumGrad",
}
"""MaxPoolingGradByValue is left out: it would be chosen in place of the gradient by places, and read more."""


def register(registrar: Registrar) -> None:
    """Hand all of them over."""
    for prepare, ops in _OPS.items():
        for op in ops.split():
            registrar.implementation(
                op,
                "cuda",
                prepare,
                accepts=accepts,
                note="kernel",
                omits=("place",) if op == "MaxPooling" else (),
                attaches=() if op == "MaxPoolingPlaces" else ("gx" if op in _BACK else "y",),
                layout=None if op == "GlobalAveragePooling" else either_layout,
            )
