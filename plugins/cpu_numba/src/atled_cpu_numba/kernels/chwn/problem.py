"""The sizes and strides of a convolution whose images lie side by side in memory, as its kernels are given them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from atled.plugin import ArrayDesc, Call, NamedTuple
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.leading_axes import Axis
from atled_cpu_numba.kernels.winograd.forward import excluded_for

_MOST_AXES = 3
_PASSED = Axis(1, 1, 1, 0, 1, 1)


class Problem(NamedTuple):
    """A convolution, its adjoint, or, with a result instead of a weight, its gradient with respect to the weight.

    forward: whether it is no adjoint.  images: of the batch, whose stride is 1 in what is read.
    channels, maps: of the source and of the result.  axes: depth, height and width.
    source, result: strides from image to image, channel to channel, and along the three axes.
    weight: strides from map to map of the result, from channel to channel of the source, and along the three axes.
    biases: for each input behind the weight, whether it is there.
    direct_for: the flag of the Context for which only direct sums will do, "" where there is none.
    """

    forward: bool
    images: int
    channels: int
    maps: int
    axes: tuple[Axis, ...]
    source: tuple[int, ...]
    result: tuple[int, ...]
    weight: tuple[int, ...]
    biases: tuple[bool, ...]
    direct_for: str

    @property
    def flops(self) -> float:
        """Multiplications and additions of direct sums, padding included."""
        places = math.prod(axis.kernel for axis in self.axes)
        side = (axis.result if self.forward else axis.source for axis in self.axes)
        return 2.0 * self.images * self.channels * self.maps * places * math.prod(side)


def refusal(call: Call, images: Sequence[ArrayDesc | None]) -> str:
    """Why a call on strided arrays is not computed in their order, "" if it is; images: what has to have its order."""
    attributes = call.attributes
    if attributes.get("group", 1) > 1 or attributes["base_axis"] != 1:
        return "takes strides where there is one group and one batch axis only"
    vector = host_lanes().vector
    for desc in images:
        assert desc is not None
        if desc.ndim - 2 > _MOST_AXES:
            return f"takes strides of at most {_MOST_AXES} spatial axes"
        if desc.shape[0] < vector:
            return f"takes strides of {vector} images and more"
        if desc.written_strides[0] != 1:
            return "takes strides where the batch axis is the innermost in memory"
    return ""


def problem_of(call: Call) -> Problem:
    """The problem of a convolution or of its adjoint."""
    source, weight, result = call.inputs[0], call.inputs[1], call.outputs[0]
    assert source is not None
    assert weight is not None
    forward = call.spec.name == "Convolution"
    strides = weight.written_strides
    if not forward:
        strides = (strides[1], strides[0], *strides[2:])
    biases = tuple(desc is not None for desc in call.inputs[2:])
    return _problem(call, forward, source, result, weight.shape[2:], strides, biases)


def weight_problem_of(call: Call) -> Problem:
    """The problem of a gradient with respect to the weight: source x, result gy, strides of gw."""
    x, gy = call.inputs[0], call.inputs[1]
    assert x is not None
    assert gy is not None
    return _problem(call, True, x, gy, call.attributes["kernel"], call.outputs[0].written_strides, ())


def _problem(
    call: Call,
    forward: bool,
    source: ArrayDesc,
    result: ArrayDesc,
    kernel: Sequence[int],
    weight: Sequence[int],
    biases: tuple[bool, ...],
) -> Problem:
    steps = (call.attributes[name] for name in ("pad", "stride", "dilation"))
    axes = tuple(map(Axis, source.shape[2:], result.shape[2:], kernel, *steps))
    missing = _MOST_AXES - len(axes)

    def wide(strides: Sequence[int]) -> tuple[int, ...]:
        return (*strides[:2], *(0 for _ in range(missing)), *strides[2:])

    return Problem(
        forward,
        source.shape[0],
        source.shape[1],
        result.shape[1],
        (_PASSED,) * missing + axes,
        wide(source.written_strides),
        wide(result.written_strides),
        wide(weight),
        biases,
        excluded_for(call),
    )
