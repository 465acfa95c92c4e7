"""Convolution and its adjoint, which are its gradient and deconvolution, in float32.

Kernels of 3 x 3 with stride 1 have ways of their own, see `winograd` and `depthwise`; so have kernels of 1 x 1, see
`pointwise`, rows of whole vectors, see `convolution_rows`, and strides, short sums and wide kernels on small images,
see `convolution_lanes`. Three axes and more are brought to two by `convolution_slices`. The rest of this module is the
direct way for one or two axes: products of a packed
weight with images in padded planes, see `convolution_geometry`, which the register tile reads in place: no unfolded
copy of the input is made. The planes hold several small images, so that tiles are filled.

Block (64-bit words; strides in elements):
    0 COPY_IMAGES, 1 x or gy, 2 weight, 3 bias or 0, 4 y or gx, 5 workspace, 6 bytes of it per share
    7 images, 8 images per chunk, 9 groups
    10 channels, 11 height, 12 width          of the source, channels per group
    13 maps                                   of the result, per group
    14 weight_map, 15 weight_channel          strides of the weight; the kernel's places are contiguous
    16 plane_length, 17 channel_length, 18 front, 19 image_pitch, 20 row_pitch, 21 stride_h, 22 stride_w
    23 source phases, 24 word where they start, as pairs
    25 results, 26 word where they start
    27 result's plane, 28 its width, 29 step_h, 30 step_w
    31 taps in all, 32 weights from group to group, 33 PACK or 0
    34 range kernel to run on what is written of the result, or 0, 35 its block
Each result: number of taps, start row, start column, rows, columns; then the taps as pairs of offset and place.
Shares are made of groups and chunks of images; each packs the weights of its group for itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.convolution import adjoint_lanes, pointwise
from atled_cpu_numba.kernels.convolution import map_lanes as convolution_lanes
from atled_cpu_numba.kernels.convolution import rows as convolution_rows
from atled_cpu_numba.kernels.convolution import slices as convolution_slices
from atled_cpu_numba.kernels.convolution.images import COPY_IMAGES
from atled_cpu_numba.kernels.depthwise import filters as depthwise_filters
from atled_cpu_numba.kernels.depthwise import squares as depthwise
from atled_cpu_numba.kernels.depthwise import strided as depthwise_strided
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, PACK_SLACK
from atled_cpu_numba.kernels.shared.geometry import Layout, Pair, Result, gradient_windows, windows
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, has_empty, launch, refuse_floats, share_count
from atled_cpu_numba.kernels.shared.leading_axes import Axis, merge_axes, two_axes
from atled_cpu_numba.kernels.winograd import forward as winograd
from atled_cpu_numba.store import Kernel

_COLUMN_VECTORS = 8  # positions that are computed before their results are moved to y
_CHUNK_BYTES = 256 << 10  # of planes, about half of a level-2 cache
_MOST_WASTE = 1.2  # positions computed per result; more, and the columns are unfolded
_FEW_ROWS = 3  # the channels of a picture
_LEAST_POSITIONS = 512  # of a share
_SHORT_SUMS = 160  # up to that many terms, moving results to y takes longer than it saves
_FEW_TERMS = 16  # of a 1 x 1 convolution: copying panels takes longer than it saves
_FEW_STRIDED_TERMS = 128  # the same where all positions are collected
_MOST_ZEROS = 1.1  # elements of gx per element of gy
_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_WEIGHTS_PER_US = 3e3  # packed; ten times as many where they lie in order
_INNER_BYTES = 8 * BLOCK_WORDS


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.products.tiles import make_offset_tile
    from atled_cpu_numba.kernels.shared.options import kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import copy_rows, copy_rows_plus

    lanes = host_lanes()
    tile_rows, tile_columns = lanes.rows, lanes.columns
    third, two_thirds = tile_rows // 3, 2 * tile_rows // 3
    vectors = tile_columns // lanes.vector
    columns_at_once = _COLUMN_VECTORS * lanes.vector
    full = make_offset_tile(tile_rows, vectors, packed_rows=tile_rows)
    lower = make_offset_tile(two_thirds, vectors, packed_rows=tile_rows)
    lowest = make_offset_tile(third, vectors, packed_rows=tile_rows)
    # Few rows are wide: else loading vectors of positions would take longer than multiplying them.
    few_vectors = 4 if lanes.rows == 12 else vectors
    few = make_offset_tile(_FEW_ROWS, few_vectors, packed_rows=tile_rows)
    single = make_offset_tile(1, _COLUMN_VECTORS, packed_rows=tile_rows)

    @piece
    def fill_offsets(w, offsets):
        """Per result, channel and tap: where it lies in the planes, from a window's position."""
        channels, channel_length, front = w[10], w[17], w[18]
        at, done = w[26], 0
        for _ in range(w[25]):
            taps = w[at]
            for channel in range(channels):
                for t in range(taps):
                    offsets[done + channel * taps + t] = channel * channel_length + front + w[at + 5 + 2 * t]
            done += channels * taps
            at += 5 + 2 * taps

    @piece
    def collect_weights(w, group, packed_at):
        """Panels of the group's weights for each result, in the order of its channels and taps."""
        channels, maps, weight_map, weight_channel = w[10], w[13], w[14], w[15]
        at, to = w[26], packed_at
        for _ in range(w[25]):
            taps = w[at]
            for first in range(0, maps, tile_rows):
                for channel in range(channels):
                    target = floats32(to + 4 * channel * taps * tile_rows)
                    for r in range(min(tile_rows, maps - first)):
                        start = group * w[32] + (first + r) * weight_map + channel * weight_channel
                        source = floats32(w[2] + 4 * start)
                        for t in range(taps):
                            target[t * tile_rows + r] = source[w[at + 6 + 2 * t]]
                to += 4 * tile_rows * channels * taps
            at += 5 + 2 * taps

    @piece
    def multiply(k, maps, length, weights, offsets_at, planes_at, out_at):
        """out = weights x planes for `length` positions, at most columns_at_once."""
        for first in range(0, maps, tile_rows):
            left = maps - first
            a = weights + 4 * first * k
            c = out_at + 4 * first * columns_at_once
            if left == 1:
                single((k, a, offsets_at, planes_at, c, columns_at_once))
                continue
            if left <= _FEW_ROWS:
                for j in range(0, length, few_vectors * lanes.vector):
                    few((k, a, offsets_at, planes_at + 4 * j, c + 4 * j, columns_at_once))
                continue
            for j in range(0, length, tile_columns):
                if left > two_thirds:
                    full((k, a, offsets_at, planes_at + 4 * j, c + 4 * j, columns_at_once))
                elif left > third:
                    lower((k, a, offsets_at, planes_at + 4 * j, c + 4 * j, columns_at_once))
                else:
                    lowest((k, a, offsets_at, planes_at + 4 * j, c + 4 * j, columns_at_once))

    @piece
    def deliver(w, at, group, first_image, p0, length, out_at):
        """Move the results of the positions from p0 on to y, plus the bias, leaving out positions in the gaps."""
        groups, maps, row_pitch, plane, step_w = w[9], w[13], w[20], w[27], w[30]
        start_h, start_w, rows, columns = w[at + 1], w[at + 2], w[at + 3], w[at + 4]
        image_rows = w[19] // row_pitch
        p = p0
        while p < p0 + length:
            line = p // row_pitch
            column = p - line * row_pitch
            following = min(p0 + length, (line + 1) * row_pitch)
            image = line // image_rows
            row = line - image * image_rows
            count = min(columns - column, following - p)
            source = out_at + 4 * (p - p0)
            p = following
            if row >= rows or count <= 0:
                continue
            target = ((first_image + image) * groups + group) * maps * plane
            target += (row * w[29] + start_h) * w[28] + column * step_w + start_w
            target = w[4] + 4 * target
            if step_w == 1 and w[3] != 0:
                copy_rows_plus((source, columns_at_once, target, plane, maps, count, w[3] + 4 * group * maps))
            elif step_w == 1:
                copy_rows((source, columns_at_once, target, plane, maps, count))
            else:
                for m in range(maps):
                    x, y = floats32(source), floats32(target)
                    bias = floats32(w[3])[group * maps + m] if w[3] != 0 else 0.0
                    for j in range(count):
                        y[j * step_w] = x[j] + bias
                    source += 4 * columns_at_once
                    target += 4 * plane

    @kernel
    def convolution(block, part, parts):
        w = words(block)
        images, chunk, groups = w[7], w[8], w[9]
        channels, height, width, maps, taps_in_all, pack = w[10], w[11], w[12], w[13], w[31], w[33]
        padded_maps = (maps + tile_rows - 1) // tile_rows * tile_rows
        # Workspace: block of a piece, table of offsets, packed weights, results of some positions, planes.
        inner = w[5] + part * w[6]
        q = words(inner)
        offsets_at = inner + _INNER_BYTES
        packed_at = offsets_at + 8 * channels * taps_in_all
        out_at = packed_at + 4 * (padded_maps * channels * taps_in_all + PACK_SLACK)
        planes_at = out_at + 4 * padded_maps * columns_at_once
        chunks = (images + chunk - 1) // chunk
        first_unit, last_unit = groups * chunks * part // parts, groups * chunks * (part + 1) // parts
        if first_unit == last_unit:
            return 0
        planes = floats32(planes_at)
        for i in range(channels * w[17]):
            planes[i] = 0.0
        fill_offsets(w, words(offsets_at))
        packed_group = -1
        for unit in range(first_unit, last_unit):
            group = unit // chunks
            first_image = (unit - group * chunks) * chunk
            taken = min(chunk, images - first_image)
            if group != packed_group:
                packed_group = group
                if pack != 0:  # the weights lie in the order of the sums already
                    q[0], q[1], q[2], q[3] = w[2] + 4 * group * w[32], w[14], 1, maps
                    q[4], q[5], q[6] = channels * taps_in_all, packed_at, tile_rows
                    call3(pack, inner, 0, 1)
                else:
                    collect_weights(w, group, packed_at)
            q[0] = w[1] + 4 * (first_image * groups + group) * channels * height * width
            q[1], q[2], q[3], q[4], q[5] = taken, channels, groups * channels * height * width, height, width
            q[6], q[7], q[8], q[9], q[10], q[11] = planes_at, w[16], w[17], w[18], w[19], w[20]
            q[12], q[13], q[14], q[15] = w[21], w[22], w[23], block + 8 * w[24]
            call3(w[0], inner, 0, 1)
            at, offset_table, weights = w[26], offsets_at, packed_at
            for _ in range(w[25]):
                k = channels * w[at]
                end = (taken - 1) * w[19] + (w[at + 3] - 1) * w[20] + w[at + 4]
                for p in range(0, end, columns_at_once):
                    length = min(columns_at_once, end - p)
                    multiply(k, maps, length, weights, offset_table, planes_at + 4 * p, out_at)
                    deliver(w, at, group, first_image, p, length, out_at)
                at += 5 + 2 * w[at]
                offset_table += 8 * k
                weights += 4 * padded_maps * k
            if w[34] != 0:
                for image in range(first_image, first_image + taken):
                    start = (image * groups + group) * maps * w[27]
                    call3(w[34], w[35], start, start + maps * w[27])
        return 0

    return convolution


