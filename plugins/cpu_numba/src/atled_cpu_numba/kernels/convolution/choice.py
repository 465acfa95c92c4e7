"""Convolution and its adjoint (its gradient with respect to x, and deconvolution), in float32 and float64.

Here it is chosen how a call is computed: in the first of its `ways` that pays, or in the one that a search finds the
fastest. Strided arrays go to `chwn`. Three axes and more, but for most filters of volumes, and groups that Winograd
suits, are brought to two axes by `slices`, dilation to none by `residues`. Kernels of 3 x 3 with stride 1 go to
`winograd` or `depthwise.squares`, those of 3 or 7 along one axis to `winograd.lines`, filters of single planes and of
volumes to `depthwise`, single positions to `one_position`, one or two small images to `few_positions`, kernels of 1 x 1
to `pointwise`, rows of whole vectors to `rows`; strides, short sums and wide kernels on small images to `map_lanes` or
`adjoint_lanes`; everything else to `direct`. Under AVX2 long sums go to `window_panels` first, but for one image whose
positions fill no vectors, and strided rows of several vectors to `rows`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.convolution.problem import Problem, Task, problem_of, refused_arrays, task_of
from atled_cpu_numba.kernels.convolution.turned import forward_pad
from atled_cpu_numba.kernels.shared.geometry import Result, gradient_windows, windows
from atled_cpu_numba.kernels.shared.lanes import host_lanes, lanes_of
from atled_cpu_numba.kernels.shared.launch import has_strides
from atled_cpu_numba.kernels.shared.ways import Way, chosen, is_measured
from atled_cpu_numba.kernels.winograd import forward as winograd
from atled_cpu_numba.on_demand import on_demand

if TYPE_CHECKING:
    from atled_cpu_numba.kernels.chwn import choice as chwn
    from atled_cpu_numba.kernels.convolution import (
        adjoint_lanes,
        direct,
        few_positions,
        map_lanes,
        one_position,
        pointwise,
        residues,
        rows,
        slices,
        window_panels,
    )
    from atled_cpu_numba.kernels.depthwise import (
        filters,
        halving,
        lines,
        padded,
        plane_tasks,
        planes,
        squares,
        strided,
        volumes,
    )
    from atled_cpu_numba.kernels.winograd import lines as winograd_lines
else:
    (chwn,) = on_demand("kernels.chwn", "choice")
    adjoint_lanes, direct, few_positions, map_lanes, one_position = on_demand(
        "kernels.convolution", "adjoint_lanes", "direct", "few_positions", "map_lanes", "one_position"
    )
    pointwise, residues, rows, slices, window_panels = on_demand(
        "kernels.convolution", "pointwise", "residues", "rows", "slices", "window_panels"
    )
    filters, halving, lines, padded, planes, squares, strided, volumes = on_demand(
        "kernels.depthwise", "filters", "halving", "lines", "padded", "planes", "squares", "strided", "volumes"
    )
    (plane_tasks,) = on_demand("kernels.depthwise", "plane_tasks")
    (winograd_lines,) = on_demand("kernels.winograd", "lines")

_SHORT_SUMS = 160  # up to that many terms, moving results to y takes longer than it saves
_FEW_TERMS = 16  # of a 1 x 1 convolution: copying panels takes longer than it saves
_FEW_EXPANDED_TERMS = 32  # the same where a convolution has as many maps or more, which formulas find in the caches
_FEW_EXPANDED_TERMS_AVX2 = 24
_FEW_STRIDED_TERMS = 128  # the same where all positions are collected
_FEW_STRIDED_TERMS_AVX2 = 32
_FEW_ROWS = 12  # maps that two tiles compute
# Maps that three tiles compute, of so many channels: on Zen 3 16 of 32 take .77 to .9 of the time of products on 112 x
# 112, on smaller images .9 to 1; of 24 channels, and 24 maps, up to 1.06.
_SOME_ROWS, _SOME_TERMS = 18, range(25, 33)
_LEAST_STRIDED_VECTORS = 2  # in a row of windows with a stride; of shorter ones sorting columns takes longer
# Channels, and maps, whose products take as long as transforming a tile and moving it. On Zen 3, tiles with .56 of the
# products of direct sums took 1.1 to 1.29 of their time with 32 channels and maps, of eight images 1.16 with 64, .88 to
# 1.14 with 128; of one image 1.0 to 1.1 with 64, but .97 within a network. With 256 they took .74 to .89.
_TRANSFORMED_TERMS, _TRANSFORMED_TERMS_OF_ONE = 13, 6
# By how much longer residues may seem to take, by their products, than windows in panels that leave out taps. On Zen 3
# both took, by windows that see all taps, estimated and measured, at 33 x 33: with 320 channels and dilation 6 .84 and
# .77, .78 and .77; dilation 12 .84 and .79, .59 and .64; 64 channels, dilation 6 .95 and .78, .78 and .85; of eight
# images 1.13 and 1.06, .78 and .89.
_RESIDUES_BY_REGIONS = 1.2
_MOST_ZEROS = 1.1  # elements of gx per element of gy


def accepts(call: Call) -> bool | str:
    """Whether the call is float32, or float64 without strides, with something to compute."""
    refused = refused_arrays(call)
    if not refused and has_strides(call):
        refused = chwn.refused(call)
    return refused or True


def prepare(call: Call) -> Prepared:
    """x, weight, bias? -> y.  ConvolutionDataGrad: gy, weight -> gx."""
    if has_strides(call):
        return chwn.prepare(call)
    problem = problem_of(call)
    prepared = chosen(
        ways(problem),
        problem,
        lambda: problem.sizes,
        problem.dtype,
        is_measured=is_measured(call),
        keeps_packs=call.spec.name != "ConvolutionDataGrad",
    )
    is_kept_from_winograd = problem.direct_for and _suits_winograd(task_of(problem))
    return winograd.told(prepared, problem.direct_for) if is_kept_from_winograd else prepared


def ways(problem: Problem) -> Iterator[Way]:
    """All ways to compute a convolution or adjoint, in the order in which they are asked."""
    task = task_of(problem)
    # Winograd takes no groups: one by one they are slices, too.
    is_cut = problem.groups > 1 and not problem.direct_for and _suits_winograd(task)
    if len(problem.axes) > 2:
        in_volumes = _in_volumes(task, problem)
        if in_volumes is not None:
            yield Way("volumes", True, lambda: volumes.prepare(in_volumes, problem.biases))
    if len(problem.axes) > 2 or is_cut:
        pieces, least_images = problem.groups if is_cut else 1, few_positions.MOST_IMAGES + 1
        yield Way(
            "slices",
            True,
            lambda: slices.prepare(problem, _prepare_planar, pieces=pieces, least_images=least_images),
        )
    if len(problem.axes) <= 2:
        yield from planar_ways(problem)


def _in_volumes(task: Task, whole: Problem) -> volumes.Problem | None:
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
        forward_pad(task),
        task.stride,
        task.dilation,
        turned=not task.forward,
        dtype=task.dtype,
    )
    return volumes_of if volumes.suits(volumes_of) else None


def _prepare_planar(problem: Problem) -> Prepared:
    """The convolution or adjoint over one or two axes, in the first way that pays."""
    return next(way.prepare() for way in planar_ways(problem) if way.pays)


def planar_ways(problem: Problem) -> Iterator[Way]:
    """All ways to compute a convolution or adjoint over one or two axes, in the order in which they are asked."""
    task, short = task_of(problem), host_lanes().has_short_tiles
    if not problem.direct_for:
        yield from _winograd_ways(task, problem)
    if task.groups > 1:
        yield from _square_ways(task, problem) if task.is_3x3 else _filter_ways(task, problem)
    if not task.is_pointwise:
        pays = short and window_panels.suits(task) and not few_positions.precedes_panels(task)
        yield Way("window panels", pays, lambda: window_panels.prepare(task, problem))
    if task.forward and task.is_pointwise and task.groups == 1 and math.prod(task.source) == 1:
        alone = one_position.Problem(task.images, task.channels, task.maps, task.dtype)
        pays = one_position.suits(alone)
        yield Way("one position", pays, lambda: one_position.prepare(alone, problem.biases))
    if few_positions.can(task):
        yield Way("few positions", few_positions.suits(task), lambda: few_positions.prepare(task, problem.biases))
    lanes = _in_lanes(task)
    in_rows = rows.suits(lanes)
    if task.is_pointwise:
        # Of few maps, tiles of rows read the source once, too, and copy nothing.
        has_some = task.forward and task.maps <= _SOME_ROWS and task.channels in _SOME_TERMS
        is_low = short and in_rows and (task.maps <= _FEW_ROWS or has_some)
        pays = task.channels > _few_terms(task) and not is_low
        yield Way("products", pays, lambda: pointwise.prepare(_products(task), problem.biases))
    if not task.forward and task.dilation == (1, 1):
        yield from _adjoint_ways(task, problem, in_rows=in_rows)
    if rows.can(lanes):
        yield Way("rows", in_rows, lambda: rows.prepare(lanes, problem.weight_size, problem.biases))
    in_map_lanes = map_lanes.can(lanes) and _tiles_fill_badly(task) and map_lanes.suits(lanes)
    yield from _strided_row_ways(task, problem, in_map_lanes=in_map_lanes)
    if map_lanes.can(lanes):
        yield Way("map lanes", in_map_lanes, lambda: map_lanes.prepare(lanes, problem.weight_size, problem.biases))
    if short and not task.is_pointwise:
        pays = window_panels.suits_small(task)
        yield Way("window panels", pays, lambda: window_panels.prepare(task, problem))
    is_few = few_positions.suits_groups(task) if task.groups > 1 else few_positions.can(task)
    if short and task.stride != (1, 1) and is_few:
        yield Way("few positions", True, lambda: few_positions.prepare(task, problem.biases))
    if task.is_pointwise:
        pays = task.channels >= pointwise.LEAST_CHANNELS
        yield Way("products", pays, lambda: pointwise.prepare(_products(task), problem.biases))
    yield Way("direct", True, lambda: direct.prepare(task, problem))


def _adjoint_ways(task: Task, whole: Problem, *, in_rows: bool) -> Iterator[Way]:
    """That of gradients alone, if it fits; in_rows: whether `rows` would be taken."""
    sizes = (task.images, task.groups, task.channels, task.maps, task.source, task.result)
    windows_of = adjoint_lanes.Problem(*sizes, task.kernel, task.pad, task.stride, task.dtype)
    if adjoint_lanes.can(windows_of):
        # It multiplies elements of gy; the others multiply for each element of gx, products with zeros included.
        many_zeros = math.prod(task.result) > _MOST_ZEROS * math.prod(task.source)
        pays = (many_zeros or not in_rows) and adjoint_lanes.suits(windows_of)
        yield Way("adjoint lanes", pays, lambda: adjoint_lanes.prepare(windows_of, whole.biases))


def _strided_row_ways(task: Task, whole: Problem, *, in_map_lanes: bool) -> Iterator[Way]:
    """That of a convolution with a stride by `rows`, if it can be; in_map_lanes: whether `map_lanes` would be taken.

    Of few registers, tiles of whole vectors multiply more for each element that they read; in short rows, maps in the
    lanes do.
    """
    by_phases = _in_phases(task) if task.forward and task.stride != (1, 1) else None
    if by_phases is None or not rows.can(by_phases):
        return
    is_collected = task.is_pointwise and task.channels > _FEW_STRIDED_TERMS_AVX2
    is_long = task.result[1] >= _LEAST_STRIDED_VECTORS * lanes_of(task.dtype).vector
    suits = host_lanes().has_short_tiles and not is_collected and rows.suits(by_phases, is_strided=True)
    pays = suits and (is_long or not in_map_lanes)
    yield Way("strided rows", pays, lambda: rows.prepare(by_phases, whole.weight_size, whole.biases))


def _winograd_ways(task: Task, whole: Problem) -> Iterator[Way]:
    """Winograd's, of one group, where it is allowed."""
    if task.groups > 1:
        return
    if _in_residues(task):
        suits = partial(_in_residues, task)
        pays = _residues_pay(task)
        yield Way("residues", pays, lambda: residues.prepare(task, whole, _prepare_planar, suits))
    along_lines = _along_lines(task)
    if along_lines is not None and winograd_lines.can(along_lines):
        pays = winograd_lines.suits(along_lines)
        yield Way(
            "Winograd along lines",
            pays,
            lambda: winograd_lines.prepare(along_lines, whole.weight_size, whole.biases),
        )
    tiled = _in_tiles(task)
    if tiled is not None and winograd.can(tiled):
        yield Way("Winograd", winograd.suits(tiled), lambda: winograd.prepare(tiled, whole.weight_size, whole.biases))


