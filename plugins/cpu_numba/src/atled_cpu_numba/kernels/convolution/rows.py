"""Convolution with vectors along the rows of the result, and its adjoint with stride 1.

A register tile is some maps by two vectors of positions, anywhere in the image; the last vector of a row overlaps the
one before it. So results are stored where they belong at once, and none are computed beyond the rows. Where no padding
is needed, the source is read in place; with a stride, its elements are sorted into phases, see `shared.geometry`.

Where all weights stay in the nearest cache, positions are taken in strips, whose elements of the source stay near for
all maps.

Shares are made of groups and images, and where those are fewer than the threads, of slabs of positions, each of which
copies what it sees of the source, or of pieces of the maps. Each packs the weights of its groups for itself, unless it
is given them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from atled.plugin import Prepared
from atled_cpu_numba.kernels.convolution.copied_planes import make_copy_plane_rows, make_copy_planes
from atled_cpu_numba.kernels.convolution.images import PHASE_WORDS, SourcePhase, phase_words
from atled_cpu_numba.kernels.convolution.map_lanes import Problem, Windows
from atled_cpu_numba.kernels.convolution.packed_weights import weights_in_panels
from atled_cpu_numba.kernels.convolution.result_words import TAP_WORDS, TapWords, tap_words
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK_SLACK, Pack
from atled_cpu_numba.kernels.shared.lanes import SIZES, host_lanes, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    fitting_shares,
    in_lines,
    kernels_by_dtype,
    launch,
    optional_words,
    share_count,
    unbounded,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of

# Positions computed per result. AVX2 loses more by the other ways of windows, with 8 sums at once: rows of 14 or 28
# results took .9 there.
_MOST_WASTE, _MOST_WASTE_AVX2, _MOST_WASTE_STRIDED = 1.1, 1.25, 1.2
_LEAST_MAPS = 4  # rows of the lowest tile
_FEW_MAPS = 3  # the channels of a picture, where few lanes are in vain
_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_WEIGHTS_PER_US = 3e3  # packed
_AFTER_BYTES = 24 << 10  # of results that a formula finds in the level-1 cache
_STRIP_BYTES = 64 << 10  # of the source, that all maps find in the level-2 cache; shorter runs of results are slower
_LEAST_STRIP_BYTES = 512  # of a plane; shorter ranges take a formula longer to begin than to compute
_NEAR_WEIGHTS_BYTES = 32 << 10  # that are read again for each strip
_INNER_BYTES = 8 * BLOCK_WORDS
_LINE_BYTES = 64
_LEAST_STEPS = 4  # of a slab: rows, or lines of one row


@layout
class Block(Windows):
    """What the kernel reads; offsets in elements. The taps follow, then the phases of the source."""

    at_once: int  # vectors of positions before `after` runs
    strip: int  # vectors of positions that all maps are computed of before the next ones
    slabs: int  # of positions; 1 where there are pieces of maps
    slab_step: int  # vectors that stay in one
    rows_above: int  # of the planes, that the windows of a row see
    rows_below: int
    low: int  # the least number that a result is to be
    high: int  # the greatest


_OFFSETS, _PLACES = size_of(Block) + TapWords.offset, size_of(Block) + TapWords.place  # of the first tap


def can(problem: Problem) -> bool:
    """Whether neighbouring windows see neighbouring elements, and rows of the result are a vector or more."""
    has_unit_steps = (problem.step, problem.spread) == ((1, 1), (1, 1))
    return has_unit_steps and problem.result[1] >= lanes_of(problem.dtype).vector


def suits(problem: Problem, *, is_strided: bool = False) -> bool:
    """Whether it pays, too: vectors fit the rows of the result.

    is_strided: they do so in planes that were made for a stride, where lanes in vain cost more.
    """
    width, vector = problem.result[1], lanes_of(problem.dtype).vector
    is_wide = host_lanes().has_short_tiles and problem.taps > 1 and not is_strided
    lanes = -(-width // vector) * vector
    if is_strided:
        most_waste = _MOST_WASTE_STRIDED
    else:
        most_waste = _MOST_WASTE_AVX2 if is_wide and problem.maps >= _LEAST_MAPS else _MOST_WASTE
    if is_wide:
        least_maps = _FEW_MAPS
    else:
        least_maps = 1 if host_lanes().has_short_tiles and problem.taps == 1 else _LEAST_MAPS
    return can(problem) and lanes <= most_waste * width and problem.maps >= least_maps


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, ints64, words
    from atled_cpu_numba.kernels.products.tiles import make_pair_tile
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece

    element, floats = SIZES[dtype], Real(dtype).pointer
    copy_planes, copy_plane_rows = make_copy_planes(dtype), make_copy_plane_rows(dtype)
    lanes = lanes_of(dtype)
    vector, tile_rows = lanes.vector, lanes.rows
    third, two_thirds = tile_rows // 3, 2 * tile_rows // 3
    full = make_pair_tile(tile_rows, dtype, packed_rows=tile_rows)
    lower = make_pair_tile(two_thirds, dtype, packed_rows=tile_rows)
    lowest = make_pair_tile(third, dtype, packed_rows=tile_rows)

    @piece
    def fill_tables(w, offsets_at, windows_at, results_at):
        """Where the elements of a sum are in the planes, and where vectors have their windows and their results."""
        offsets, windows, results = ints64(offsets_at), ints64(windows_at), ints64(results_at)
        for channel in range(w[Block.channels]):
            for t in range(w[Block.taps]):
                start = channel * w[Block.channel_length] + w[Block.front]
                offsets[channel * w[Block.taps] + t] = start + w[_OFFSETS + TAP_WORDS * t]
        per_row = (w[Block.result_width] + vector - 1) // vector
        for row in range(w[Block.result_height]):
            for j in range(per_row):
                column = min(j * vector, w[Block.result_width] - vector)
                windows[row * per_row + j] = row * w[Block.row_pitch] + column
                results[row * per_row + j] = row * w[Block.result_width] + column

    @piece
    def pack_weights(w, q, inner, group, packed_at):
        """Panels of the group's weights in the order of its channels and taps."""
        channels, maps, taps = w[Block.channels], w[Block.maps], w[Block.taps]
        if w[Block.pack] != 0:
            weights, weight_map = w[Block.weight] + element * group * w[Block.group_weights], w[Block.weight_map]
            q[Pack.source], q[Pack.row], q[Pack.column], q[Pack.rows] = weights, weight_map, 1, maps
            q[Pack.k], q[Pack.target], q[Pack.width] = channels * taps, packed_at, tile_rows
            call3(w[Block.pack], inner, 0, 1)
            return
        for first in range(0, maps, tile_rows):
            for channel in range(channels):
                target = floats(packed_at + element * (first * channels + channel * tile_rows) * taps)
                for t in range(taps):
                    for m in range(min(tile_rows, maps - first)):
                        start = group * w[Block.group_weights] + (first + m) * w[Block.weight_map]
                        start += channel * w[Block.weight_channel]
                        place = start + w[_PLACES + TAP_WORDS * t]
                        target[t * tile_rows + m] = floats(w[Block.weight])[place]

    @piece
    def clear(at, count):
        zeros = floats(at)
        for i in range(count):
            zeros[i] = 0.0

    @piece
    def clear_margins(w, phase_table, planes_at):
        """Zeros in front of the rows of all planes, between them, and behind them."""
        length, front, pitch = w[Block.plane_length], w[Block.front], w[Block.row_pitch]
        table = words(phase_table)
        for number in range(w[Block.channels] * w[Block.phases]):
            at = PHASE_WORDS * (number % w[Block.phases])
            rows = (w[Block.height] - table[at + SourcePhase.row] + w[Block.stride_h] - 1) // w[Block.stride_h]
            columns = (w[Block.width] - table[at + SourcePhase.column] + w[Block.stride_w] - 1) // w[Block.stride_w]
            columns = min(columns, pitch)
            start = planes_at + element * number * length
            clear(start, front)
            start += element * front
            for row in range(rows):
                clear(start + element * (row * pitch + columns), pitch - columns)
            clear(start + element * rows * pitch, length - front - rows * pitch)

    @kernel
    def convolution_rows(block, part, parts):
        w = words(block)
        images, groups, channels, maps = w[Block.images], w[Block.groups], w[Block.channels], w[Block.maps]
        size, plane = w[Block.height] * w[Block.width], w[Block.result_height] * w[Block.result_width]
        k, panels = channels * w[Block.taps], (maps + tile_rows - 1) // tile_rows
        per_row = (w[Block.result_width] + vector - 1) // vector
        vectors = w[Block.result_height] * per_row
        # Workspace: block of a piece, tables, bias, packed weights, planes.
        inner = w[Block.workspace] + part * w[Block.share_bytes]
        offsets_at = inner + _INNER_BYTES
        windows_at = offsets_at + 8 * k
        results_at = windows_at + 8 * vectors
        bias_at = results_at + 8 * vectors
        packed_at = bias_at + element * panels * tile_rows
        planes_at = packed_at + element * (panels * tile_rows * k + PACK_SLACK)
        pieces, slabs, slab_step = w[Block.pieces], w[Block.slabs], w[Block.slab_step]
        steps = (vectors + slab_step - 1) // slab_step
        units = groups * images * pieces * slabs
        first_unit, last_unit = units * part // parts, units * (part + 1) // parts
        if first_unit == last_unit:
            return 0
        fill_tables(w, offsets_at, windows_at, results_at)
        q, bias, phase_table = words(inner), floats(bias_at), block + 8 * w[Block.phases_at]
        strip, bounds = w[Block.strip], block + 8 * Block.low
        at_once = w[Block.at_once] if w[Block.after] != 0 else strip
        for m in range(panels * tile_rows):
            bias[m] = 0.0
        if w[Block.copy_images] != 0:
            clear_margins(w, phase_table, planes_at)
        packed_group, copied = -1, -1
        for unit in range(first_unit, last_unit):
            slab = unit // pieces  # the unit without its piece
            piece = unit - slab * pieces
            whole = slab // slabs
            group = whole // images
            image = whole - group * images
            slab_begin = steps * (slab - whole * slabs) // slabs * slab_step
            slab_end = min(vectors, steps * (slab - whole * slabs + 1) // slabs * slab_step)
            strips = (slab_end - slab_begin + strip - 1) // strip
            first_panel, last_panel = panels * piece // pieces, panels * (piece + 1) // pieces
            if group != packed_group:
                packed_group = group
                if w[Block.packed] != 0:
                    packed_at = w[Block.packed] + element * group * panels * tile_rows * k
                else:
                    pack_weights(w, q, inner, group, packed_at)
                if w[Block.bias] != 0:
                    for m in range(maps):
                        bias[m] = floats(w[Block.bias])[group * maps + m]
            x = w[Block.x] + element * (image * groups + group) * channels * size
            if w[Block.copy_images] != 0 and slab != copied:
                copied = slab
                if slabs == 1:
                    copy_planes(block, inner, group, 0, channels, image, 1, planes_at)
                else:
                    first_row = max(0, slab_begin // per_row - w[Block.rows_above])
                    last_row = (slab_end - 1) // per_row + w[Block.rows_below]
                    copy_plane_rows(block, inner, group, image, first_row, last_row + 1, planes_at)
            if w[Block.copy_images] != 0:
                x = planes_at
            start = (image * groups + group) * maps * plane
            windows, results = ints64(windows_at), ints64(results_at)
            panels_here = last_panel - first_panel
            for number in range(strips * panels_here):
                strip_begin = slab_begin + number // panels_here * strip
                strip_end = min(slab_end, strip_begin + strip)
                first = (first_panel + number % panels_here) * tile_rows
                left = maps - first
                a, s, y = (
                    packed_at + element * first * k,
                    bias_at + element * first,
                    w[Block.y] + element * (start + first * plane),
                )
                for chunk in range((strip_end - strip_begin + at_once - 1) // at_once):
                    begin = strip_begin + chunk * at_once
                    end = min(strip_end, begin + at_once)
                    for v in range(begin, end, 2):
                        beside = min(v + 1, end - 1)
                        x0, x1, y0, y1 = (
                            element * windows[v] + x,
                            element * windows[beside] + x,
                            element * results[v] + y,
                            element * results[beside] + y,
                        )
                        if left > two_thirds:
                            full((k, a, offsets_at, x0, x1, s, y0, y1, plane, left, bounds))
                        elif left > third:
                            lower((k, a, offsets_at, x0, x1, s, y0, y1, plane, left, bounds))
                        else:
                            lowest((k, a, offsets_at, x0, x1, s, y0, y1, plane, left, bounds))
                    if w[Block.after] != 0:
                        for m in range(first, min(maps, first + tile_rows)):
                            row = start + m * plane
                            call3(
                                w[Block.after],
                                w[Block.after_block],
                                row + results[begin],
                                row + results[end - 1] + vector,
                            )
        return 0

    return convolution_rows


CONVOLUTION_ROWS = kernels_by_dtype("convolution_rows", _build)


def _strip(p: Problem, vectors: int) -> int:
    """Vectors of positions that all maps are computed of before the next ones."""
    lanes, element = lanes_of(p.dtype), SIZES[p.dtype]
    wanted = _STRIP_BYTES // (element * p.channels * len(p.planes.phases) * lanes.vector) // 2 * 2
    weights = element * p.channels * p.taps * p.maps
    is_near = weights <= _NEAR_WEIGHTS_BYTES and wanted * lanes.vector * element >= _LEAST_STRIP_BYTES
    return min(wanted, vectors + vectors % 2) if is_near else vectors + vectors % 2


def _vectors_per_row(p: Problem) -> int:
    return -(-p.result[1] // lanes_of(p.dtype).vector)


def _slabs(p: Problem) -> tuple[int, int]:
    """Vectors of positions that stay in one slab, and the most slabs to make; 1 where maps are to be shared instead.

    Shares of positions all read the weights, those of maps the source, much of which another core may have written:
    what is smaller is read by all.
    """
    per_row = _vectors_per_row(p)
    # The last vector of a row overlaps the one before it: no slab ends between them.
    step = per_row if p.result[0] > 1 else max(1, _LINE_BYTES // (SIZES[p.dtype] * lanes_of(p.dtype).vector))
    is_cut = p.taps * p.maps <= math.prod(p.source)
    return step, max(1, p.result[0] * per_row // step // _LEAST_STEPS) if is_cut else 1


def prepare(problem: Problem, weight_size: int, biases: Sequence[bool]) -> Prepared:
    """The convolution of a problem that `suits`; biases: for each input behind the weight, whether it is there."""
    p, lanes = problem, lanes_of(problem.dtype)
    taps = p.taps
    maps = -(-p.maps // lanes.rows) * lanes.rows
    vectors = p.result[0] * _vectors_per_row(p)
    flops = 2.0 * p.channels * taps * maps * vectors * lanes.vector
    work_us = p.images * p.groups * (flops + 20.0 * p.channels * math.prod(p.source)) / _FLOPS_PER_US
    panels, units = maps // lanes.rows, p.groups * p.images
    slab_step, most_slabs = _slabs(p)
    wanted = share_count(work_us, units * max(panels, most_slabs))
    # One piece for each thread: those of maps all copy the same planes, slabs of positions the rows beside them.
    count = max(2, -(-wanted // (2 * units))) if units < wanted else 1
    slabs = min(count, most_slabs)
    pieces = 1 if slabs > 1 else min(count, panels)
    parts = min(wanted, units * pieces * slabs)
    if p.groups == 1:  # every share packs all weights
        parts = max(1, min(parts, int(0.1 * work_us / (weight_size / _WEIGHTS_PER_US))))
    floats = maps * (1 + p.channels * taps) + PACK_SLACK + (0 if p.in_place else p.channels * p.channel_length)
    share_bytes = in_lines(_INNER_BYTES + 8 * (p.channels * taps + 2 * vectors) + SIZES[p.dtype] * floats)
    parts = fitting_shares(parts, share_bytes)
    strip = _strip(p, vectors)
    at_once = min(strip, 2 * max(1, _AFTER_BYTES // (2 * lanes.rows * lanes.vector * SIZES[p.dtype])))
    if p.result[1] % lanes.vector != 0:  # a row's last vector overlaps the one before it: both before the formula
        per_row = _vectors_per_row(p)
        at_once = max(1, at_once // per_row) * per_row
    strip = -(-strip // at_once) * at_once
    plane_length = p.planes.plane_length(1, 0)
    words = filled(
        Block,
        **p.common_words(weight_size),
        share_bytes=share_bytes,
        at_once=at_once,
        strip=strip,
        pieces=pieces,
        slabs=slabs,
        slab_step=slab_step,
        rows_above=max(0, -min(tap.row for tap in p.results[0].taps)),
        rows_below=max(0, max(tap.row for tap in p.results[0].taps)),
        phases_at=size_of(Block) + TAP_WORDS * taps,
        **unbounded(p.dtype),
    )
    words += tap_words(p.results[0].taps, lambda tap: tap.phase * plane_length + p.planes.offset(tap))
    words += phase_words(p.planes)
    arguments = (Block.x, Block.weight, *optional_words(Block.bias, biases), Block.y, Block.workspace)
    note = f"direct, rows in vectors, {'in place' if p.in_place else 'padded'}"
    return launch(
        CONVOLUTION_ROWS[p.dtype],
        words,
        arguments,
        parts=parts,
        workspace=share_bytes * parts,
        after={0: Block.after},
        bounds={0: Block.low},
        packs=(weights_in_panels(Block.packed, p.groups, p.maps, p.channels * taps, lanes.rows, p.dtype),)
        if p.in_order
        else (),
        note=note,
    )