CONVOLUTION = Kernel("convolution", _build)


def accepts(call: Call) -> bool | str:
    """Whether the call is float32 with something to compute."""
    refused = refuse_floats(call, ("float32",), floats=range(len(call.inputs)))
    if refused:
        return refused
    return "takes no empty arrays" if has_empty(call) else True


def prepare(call: Call) -> Prepared:
    """x, weight, bias? -> y.  ConvolutionDataGrad: gy, weight -> gx."""
    problem = _problem(call)
    # Winograd takes no groups: one by one they are slices, too.
    suits_winograd = _winograd(_task(problem)) is not None
    pieces = problem.groups if problem.groups > 1 and suits_winograd and not problem.direct_for else 1
    if len(problem.axes) > 2 or pieces > 1:
        prepared = convolution_slices.prepare(problem, _prepare_planar, pieces=pieces)
    else:
        prepared = _prepare_planar(problem)
    return winograd.told(prepared, problem.direct_for) if suits_winograd and problem.direct_for else prepared


def _prepare_planar(problem: convolution_slices.Problem) -> Prepared:
    """The convolution or adjoint over one or two axes."""
    task = _task(problem)
    special = _special(task, problem)
    if special is not None:
        return special
    arguments = (2, 3, *problem.bias_words(4), 5, 6)
    if _is_pointwise(task) and task.channels > (_FEW_TERMS if task.stride == (1, 1) else _FEW_STRIDED_TERMS):
        return pointwise.prepare(_products(task), arguments)
    lanes = _in_lanes(task)
    in_rows = convolution_rows.suits(lanes)
    if not task.forward and task.dilation == (1, 1):
        geometry = (task.kernel, task.pad, task.stride)
        sizes = (task.images, task.groups, task.channels, task.maps, task.source, task.result)
        windows_of = adjoint_lanes.Problem(*sizes, *geometry)
        # It multiplies elements of gy; the others multiply for each element of gx, products with zeros included.
        many_zeros = math.prod(task.result) > _MOST_ZEROS * math.prod(task.source)
        if (many_zeros or not in_rows) and adjoint_lanes.suits(windows_of):
            return adjoint_lanes.prepare(windows_of, (0, 1, *problem.bias_words(2), 3, 4))
    if in_rows:
        return convolution_rows.prepare(lanes, problem.weight_size, arguments)
    if _tiles_fill_badly(task) and convolution_lanes.suits(lanes):
        return convolution_lanes.prepare(lanes, problem.weight_size, arguments)
    if _is_pointwise(task) and task.channels >= pointwise.LEAST_CHANNELS:
        return pointwise.prepare(_products(task), arguments)
    return _direct(task, problem)


