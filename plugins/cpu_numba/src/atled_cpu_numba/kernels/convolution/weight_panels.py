"""The gradient of a convolution over one or two axes with respect to its weight, as products of panels.

gw (maps, terms) is the product of gy (maps, windows) and what windows see (windows, terms), some windows of some images
at a time: both are collected in rows, of the padded planes of `shared.geometry`, and packed into panels, of which a
tile's fit the level-1 cache. The terms are channels and places of the kernel. So sums are as long for small images as
for large ones, and neither strides nor dilation cost anything.

Shares are made of groups and pieces of the channels; each packs gy for itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Prepared
from atled_cpu_numba.kernels.convolution.copied_planes import CopiedPlanes, copied_words, make_copy_planes
from atled_cpu_numba.kernels.convolution.images import phase_words
from atled_cpu_numba.kernels.convolution.weight_lanes import Problem
from atled_cpu_numba.kernels.convolution.window_vectors import pitch_of
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, PACK_SLACK, Pack
from atled_cpu_numba.kernels.shared.geometry import windows
from atled_cpu_numba.kernels.shared.lanes import SIZES, host_lanes, lanes_of
from atled_cpu_numba.kernels.shared.launch import fitting_shares, kernels_by_dtype, launch, piece_starts, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of

_LEAST_MAPS = 64  # fewer, and packing what windows see takes longer than it saves
_LEAST_CHANNELS = 16
_MOST_LANES = 1.14  # per element of a row
_LEAST_MAPS_OF_PARTS = 16  # where rows are parts of a vector
_LEAST_MAPS_OF_GAPS = 32  # where they are longer
_LEAST_TERMS = 40
_LEAST_WINDOWS = 24  # of all images: fewer products for each element of gw take longer to add than to multiply
_WINDOWS = 240  # at once: panels of 15 KiB, half of a level-1 cache
_TERMS = 96  # at once
_MAPS_AT_ONCE = 240  # their panels of gy stay in the level-2 cache beside those of the terms
_CHUNK_BYTES = 1 << 20  # of planes
_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_COPIED_PER_US = 2e3


@layout
class Block(CopiedPlanes):
    """What the kernel reads; lengths in elements, starts in bytes of a share's workspace.

    The phases of x follow, then the taps' offsets.
    """

    pack: int  # address of PACK
    gy: int
    gw: int
    workspace: int
    share_bytes: int  # of workspace, which begins with the block of a piece
    chunk: int  # images at once
    pieces: int  # of a group's channels
    maps: int  # of gy, per group
    rows: int
    columns: int
    taps: int
    offsets_at: int  # word where their offsets start
    pitch: int  # of rows of windows
    offsets_start: int
    vectors_start: int  # of the table of vectors
    rows_start: int  # of rows of windows, of gy or of what they see
    gy_start: int  # of its panels
    seen_start: int  # of the panels of what windows see
    sums_start: int  # of a tile at the border
    planes_start: int


def suits(problem: Problem, whole_channels: int) -> bool:
    """Whether a tile has few rows, and products are worth packing; whole_channels: as for `prepare`."""
    if not host_lanes().has_short_tiles or problem.images * math.prod(problem.result) < _LEAST_WINDOWS:
        return False
    if problem.maps >= _LEAST_MAPS and whole_channels >= _LEAST_CHANNELS:
        return True
    # Dot products along short rows have idle lanes.
    width, vector = problem.result[1], lanes_of(problem.dtype).vector
    lanes = -(-width // vector) * vector
    least = _LEAST_MAPS_OF_PARTS if width < vector else _LEAST_MAPS_OF_GAPS
    return (
        lanes >= _MOST_LANES * width
        and problem.maps >= least
        and whole_channels * math.prod(problem.kernel) >= _LEAST_TERMS
    )


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, ints64, words
    from atled_cpu_numba.kernels.convolution.lane_tiles import make_collect_vectors
    from atled_cpu_numba.kernels.convolution.window_vectors import make_fill_vectors
    from atled_cpu_numba.kernels.products.tiles import make_panel_tile
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import make_copy_rows

    element, floats, copy_rows = SIZES[dtype], Real(dtype).pointer, make_copy_rows(dtype)
    fill_vectors, collect_vectors = make_fill_vectors(dtype), make_collect_vectors(dtype)
    copy_planes = make_copy_planes(dtype)
    lanes = lanes_of(dtype)
    tile_rows, tile_columns = lanes.rows, lanes.columns
    tile = make_panel_tile(tile_rows, tile_columns // lanes.vector, dtype, packed_rows=tile_rows)

    @piece
    def pack(w, inner, source, rows, k, target, width):
        """Rows of windows into panels of `width`."""
        q, pitch = words(inner), w[Block.pitch]
        q[Pack.source], q[Pack.row], q[Pack.column], q[Pack.rows] = source, pitch, 1, rows
        q[Pack.k], q[Pack.target], q[Pack.width] = k, target, width
        call3(w[Block.pack], inner, 0, 1)

    @piece
    def pack_gy(w, inner, group, first_image, p0, length, rows_at, target):
        """The maps of `length` windows from p0 on, by images into rows, then into panels."""
        plane, maps, done = w[Block.rows] * w[Block.columns], w[Block.maps], 0
        while done < length:
            image = (p0 + done) // plane
            column = p0 + done - image * plane
            count = min(plane - column, length - done)
            start = ((first_image + image) * w[Block.groups] + group) * maps * plane + column
            copy_rows((w[Block.gy] + element * start, plane, rows_at + element * done, w[Block.pitch], maps, count))
            done += count
        pack(w, inner, rows_at, maps, length, target, tile_rows)

    @piece
    def multiply(w, length, terms, gy_at, seen_at, gw_at, sums_at):
        """gw += gy x what windows see, for some terms."""
        maps, gw_row, ahead = w[Block.maps], w[Block.channels] * w[Block.taps], tile_rows * length
        sums = floats(sums_at)
        for m0 in range(0, maps, _MAPS_AT_ONCE):
            for j in range(0, terms, tile_columns):
                b = seen_at + element * j * length
                for m in range(m0, min(maps, m0 + _MAPS_AT_ONCE), tile_rows):
                    a, c = gy_at + element * m * length, gw_at + element * (m * gw_row + j)
                    if maps - m >= tile_rows and terms - j >= tile_columns:
                        tile((length, a, b, tile_columns, c, gw_row, ahead))
                        continue
                    for i in range(tile_rows * tile_columns):
                        sums[i] = 0.0
                    tile((length, a, b, tile_columns, sums_at, tile_columns, ahead))
                    gw = floats(c)
                    for r in range(min(tile_rows, maps - m)):
                        for i in range(min(tile_columns, terms - j)):
                            gw[r * gw_row + i] += sums[r * tile_columns + i]

    @kernel
    def weight_panels(block, part, parts):
        w = words(block)
        images, chunk, groups, pieces = w[Block.images], w[Block.chunk], w[Block.groups], w[Block.pieces]
        all_channels, maps, taps = w[Block.channels], w[Block.maps], w[Block.taps]
        rows, columns, image_pitch, row_pitch = (
            w[Block.rows],
            w[Block.columns],
            w[Block.image_pitch],
            w[Block.row_pitch],
        )
        inner = w[Block.workspace] + part * w[Block.share_bytes]
        offsets_at, table_at = inner + w[Block.offsets_start], inner + w[Block.vectors_start]
        rows_at, gy_at, seen_at = inner + w[Block.rows_start], inner + w[Block.gy_start], inner + w[Block.seen_start]
        sums_at, planes_at = inner + w[Block.sums_start], inner + w[Block.planes_start]
        offsets, table, planes, pitch = ints64(offsets_at), ints64(table_at), floats(planes_at), w[Block.pitch]
        first_unit, last_unit = groups * pieces * part // parts, groups * pieces * (part + 1) // parts
        for unit in range(first_unit, last_unit):
            group = unit // pieces
            number = unit - group * pieces
            c0, c1 = all_channels * number // pieces, all_channels * (number + 1) // pieces
            terms, gw_row = (c1 - c0) * taps, all_channels * taps
            for i in range(terms):
                offset = w[w[Block.offsets_at] + i - i // taps * taps]
                offsets[i] = i // taps * w[Block.channel_length] + w[Block.front] + offset
            for i in range((c1 - c0) * w[Block.channel_length]):
                planes[i] = 0.0
            gw_at = w[Block.gw] + element * (group * maps * gw_row + c0 * taps)
            for m in range(maps):
                gw = floats(gw_at + element * m * gw_row)
                for i in range(terms):
                    gw[i] = 0.0
            for first_image in range(0, images, max(1, chunk)):
                taken = min(chunk, images - first_image)
                copy_planes(block, inner, group, c0, c1 - c0, first_image, taken, planes_at)
                positions = taken * rows * columns
                blocks = (positions + _WINDOWS - 1) // _WINDOWS
                for p in range(blocks):
                    p0 = positions * p // blocks
                    length = positions * (p + 1) // blocks - p0
                    pack_gy(w, inner, group, first_image, p0, length, rows_at, gy_at)
                    vectors = fill_vectors(rows, columns, image_pitch, row_pitch, p0, length, table)
                    for t in range(0, terms, _TERMS):
                        count = min(_TERMS, terms - t)
                        seen = offsets_at + 8 * t
                        collect_vectors((count, planes_at, seen, vectors, table_at, rows_at, pitch))
                        pack(w, inner, rows_at, count, length, seen_at, tile_columns)
                        multiply(w, length, count, gy_at, seen_at, gw_at + element * t, sums_at)
        return 0

    return weight_panels


WEIGHT_PANELS = kernels_by_dtype("weight_panels", _build)


def prepare(problem: Problem, whole_channels: int) -> Prepared:
    """x, gy -> gw of a problem that `suits`.  whole_channels: of what the problem is a piece of, or its own."""
    p, lanes, element = problem, lanes_of(problem.dtype), SIZES[problem.dtype]
    planes, (result,) = windows(p.source, p.kernel, p.pad, p.stride, p.dilation)
    positions, taps = math.prod(p.result), len(result.taps)
    # Of the whole, not of a piece: images at once are summed in another order than one by one.
    image_bytes = element * planes.image_pitch * whole_channels * len(planes.phases)
    chunk = max(1, min(p.images, max(_CHUNK_BYTES // image_bytes, -(-_WINDOWS // positions))))
    chunk = -(-p.images // -(-p.images // chunk))
    parts, pieces = _divide(p)
    plane_length = planes.plane_length(chunk, lanes.vector)
    channel_length, channels = len(planes.phases) * plane_length, -(-p.channels // pieces)
    pitch = pitch_of(_WINDOWS, p.dtype)
    maps = -(-p.maps // lanes.rows) * lanes.rows
    starts = piece_starts(
        8 * BLOCK_WORDS,
        {
            "offsets_start": 8 * channels * taps,
            "vectors_start": 16 * _WINDOWS,
            "rows_start": element * (max(p.maps, _TERMS) * pitch + PACK_SLACK),
            "gy_start": element * (maps * _WINDOWS + PACK_SLACK),
            "seen_start": element * ((_TERMS + lanes.columns) * _WINDOWS + PACK_SLACK),
            "sums_start": element * lanes.rows * lanes.columns,
            "planes_start": element * channels * channel_length,
        },
    )
    parts = fitting_shares(parts, starts["share_bytes"])
    phases = phase_words(planes)
    words = filled(
        Block,
        **copied_words(planes, plane_length, p.dtype),
        pack=PACK[p.dtype].address(),
        images=p.images,
        chunk=chunk,
        groups=p.groups,
        pieces=pieces,
        channels=p.channels,
        height=p.source[0],
        width=p.source[1],
        maps=p.maps,
        rows=p.result[0],
        columns=p.result[1],
        phases_at=size_of(Block),
        taps=taps,
        offsets_at=size_of(Block) + len(phases),
        pitch=pitch,
        **starts,
    )
    words += [*phases, *(tap.phase * plane_length + planes.offset(tap) for tap in result.taps)]
    return launch(
        WEIGHT_PANELS[p.dtype],
        words,
        (Block.x, Block.gy, Block.gw, Block.workspace),
        parts=parts,
        workspace=starts["share_bytes"] * parts,
        note=f"products of panels, {chunk} images at once",
    )


def _divide(p: Problem) -> tuple[int, int]:
    """Shares, and pieces of a group's channels, each of which packs all of gy."""
    positions = p.images * math.prod(p.result)
    x_size, gy_size = p.images * p.groups * p.channels * math.prod(p.source), p.groups * p.maps * positions
    gw_size = p.groups * p.maps * p.channels * math.prod(p.kernel)
    work_us = (2.0 * positions * gw_size + 20.0 * (x_size + gy_size)) / _FLOPS_PER_US
    parts = share_count(work_us, p.groups * p.channels)
    copying_us = gy_size / p.groups / _COPIED_PER_US
    pieces = max(1, min(p.channels, -(-parts // p.groups), 1 + int(0.2 * work_us / p.groups / copying_us)))
    return min(parts, p.groups * pieces), pieces
