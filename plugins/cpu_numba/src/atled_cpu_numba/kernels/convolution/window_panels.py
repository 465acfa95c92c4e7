"""Convolution and its adjoint over one or two axes with long sums and many maps: products of weights with panels.

What some windows see is collected from the padded planes of `shared.geometry`, some terms of the sums at a time: rows
of windows in the level-2 cache, of which a tile's columns fit the level-1 cache. So neither the length of the sums nor
the distance of what they read matters, and windows follow one another without the gaps between rows and images.

Where the image is small beside the distance of its taps, many of them lie in the padding. Then sums go tap by tap: of a
tile they leave out the taps that lie above or below the image for all its windows, and `window_regions` may divide the
columns of the result, so that sums of a region leave out what lies beside the image.

Shares are made of groups, chunks of images and pieces of the maps; each copies the planes of its images and packs the
weights of its group for itself, unless it is given them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from atled.plugin import NamedTuple, Prepared
from atled_cpu_numba.kernels.convolution.copied_planes import CopiedPlanes, copied_words, make_copy_planes
from atled_cpu_numba.kernels.convolution.images import phase_words
from atled_cpu_numba.kernels.convolution.packed_weights import weights_in_panels
from atled_cpu_numba.kernels.convolution.problem import Problem, Task
from atled_cpu_numba.kernels.convolution.result_words import (
    FIRST_OFFSET,
    FIRST_PLACE,
    RESULT_WORDS,
    TAP_WORDS,
    ResultWords,
    result_words,
)
from atled_cpu_numba.kernels.convolution.window_regions import Regions, regions, seen_rows
from atled_cpu_numba.kernels.convolution.window_vectors import pitch_of
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, PACK_SLACK, Pack
from atled_cpu_numba.kernels.shared.geometry import Layout, Result, gradient_windows, windows
from atled_cpu_numba.kernels.shared.lanes import SIZES, host_lanes, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    fitting_shares,
    kernels_by_dtype,
    launch,
    optional_words,
    piece_starts,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of

_LEAST_MAPS = 32  # fewer, and collecting windows takes longer than it saves
_LEAST_TERMS = 160  # of a sum: shorter ones have planes and weights in the level-1 cache as it is
# Where rows of results are shorter than a vector, windows of several rows and images follow one another in panels.
_FEW_POSITIONS = 64  # of a convolution
_FEW_RESULTS = 256  # of an adjoint, of at least so many maps
_FEW_MAPS = 12
_MANY_TERMS, _SOME_MAPS = 600, 8
_LEAST_ADJOINT_TERMS = 96  # of a stride, whose results other kernels spread one by one
_PANEL_BYTES = 16 << 10  # of what a tile's columns see at once: half of the smallest level-1 cache
_WIDE_PANEL_BYTES = 24 << 10  # the same beside vectors of AVX-512, whose processors have at least 48 KiB
_PANELS = 8  # of windows at once
_MAPS_AT_ONCE = 240  # their weights stay in the level-2 cache beside the windows
_CHUNK_BYTES = 256 << 10  # of planes
_LEAST_INTERLEAVED = 4  # elements that `interleave_rows` takes
_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_WEIGHTS_PER_US = 3e3  # packed; ten times as many where they lie in order


@layout
class Block(CopiedPlanes):
    """What the kernel reads; lengths in elements, starts in bytes of a share's workspace.

    The phases of the source follow, then the results.
    """

    weight: int
    bias: int  # or 0
    y: int  # or gx
    workspace: int
    share_bytes: int  # of workspace, which begins with the block of a piece
    chunk: int  # images at once
    pieces: int  # of the maps of a group
    maps: int  # of the result, per group
    weight_map: int  # strides of the weight; the kernel's places are contiguous
    weight_channel: int
    group_weights: int  # from group to group
    results: int
    beside: int  # 2: every two results take turns in the columns of the same rows, and are written together; else 1
    results_at: int  # word where they start
    plane: int  # elements of one of the result's
    result_width: int
    step_h: int  # from a window's result to the next one in the result's image
    step_w: int
    taps: int  # whose weights are packed: of all results, or of the kernel
    by_taps: int  # 1: sums go tap by tap, of which results leave out some; 0: channel by channel
    rounds_at: int  # word where those of the results start, RoundsWords
    at_once: int  # windows, at most: whole panels
    pitch: int  # of the rows of windows
    offsets_start: int
    vectors_start: int  # of the table of vectors
    ranges_start: int  # of the table of ranges
    packed_start: int
    windows_start: int
    sums_start: int
    planes_start: int
    pack: int  # address of PACK, or 0 if the weights do not lie in the order of the sums
    packed: int  # address of the packed weights of all groups, or 0
    after: int  # range kernel to run on what is written of the result, or 0
    after_block: int


@layout
class RoundsWords:
    """The terms that a result's sums are made of, some at once; rounds follow, then spans, then the next result."""

    rounds: int
    spans: int
    panel: int  # terms of a panel of weights