def _square_ways(task: Task, whole: Problem) -> Iterator[Way]:
    """Those of depthwise convolutions with kernels of 3 x 3, if it is one."""
    pad = forward_pad(task)
    if min(pad) < 0 or not (task.maps == 1 or (task.forward and task.channels == 1)):
        return
    yield from _plane_ways(task, whole)
    terms, per_plane = (1, task.maps) if task.channels == 1 else (task.channels, 1)
    sizes = task.images, task.source, task.groups * task.maps, task.result
    filtered = squares.Problem(*sizes, pad, terms, per_plane, turned=not task.forward, dtype=task.dtype)
    yield Way("squares", True, lambda: squares.prepare(filtered, whole.biases))


def _plane_ways(task: Task, whole: Problem) -> Iterator[Way]:
    """Filters of planes that stay in the caches, if it is that."""
    near = plane_tasks.in_planes(task) if task.groups > 1 else None  # imported where there are groups
    if near is not None:
        yield Way("planes", planes.suits(near), lambda: planes.prepare(near, whole.biases))


def _in_tiles(task: Task) -> winograd.Problem | None:
    """One group as Winograd's, if its kernel is one of those."""
    if not task.is_3x3 and not task.is_5x5:
        return None
    return winograd.Problem(
        *(task.images, task.channels, task.maps, task.source, task.result),
        forward_pad(task),
        *task.weight_strides,
        turned=not task.forward,
        dtype=task.dtype,
        kernel=task.kernel[0],
    )


