"""The gradient of a convolution with respect to its weight, in float32, over one or two axes.

Three axes and more are brought to two by `slices_weight`; several kernels that suit some shapes come before this one.
gw[map, channel, place] is the dot product of a plane of gy and a plane of x, shifted by the place's offset: both lie in
the padded planes of `convolution_geometry`, gy with zeros where there is no window. A register tile holds some maps by
some channels and places.

Block (64-bit words):
    0 COPY_IMAGES, 1 x, 2 gy, 3 gw, 4 workspace, 5 bytes of it per share
    6 images, 7 images per chunk, 8 groups
    9 channels, 10 height, 11 width           of x, channels per group
    12 maps, 13 rows, 14 columns              of gy, maps per group
    15 plane_length, 16 channel_length, 17 front, 18 image_pitch, 19 row_pitch, 20 stride_h, 21 stride_w
    22 source phases, 23 word where they start, as pairs
    24 taps, 25 word where their offsets start
    26 pieces of a group, 27 whether they are pieces of its channels (1) or of its maps (0)
    28 length of a plane of gy
Shares are made of pieces of groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.convolution import weight_lanes
from atled_cpu_numba.kernels.convolution import weight_pointwise as pointwise_weight
from atled_cpu_numba.kernels.convolution import weight_slices as slices_weight
from atled_cpu_numba.kernels.convolution.images import COPY_IMAGES
from atled_cpu_numba.kernels.depthwise import squares as depthwise
from atled_cpu_numba.kernels.depthwise import strided as depthwise_strided
from atled_cpu_numba.kernels.shared.geometry import windows
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, has_empty, launch, refuse_floats, share_count
from atled_cpu_numba.kernels.shared.leading_axes import Axis, merge_axes, two_axes
from atled_cpu_numba.kernels.winograd import forward as winograd
from atled_cpu_numba.kernels.winograd import weight as winograd_weight
from atled_cpu_numba.store import Kernel

_POSITIONS = 2048  # of gy at once: four planes of them take 32 KiB of the level-1 cache
_CHUNK_BYTES = 512 << 10  # of planes of x and gy
_MOST_WASTE = 1.3  # positions per one of the unfolded layout; more, and that one is taken
_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_COPIED_PER_US = 2e3
_INNER_BYTES = 192  # block of COPY_IMAGES, then the one phase of gy


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.products.tiles import make_dots
    from atled_cpu_numba.kernels.shared.options import kernel, piece

    lanes = host_lanes()
    vector, tile_rows, tile_columns = lanes.vector, lanes.dot_rows, lanes.dot_columns
    dots = make_dots(tile_rows, tile_columns)
    dots_of_one = make_dots(1, tile_columns)

    @piece
    def copy_x(w, q, block, first, taken, group, channel, channels, x_at):
        """The images' channels from `channel` on into planes; q: block of COPY_IMAGES."""
        step = w[8] * w[9] * w[10] * w[11]
        q[0] = w[1] + 4 * (first * step + (group * w[9] + channel) * w[10] * w[11])
        q[1], q[2], q[3], q[4], q[5] = taken, channels, step, w[10], w[11]
        q[6], q[7], q[8], q[9], q[10], q[11] = x_at, w[15], w[16], w[17], w[18], w[19]
        q[12], q[13], q[14], q[15] = w[20], w[21], w[22], block + 8 * w[23]

    @piece
    def copy_gy(w, q, one_phase, first, taken, group, m, maps, gy_at):
        """The maps of gy from `m` on into planes of their own; q: block of COPY_IMAGES."""
        step = w[8] * w[12] * w[13] * w[14]
        q[0] = w[2] + 4 * (first * step + (group * w[12] + m) * w[13] * w[14])
        q[1], q[2], q[3], q[4], q[5] = taken, maps, step, w[13], w[14]
        q[6], q[7], q[8], q[9], q[10], q[11] = gy_at, w[28], w[28], 0, w[18], w[19]
        q[12], q[13], q[14], q[15] = 1, 1, 1, one_phase

    @piece
    def accumulate(end, count, maps, offsets_at, x_at, gy_at, gy_length, gw_at, gw_row):
        """gw += gy x for the positions up to `end`; `count` channels and taps."""
        for p in range(0, end, _POSITIONS):
            length = (min(_POSITIONS, end - p) + vector - 1) // vector * vector
            for m in range(0, maps, tile_rows):
                gy, gw, x = gy_at + 4 * (m * gy_length + p), gw_at + 4 * m * gw_row, x_at + 4 * p
                for j in range(0, count, tile_columns):
                    table, left = offsets_at + 8 * j, count - j
                    if maps - m == 1:
                        dots_of_one((length, gy, gy_length, table, x, gw + 4 * j, gw_row, 1, left))
                    else:
                        dots((length, gy, gy_length, table, x, gw + 4 * j, gw_row, maps - m, left))

    @kernel
    def convolution_weight(block, part, parts):
        w = words(block)
        images, chunk, groups, all_channels, all_maps = w[6], w[7], w[8], w[9], w[12]
        channel_length, taps, pieces, gy_length = w[16], w[24], w[26], w[28]
        inner = w[4] + part * w[5]
        q, one_phase = words(inner), inner + 128
        words(one_phase)[0], words(one_phase)[1] = 0, 0
        offsets_at = inner + _INNER_BYTES
        offsets = words(offsets_at)
        x_at = offsets_at + 8 * (all_channels * taps + tile_columns)
        planes = floats32(x_at)
        for unit in range(groups * pieces * part // parts, groups * pieces * (part + 1) // parts):
            group = unit // pieces
            piece_number = unit - group * pieces
            c0, c1, m0, m1 = 0, all_channels, 0, all_maps
            if w[27] != 0:
                c0, c1 = all_channels * piece_number // pieces, all_channels * (piece_number + 1) // pieces
            else:
                m0, m1 = all_maps * piece_number // pieces, all_maps * (piece_number + 1) // pieces
            channels, maps = c1 - c0, m1 - m0
            count = channels * taps
            for i in range(count):
                channel = i // taps
                offsets[i] = channel * channel_length + w[17] + w[w[25] + i - channel * taps]
            for i in range(count, count + tile_columns):  # the last tile reads whole, too
                offsets[i] = offsets[count - 1]
            gy_at = x_at + 4 * channels * channel_length
            padded_maps = (maps + tile_rows - 1) // tile_rows * tile_rows
            for i in range(channels * channel_length + padded_maps * gy_length):
                planes[i] = 0.0
            gw_at, gw_row = w[3] + 4 * ((group * all_maps + m0) * all_channels + c0) * taps, all_channels * taps
            for m in range(maps):
                gw = floats32(gw_at + 4 * m * gw_row)
                for i in range(count):
                    gw[i] = 0.0
            for first in range(0, images, max(1, chunk)):
                taken = min(chunk, images - first)
                copy_x(w, q, block, first, taken, group, c0, channels, x_at)
                call3(w[0], inner, 0, 1)
                copy_gy(w, q, one_phase, first, taken, group, m0, maps, gy_at)
                call3(w[0], inner, 0, 1)
                end = (taken - 1) * w[18] + (w[13] - 1) * w[19] + w[14]
                for m in range(maps):  # the last vector may reach into an image of an earlier chunk
                    gy = floats32(gy_at + 4 * (m * gy_length + end))
                    for i in range(vector):
                        gy[i] = 0.0
                accumulate(end, count, maps, offsets_at, x_at, gy_at, gy_length, gw_at, gw_row)
        return 0

    return convolution_weight


CONVOLUTION_WEIGHT = Kernel("convolution_weight", _build)


def accepts(call: Call) -> bool | str:
    """Whether the call is float32 with something to compute."""
    refused = refuse_floats(call, ("float32",), floats=(0, 1))
    if refused:
        return refused
    return "takes no empty arrays" if has_empty(call) else True


def prepare(call: Call) -> Prepared:
    """ConvolutionWeightGrad: x, gy -> gw."""
    attributes = call.attributes
    x, gy = call.inputs[0], call.inputs[1]
    assert x is not None
    assert gy is not None
    axis, groups = attributes["base_axis"], attributes["group"]
    geometry = (attributes[name] for name in ("kernel", "pad", "stride", "dilation"))
    problem = slices_weight.Problem(
        math.prod(x.shape[:axis]),
        groups,
        x.shape[axis] // groups,
        gy.shape[axis] // groups,
        merge_axes(map(Axis, x.shape[axis + 1 :], gy.shape[axis + 1 :], *geometry)),
        winograd.excluded_for(call),
    )
    # Winograd takes no groups: one by one they are slices, too.
    suits_winograd = _winograd(problem) is not None
    pieces = problem.groups if problem.groups > 1 and suits_winograd and not problem.direct_for else 1
    if len(problem.axes) > 2 or pieces > 1:
        prepared = slices_weight.prepare(problem, _prepare_planar, pieces=pieces)
    else:
        prepared = _prepare_planar(problem)
    return winograd.told(prepared, problem.direct_for) if suits_winograd and problem.direct_for else prepared


def _winograd(whole: slices_weight.Problem) -> winograd.Problem | None:
    """One group over the last two axes as Winograd's, if that pays."""
    sizes, counts, kernel, pad, steps, dilation = two_axes(whole.axes)
    if (kernel, steps, dilation) != ((3, 3), (1, 1), (1, 1)):
        return None
    problem = winograd.Problem(whole.images, whole.channels, whole.maps, sizes, counts, pad, 0, 0, turned=False)
    return problem if winograd_weight.suits(problem) else None


def _prepare_planar(whole: slices_weight.Problem) -> Prepared:
    """The gradient over one or two axes."""
    images, groups, channels, maps = whole[:4]
    (height, width), counts, kernel, pad, steps, dilation = two_axes(whole.axes)
    geometry = kernel, pad, steps, dilation
    layout, (result,) = windows((height, width), *geometry)
    assert result.counts == counts
    positions = math.prod(counts)
    if (kernel, steps, pad, groups) == ((1, 1), (1, 1), (0, 0), 1) and positions >= pointwise_weight.LEAST_POSITIONS:
        return pointwise_weight.prepare(images, channels, maps, positions)
    if kernel == (3, 3) and steps == dilation == (1, 1) and groups > 1 and channels == 1:
        filters = depthwise.Problem(
            images, (height, width), groups * maps, counts, pad, terms=1, per_plane=maps, turned=False
        )
        return depthwise.prepare_weight(filters)
    if groups > 1 and channels == 1:
        strided = depthwise_strided.Problem(images, groups, maps, (height, width), counts, kernel, pad)
        if depthwise_strided.suits(strided, steps, dilation):
            return depthwise_strided.prepare_weight(strided)
    problem = None if whole.direct_for or groups > 1 else _winograd(whole)
    if problem is not None:
        return winograd_weight.prepare(problem)
    lanes_problem = weight_lanes.Problem(images, groups, channels, maps, (height, width), counts, *geometry)
    if weight_lanes.suits(lanes_problem):
        return weight_lanes.prepare(lanes_problem)
    if kernel[1] > 1:
        unfolded, (result_of_them,) = windows((height, width), *geometry, unfold=True)
        if layout.image_pitch >= _MOST_WASTE * unfolded.image_pitch:
            layout, result = unfolded, result_of_them
    taps = len(result.taps)
    lanes = host_lanes()
    x_size, gy_size = images * groups * channels * height * width, images * groups * maps * positions
    gw_size = groups * maps * channels * math.prod(kernel)
    work_us = (2.0 * images * positions * gw_size + 20.0 * (x_size + gy_size)) / _FLOPS_PER_US
    # Pieces of the channels copy all of gy each, pieces of the maps all of x: the smaller of the two.
    by_channels = gy_size <= x_size
    dividable = channels if by_channels else -(-maps // lanes.dot_rows)
    copying_us = min(gy_size, x_size) / groups / _COPIED_PER_US
    parts = share_count(work_us, groups * dividable)
    pieces = max(1, min(dividable, -(-parts // groups), 1 + int(0.2 * work_us / groups / copying_us)))
    parts = min(parts, groups * pieces)

    phases = len(layout.phases)
    piece_channels = -(-channels // pieces) if by_channels else channels
    piece_maps = maps if by_channels else -(-maps // pieces)
    piece_maps = -(-piece_maps // lanes.dot_rows) * lanes.dot_rows
    # Of the whole, not of a piece: images at once are summed in another order than one by one.
    image_bytes = 4 * layout.image_pitch * (channels * phases + -(-maps // lanes.dot_rows) * lanes.dot_rows)
    chunk = max(1, min(images, _CHUNK_BYTES // image_bytes))
    chunk = -(-images // -(-images // chunk))
    plane_length = layout.plane_length(chunk, lanes.vector)
    gy_length = layout._replace(front=0, back=0).plane_length(chunk, lanes.vector)
    share_bytes = _INNER_BYTES + 8 * (channels * taps + lanes.dot_columns)
    share_bytes += 4 * (piece_channels * phases * plane_length + piece_maps * gy_length)
    share_bytes = -(-share_bytes // 64) * 64
    parts = fitting_shares(parts, share_bytes)

    words = [
        COPY_IMAGES.address(),
        0,
        0,
        0,
        0,
        share_bytes,
        images,
        chunk,
        groups,
        channels,
        height,
        width,
        maps,
        *result.counts,
    ]
    words += [plane_length, phases * plane_length, layout.front, layout.image_pitch, layout.row_pitch, *layout.stride]
    words += [phases, 29, taps, 29 + 2 * phases, pieces, int(by_channels), gy_length]
    assert len(words) == 29
    words += [place for phase in layout.phases for place in phase]
    words += [tap.phase * plane_length + layout.offset(tap) for tap in result.taps]
    return launch(
        CONVOLUTION_WEIGHT,
        words,
        (1, 2, 3, 4),
        parts=parts,
        workspace=share_bytes * parts,
        note=f"dot products, {chunk} images at once",
    )
