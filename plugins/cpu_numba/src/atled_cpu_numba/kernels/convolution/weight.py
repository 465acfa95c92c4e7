"""The gradient of a convolution with respect to its weight.

Here it is chosen how a call is computed, as in `choice`. Three axes and more, and groups that Winograd suits, are
brought to two axes by `weight_slices`, strided arrays go to `chwn`; several kernels suit some shapes; `weight_dots`
takes everything else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.convolution import weight_slices
from atled_cpu_numba.kernels.convolution.problem import refused_arrays
from atled_cpu_numba.kernels.shared.launch import has_strides
from atled_cpu_numba.kernels.shared.leading_axes import Axis, merge_axes, two_axes
from atled_cpu_numba.kernels.shared.ways import Way, chosen, is_measured
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
    refused = refused_arrays(call)
    if not refused and has_strides(call):
        refused = chwn.weight_refused(call)
    return refused or True


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
    prepared = chosen(
        ways(problem),
        problem,
        lambda: (x.size, gy.size, call.outputs[0].size),
        problem.dtype,
        is_measured=is_measured(call),
        keeps_packs=False,
    )
    is_kept_from_winograd = problem.direct_for and _suits_winograd(problem)
    return winograd.told(prepared, problem.direct_for) if is_kept_from_winograd else prepared


def ways(problem: weight_slices.Problem) -> Iterator[Way]:
    """All ways to compute the gradient, in the order in which they are asked."""
    # Winograd takes no groups: one by one they are slices, too.
    is_cut = problem.groups > 1 and not problem.direct_for and _suits_winograd(problem)
    if len(problem.axes) > 2 or is_cut:
        pieces = problem.groups if is_cut else 1
        yield Way("slices", True, lambda: weight_slices.prepare(problem, _prepare_planar, pieces=pieces))
    if len(problem.axes) <= 2:
        yield from _planar_ways(problem, problem)


def _suits_winograd(whole: weight_slices.Problem) -> bool:
    """Whether one group over the last two axes is Winograd's, where that is allowed."""
    problem = _in_tiles(whole)
    return problem is not None and winograd_weight.suits(problem)


def _in_tiles(whole: weight_slices.Problem) -> winograd.Problem | None:
    """One group over the last two axes as Winograd's, if the kernel is that."""
    sizes, counts, kernel, pad, steps, dilation = two_axes(whole.axes)
    if (kernel, steps, dilation) != ((3, 3), (1, 1), (1, 1)):
        return None
    shape = whole.images, whole.channels, whole.maps, sizes, counts, pad
    return winograd.Problem(*shape, 0, 0, turned=False, dtype=whole.dtype)


def _prepare_planar(piece: weight_slices.Problem, whole: weight_slices.Problem) -> Prepared:
    """The gradient over one or two axes, in the first way that pays; arguments as for `_planar_ways`."""
    return next(way.prepare() for way in _planar_ways(piece, whole) if way.pays)


def _planar_ways(piece: weight_slices.Problem, whole: weight_slices.Problem) -> Iterator[Way]:
    """All ways to compute the gradient over one or two axes, in the order in which they are asked.

    piece: what is computed.  whole: what that is a piece of, by its groups or channels, or the same. It decides how all
    pieces are computed: their sizes follow from the number of shares, from which no bit of a result may follow.
    """
    images, groups, channels, maps = piece[:4]
    sizes, counts, kernel, pad, steps, dilation = two_axes(piece.axes)
    positions = math.prod(counts)
    if (kernel, steps, pad, whole.groups) == ((1, 1), (1, 1), (0, 0), 1):
        pays = positions >= weight_pointwise.LEAST_POSITIONS
        of_products = images, channels, maps, positions, piece.dtype
        yield Way("products", pays, lambda: weight_pointwise.prepare(*of_products))
    of_planes = whole.groups > 1 and channels == 1
    if of_planes and kernel == (3, 3) and steps == dilation == (1, 1):
        planes = images, sizes, groups * maps, counts, pad
        filtered = squares.Problem(*planes, terms=1, per_plane=maps, turned=False, dtype=piece.dtype)
        yield Way("squares", True, lambda: squares.prepare_weight(filtered))
    if of_planes:
        phases = strided.Problem(images, groups, maps, sizes, counts, kernel, pad, piece.dtype)
        if strided.suits(phases, steps, dilation):
            yield Way("strided filters", True, lambda: strided.prepare_weight(phases))
    tiled = None if whole.direct_for or whole.groups > 1 else _in_tiles(whole)
    if tiled is not None and winograd_weight.can(tiled):
        own = tiled._replace(channels=channels)
        yield Way("Winograd", winograd_weight.suits(tiled), lambda: winograd_weight.prepare(own))
    task = weight_lanes.Problem(
        images, groups, channels, maps, sizes, counts, kernel, pad, steps, dilation, piece.dtype
    )
    yield Way("lanes", weight_lanes.suits(task), lambda: weight_lanes.prepare(task))
    panels_pay = weight_panels.suits(task, whole.channels)
    yield Way("panels", panels_pay, lambda: weight_panels.prepare(task, whole.channels))
    yield Way("dots", True, lambda: weight_dots.prepare(task, whole.channels))