class _Task(NamedTuple):
    """One convolution or its adjoint: channels and maps, of the source and the result, are those of one group."""

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


# Ops that are the adjoint of a convolution.
_ADJOINTS = ("ConvolutionDataGrad", "Deconvolution", "DepthwiseDeconvolution")


def _problem(call: Call) -> convolution_slices.Problem:
    attributes, axis = call.attributes, call.attributes["base_axis"]
    source, weight, result = call.inputs[0], call.inputs[1], call.outputs[0]
    assert source is not None
    assert weight is not None
    if "group" in attributes:
        groups, kernel = attributes["group"], weight.shape[2:]
    else:  # depthwise
        groups, kernel = min(source.shape[axis], result.shape[axis]), weight.shape[1:]
    steps = (attributes["pad"], attributes["stride"], attributes["dilation"])
    return convolution_slices.Problem(
        call.spec.name not in _ADJOINTS,
        math.prod(source.shape[:axis]),
        groups,
        source.shape[axis] // groups,
        result.shape[axis] // groups,
        merge_axes(map(Axis, source.shape[axis + 1 :], result.shape[axis + 1 :], kernel, *steps)),
        tuple(desc is not None for desc in call.inputs[2:]),
        winograd.excluded_for(call),
    )


def _task(problem: convolution_slices.Problem) -> _Task:
    return _Task(*problem[:5], *two_axes(problem.axes))


