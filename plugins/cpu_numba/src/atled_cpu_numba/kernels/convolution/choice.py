"""Convolution and its adjoint (its gradient with respect to x, and deconvolution), in float32 and float64.

Here it is chosen how a call is computed. Strided arrays go to `chwn`. Three axes and more, but for most filters of
volumes, and groups that Winograd suits, are brought to two axes by `slices`, dilation to none by `residues`. Kernels of
3 x 3 with stride 1 go to `winograd` or `depthwise.squares`, those of 3 along one axis to `winograd.lines`, filters of
single planes and of volumes to `depthwise`, one or two small images to `few_positions`, kernels of 1 x 1 to
`pointwise`, rows of whole vectors to `rows`; strides, short sums and wide kernels on small images to `map_lanes` or
`adjoint_lanes`; everything else to `direct`. Under AVX2 long sums go to `window_panels` first, and strided rows of
several vectors to `rows`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.convolution.problem import Problem, Task, problem_of, task_of
from atled_cpu_numba.kernels.shared.geometry import Pair, Result, gradient_windows, windows
from atled_cpu_numba.kernels.shared.lanes import host_lanes, lanes_of
from atled_cpu_numba.kernels.shared.launch import REALS, has_empty, has_strides, refuse_floats
from atled_cpu_numba.kernels.winograd import forward as winograd
from atled_cpu_numba.on_demand import on_demand

if TYPE_CHECKING:
    from atled_cpu_numba.kernels.chwn import choice as chwn
    from atled_cpu_numba.kernels.convolution import (
        adjoint_lanes,
        direct,
        few_positions,
        map_lanes,
        pointwise,
        residues,
        rows,
        slices,
        window_panels,
    )
    from atled_cpu_numba.kernels.depthwise import filters, halving, padded, planes, squares, strided, volumes
    from atled_cpu_numba.kernels.winograd import lines as winograd_lines
else:
    (chwn,) = on_demand("kernels.chwn", "choice")
    adjoint_lanes, direct, few_positions, map_lanes = on_demand(
        "kernels.convolution", "adjoint_lanes", "direct", "few_positions", "map_lanes"
    )
    pointwise, residues, rows, slices, window_panels = on_demand(
        "kernels.convolution", "pointwise", "residues", "rows", "slices", "window_panels"
    )
    filters, halving, padded, planes, squares, strided, volumes = on_demand(
        "kernels.depthwise", "filters", "halving", "padded", "planes", "squares", "strided", "volumes"
    )
    (winograd_lines,) = on_demand("kernels.winograd", "lines")

_SHORT_SUMS = 160  # up to that many terms, moving results to y takes longer than it saves
_FEW_TERMS = 16  # of a 1 x 1 convolution: copying panels takes longer than it saves
_FEW_EXPANDED_TERMS = 32  # the same where a convolution has as many maps or more, which formulas find in the caches
_FEW_STRIDED_TERMS = 128  # the same where all positions are collected
_LEAST_STRIDED_VECTORS = 2  # in a row of windows with a stride; of shorter ones sorting columns takes longer
_MOST_ZEROS = 1.1  # elements of gx per element of gy


def accepts(call: Call) -> bool | str:
    """Whether the call is float32, or float64 without strides, with something to compute."""
    refused = refuse_floats(call, REALS, floats=range(len(call.inputs)))
    if refused:
        return refused
    if has_empty(call):
        return "takes no empty arrays"
    if not has_strides(call):
        return True
    if call.outputs[0].dtype != np.float32:
        return "float32 only with images innermost"
    return chwn.refused(call) or True


def prepare(call: Call) -> Prepared:
    """x, weight, bias? -> y.  ConvolutionDataGrad: gy, weight -> gx."""
    if has_strides(call):
        return chwn.prepare(call)
    problem = problem_of(call)
    # Winograd takes no groups: one by one they are slices, too.
    task = task_of(problem)
    suits_winograd = _winograd(task) is not None or _in_residues(task) or _along_lines(task) is not None
    pieces = problem.groups if problem.groups > 1 and suits_winograd and not problem.direct_for else 1
    in_volumes = _prepare_volumes(task, problem) if len(problem.axes) > 2 else None
    if in_volumes is not None:
        prepared = in_volumes
    elif len(problem.axes) > 2 or pieces > 1:
        least_images = few_positions.MOST_IMAGES + 1
        prepared = slices.prepare(problem, _prepare_planar, pieces=pieces, least_images=least_images)
    else:
        prepared = _prepare_planar(problem)
    return winograd.told(prepared, problem.direct_for) if suits_winograd and problem.direct_for else prepared


def _prepare_volumes(task: Task, whole: Problem) -> Prepared | None:
    """The call over three axes or more as filters of volumes, if it is that."""
    if task.groups == 1 or task.channels > 1 or (not task.forward and (task.maps > 1 or task.stride != (1, 1))):
        return None
    volumes_of = volumes.Problem(
        task.images,
        whole.axes[:-2],
        task.source,
        task.groups * task.maps,
        task.maps,
        task.result,
        task.kernel,
        _forward_pad(task),
        task.stride,
        task.dilation,
        turned=not task.forward,
        dtype=task.dtype,
    )
    return volumes.prepare(volumes_of, whole.biases) if volumes.suits(volumes_of) else None


def _prepare_planar(problem: Problem) -> Prepared:
    """The convolution or adjoint over one or two axes."""
    task = task_of(problem)
    if _in_residues(task) and not problem.direct_for:
        return residues.prepare(task, problem, _prepare_planar, lambda images: _in_residues(task, images))
    along_lines = None if problem.direct_for or task.groups > 1 else _along_lines(task)
    if along_lines is not None:
        return winograd_lines.prepare(along_lines, problem.weight_size, problem.biases)
    special = _prepare_3x3(task, problem) if task.is_3x3 else _prepare_filters(task, problem)
    if special is None and task.is_5x5:
        special = _prepare_winograd(task, problem)
    if special is not None:
        return special
    if host_lanes().has_short_tiles and not task.is_pointwise and window_panels.suits(task):
        return window_panels.prepare(task, problem)
    if few_positions.suits(task):
        return few_positions.prepare(task, problem.biases)
    if task.is_pointwise and task.channels > _few_terms(task):
        return pointwise.prepare(_products(task), problem.biases)
    lanes = _in_lanes(task)
    in_rows = rows.suits(lanes)
    if not task.forward and task.dilation == (1, 1):
        sizes = (task.images, task.groups, task.channels, task.maps, task.source, task.result)
        windows_of = adjoint_lanes.Problem(*sizes, task.kernel, task.pad, task.stride, task.dtype)
        # It multiplies elements of gy; the others multiply for each element of gx, products with zeros included.
        many_zeros = math.prod(task.result) > _MOST_ZEROS * math.prod(task.source)
        if (many_zeros or not in_rows) and adjoint_lanes.suits(windows_of):
            return adjoint_lanes.prepare(windows_of, problem.biases)
    if in_rows:
        return rows.prepare(lanes, problem.weight_size, problem.biases)
    if _tiles_fill_badly(task) and map_lanes.suits(lanes):
        if task.forward and host_lanes().has_short_tiles:
            # Of few registers, tiles of whole vectors multiply more for each element that they read.
            by_phases = _in_phases(task)
            is_long = task.result[1] >= _LEAST_STRIDED_VECTORS * lanes_of(task.dtype).vector
            if is_long and rows.suits(by_phases, is_strided=True):
                return rows.prepare(by_phases, problem.weight_size, problem.biases)
        return map_lanes.prepare(lanes, problem.weight_size, problem.biases)
    if task.is_pointwise and task.channels >= pointwise.LEAST_CHANNELS:
        return pointwise.prepare(_products(task), problem.biases)
    return direct.prepare(task, problem)


def _prepare_3x3(task: Task, whole: Problem) -> Prepared | None:
    """A call of kernels of 3 x 3 as Winograd's or as a depthwise convolution, if it is one of them."""
    pad = _forward_pad(task)
    if task.groups > 1 and (task.maps == 1 or (task.forward and task.channels == 1)) and min(pad) >= 0:
        terms, per_plane = (1, task.maps) if task.channels == 1 else (task.channels, 1)
        count = task.groups * task.maps
        if terms == 1:
            near = planes.Problem(
                task.images,
                task.source,
                count,
                per_plane,
                task.result,
                pad,
                1,
                turned=not task.forward,
                dtype=task.dtype,
            )
            if planes.suits(near):
                return planes.prepare(near, whole.biases)
        filtered = squares.Problem(
            task.images,
            task.source,
            count,
            task.result,
            pad,
            terms,
            per_plane,
            turned=not task.forward,
            dtype=task.dtype,
        )
        return squares.prepare(filtered, whole.biases)
    return _prepare_winograd(task, whole)


