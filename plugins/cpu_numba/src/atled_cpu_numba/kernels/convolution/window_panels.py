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

import math
from collections.abc import Callable

from atled.plugin import NamedTuple, Prepared
from atled_cpu_numba.kernels.convolution.copied_planes import copied_words, make_copy_planes
from atled_cpu_numba.kernels.convolution.images import phase_words
from atled_cpu_numba.kernels.convolution.packed_weights import weights_in_panels
from atled_cpu_numba.kernels.convolution.panel_words import (
    RANGE_BYTES,
    ROUND_WORDS,
    ROUNDS_WORDS,
    SPAN_WORDS,
    Block,
    RoundsWords,
    RoundWords,
    rounds_words,
)
from atled_cpu_numba.kernels.convolution.problem import Problem, Task
from atled_cpu_numba.kernels.convolution.result_words import RESULT_WORDS, TAP_WORDS, ResultWords, result_words
from atled_cpu_numba.kernels.convolution.window_regions import Regions, regions
from atled_cpu_numba.kernels.convolution.window_vectors import pitch_of
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, PACK_SLACK
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
from atled_cpu_numba.kernels.shared.layout import filled, size_of

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
_CHUNK_BYTES = 256 << 10  # of planes
_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_WEIGHTS_PER_US = 3e3  # packed; ten times as many where they lie in order


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
    from atled_cpu_numba.kernels.convolution.lane_tiles import make_collect_vectors
    from atled_cpu_numba.kernels.convolution.panel_pieces import (
        make_deliver,
        make_fill_offsets,
        make_fill_ranges,
        make_multiply,
        make_pack_by_taps,
        make_pack_weights,
    )
    from atled_cpu_numba.kernels.convolution.window_vectors import make_fill_vectors
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    element, floats = SIZES[dtype], Real(dtype).pointer
    tile_rows, tile_columns = lanes_of(dtype).rows, lanes_of(dtype).columns
    fill_vectors, collect_vectors = make_fill_vectors(dtype), make_collect_vectors(dtype)
    copy_planes, fill_offsets = make_copy_planes(dtype), make_fill_offsets()
    pack_weights, pack_by_taps = make_pack_weights(dtype), make_pack_by_taps(dtype)
    fill_ranges, multiply, deliver = make_fill_ranges(dtype), make_multiply(dtype), make_deliver(dtype)

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
                        rounds_after += ROUNDS_WORDS
                        spans_at = rounds_after + ROUND_WORDS * rounds
                        lowest, highest = fill_ranges(w, spans_at, spans, columns, p0, length, ranges)
                        for _ in range(rounds):
                            terms, first = w[rounds_after + RoundWords.terms], w[rounds_after + RoundWords.first]
                            terms_at, table_at = offsets_at + 8 * first, inner + w[Block.vectors_start]
                            a = packed_at + element * w[rounds_after + RoundWords.weights]
                            rounds_after += ROUND_WORDS
                            skipped = max(0, lowest - first)
                            seen = min(terms, highest - first) - skipped
                            if seen <= 0:
                                continue
                            # What no window sees stays as it is, and is not multiplied.
                            seen_at, to_at = terms_at + 8 * skipped, windows_at + element * skipped * pitch
                            collect_vectors((seen, planes_at, seen_at, vectors, table_at, to_at, pitch))
                            multiply(terms, first, k, first_map, last_map, length, a, windows_at, pitch, ranges, to)
                        rounds_after += SPAN_WORDS * spans
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
            "ranges_start": RANGE_BYTES * (division.windows // lanes.columns),
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
    words += phases + found_words + rounds_words(task, planes, results, division.terms, by_taps=by_taps)
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