def _weight_strides(task: _Task) -> Pair:
    """From map to map of the result and from channel to channel of the source, in elements of the weight.

    The convolution's own weight is (maps, channels, kernel); its adjoint goes the other way.
    """
    places = math.prod(task.kernel)
    return (task.channels * places, places) if task.forward else (places, task.maps * places)


def _special(task: _Task, whole: convolution_slices.Problem) -> Prepared | None:
    """The call as Winograd's or as a depthwise convolution, if it is one of them."""
    if not _is_3x3(task):
        return _filters(task, whole)
    arguments = (0, 1, *whole.bias_words(2), 3)
    pad = _forward_pad(task)
    if task.groups > 1 and (task.maps == 1 or (task.forward and task.channels == 1)) and min(pad) >= 0:
        terms, per_plane = (1, task.maps) if task.channels == 1 else (task.channels, 1)
        planes = task.groups * task.maps
        filters = depthwise.Problem(
            task.images, task.source, planes, task.result, pad, terms, per_plane, turned=not task.forward
        )
        return depthwise.prepare(filters, arguments)
    problem = None if whole.direct_for or task.groups > 1 else _winograd(task)
    return winograd.prepare(problem, whole.weight_size, arguments) if problem else None


def _is_3x3(task: _Task) -> bool:
    return (task.kernel, task.stride, task.dilation) == ((3, 3), (1, 1), (1, 1))


