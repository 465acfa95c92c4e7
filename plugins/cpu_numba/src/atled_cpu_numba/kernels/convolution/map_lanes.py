"""Convolution and its adjoint with the maps in the lanes: a way for small images, strides and wide kernels.

A register tile is a vector of maps by as many positions of the result, which it transposes before it writes them, so
that they arrive in y as they are to stay. The elements of the source are read one by one through a table of offsets:
with a stride they need not be sorted, nor columns unfolded, and where no padding is needed the source is read in place.

Four positions that follow one another in a row of the result form a quartet; a tile takes any quartets.

Shares are made of groups and images, and of pieces of the maps where those are fewer than the threads; each copies its
images and packs the weights of its groups for itself, unless it is given them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from atled.plugin import NamedTuple, Prepared
from atled_cpu_numba.kernels.convolution.copied_planes import CopiedPlanes, copied_words, make_copy_planes
from atled_cpu_numba.kernels.convolution.images import phase_words
from atled_cpu_numba.kernels.convolution.packed_weights import weights_in_panels
from atled_cpu_numba.kernels.convolution.result_words import (
    FIRST_OFFSET,
    FIRST_PLACE,
    RESULT_WORDS,
    TAP_WORDS,
    ResultWords,
    result_words,
)
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, PACK_SLACK, Pack
from atled_cpu_numba.kernels.shared.geometry import Layout, Pair, Result
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    fitting_shares,
    in_lines,
    kernels_by_dtype,
    launch,
    optional_words,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of

_QUARTET = 4
_MOST_WASTE = 1.4  # lanes per map
_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_WEIGHTS_PER_US = 3e3  # packed
_INNER_BYTES = 8 * BLOCK_WORDS


class Windows(CopiedPlanes):
    """The first words of the blocks of kernels for a `Problem`; copy_images: 0 if the source is read in place."""

    pack: int  # address of PACK, or 0 if the weights do not lie in the order of the sums
    weight: int
    bias: int  # or 0
    y: int  # or gx
    workspace: int
    share_bytes: int  # of workspace
    maps: int  # of the result, per group
    result_height: int
    result_width: int
    weight_map: int  # strides of the weight; the kernel's places are contiguous
    weight_channel: int
    group_weights: int  # from group to group
    taps: int  # of all results
    after: int  # range kernel to run on what is written of the result, or 0
    after_block: int
    packed: int  # address of the packed weights of all groups, or 0
    pieces: int  # of the maps of a group


@layout
class Block(Windows):
    """What the kernel reads; offsets in elements. The results follow, then the one phase of COPY_IMAGES."""

    step_h: int  # from a result's position to the next one in the source
    step_w: int
    spread_h: int  # and in the result
    spread_w: int
    results: int
    results_at: int  # word where they start
    positions: int  # of all results


class Problem(NamedTuple):
    """A convolution over two axes, or its adjoint; channels and maps are those of one group.

    planes, results: how the source is read; here planes have one phase.  step: from a result's position to the next
    one in the source; spread: in the result.  weight: strides from map to map and from channel to channel.
    in_order: whether a map's weights lie in the order of channels and taps.
    """

    images: int
    groups: int
    channels: int
    maps: int
    source: Pair
    result: Pair
    planes: Layout
    results: tuple[Result, ...]
    step: Pair
    spread: Pair
    weight: Pair
    in_order: bool
    dtype: str

    @property
    def in_place(self) -> bool:
        """Whether the planes would be a copy of the source."""
        planes = self.planes
        as_they_are = planes.front, planes.row_pitch, planes.image_rows, planes.stride
        return as_they_are == (0, self.source[1], self.source[0], (1, 1))

    @property
    def channel_length(self) -> int:
        """Elements from channel to channel, of the source or of the planes."""
        planes = self.planes
        return math.prod(self.source) if self.in_place else len(planes.phases) * planes.plane_length(1, 0)

    @property
    def taps(self) -> int:
        """Taps of all results."""
        return sum(len(found.taps) for found in self.results)

    def common_words(self, weight_size: int) -> dict[str, int]:
        """Words that the blocks of all kernels for such problems have; weight_size: elements of the whole weight."""
        copied = copied_words(self.planes, self.planes.plane_length(1, 0), self.dtype)
        if self.in_place:
            copied |= {"copy_images": 0, "channel_length": self.channel_length}
        return {
            **copied,
            "pack": PACK[self.dtype].address() if self.in_order else 0,
            "images": self.images,
            "groups": self.groups,
            "channels": self.channels,
            "height": self.source[0],
            "width": self.source[1],
            "maps": self.maps,
            "result_height": self.result[0],
            "result_width": self.result[1],
            "weight_map": self.weight[0],
            "weight_channel": self.weight[1],
            "group_weights": weight_size // self.groups,
            "taps": self.taps,
        }


def can(problem: Problem) -> bool:
    """Whether the tiles fit the rows of the result, and vectors have the lanes to be transposed with."""
    vector = lanes_of(problem.dtype).vector
    return (
        vector >= _QUARTET
        and all(found.counts[1] % _QUARTET == 0 and math.prod(found.counts) >= vector for found in problem.results)
        and problem.step[1] <= 2
        and (problem.spread[1] != 2 or problem.result[1] % 2 == 0)  # even and odd columns are written together
    )


def suits(problem: Problem) -> bool:
    """Whether it pays, too: the maps fill the lanes."""
    vector = lanes_of(problem.dtype).vector
    are_filled = -(-problem.maps // vector) * vector <= _MOST_WASTE * problem.maps
    return can(problem) and vector >= 8 and are_filled  # shorter vectors would wait for one another


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, ints64, words
    from atled_cpu_numba.kernels.convolution.lane_tiles import make_interleave_rows, make_lane_tile
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece

    element, floats = SIZES[dtype], Real(dtype).pointer
    copy_planes, interleave_rows = make_copy_planes(dtype), make_interleave_rows(dtype)
    vector = lanes_of(dtype).vector
    tile_1, tile_2 = make_lane_tile(1, dtype), make_lane_tile(2, dtype)

    @piece
    def fill_tables(w, offsets_at, quartets_at):
        """Per result, channel and tap: where it lies in the planes; per result and quartet: where its windows do."""
        offsets, quartets = ints64(offsets_at), ints64(quartets_at)
        at, done, seen = w[Block.results_at], 0, 0
        for _ in range(w[Block.results]):
            taps, columns = w[at + ResultWords.taps], w[at + ResultWords.columns]
            for channel in range(w[Block.channels]):
                for t in range(taps):
                    start = channel * w[Block.channel_length] + w[Block.front]
                    offsets[done + channel * taps + t] = start + w[at + FIRST_OFFSET + TAP_WORDS * t]
            done += w[Block.channels] * taps
            for row in range(w[at + ResultWords.rows]):
                for j in range(columns // _QUARTET):
                    quartets[seen + j] = row * w[Block.step_h] * w[Block.row_pitch] + _QUARTET * j * w[Block.step_w]
                seen += columns // _QUARTET
            at += RESULT_WORDS + TAP_WORDS * taps

    @piece
    def pack_weights(w, q, inner, group, packed_at):
        """Vectors of maps, for each result in the order of its channels and taps."""
        channels, maps = w[Block.channels], w[Block.maps]
        at, to = w[Block.results_at], packed_at
        for _ in range(w[Block.results]):
            taps = w[at + ResultWords.taps]
            if w[Block.pack] != 0:
                weights, weight_map = w[Block.weight] + element * group * w[Block.group_weights], w[Block.weight_map]
                q[Pack.source], q[Pack.row], q[Pack.column], q[Pack.rows] = weights, weight_map, 1, maps
                q[Pack.k], q[Pack.target], q[Pack.width] = channels * taps, to, vector
                call3(w[Block.pack], inner, 0, 1)
            else:
                for first in range(0, maps, vector):
                    for channel in range(channels):
                        target = floats(to + element * vector * (first * channels // vector + channel) * taps)
                        weight, start = w[Block.weight], group * w[Block.group_weights] + first * w[Block.weight_map]
                        start = weight + element * (start + channel * w[Block.weight_channel])
                        for t in range(taps):
                            source = floats(start + element * w[at + FIRST_PLACE + TAP_WORDS * t])
                            for m in range(min(vector, maps - first)):
                                target[vector * t + m] = source[m * w[Block.weight_map]]
            to += element * vector * ((maps + vector - 1) // vector) * channels * taps
            at += RESULT_WORDS + TAP_WORDS * taps

    @piece
    def spread(w, target, maps, positions, scattered):
        """The results of a vector of maps, one behind the other, to their rows and columns of y."""
        height, width = w[Block.result_height], w[Block.result_width]
        for m in range(maps):
            at, source = w[Block.results_at], scattered + element * m * positions
            for number in range(w[Block.results]):
                rows, columns = w[at + ResultWords.rows], w[at + ResultWords.columns]
                to = target + element * (
                    (m * height + w[at + ResultWords.start_row]) * width + w[at + ResultWords.start_column]
                )
                if w[Block.spread_w] != 2:
                    for row in range(rows):
                        x, y = (
                            floats(source + element * row * columns),
                            floats(to + element * row * w[Block.spread_h] * width),
                        )
                        for j in range(columns):
                            y[w[Block.spread_w] * j] = x[j]
                elif number % 2 == 0:  # with the following result: the even and the odd columns of the same rows
                    interleave_rows(
                        (source, source + element * rows * columns, columns, to, w[Block.spread_h] * width, rows)
                    )
                source += element * rows * columns
                at += RESULT_WORDS + TAP_WORDS * w[at + ResultWords.taps]

    @kernel
    def convolution_lanes(block, part, parts):
        w = words(block)
        images, groups, channels, maps = w[Block.images], w[Block.groups], w[Block.channels], w[Block.maps]
        taps_in_all = w[Block.taps]
        size, plane = w[Block.height] * w[Block.width], w[Block.result_height] * w[Block.result_width]
        positions = w[Block.positions]
        vectors = (maps + vector - 1) // vector
        spreading = w[Block.spread_h] != 1 or w[Block.spread_w] != 1
        # Workspace: block of a piece, tables, bias, packed weights, results to be spread, planes.
        inner = w[Block.workspace] + part * w[Block.share_bytes]
        q = words(inner)
        bias_at = inner + _INNER_BYTES
        packed_at = bias_at + element * vectors * vector
        scattered = packed_at + element * (vectors * vector * channels * taps_in_all + PACK_SLACK)
        planes_at = scattered + (element * vector * positions if spreading else 0)
        offsets_at = planes_at + element * (channels * w[Block.channel_length] if w[Block.copy_images] != 0 else 0)
        quartets_at = offsets_at + 8 * channels * taps_in_all
        pieces = w[Block.pieces]
        units = groups * images * pieces
        first_unit, last_unit = units * part // parts, units * (part + 1) // parts
        if first_unit == last_unit:
            return 0
        fill_tables(w, offsets_at, quartets_at)
        bias = floats(bias_at)
        for m in range(vectors * vector):
            bias[m] = 0.0
        if w[Block.copy_images] != 0:
            planes = floats(planes_at)
            for i in range(channels * w[Block.channel_length]):
                planes[i] = 0.0
        packed_group, copied = -1, -1
        for unit in range(first_unit, last_unit):
            whole = unit // pieces  # the unit without its piece
            group = whole // images
            image = whole - group * images
            piece = unit - whole * pieces
            first_map = vectors * piece // pieces * vector
            last_map = min(maps, vectors * (piece + 1) // pieces * vector)
            if group != packed_group:
                packed_group = group
                if w[Block.packed] != 0:
                    packed_at = w[Block.packed] + element * group * vectors * vector * channels * taps_in_all
                else:
                    pack_weights(w, q, inner, group, packed_at)
                if w[Block.bias] != 0:
                    for m in range(maps):
                        bias[m] = floats(w[Block.bias])[group * maps + m]
            x = w[Block.x] + element * (image * groups + group) * channels * size
            if w[Block.copy_images] != 0 and whole != copied:
                copied = whole
                copy_planes(block, inner, group, 0, channels, image, 1, planes_at)
            if w[Block.copy_images] != 0:
                x = planes_at
            start = ((image * groups + group) * maps + first_map) * plane
            y = w[Block.y] + element * start
            for first in range(first_map, last_map, vector):
                taken = min(vector, last_map - first)
                at, table, weights, quartets = w[Block.results_at], offsets_at, packed_at, quartets_at
                to = scattered if spreading else y
                pitch = positions if spreading else plane
                for _ in range(w[Block.results]):
                    k, end = channels * w[at + ResultWords.taps], w[at + ResultWords.rows] * w[at + ResultWords.columns]
                    b = weights + element * first * k
                    for p in range(0, end, vector):
                        # The last tile may overlap the one before it.
                        here = min(p, end - vector)
                        bias_from, target = bias_at + element * first, to + element * here
                        tile = (k, table, x, quartets + 2 * here, b, bias_from, target, pitch, taken)
                        if w[Block.step_w] == 1:
                            tile_1(tile)
                        else:
                            tile_2(tile)
                    at += RESULT_WORDS + TAP_WORDS * w[at + ResultWords.taps]
                    table += 8 * k
                    weights += element * vectors * vector * k
                    quartets += 2 * end
                    to += element * end
                if spreading:
                    spread(w, y, taken, positions, scattered)
                y += element * vector * plane
            if w[Block.after] != 0:
                call3(w[Block.after], w[Block.after_block], start, start + (last_map - first_map) * plane)
        return 0

    return convolution_lanes


CONVOLUTION_LANES = kernels_by_dtype("convolution_lanes", _build)


def prepare(problem: Problem, weight_size: int, biases: Sequence[bool]) -> Prepared:
    """The convolution of a problem that `suits`; biases: for each input behind the weight, whether it is there."""
    p, vector = problem, lanes_of(problem.dtype).vector
    taps, results = p.taps, p.results
    maps = -(-p.maps // vector) * vector
    positions = sum(math.prod(found.counts) for found in results)
    flops = 2.0 * p.channels * maps * sum(len(f.taps) * math.prod(f.counts) for f in results)
    work_us = p.images * p.groups * (flops + 20.0 * (p.channels * math.prod(p.source) + maps * positions))
    work_us /= _FLOPS_PER_US
    wanted, units = share_count(work_us, p.groups * p.images * (maps // vector)), p.groups * p.images
    # Of the shares that maps are divided for, one for each thread: all copy the same planes.
    pieces = min(maps // vector, max(2, -(-wanted // (2 * units)))) if units < wanted else 1
    parts = min(wanted, units * pieces)
    if p.groups == 1:  # every share packs all weights
        parts = max(1, min(parts, int(0.1 * work_us / (weight_size / _WEIGHTS_PER_US))))
    floats = maps + maps * p.channels * taps + PACK_SLACK
    floats += vector * positions if p.spread != (1, 1) else 0
    floats += 0 if p.in_place else p.channels * p.channel_length
    share_bytes = (
        _INNER_BYTES + SIZES[p.dtype] * (floats + floats % 2) + 8 * (p.channels * taps + positions // _QUARTET)
    )
    share_bytes = in_lines(share_bytes)
    parts = fitting_shares(parts, share_bytes)
    tables = result_words(results, p.planes.offset)
    words = filled(
        Block,
        **p.common_words(weight_size),
        share_bytes=share_bytes,
        step_h=p.step[0],
        step_w=p.step[1],
        spread_h=p.spread[0],
        spread_w=p.spread[1],
        results=len(results),
        results_at=size_of(Block),
        positions=positions,
        phases_at=size_of(Block) + len(tables),
        pieces=pieces,
    )
    words += [*tables, *phase_words(p.planes)]
    arguments = (Block.x, Block.weight, *optional_words(Block.bias, biases), Block.y, Block.workspace)
    note = f"direct, maps in lanes, {'in place' if p.in_place else 'padded'}"
    return launch(
        CONVOLUTION_LANES[p.dtype],
        words,
        arguments,
        parts=parts,
        workspace=share_bytes * parts,
        after={0: Block.after},
        packs=(weights_in_panels(Block.packed, p.groups, p.maps, p.channels * taps, vector, p.dtype),)
        if p.in_order
        else (),
        note=note,
    )
