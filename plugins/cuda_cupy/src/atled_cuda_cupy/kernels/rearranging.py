"""RandomCrop, RandomFlip and RandomShift: elements of each sample from places that are drawn per sample and axis."""

from __future__ import annotations

import math
from typing import NamedTuple

from atled.plugin import Call, Prepared, Registrar
from atled_cuda_cupy.compiling import template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels import random
from atled_cuda_cupy.kernels.broadcasting import MOST_NARROW
from atled_cuda_cupy.kernels.division import divisor
from atled_cuda_cupy.launching import Launch, queued

_THREADS = 256


class _Axis(NamedTuple):
    """How an axis of a sample is walked: bound of the number drawn (0: none), what is subtracted from it, its place."""

    bound: int
    offset: int
    place: int


def register(registrar: Registrar) -> None:
    """Hand over the ops."""
    for op in ("RandomCrop", "RandomFlip", "RandomShift"):
        registrar.implementation(
            op, "cuda", prepare, accepts=random.accepts, note="gathered by places drawn", omits=("index",)
        )


def prepare(call: Call) -> Prepared:
    """One launch, a thread for each element."""
    where, (x, _), y = device(call.device_id), call.inputs, call.outputs[0]
    assert x is not None
    axis = call.attributes["base_axis"]
    rule, count, axes = _axes(call)
    is_wide = max(x.size, y.size) >= MOST_NARROW
    sample, x_sample = math.prod(y.shape[axis:]), math.prod(x.shape[axis:])
    words = [y.size, sample, *divisor(sample, is_wide), count, x_sample]
    stride = 1
    for size, own, each in reversed(list(zip(y.shape[axis:], x.shape[axis:], axes, strict=True))):
        words += [size, *divisor(size, is_wide), own, stride, *each]
        stride *= own
    defines = {"T": type_names(y.dtype)[0], "AXES": len(axes), "RULE": rule}
    launch = Launch(
        where,
        "".join(map(template, ("elementwise", "philox", "rearranging"))),
        "rearrange",
        where.blocks(y.size, _THREADS) if y.size else 0,
        _THREADS,
        words,
        defines,
        floats=random.STATE_WORDS,
        wide=is_wide,
    )
    return queued(call, lambda x, state, y, index: [(launch, (x, y, index), 0)])


def _axes(call: Call) -> tuple[str, int, list[_Axis]]:
    """Rule of an op, how many numbers it draws for a sample, and what it does along each axis of one."""
    attributes, axis = call.attributes, call.attributes["base_axis"]
    assert call.inputs[0] is not None
    shape = call.inputs[0].shape[axis:]
    if call.spec.name == "RandomCrop":
        parts = zip(shape, attributes["shape"], strict=True)
        return "ADD", len(shape), [_Axis(size - part + 1, 0, n) for n, (size, part) in enumerate(parts)]
    if call.spec.name == "RandomShift":
        shifts = attributes["shifts"]
        return (
            attributes["border_mode"].upper(),
            len(shape),
            [_Axis(2 * far + 1, far, n) for n, far in enumerate(shifts)],
        )
    flipped = {each - axis: place for place, each in enumerate(attributes["axes"])}
    return "REVERSE", len(flipped), [_Axis(2 if n in flipped else 0, 0, flipped.get(n, 0)) for n in range(len(shape))]