def _prepare_winograd(task: Task, whole: Problem) -> Prepared | None:
    """A call of one group as Winograd's, if that is allowed and pays."""
    problem = None if whole.direct_for or task.groups > 1 else _winograd(task)
    return winograd.prepare(problem, whole.weight_size, whole.biases) if problem else None


def _forward_pad(task: Task) -> Pair:
    """The padding of a convolution with stride 1; the adjoint is one, too, with the kernel turned around."""
    if task.forward:
        return task.pad
    return task.kernel[0] - 1 - task.pad[0], task.kernel[1] - 1 - task.pad[1]


def _winograd(task: Task) -> winograd.Problem | None:
    """One group as Winograd's, if that pays."""
    if not task.is_3x3 and not task.is_5x5:
        return None
    sizes = (task.images, task.channels, task.maps, task.source, task.result)
    problem = winograd.Problem(
        *sizes,
        _forward_pad(task),
        *task.weight_strides,
        turned=not task.forward,
        dtype=task.dtype,
        kernel=task.kernel[0],
    )
    return problem if winograd.suits(problem) else None


def _along_lines(task: Task) -> winograd_lines.Problem | None:
    """One group with three taps along one axis as Winograd's, if that pays."""
    if task.stride != (1, 1) or sorted(task.kernel) != [1, 3]:
        return None
    axis = task.kernel.index(3)
    if task.pad[1 - axis] != 0:
        return None
    # Along the height, an image is one line, in which the taps are whole rows apart.
    rows, scale = (task.source[0], 1) if axis == 1 else (1, task.source[1])
    reach, pad = 2 * task.dilation[axis], task.pad[axis]
    problem = winograd_lines.Problem(
        task.images,
        task.channels,
        task.maps,
        rows,
        task.source[axis] * scale,
        task.result[axis] * scale,
        (pad if task.forward else reach - pad) * scale,
        task.dilation[axis] * scale,
        *task.weight_strides,
        turned=not task.forward,
        dtype=task.dtype,
    )
    return problem if winograd_lines.suits(problem) else None


