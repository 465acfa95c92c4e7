"""The sizes, strides and windows of a convolution or its adjoint, as all ways to compute it are given them."""

from __future__ import annotations

import math

import numpy as np

from atled.plugin import Call, NamedTuple
from atled_cpu_numba.kernels.shared.geometry import Pair
from atled_cpu_numba.kernels.shared.launch import REALS, has_empty, has_strides, refuse_floats
from atled_cpu_numba.kernels.shared.leading_axes import Axis, Phase, merge_axes, two_axes
from atled_cpu_numba.kernels.winograd.forward import excluded_for

_ADJOINTS = ("ConvolutionDataGrad", "Deconvolution", "DepthwiseDeconvolution")


class Problem(NamedTuple):
    """A convolution or its adjoint: channels and maps, of the source and the result, are those of one group.

    biases: for each input behind the weight, whether it is there.
    direct_for: the flag of the Context for which only direct sums will do, "" where there is none.
    """

    forward: bool
    images: int
    groups: int
    channels: int
    maps: int
    axes: tuple[Axis, ...]
    biases: tuple[bool, ...]
    direct_for: str
    dtype: str

    @property
    def weight_size(self) -> int:
        """Elements of the weight."""
        return self.groups * self.channels * self.maps * math.prod(axis.kernel for axis in self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements of the source, the weight, what is added if it is there, and the result."""
        seen, wanted = (
            math.prod(sizes) for sizes in zip(*((axis.source, axis.result) for axis in self.axes), strict=True)
        )
        maps, images = self.groups * self.maps, self.images
        added = (maps * is_there for is_there in self.biases)
        return images * self.groups * self.channels * seen, self.weight_size, *added, images * maps * wanted

    def in_order(self, phase: Phase) -> bool:
        """Whether the weight is already as a kernel over two axes wants it for the slices of `phase`."""
        whole = len(phase.taps) == math.prod(axis.kernel for axis in self.axes[:-2])
        return whole and (self.forward or self.maps == 1)


class Task(NamedTuple):
    """A problem over its last two axes: channels and maps, of the source and the result, are those of one group."""

    forward: bool
    images: int
    groups: int
    channels: int
    maps: int
    source: Pair
    result: Pair
    kernel: Pair
    pad: Pair
    stride: Pair
    dilation: Pair
    dtype: str

    @property
    def weight_strides(self) -> Pair:
        """From map to map of the result and from channel to channel of the source, in elements of the weight.

        The convolution's own weight is (maps, channels, kernel); its adjoint goes the other way.
        """
        places = math.prod(self.kernel)
        return (self.channels * places, places) if self.forward else (places, self.maps * places)

    @property
    def is_3x3(self) -> bool:
        """Whether the kernel is 3 x 3, with stride 1 and no dilation."""
        return self.kernel == (3, 3) and self.has_unit_steps

    @property
    def is_5x5(self) -> bool:
        """Whether the kernel is 5 x 5, with stride 1 and no dilation."""
        return self.kernel == (5, 5) and self.has_unit_steps

    @property
    def has_unit_steps(self) -> bool:
        """Whether there is no stride and no dilation."""
        return (self.stride, self.dilation) == ((1, 1), (1, 1))

    @property
    def is_pointwise(self) -> bool:
        """Whether each result sees one position of the source."""
        return (self.kernel, self.pad) == ((1, 1), (0, 0)) and (self.forward or self.stride == (1, 1))


def refused_arrays(call: Call) -> str:
    """Why no way takes the arrays of a call, or ""; with strides `chwn` may refuse others."""
    refused = refuse_floats(call, REALS, floats=range(len(call.inputs)))
    if refused:
        return refused
    if has_empty(call):
        return "takes no empty arrays"
    if has_strides(call) and call.outputs[0].dtype != np.float32:
        return "float32 only with images innermost"
    return ""


def problem_of(call: Call) -> Problem:
    """The problem of a call; op specs with a `group`, or depthwise ones."""
    attributes, axis = call.attributes, call.attributes["base_axis"]
    source, weight, result = call.inputs[0], call.inputs[1], call.outputs[0]
    assert source is not None
    assert weight is not None
    if "group" in attributes:
        groups, kernel = attributes["group"], weight.shape[2:]
    else:  # depthwise
        groups, kernel = min(source.shape[axis], result.shape[axis]), weight.shape[1:]
    steps = (attributes["pad"], attributes["stride"], attributes["dilation"])
    return Problem(
        call.spec.name not in _ADJOINTS,
        math.prod(source.shape[:axis]),
        groups,
        source.shape[axis] // groups,
        result.shape[axis] // groups,
        merge_axes(map(Axis, source.shape[axis + 1 :], result.shape[axis + 1 :], kernel, *steps)),
        tuple(desc is not None for desc in call.inputs[2:]),
        excluded_for(call),
        result.dtype.name,
    )


def task_of(problem: Problem) -> Task:
    """The problem over its last two axes."""
    sizes, counts, kernel, pad, stride, dilation = two_axes(problem.axes)
    return Task(*problem[:5], sizes, counts, kernel, pad, stride, dilation, problem.dtype)