@layout
class RoundWords:
    """Some terms, whose weights follow one another."""

    terms: int
    first: int  # in the table of offsets
    weights: int  # elements from the packed weights to those of the first term in the first panel


@layout
class SpanWords:
    """The rows of windows that see something through some terms."""

    top: int
    bottom: int  # the one behind the last
    first: int  # in the table of offsets
    after: int


_ROUNDS_WORDS, _ROUND_WORDS, _SPAN_WORDS = size_of(RoundsWords), size_of(RoundWords), size_of(SpanWords)
_RANGE_BYTES = 16  # of a tile's terms in a table: the first one and the one behind the last one


def suits(task: Task) -> bool:
    """Whether maps and terms are many enough to collect what windows see."""
    least_terms = _LEAST_TERMS if task.forward else _LEAST_ADJOINT_TERMS
    return task.maps >= _LEAST_MAPS and task.channels * math.prod(task.kernel) >= least_terms


def suits_small(task: Task) -> bool:
    """Whether it pays where no way fits the rows of a result: these are few, or sums are long."""
    positions, terms = math.prod(task.result), task.channels * math.prod(task.kernel)
    if not task.forward:
        return positions <= _FEW_RESULTS and task.maps >= _FEW_MAPS
    return positions <= _FEW_POSITIONS or (terms >= _MANY_TERMS and task.maps >= _SOME_MAPS)


def seen_share(task: Task) -> float:
    """Of the products of direct sums, those that are computed where taps in the padding are left out."""
    cut = _regions(task, *_windows(task))
    return 1.0 if cut is None else cut.share


def _windows(task: Task) -> tuple[Layout, tuple[Result, ...]]:
    geometry = task.kernel, task.pad, task.stride, task.dilation
    return windows(task.source, *geometry) if task.forward else gradient_windows(task.result, *geometry)