def _in_residues(task: Task, images: int | None = None) -> bool:
    """Whether the task is dilated, and Winograd's without dilation; images: of one residue each, not all of them."""
    inner = residues.inner_task(task) if task.dilation != (1, 1) else None
    if inner is None:
        return False
    problem = _winograd(inner if images is None else inner._replace(images=images))
    # The last residues may have fewer results than the first one.
    positions = math.prod(task.result) / math.prod(task.dilation)
    return problem is not None and winograd.has_few_products(problem, positions)


def _prepare_filters(task: Task, whole: Problem) -> Prepared | None:
    """The call as filters of single planes, if it is that; few strides have an adjoint among them."""
    if task.groups > 1 and task.maps == 1 and not task.forward:
        sizes = (task.images, task.groups, task.channels, task.result, task.source)
        phases = strided.Problem(*sizes, task.kernel, task.pad, task.dtype)
        if strided.suits(phases, task.stride, task.dilation):
            return strided.prepare(phases, whole.biases)
    if task.groups == 1 or task.channels > 1:
        return None
    pad = task.pad
    if not task.forward:
        if task.maps > 1 or task.stride != (1, 1):
            return None
        reach = [(k - 1) * d for k, d in zip(task.kernel, task.dilation, strict=True)]
        pad = reach[0] - pad[0], reach[1] - pad[1]
    of_planes = (task.images, task.source, task.groups * task.maps, task.maps, task.result)
    if task.forward and (task.kernel, task.stride, task.dilation) == ((3, 3), (2, 2), (1, 1)) and min(pad) >= 0:
        near = planes.Problem(*of_planes, pad, 2, turned=False, dtype=task.dtype)
        if planes.suits(near):
            return planes.prepare(near, whole.biases)
        return halving.prepare(halving.Problem(*of_planes, pad, task.dtype), whole.biases)
    geometry = task.kernel, pad, task.stride, task.dilation
    tall = padded.Problem(*of_planes, *geometry, turned=not task.forward, dtype=task.dtype)
    if padded.suits(tall):
        return padded.prepare(tall, whole.biases)
    filtered = filters.Problem(*of_planes, *geometry, turned=not task.forward, dtype=task.dtype)
    return filters.prepare(filtered, whole.biases)


def _few_terms(task: Task) -> int:
    """The most terms of a 1 x 1 convolution that is not computed as a product of matrices, where another way suits."""
    if task.stride != (1, 1):
        return _FEW_STRIDED_TERMS
    return _FEW_EXPANDED_TERMS if task.forward and task.maps >= task.channels else _FEW_TERMS


def _products(task: Task) -> pointwise.Problem:
    """A 1 x 1 convolution as products of matrices."""
    return pointwise.Problem(*task[1:7], task.stride, task.weight_strides, task.dtype)


def _in_lanes(task: Task) -> map_lanes.Problem:
    """The task as one with maps in the lanes."""
    if task.is_pointwise and task.stride == (1, 1):  # rows follow one another without gaps
        task = task._replace(source=(1, math.prod(task.source)), result=(1, math.prod(task.result)))
    if task.forward:
        # The planes hold the windows of all positions; a stride takes some of them.
        planes, (found,) = windows(task.source, task.kernel, task.pad, (1, 1), task.dilation)
        results: tuple[Result, ...] = (found._replace(counts=task.result),)
        step, spread = task.stride, (1, 1)
    else:
        planes, results = gradient_windows(task.result, task.kernel, task.pad, task.stride, task.dilation)
        step, spread = (1, 1), task.stride
    sizes = task[1:7]
    return map_lanes.Problem(
        *sizes, planes, results, step, spread, task.weight_strides, in_order=task.forward, dtype=task.dtype
    )


def _in_phases(task: Task) -> map_lanes.Problem:
    """A convolution with a stride as one whose neighbouring windows see neighbouring elements of its planes."""
    planes, results = windows(task.source, task.kernel, task.pad, task.stride, task.dilation)
    return map_lanes.Problem(
        *task[1:7], planes, results, (1, 1), (1, 1), task.weight_strides, in_order=True, dtype=task.dtype
    )


def _tiles_fill_badly(task: Task) -> bool:
    """Whether the tiles of positions waste more than those of `map_lanes` lose by reading single elements."""
    short = task.channels * math.prod(task.kernel) <= _SHORT_SUMS
    return short or task.stride != (1, 1) or (task.forward and len(direct.choose_layout(task)[0].phases) > 1)
