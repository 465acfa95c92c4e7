"""The gradient of a convolution over one or two axes with respect to its weight, as dot products.

gw[map, channel, place] is the dot product of a plane of gy and a plane of x, shifted by the place's offset: both lie in
the padded planes of `shared.geometry`, gy with zeros where there is no window. A register tile holds some maps by some
channels and places. Shares are made of pieces of groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Prepared
from atled_cpu_numba.kernels.convolution.copied_planes import CopiedPlanes, copied_words, make_copy_planes
from atled_cpu_numba.kernels.convolution.images import CopyImages, SourcePhase, phase_words
from atled_cpu_numba.kernels.convolution.weight_lanes import Problem
from atled_cpu_numba.kernels.shared.geometry import Layout, Result, windows
from atled_cpu_numba.kernels.shared.lanes import SIZES, host_lanes, lanes_of
from atled_cpu_numba.kernels.shared.launch import fitting_shares, in_lines, kernels_by_dtype, launch, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of

_POSITIONS = 2048  # of gy at once: four planes of them take 32 KiB of the level-1 cache
_CHUNK_BYTES = 512 << 10  # of planes of x and gy
_MOST_WASTE = 1.3  # positions per one of the unfolded layout; more, and that one is taken
_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_COPIED_PER_US = 2e3


@layout
class Block(CopiedPlanes):
    """What the kernel reads; lengths in elements. The phases of x follow, then the taps' offsets."""

    gy: int
    gw: int
    workspace: int
    share_bytes: int  # of workspace
    chunk: int  # images at once
    maps: int  # of gy, per group
    rows: int
    columns: int
    taps: int
    offsets_at: int  # word where their offsets start
    pieces: int  # of a group
    by_channels: int  # whether they are pieces of its channels (1) or of its maps (0)
    gy_length: int  # of a plane of gy