def _along_lines(task: Task) -> winograd_lines.Problem | None:
    """One group with taps along one axis as Winograd's, if it has as many as that takes."""
    if task.is_pointwise or task.stride != (1, 1) or min(task.kernel) > 1:
        return None
    taps = max(task.kernel)
    if taps not in winograd_lines.TAPS:
        return None
    axis = task.kernel.index(taps)
    if task.pad[1 - axis] != 0:
        return None
    # Along the height, an image is one line, in which the taps are whole rows apart.
    rows, scale = (task.source[0], 1) if axis == 1 else (1, task.source[1])
    return winograd_lines.Problem(
        task.images,
        task.channels,
        task.maps,
        rows,
        task.source[axis] * scale,
        task.result[axis] * scale,
        forward_pad(task)[axis] * scale,
        task.dilation[axis] * scale,
        *task.weight_strides,
        turned=not task.forward,
        taps=taps,
        dtype=task.dtype,
    )


def _suits_winograd(task: Task) -> bool:
    """Whether one group is computed in one of Winograd's ways, where that is allowed."""
    along_lines, tiled = _along_lines(task), _in_tiles(task)
    return (
        (tiled is not None and winograd.suits(tiled, is_cut=task.groups > 1))
        or (_in_residues(task) and _residues_pay(task))
        or (along_lines is not None and winograd_lines.suits(along_lines))
    )