def _regions(task: Task, planes: Layout, results: tuple[Result, ...]) -> Regions | None:
    lanes = lanes_of(task.dtype)
    return regions(planes, results, task.images, task.source, lanes.columns, lanes.vector)


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, ints64, words
    from atled_cpu_numba.kernels.convolution.lane_tiles import make_collect_vectors, make_interleave_rows
    from atled_cpu_numba.kernels.convolution.window_vectors import make_fill_vectors
    from atled_cpu_numba.kernels.products.tiles import make_panel_tile
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import make_copy_rows, make_copy_rows_plus

    element, floats = SIZES[dtype], Real(dtype).pointer
    copy_rows, copy_rows_plus = make_copy_rows(dtype), make_copy_rows_plus(dtype)
    interleave_rows = make_interleave_rows(dtype)
    fill_vectors, collect_vectors = make_fill_vectors(dtype), make_collect_vectors(dtype)
    copy_planes = make_copy_planes(dtype)
    lanes = lanes_of(dtype)
    vector, tile_rows, tile_columns = lanes.vector, lanes.rows, lanes.columns
    third, two_thirds = tile_rows // 3, 2 * tile_rows // 3
    wide = tile_columns // vector
    full, full_slim = (make_panel_tile(tile_rows, v, dtype, packed_rows=tile_rows) for v in (wide, 1))
    lower, lower_slim = (make_panel_tile(two_thirds, v, dtype, packed_rows=tile_rows) for v in (wide, 1))
    lowest, lowest_slim = (make_panel_tile(third, v, dtype, packed_rows=tile_rows) for v in (wide, 1))

    @piece
    def fill_offsets(w, offsets):
        """Per result, channel and tap, or tap and channel: where it lies in the planes, from a window's position."""
        channels, channel_length, front = w[Block.channels], w[Block.channel_length], w[Block.front]
        by_taps = w[Block.by_taps] != 0
        at, done = w[Block.results_at], 0
        for _ in range(w[Block.results]):
            taps = w[at + ResultWords.taps]
            channel_step, tap_step = (1, channels) if by_taps else (taps, 1)
            for channel in range(channels):
                for t in range(taps):
                    offset = channel * channel_length + front + w[at + FIRST_OFFSET + TAP_WORDS * t]
                    offsets[done + channel * channel_step + t * tap_step] = offset
            done += channels * taps
            at += RESULT_WORDS + TAP_WORDS * taps

    @piece
    def pack_weights(w, inner, group, packed_at):
        """Panels of the group's weights for each result, in the order of its channels and taps."""
        channels, maps, weight_map = w[Block.channels], w[Block.maps], w[Block.weight_map]
        weights = w[Block.weight] + element * group * w[Block.group_weights]
        if w[Block.pack] != 0:  # they lie in this order already
            q = words(inner)
            q[Pack.source], q[Pack.row], q[Pack.column], q[Pack.rows] = weights, weight_map, 1, maps
            q[Pack.k], q[Pack.target], q[Pack.width] = channels * w[Block.taps], packed_at, tile_rows
            call3(w[Block.pack], inner, 0, 1)
            return
        panels = (maps + tile_rows - 1) // tile_rows
        for first in range(0, maps, tile_rows):
            for channel in range(channels):
                start = weights + element * (first * weight_map + channel * w[Block.weight_channel])
                at, panels_at = w[Block.results_at], packed_at
                for _ in range(w[Block.results]):
                    taps = w[at + ResultWords.taps]
                    target = floats(panels_at + element * (first * channels + channel * tile_rows) * taps)
                    for t in range(taps):
                        source = floats(start + element * w[at + FIRST_PLACE + TAP_WORDS * t])
                        if maps - first >= tile_rows:  # a constant number of rows takes half the time
                            for r in range(tile_rows):
                                target[t * tile_rows + r] = source[r * weight_map]
                        else:
                            for r in range(maps - first):
                                target[t * tile_rows + r] = source[r * weight_map]
                    panels_at += element * panels * tile_rows * channels * taps
                    at += RESULT_WORDS + TAP_WORDS * taps

    @piece
    def pack_by_taps(w, group, packed_at):
        """Panels of the group's weights, tap by tap."""
        channels, maps, taps, weight_map = w[Block.channels], w[Block.maps], w[Block.taps], w[Block.weight_map]
        weights = w[Block.weight] + element * group * w[Block.group_weights]
        for first in range(0, maps, tile_rows):
            for channel in range(channels):
                source = floats(weights + element * (first * weight_map + channel * w[Block.weight_channel]))
                target = floats(packed_at + element * (first * taps * channels + channel * tile_rows))
                for t in range(taps):
                    for r in range(min(tile_rows, maps - first)):
                        target[t * channels * tile_rows + r] = source[r * weight_map + t]

    @piece
    def fill_ranges(w, spans_at, spans, columns, p0, length, ranges):
        """Per tile of windows from p0 on: the first of the terms that some of them see, and the one behind the last.

        Returns the same for all these windows. With several images at once there is one span, of all terms.
        """
        lowest, highest = 0, 0
        for tile in range((length + tile_columns - 1) // tile_columns):
            begin = p0 + tile * tile_columns
            top, bottom = begin // columns, (min(begin + tile_columns, p0 + length) - 1) // columns
            first, after = 0, 0
            for number in range(spans):
                at = spans_at + _SPAN_WORDS * number
                if spans == 1 or (w[at + SpanWords.top] <= bottom and w[at + SpanWords.bottom] > top):
                    first = w[at + SpanWords.first] if after == 0 else first
                    after = w[at + SpanWords.after]
            ranges[2 * tile], ranges[2 * tile + 1] = first, after
            if after > first:
                lowest = min(lowest, first) if highest > 0 else first
                highest = max(highest, after)
        return lowest, highest

    @piece
    def multiply(terms, first_term, k, first_map, last_map, length, weights, windows_at, pitch, ranges, sums_at):
        """sums += weights x windows for some terms; `weights`: of these terms in the first panel of all."""
        ahead = tile_rows * k  # the same terms of the next panel
        for m0 in range(first_map, last_map, _MAPS_AT_ONCE):
            m1 = min(last_map, m0 + _MAPS_AT_ONCE)
            for j in range(0, length, tile_columns):
                tile = j // tile_columns
                skipped = max(0, ranges[2 * tile] - first_term)
                seen = min(terms, ranges[2 * tile + 1] - first_term) - skipped
                if seen <= 0:
                    continue
                b = windows_at + element * (j + skipped * pitch)
                slim = length - j <= vector
                for first in range(m0, m1, tile_rows):
                    left = last_map - first
                    a = weights + element * (first * k + tile_rows * skipped)
                    c = sums_at + element * ((first - first_map) * pitch + j)
                    if left > two_thirds:
                        if slim:
                            full_slim((seen, a, b, pitch, c, pitch, ahead))
                        else:
                            full((seen, a, b, pitch, c, pitch, ahead))
                    elif left > third:
                        if slim:
                            lower_slim((seen, a, b, pitch, c, pitch, ahead))
                        else:
                            lower((seen, a, b, pitch, c, pitch, ahead))
                    elif slim:
                        lowest_slim((seen, a, b, pitch, c, pitch, ahead))
                    else:
                        lowest((seen, a, b, pitch, c, pitch, ahead))

    @piece
    def scatter(source, count, target, step, added):
        """Move some elements to places `step` apart."""
        x, y = floats(source), floats(target)
        for j in range(count):
            y[j * step] = x[j] + added

    @piece
    def deliver(w, at, group, first_image, first_map, last_map, p0, length, sums_at, other_at, pitch):
        """Move the sums of `length` windows from p0 on to y, plus the bias.

        other_at: of the result in the columns between, or 0.
        """
        maps, plane, step_w = last_map - first_map, w[Block.plane], w[Block.step_w]
        rows, columns = w[at + ResultWords.rows], w[at + ResultWords.columns]
        step_h, width = w[Block.step_h], w[Block.result_width]
        if step_w == 1 and rows * columns == plane:  # an image's rows are one
            rows, columns = 1, plane
        bias = w[Block.bias] + element * (group * w[Block.maps] + first_map)
        done = 0
        line = p0 // columns
        column = p0 - line * columns
        while done < length:
            image = line // rows
            row = line - image * rows
            count = min(columns - column, length - done)
            target = ((first_image + image) * w[Block.groups] + group) * w[Block.maps] + first_map
            target = target * plane + (row * step_h + w[at + ResultWords.start_row]) * width
            target += column * step_w + w[at + ResultWords.start_column]
            target, source = w[Block.y] + element * target, sums_at + element * done
            if step_w == 1 and w[Block.bias] != 0:
                copy_rows_plus((source, pitch, target, plane, maps, count, bias))
            elif step_w == 1:
                copy_rows((source, pitch, target, plane, maps, count))
            else:
                for m in range(maps):
                    added = floats(bias)[m] if w[Block.bias] != 0 else 0.0
                    beside = source + other_at - sums_at
                    if other_at == 0:
                        scatter(source, count, target, step_w, added)
                    elif w[Block.bias] != 0 or count < _LEAST_INTERLEAVED:
                        scatter(source, count, target, 2, added)
                        scatter(beside, count, target + element, 2, added)
                    else:
                        interleave_rows((source, beside, count, target, 0, 1))
                    source += element * pitch
                    target += element * plane
            done += count
            line, column = line + 1, 0

    @kernel
    def window_panels(block, part, parts):
        w = words(block)
        images, chunk, groups, pieces = w[Block.images], w[Block.chunk], w[Block.groups], w[Block.pieces]
        channels, maps, pitch = w[Block.channels], w[Block.maps], w[Block.pitch]
        panels = (maps + tile_rows - 1) // tile_rows
        inner = w[Block.workspace] + part * w[Block.share_bytes]
        offsets_at, table = inner + w[Block.offsets_start], ints64(inner + w[Block.vectors_start])
        packed_at, windows_at = inner + w[Block.packed_start], inner + w[Block.windows_start]
        ranges = ints64(inner + w[Block.ranges_start])
        sums_at, planes_at = inner + w[Block.sums_start], inner + w[Block.planes_start]
        chunks = (images + chunk - 1) // chunk
        units = groups * chunks * pieces
        first_unit, last_unit = units * part // parts, units * (part + 1) // parts
        if first_unit == last_unit:
            return 0
        planes, beside, sums_bytes = floats(planes_at), w[Block.beside], element * panels * tile_rows * pitch
        for i in range(channels * w[Block.channel_length]):
            planes[i] = 0.0
        fill_offsets(w, ints64(offsets_at))
        packed_group, copied = -1, -1
        for unit in range(first_unit, last_unit):
            whole = unit // pieces  # the unit without its piece
            group = whole // chunks
            first_image = (whole - group * chunks) * chunk
            taken = min(chunk, images - first_image)
            number = unit - whole * pieces
            first_map = panels * number // pieces * tile_rows
            last_map = min(maps, panels * (number + 1) // pieces * tile_rows)
            if group != packed_group:
                packed_group = group
                if w[Block.packed] != 0:
                    packed_at = w[Block.packed] + element * group * panels * tile_rows * channels * w[Block.taps]
                elif w[Block.by_taps] != 0:
                    pack_by_taps(w, group, packed_at)
                else:
                    pack_weights(w, inner, group, packed_at)
            if whole != copied:
                copied = whole
                copy_planes(block, inner, group, 0, channels, first_image, taken, planes_at)
            at, rounds_at = w[Block.results_at], w[Block.rounds_at]
            for _ in range(w[Block.results] // beside):
                rows, columns = w[at + ResultWords.rows], w[at + ResultWords.columns]
                positions = taken * rows * columns
                blocks = (positions + w[Block.at_once] - 1) // w[Block.at_once]
                tiles = (positions + tile_columns - 1) // tile_columns
                following, rounds_after = at, rounds_at
                for number in range(blocks):
                    p0 = tiles * number // blocks * tile_columns
                    length = min(positions, tiles * (number + 1) // blocks * tile_columns) - p0
                    image_pitch, row_pitch = w[Block.image_pitch], w[Block.row_pitch]
                    vectors = fill_vectors(rows, columns, image_pitch, row_pitch, p0, length, table)
                    following, rounds_after = at, rounds_at
                    for side in range(beside):
                        rounds, spans = w[rounds_after + RoundsWords.rounds], w[rounds_after + RoundsWords.spans]
                        k, to = w[rounds_after + RoundsWords.panel], sums_at + side * sums_bytes
                        sums = floats(to)
                        for i in range((last_map - first_map + tile_rows - 1) // tile_rows * tile_rows * pitch):
                            sums[i] = 0.0
                        rounds_after += _ROUNDS_WORDS
                        spans_at = rounds_after + _ROUND_WORDS * rounds
                        lowest, highest = fill_ranges(w, spans_at, spans, columns, p0, length, ranges)
                        for _ in range(rounds):
                            terms, first = w[rounds_after + RoundWords.terms], w[rounds_after + RoundWords.first]
                            terms_at, table_at = offsets_at + 8 * first, inner + w[Block.vectors_start]
                            a = packed_at + element * w[rounds_after + RoundWords.weights]
                            rounds_after += _ROUND_WORDS
                            skipped = max(0, lowest - first)
                            seen = min(terms, highest - first) - skipped
                            if seen <= 0:
                                continue
                            # What no window sees stays as it is, and is not multiplied.
                            seen_at, to_at = terms_at + 8 * skipped, windows_at + element * skipped * pitch
                            collect_vectors((seen, planes_at, seen_at, vectors, table_at, to_at, pitch))
                            multiply(terms, first, k, first_map, last_map, length, a, windows_at, pitch, ranges, to)
                        rounds_after += _SPAN_WORDS * spans
                        following += RESULT_WORDS + TAP_WORDS * w[following + ResultWords.taps]
                    other_at = sums_at + sums_bytes if beside == 2 else 0
                    deliver(w, at, group, first_image, first_map, last_map, p0, length, sums_at, other_at, pitch)
                at, rounds_at = following, rounds_after
            if w[Block.after] != 0:
                for image in range(first_image, first_image + taken):
                    start = ((image * groups + group) * maps + first_map) * w[Block.plane]
                    end = start + (last_map - first_map) * w[Block.plane]
                    call3(w[Block.after], w[Block.after_block], start, end)
        return 0

    return window_panels


WINDOW_PANELS = kernels_by_dtype("window_panels", _build)


class _Division(NamedTuple):
    """How the work is divided.

    parts: shares.  pieces: of the maps of a group.  chunk: images at once.  terms: of sums at once.
    windows: at once.  pitch: of their rows.
    """

    parts: int
    pieces: int
    chunk: int
    terms: int
    windows: int
    pitch: int


def prepare(task: Task, problem: Problem) -> Prepared:
    """The convolution or adjoint of a task that `suits`."""
    planes, results = _windows(task)
    lanes, element, places = lanes_of(task.dtype), SIZES[task.dtype], math.prod(task.kernel)
    cut = _regions(task, planes, results)
    by_taps = cut is not None
    if cut is not None:
        planes, results = cut.planes, cut.results
    division = _divide(task, problem.weight_size, planes, results, by_taps=by_taps)
    plane_length = planes.plane_length(division.chunk, lanes.vector)
    channel_length = len(planes.phases) * plane_length
    rows, k = -(-task.maps // lanes.rows) * lanes.rows, task.channels * places
    taps = sum(len(found.taps) for found in results)
    packed_taps = places if by_taps else taps
    beside = 2 if not task.forward and task.stride[1] == 2 and task.result[1] % 2 == 0 else 1
    starts = piece_starts(
        8 * BLOCK_WORDS,
        {
            "offsets_start": 8 * task.channels * taps,
            "vectors_start": 16 * division.windows,
            "ranges_start": _RANGE_BYTES * (division.windows // lanes.columns),
            "packed_start": element * (rows * task.channels * packed_taps + PACK_SLACK),
            "windows_start": element * division.terms * division.pitch,
            "sums_start": element * rows * division.pitch * beside,
            "planes_start": element * task.channels * channel_length,
        },
    )
    parts = fitting_shares(division.parts, starts["share_bytes"])
    weight_map, weight_channel = task.weight_strides
    step_h, step_w = (1, 1) if task.forward else task.stride
    phases = phase_words(planes)
    found_words = result_words(results, lambda tap: tap.phase * plane_length + planes.offset(tap))
    words = filled(
        Block,
        **copied_words(planes, plane_length, task.dtype),
        images=task.images,
        chunk=division.chunk,
        groups=task.groups,
        pieces=division.pieces,
        channels=task.channels,
        height=task.source[0],
        width=task.source[1],
        maps=task.maps,
        weight_map=weight_map,
        weight_channel=weight_channel,
        group_weights=problem.weight_size // task.groups,
        phases_at=size_of(Block),
        results=len(results),
        beside=beside,
        results_at=size_of(Block) + len(phases),
        plane=math.prod(task.result),
        result_width=task.result[1],
        step_h=step_h,
        step_w=step_w,
        taps=packed_taps,
        by_taps=by_taps,
        rounds_at=size_of(Block) + len(phases) + len(found_words),
        at_once=division.windows,
        pitch=division.pitch,
        pack=PACK[task.dtype].address() if task.forward else 0,
        **starts,
    )
    words += phases + found_words + _rounds_words(task, planes, results, division.terms, by_taps=by_taps)
    biased = optional_words(Block.bias, problem.biases)
    taps, told = (places, f", {len(results)} regions") if by_taps else (1, "")
    return launch(
        WINDOW_PANELS[task.dtype],
        words,
        (Block.x, Block.weight, *biased, Block.y, Block.workspace),
        parts=parts,
        workspace=starts["share_bytes"] * parts,
        after={0: Block.after},
        packs=(weights_in_panels(Block.packed, task.groups, task.maps, k, lanes.rows, task.dtype, taps),)
        if task.forward
        else (),
        note=f"direct, {division.windows} windows in panels, {division.terms} terms at once{told}",
    )


def _rounds_words(task: Task, planes: Layout, results: tuple[Result, ...], at_once: int, *, by_taps: bool) -> list[int]:
    """The words of all results with their rounds, of up to `at_once` terms."""
    words, tile_rows, channels, first = [], lanes_of(task.dtype).rows, task.channels, 0
    panels, weights = -(-task.maps // tile_rows), 0
    for found in results:
        k = channels * len(found.taps)
        runs, spans = [(weights, k)], [(0, found.counts[0], len(found.taps))]
        if by_taps:
            runs = [(tile_rows * channels * place, channels * count) for place, count in _runs(found)]
            spans = seen_rows(planes, found, task.source)
        rounds: list[int] = []
        begin = first
        for start, length in runs:
            pieces = -(-length // at_once)
            edges = [length * piece // pieces for piece in range(pieces)] + [length]
            for low, high in itertools.pairwise(edges):
                rounds += filled(RoundWords, terms=high - low, first=begin + low, weights=start + tile_rows * low)
            begin += length
        words += filled(
            RoundsWords,
            rounds=len(rounds) // _ROUND_WORDS,
            spans=len(spans),
            panel=channels * math.prod(task.kernel) if by_taps else k,
        )
        words += rounds
        for top, bottom, taps in spans:
            words += filled(SpanWords, top=top, bottom=bottom, first=first, after=first + channels * taps)
            first += channels * taps
        weights += tile_rows * panels * k
    return words


def _runs(found: Result) -> list[tuple[int, int]]:
    """Taps that follow one another in the kernel: the first place and how many."""
    runs: list[tuple[int, int]] = []
    for tap in found.taps:
        if runs and sum(runs[-1]) == tap.place:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((tap.place, 1))
    return runs


def _divide(task: Task, weight_size: int, planes: Layout, results: tuple[Result, ...], *, by_taps: bool) -> _Division:
    lanes, element = lanes_of(task.dtype), SIZES[task.dtype]
    positions = max(math.prod(found.counts) for found in results)
    # Images at once: whole panels of windows, and planes that stay close.
    image_bytes = element * task.channels * len(planes.phases) * planes.image_pitch
    wanted = 1 if by_taps else max(-(-_PANELS * lanes.columns // positions), _CHUNK_BYTES // image_bytes)
    flops = 2.0 * task.groups * task.maps * task.channels * task.images
    flops *= sum(len(found.taps) * math.prod(found.counts) for found in results)
    copied = task.images * task.groups * (task.channels * math.prod(task.source) + task.maps * math.prod(task.result))
    work_us = (flops + 20.0 * copied) / _FLOPS_PER_US
    panels = -(-task.maps // lanes.rows)
    parts = share_count(work_us, task.groups * task.images * panels)
    if task.groups == 1:  # every share packs all weights
        packing_us = weight_size / _WEIGHTS_PER_US / (10 if task.forward else 1)
        parts = max(1, min(parts, int(0.1 * work_us / packing_us)))
    chunk = max(1, min(wanted, task.images * task.groups // parts))
    chunk = -(-task.images // -(-task.images // chunk))
    units = task.groups * -(-task.images // chunk)
    pieces = min(panels, -(-parts // units))
    # As many windows as there are in the largest result, in equal blocks.
    tiles = -(-chunk * positions // lanes.columns)
    tiles = -(-tiles // -(-tiles // _PANELS))
    at_once = tiles * lanes.columns
    longest = max(1, task.channels * max(len(found.taps) for found in results))  # 0: of a slice that no tap reaches
    panel_bytes = _WIDE_PANEL_BYTES if host_lanes().vector >= 16 else _PANEL_BYTES
    terms = panel_bytes // (element * lanes.columns)
    terms = -(-longest // -(-longest // terms))
    return _Division(min(parts, units * pieces), pieces, chunk, terms, at_once, pitch_of(at_once, task.dtype))