def _forward_pad(task: _Task) -> Pair:
    """The padding of a convolution with 3 x 3 kernels; the adjoint is one, too, with the kernel turned around."""
    return task.pad if task.forward else (2 - task.pad[0], 2 - task.pad[1])


def _winograd(task: _Task) -> winograd.Problem | None:
    """One group as Winograd's, if that pays."""
    if not _is_3x3(task):
        return None
    sizes = (task.images, task.channels, task.maps, task.source, task.result)
    weight = _weight_strides(task)
    problem = winograd.Problem(*sizes, _forward_pad(task), *weight, turned=not task.forward)
    return problem if winograd.suits(problem) else None


def _filters(task: _Task, whole: convolution_slices.Problem) -> Prepared | None:
    """The call as filters of single planes, if it is that; few strides have an adjoint among them."""
    arguments = (0, 1, *whole.bias_words(2), 3, 4)
    if task.groups > 1 and task.maps == 1 and not task.forward:
        sizes = (task.images, task.groups, task.channels, task.result, task.source)
        strided = depthwise_strided.Problem(*sizes, task.kernel, task.pad)
        if depthwise_strided.suits(strided, task.stride, task.dilation):
            return depthwise_strided.prepare(strided, arguments)
    if task.groups == 1 or task.channels > 1:
        return None
    pad = task.pad
    if not task.forward:
        if task.maps > 1 or task.stride != (1, 1):
            return None
        reach = [(k - 1) * d for k, d in zip(task.kernel, task.dilation, strict=True)]
        pad = reach[0] - pad[0], reach[1] - pad[1]
    planes = (task.images, task.source, task.groups * task.maps, task.maps, task.result)
    filters = depthwise_filters.Problem(*planes, task.kernel, pad, task.stride, task.dilation, turned=not task.forward)
    return depthwise_filters.prepare(filters, arguments)


def _products(task: _Task) -> pointwise.Problem:
    """A 1 x 1 convolution as products of matrices."""
    return pointwise.Problem(*task[1:7], task.stride, _weight_strides(task))


def _in_lanes(task: _Task) -> convolution_lanes.Problem:
    """The task as one with maps in the lanes."""
    images, groups, channels, maps, source, result = task[1:7]
    if task.forward:
        # The planes hold the windows of all positions; a stride takes some of them.
        layout, (found,) = windows(source, task.kernel, task.pad, (1, 1), task.dilation)
        results: tuple[Result, ...] = (found._replace(counts=result),)
        step, spread = task.stride, (1, 1)
    else:
        layout, results = gradient_windows(result, task.kernel, task.pad, task.stride, task.dilation)
        step, spread = (1, 1), task.stride
    sizes = (images, groups, channels, maps, source, result)
    weight = _weight_strides(task)
    return convolution_lanes.Problem(*sizes, layout, results, step, spread, weight, in_order=task.forward)