def _in_residues(task: Task, images: int | None = None) -> bool:
    """Whether the task is dilated, and Winograd's without dilation; images: of one residue each, not all of them."""
    tiled = _residue_in_tiles(task)
    if tiled is None or not winograd.has_few_products(tiled, _residue_positions(task)):
        return False
    return winograd.suits(tiled if images is None else tiled._replace(images=images))


def _residues_pay(task: Task) -> bool:
    """Whether it pays, too, where short sums make transformations long: AVX2 has other ways that are nearly as fast."""
    tiled = _residue_in_tiles(task)
    assert tiled is not None
    if not host_lanes().has_short_tiles:
        return True
    terms = _TRANSFORMED_TERMS_OF_ONE if task.images == 1 else _TRANSFORMED_TERMS
    transformed = terms * (1 / task.channels + 1 / task.maps)
    seen = min(1.0, _RESIDUES_BY_REGIONS * window_panels.seen_share(task))
    return winograd.has_few_products(tiled, _residue_positions(task) * seen / (1 + transformed))


def _residue_in_tiles(task: Task) -> winograd.Problem | None:
    """The images of all residues as Winograd's, if the task is dilated and its kernel one of those."""
    inner = residues.inner_task(task) if task.dilation != (1, 1) else None
    return None if inner is None else _in_tiles(inner)


def _residue_positions(task: Task) -> float:
    """Results of an image of one residue, the mean: the last ones may have fewer than the first."""
    return math.prod(task.result) / math.prod(task.dilation)


def _filter_ways(task: Task, whole: Problem) -> Iterator[Way]:
    """Those of filters of single planes, if it is that; few strides have an adjoint among them."""
    if task.maps == 1 and not task.forward:
        sizes = (task.images, task.groups, task.channels, task.result, task.source)
        phases = strided.Problem(*sizes, task.kernel, task.pad, task.dtype)
        if strided.suits(phases, task.stride, task.dilation):
            yield Way("strided filters", True, lambda: strided.prepare(phases, whole.biases))
    tall = plane_tasks.whole_filter(task)
    if tall is None:
        return
    if task.forward and (task.kernel, task.stride, task.dilation) == ((3, 3), (2, 2), (1, 1)) and min(tall.pad) >= 0:
        yield from _plane_ways(task, whole)
        halved = halving.Problem(*tall[:5], tall.pad, task.dtype)
        yield Way("halving", True, lambda: halving.prepare(halved, whole.biases))
    if padded.suits(tall):
        yield Way("padded filters", True, lambda: padded.prepare(tall, whole.biases))
    if lines.suits(tall):
        yield Way("padded rows", True, lambda: lines.prepare(tall, whole.biases))
    yield Way("filters", True, lambda: filters.prepare(tall, whole.biases))


def _few_terms(task: Task) -> int:
    """The most terms of a 1 x 1 convolution that is not computed as a product of matrices, where another way suits."""
    if task.stride != (1, 1):
        return _FEW_STRIDED_TERMS_AVX2 if host_lanes().has_short_tiles else _FEW_STRIDED_TERMS
    if not task.forward or task.maps < task.channels:
        return _FEW_TERMS
    return _FEW_EXPANDED_TERMS_AVX2 if host_lanes().has_short_tiles else _FEW_EXPANDED_TERMS


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