# Of a share's workspace: the block of COPY_IMAGES, then the one phase of gy.
_PHASE_START, _INNER_BYTES = 8 * size_of(CopyImages), 192


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, ints64, words
    from atled_cpu_numba.kernels.products.tiles import make_dots
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece

    element, floats, copy_planes = SIZES[dtype], Real(dtype).pointer, make_copy_planes(dtype)
    lanes = lanes_of(dtype)
    vector, tile_rows, tile_columns = lanes.vector, lanes.dot_rows, lanes.dot_columns
    dots = make_dots(tile_rows, tile_columns, dtype)
    dots_of_one = make_dots(1, tile_columns, dtype)

    @piece
    def copy_gy(w, q, one_phase, first, taken, group, m, maps, gy_at):
        """The maps of gy from `m` on into planes of their own; q: block of COPY_IMAGES."""
        step = w[Block.groups] * w[Block.maps] * w[Block.rows] * w[Block.columns]
        gy, start = w[Block.gy], first * step
        start += (group * w[Block.maps] + m) * w[Block.rows] * w[Block.columns]
        q[CopyImages.x] = gy + element * start
        rows, columns = w[Block.rows], w[Block.columns]
        q[CopyImages.images], q[CopyImages.channels], q[CopyImages.image_step] = taken, maps, step
        q[CopyImages.height], q[CopyImages.width] = rows, columns
        plane_length, channel_length = w[Block.gy_length], w[Block.gy_length]
        image_pitch, row_pitch = w[Block.image_pitch], w[Block.row_pitch]
        q[CopyImages.target], q[CopyImages.plane_length] = gy_at, plane_length
        q[CopyImages.channel_length], q[CopyImages.front] = channel_length, 0
        q[CopyImages.image_pitch], q[CopyImages.row_pitch] = image_pitch, row_pitch
        q[CopyImages.stride_h], q[CopyImages.stride_w] = 1, 1
        q[CopyImages.phases], q[CopyImages.phase_table] = 1, one_phase

    @piece
    def accumulate(end, count, maps, offsets_at, x_at, gy_at, gy_length, gw_at, gw_row):
        """gw += gy x for the positions up to `end`; `count` channels and taps."""
        for p in range(0, end, _POSITIONS):
            length = (min(_POSITIONS, end - p) + vector - 1) // vector * vector
            for m in range(0, maps, tile_rows):
                gy, gw, x = gy_at + element * (m * gy_length + p), gw_at + element * m * gw_row, x_at + element * p
                for j in range(0, count, tile_columns):
                    table, left = offsets_at + 8 * j, count - j
                    if maps - m == 1:
                        dots_of_one((length, gy, gy_length, table, x, gw + element * j, gw_row, 1, left))
                    else:
                        dots((length, gy, gy_length, table, x, gw + element * j, gw_row, maps - m, left))

    @kernel
    def convolution_weight(block, part, parts):
        w = words(block)
        images, chunk, groups, all_channels = w[Block.images], w[Block.chunk], w[Block.groups], w[Block.channels]
        all_maps = w[Block.maps]
        channel_length, taps, pieces = w[Block.channel_length], w[Block.taps], w[Block.pieces]
        gy_length = w[Block.gy_length]
        inner = w[Block.workspace] + part * w[Block.share_bytes]
        q, one_phase = words(inner), inner + _PHASE_START
        words(one_phase)[SourcePhase.row], words(one_phase)[SourcePhase.column] = 0, 0
        offsets_at = inner + _INNER_BYTES
        offsets = ints64(offsets_at)
        x_at = offsets_at + 8 * (all_channels * taps + tile_columns)
        planes = floats(x_at)
        for unit in range(groups * pieces * part // parts, groups * pieces * (part + 1) // parts):
            group = unit // pieces
            piece_number = unit - group * pieces
            c0, c1, m0, m1 = 0, all_channels, 0, all_maps
            if w[Block.by_channels] != 0:
                c0, c1 = all_channels * piece_number // pieces, all_channels * (piece_number + 1) // pieces
            else:
                m0, m1 = all_maps * piece_number // pieces, all_maps * (piece_number + 1) // pieces
            channels, maps = c1 - c0, m1 - m0
            count = channels * taps
            for i in range(count):
                channel = i // taps
                offsets[i] = channel * channel_length + w[Block.front] + w[w[Block.offsets_at] + i - channel * taps]
            for i in range(count, count + tile_columns):  # the last tile reads whole, too
                offsets[i] = offsets[count - 1]
            gy_at = x_at + element * channels * channel_length
            padded_maps = (maps + tile_rows - 1) // tile_rows * tile_rows
            for i in range(channels * channel_length + padded_maps * gy_length):
                planes[i] = 0.0
            gw_at, gw_row = (
                w[Block.gw] + element * ((group * all_maps + m0) * all_channels + c0) * taps,
                all_channels * taps,
            )
            for m in range(maps):
                gw = floats(gw_at + element * m * gw_row)
                for i in range(count):
                    gw[i] = 0.0
            for first in range(0, images, max(1, chunk)):
                taken = min(chunk, images - first)
                copy_planes(block, inner, group, c0, channels, first, taken, x_at)
                copy_gy(w, q, one_phase, first, taken, group, m0, maps, gy_at)
                call3(w[Block.copy_images], inner, 0, 1)
                end = (taken - 1) * w[Block.image_pitch] + (w[Block.rows] - 1) * w[Block.row_pitch] + w[Block.columns]
                for m in range(maps):  # the last vector may reach into an image of an earlier chunk
                    gy = floats(gy_at + element * (m * gy_length + end))
                    for i in range(vector):
                        gy[i] = 0.0
                accumulate(end, count, maps, offsets_at, x_at, gy_at, gy_length, gw_at, gw_row)
        return 0

    return convolution_weight


CONVOLUTION_WEIGHT = kernels_by_dtype("convolution_weight", _build)


def prepare(problem: Problem, whole_channels: int) -> Prepared:
    """x, gy -> gw of any problem.  whole_channels: of what the problem is a piece of, or its own."""
    p, lanes = problem, lanes_of(problem.dtype)
    planes, result = _choose_layout(p)
    by_channels, pieces, parts = _divide(p)
    chunk = _chunk(p, whole_channels, planes)
    plane_length = planes.plane_length(chunk, lanes.vector)
    channel_length = len(planes.phases) * plane_length
    gy_length = planes._replace(front=0, back=0).plane_length(chunk, lanes.vector)
    piece_channels = -(-p.channels // pieces) if by_channels else p.channels
    piece_maps = _in_tiles(p.maps if by_channels else -(-p.maps // pieces))
    share_bytes = _INNER_BYTES + 8 * (p.channels * len(result.taps) + lanes.dot_columns)
    share_bytes += SIZES[p.dtype] * (piece_channels * channel_length + piece_maps * gy_length)
    share_bytes = in_lines(share_bytes)
    parts = fitting_shares(parts, share_bytes)
    phases = phase_words(planes)
    words = filled(
        Block,
        **copied_words(planes, plane_length, p.dtype),
        share_bytes=share_bytes,
        images=p.images,
        chunk=chunk,
        groups=p.groups,
        channels=p.channels,
        height=p.source[0],
        width=p.source[1],
        maps=p.maps,
        rows=result.counts[0],
        columns=result.counts[1],
        phases_at=size_of(Block),
        taps=len(result.taps),
        offsets_at=size_of(Block) + len(phases),
        pieces=pieces,
        by_channels=int(by_channels),
        gy_length=gy_length,
    )
    words += [*phases, *(tap.phase * plane_length + planes.offset(tap) for tap in result.taps)]
    return launch(
        CONVOLUTION_WEIGHT[p.dtype],
        words,
        (Block.x, Block.gy, Block.gw, Block.workspace),
        parts=parts,
        workspace=share_bytes * parts,
        note=f"dot products, {chunk} images at once",
    )


def _choose_layout(p: Problem) -> tuple[Layout, Result]:
    """With the columns unfolded where that computes far fewer positions."""
    geometry = p.kernel, p.pad, p.stride, p.dilation
    planes, (result,) = windows(p.source, *geometry)
    assert result.counts == p.result
    if p.kernel[1] > 1:
        unfolded, (result_of_them,) = windows(p.source, *geometry, unfold=True)
        if planes.image_pitch >= _MOST_WASTE * unfolded.image_pitch:
            return unfolded, result_of_them
    return planes, result


def _divide(p: Problem) -> tuple[bool, int, int]:
    """Whether a group is divided by its channels, not by its maps; pieces of a group; shares."""
    positions, size = math.prod(p.result), math.prod(p.source)
    x_size, gy_size = p.images * p.groups * p.channels * size, p.images * p.groups * p.maps * positions
    gw_size = p.groups * p.maps * p.channels * math.prod(p.kernel)
    work_us = (2.0 * p.images * positions * gw_size + 20.0 * (x_size + gy_size)) / _FLOPS_PER_US
    # Pieces of the channels copy all of gy each, pieces of the maps all of x: the smaller of the two.
    by_channels = gy_size <= x_size
    dividable = p.channels if by_channels else -(-p.maps // host_lanes().dot_rows)
    copying_us = min(gy_size, x_size) / p.groups / _COPIED_PER_US
    parts = share_count(work_us, p.groups * dividable)
    pieces = max(1, min(dividable, -(-parts // p.groups), 1 + int(0.2 * work_us / p.groups / copying_us)))
    return by_channels, pieces, min(parts, p.groups * pieces)


def _chunk(p: Problem, channels: int, planes: Layout) -> int:
    """How many images the planes hold, as if for so many channels."""
    # Of the whole, not of a piece: images at once are summed in another order than one by one.
    image_bytes = SIZES[p.dtype] * planes.image_pitch * (channels * len(planes.phases) + _in_tiles(p.maps))
    chunk = max(1, min(p.images, _CHUNK_BYTES // image_bytes))
    return -(-p.images // -(-p.images // chunk))


def _in_tiles(maps: int) -> int:
    """So many maps as whole tiles."""
    rows = host_lanes().dot_rows
    return -(-maps // rows) * rows