def _direct(task: _Task, whole: convolution_slices.Problem) -> Prepared:
    forward, images, groups, channels, maps = task[:5]
    weight_size = whole.weight_size
    source_size, result_size = (
        images * groups * planes * math.prod(size) for planes, size in ((channels, task.source), (maps, task.result))
    )
    (height, width), (result_height, result_width) = task.source, task.result
    geometry = task.kernel, task.pad, task.stride, task.dilation
    weight_map, weight_channel = _weight_strides(task)
    if forward:
        layout, results = _choose_layout(task)
        step = (1, 1)
    else:
        layout, results = gradient_windows((result_height, result_width), *geometry)
        step = task.stride

    lanes = host_lanes()
    columns = _COLUMN_VECTORS * lanes.vector
    taps = sum(len(found.taps) for found in results)
    flops = 2.0 * groups * maps * channels * images * sum(len(f.taps) * f.counts[0] * f.counts[1] for f in results)
    work_us = (flops + 20.0 * (source_size + result_size)) / _FLOPS_PER_US
    packing_us = weight_size / groups / _WEIGHTS_PER_US / (10 if forward else 1)
    # A share of few positions would waste much of its last tile, and read all weights for it.
    parts = share_count(work_us, groups * max(1, images * layout.image_pitch // _LEAST_POSITIONS))
    if groups == 1:
        parts = max(1, min(parts, int(0.1 * work_us / packing_us)))
    image_bytes = 4 * channels * len(layout.phases) * layout.image_pitch
    # Unfolded images have gaps between them alone: one by one, nothing is computed in vain.
    unfolded = task.kernel[1] > 1 and layout.row_pitch == result_width
    alone = unfolded and result_height * result_width >= 2 * lanes.columns
    chunk = (
        1
        if forward and alone
        else _chunk(images, max(1, images * groups // parts), layout.image_pitch, _CHUNK_BYTES // image_bytes)
    )
    parts = min(parts, groups * -(-images // chunk))
    plane_length = layout.plane_length(chunk, columns)
    channel_length = len(layout.phases) * plane_length

    words = [COPY_IMAGES.address(), 0, 0, 0, 0, 0, 0, images, chunk, groups, channels, height, width, maps]
    words += [
        weight_map,
        weight_channel,
        plane_length,
        channel_length,
        layout.front,
        layout.image_pitch,
        layout.row_pitch,
    ]
    words += [*layout.stride, len(layout.phases), 36, len(results), 36 + 2 * len(layout.phases)]
    words += [result_height * result_width, result_width, *step, taps, weight_size // groups]
    words += [PACK.address() if forward else 0, 0, 0]
    assert len(words) == 36
    words += [place for phase in layout.phases for place in phase]
    for found in results:
        words += [len(found.taps), *found.start, *found.counts]
        words += [word for tap in found.taps for word in (tap.phase * plane_length + layout.offset(tap), tap.place)]
    rows = -(-maps // lanes.rows) * lanes.rows
    share_bytes = (
        _INNER_BYTES
        + 8 * channels * taps
        + 4 * (rows * channels * taps + PACK_SLACK + rows * columns + channels * channel_length)
    )
    share_bytes = -(-share_bytes // 64) * 64
    words[6] = share_bytes
    parts = fitting_shares(parts, share_bytes)
    arguments = (1, 2, *whole.bias_words(3), 4, 5)
    note = (
        f"direct, {chunk} images at once, {len(layout.phases)} {'unfolded ' if unfolded else ''}phases"
        if forward
        else f"direct, {chunk} images at once"
    )
    workspace = share_bytes * parts
    return launch(CONVOLUTION, words, arguments, parts=parts, workspace=workspace, after={0: 34}, note=note)


def _is_pointwise(task: _Task) -> bool:
    return (task.kernel, task.pad) == ((1, 1), (0, 0)) and (task.forward or task.stride == (1, 1))


def _tiles_fill_badly(task: _Task) -> bool:
    """Whether the tiles of positions waste more than those of `convolution_lanes` lose by reading single elements."""
    short = task.channels * math.prod(task.kernel) <= _SHORT_SUMS
    return short or task.stride != (1, 1) or (task.forward and len(_choose_layout(task)[0].phases) > 1)


def _choose_layout(task: _Task) -> tuple[Layout, tuple[Result, ...]]:
    """With or without the columns unfolded, depending on how many positions are computed in vain."""
    geometry = task.kernel, task.pad, task.stride, task.dilation
    layout, results = windows(task.source, *geometry)
    if task.kernel[1] > 1 and layout.image_pitch >= _MOST_WASTE * math.prod(task.result):
        return windows(task.source, *geometry, unfold=True)
    return layout, results


def _chunk(images: int, per_share: int, image_pitch: int, fitting: int) -> int:
    """How many images the planes hold: up to `fitting`, so that few columns of the last tile are wasted."""
    columns = host_lanes().columns
    most = max(1, min(images, per_share, max(4, fitting)))

    def waste(chunk: int) -> float:
        positions = chunk * image_pitch
        # Twice the memory is worth it if it saves 4 percent.
        return -(-positions // columns) * columns / positions * (1.04 if chunk > fitting else 1.0)

    best = min(range(1, most + 1), key=lambda chunk: (round(waste(chunk), 2), -chunk))
    return -(-images // -(-images // best))
