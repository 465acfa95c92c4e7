"""The gradient of a convolution with respect to its weight.

Here it is chosen how a call is computed. Three axes and more, and groups that Winograd suits, are brought to two axes
by `weight_slices`, strided arrays go to `chwn`; several kernels suit some shapes; `weight_dots` takes everything else.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.convolution import weight_slices
from atled_cpu_numba.kernels.shared.launch import REALS, has_empty, has_strides, refuse_floats
from atled_cpu_numba.kernels.shared.leading_axes import Axis, merge_axes, two_axes
from atled_cpu_numba.kernels.winograd import forward as winograd
from atled_cpu_numba.on_demand import on_demand

if TYPE_CHECKING:
    from atled_cpu_numba.kernels.chwn import choice as chwn
    from atled_cpu_numba.kernels.convolution import weight_dots, weight_lanes, weight_panels, weight_pointwise
    from atled_cpu_numba.kernels.depthwise import squares, strided
    from atled_cpu_numba.kernels.winograd import weight as winograd_weight
else:
    (chwn,) = on_demand("kernels.chwn", "choice")
    weight_dots, weight_lanes, weight_panels, weight_pointwise = on_demand(
        "kernels.convolution", "weight_dots", "weight_lanes", "weight_panels", "weight_pointwise"
    )
    squares, strided = on_demand("kernels.depthwise", "squares", "strided")
    (winograd_weight,) = on_demand("kernels.winograd", "weight")


def accepts(call: Call) -> bool | str:
    """Whether the call is float32, or float64 without strides, with something to compute."""
    refused = refuse_floats(call, REALS, floats=(0, 1))
    if refused:
        return refused
    if has_empty(call):
        return "takes no empty arrays"
    if not has_strides(call):
        return True
    if call.outputs[0].dtype != np.float32:
        return "float32 only with images innermost"
    return chwn.weight_refused(call) or True


def prepare(call: Call) -> Prepared:
    """ConvolutionWeightGrad: x, gy -> gw."""
    if has_strides(call):
        return chwn.prepare_weight(call)
    attributes = call.attributes
    x, gy = call.inputs[0], call.inputs[1]
    assert x is not None
    assert gy is not None
    axis, groups = attributes["base_axis"], attributes["group"]
    geometry = (attributes[name] for name in ("kernel", "pad", "stride", "dilation"))
    problem = weight_slices.Problem(
        math.prod(x.shape[:axis]),
        groups,
        x.shape[axis] // groups,
        gy.shape[axis] // groups,
        merge_axes(map(Axis, x.shape[axis + 1 :], gy.shape[axis + 1 :], *geometry)),
        winograd.excluded_for(call),
        x.dtype.name,
    )
    # Winograd takes no groups: one by one they are slices, too.
    suits_winograd = _winograd(problem) is not None
    pieces = problem.groups if problem.groups > 1 and suits_winograd and not problem.direct_for else 1
    if len(problem.axes) > 2 or pieces > 1:
        prepared = weight_slices.prepare(problem, _prepare_planar, pieces=pieces)
    else:
        prepared = _prepare_planar(problem, problem)
    return winograd.told(prepared, problem.direct_for) if suits_winograd and problem.direct_for else prepared


def _winograd(whole: weight_slices.Problem) -> winograd.Problem | None:
    """One group over the last two axes as Winograd's, if that pays."""
    sizes, counts, kernel, pad, steps, dilation = two_axes(whole.axes)
    if (kernel, steps, dilation) != ((3, 3), (1, 1), (1, 1)):
        return None
    shape = whole.images, whole.channels, whole.maps, sizes, counts, pad
    problem = winograd.Problem(*shape, 0, 0, turned=False, dtype=whole.dtype)
    return problem if winograd_weight.suits(problem) else None


def _prepare_planar(piece: weight_slices.Problem, whole: weight_slices.Problem) -> Prepared:
    """The gradient over one or two axes.

    piece: what is computed.  whole: what that is a piece of, by its groups or channels, or the same. It decides how all
    pieces are computed: their sizes follow from the number of shares, from which no bit of a result may follow.
    """
    images, groups, channels, maps = piece[:4]
    sizes, counts, kernel, pad, steps, dilation = two_axes(piece.axes)
    positions = math.prod(counts)
    is_pointwise = (kernel, steps, pad, whole.groups) == ((1, 1), (1, 1), (0, 0), 1)
    if is_pointwise and positions >= weight_pointwise.LEAST_POSITIONS:
        return weight_pointwise.prepare(images, channels, maps, positions, piece.dtype)
    of_planes = whole.groups > 1 and channels == 1
    if of_planes and kernel == (3, 3) and steps == dilation == (1, 1):
        planes = images, sizes, groups * maps, counts, pad
        filtered = squares.Problem(*planes, terms=1, per_plane=maps, turned=False, dtype=piece.dtype)
        return squares.prepare_weight(filtered)
    if of_planes:
        phases = strided.Problem(images, groups, maps, sizes, counts, kernel, pad, piece.dtype)
        if strided.suits(phases, steps, dilation):
            return strided.prepare_weight(phases)
    problem = None if whole.direct_for or whole.groups > 1 else _winograd(whole)
    if problem is not None:
        return winograd_weight.prepare(problem._replace(channels=channels))
    geometry = sizes, counts, kernel, pad, steps, dilation
    task = weight_lanes.Problem(images, groups, channels, maps, *geometry, piece.dtype)
    if weight_lanes.suits(task):
        return weight_lanes.prepare(task)
    if weight_panels.suits(task, whole.channels):
        return weight_panels.prepare(task, whole.channels)
    return weight_dots.prepare(task, whole.channels)
