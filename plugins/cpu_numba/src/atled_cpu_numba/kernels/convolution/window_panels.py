"""Convolution and its adjoint over one or two axes with long sums and many maps: products of weights with panels.

What some windows see is collected from the padded planes of `shared.geometry`, some terms of the sums at a time: rows
of windows in the level-2 cache, of which a tile's columns fit the level-1 cache. So neither the length of the sums nor
the distance of what they read matters, and windows follow one another without the gaps between rows and images.

Shares are made of groups, chunks of images and pieces of the maps; each copies the planes of its images and packs the
weights of its group for itself, unless it is given them.
"""

from __future__ import annotations

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
    taps: int  # of all results
    terms_at_once: int  # at most
    at_once: int  # windows, at most: whole panels
    pitch: int  # of the rows of windows
    offsets_start: int
    vectors_start: int  # of the table of vectors
    packed_start: int
    windows_start: int
    sums_start: int
    planes_start: int
    pack: int  # address of PACK, or 0 if the weights do not lie in the order of the sums
    packed: int  # address of the packed weights of all groups, or 0
    after: int  # range kernel to run on what is written of the result, or 0
    after_block: int


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
        """Per result, channel and tap: where it lies in the planes, from a window's position."""
        channels, channel_length, front = w[Block.channels], w[Block.channel_length], w[Block.front]
        at, done = w[Block.results_at], 0
        for _ in range(w[Block.results]):
            taps = w[at + ResultWords.taps]
            for channel in range(channels):
                for t in range(taps):
                    offset = channel * channel_length + front + w[at + FIRST_OFFSET + TAP_WORDS * t]
                    offsets[done + channel * taps + t] = offset
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
    def multiply(terms, k, first_map, last_map, length, weights, windows_at, pitch, sums_at):
        """sums += weights x windows for some terms; `weights`: of these terms in the first panel of all."""
        ahead = tile_rows * k  # the same terms of the next panel
        for m0 in range(first_map, last_map, _MAPS_AT_ONCE):
            m1 = min(last_map, m0 + _MAPS_AT_ONCE)
            for j in range(0, length, tile_columns):
                b = windows_at + element * j
                slim = length - j <= vector
                for first in range(m0, m1, tile_rows):
                    left = last_map - first
                    a = weights + element * first * k
                    c = sums_at + element * ((first - first_map) * pitch + j)
                    if left > two_thirds:
                        if slim:
                            full_slim((terms, a, b, pitch, c, pitch, ahead))
                        else:
                            full((terms, a, b, pitch, c, pitch, ahead))
                    elif left > third:
                        if slim:
                            lower_slim((terms, a, b, pitch, c, pitch, ahead))
                        else:
                            lower((terms, a, b, pitch, c, pitch, ahead))
                    elif slim:
                        lowest_slim((terms, a, b, pitch, c, pitch, ahead))
                    else:
                        lowest((terms, a, b, pitch, c, pitch, ahead))

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
                else:
                    pack_weights(w, inner, group, packed_at)
            if whole != copied:
                copied = whole
                copy_planes(block, inner, group, 0, channels, first_image, taken, planes_at)
            at, offset_table, weights = w[Block.results_at], offsets_at, packed_at
            for _ in range(w[Block.results] // beside):
                rows, columns = w[at + ResultWords.rows], w[at + ResultWords.columns]
                positions = taken * rows * columns
                blocks = (positions + w[Block.at_once] - 1) // w[Block.at_once]
                tiles = (positions + tile_columns - 1) // tile_columns
                following, table_after, weights_after = at, offset_table, weights
                for number in range(blocks):
                    p0 = tiles * number // blocks * tile_columns
                    length = min(positions, tiles * (number + 1) // blocks * tile_columns) - p0
                    image_pitch, row_pitch = w[Block.image_pitch], w[Block.row_pitch]
                    vectors = fill_vectors(rows, columns, image_pitch, row_pitch, p0, length, table)
                    following, table_after, weights_after = at, offset_table, weights
                    for side in range(beside):
                        k, to = channels * w[following + ResultWords.taps], sums_at + side * sums_bytes
                        sums, rounds = floats(to), (k + w[Block.terms_at_once] - 1) // w[Block.terms_at_once]
                        for i in range((last_map - first_map + tile_rows - 1) // tile_rows * tile_rows * pitch):
                            sums[i] = 0.0
                        for r in range(rounds):
                            first = k * r // rounds
                            terms, table_at = k * (r + 1) // rounds - first, inner + w[Block.vectors_start]
                            terms_at, a = table_after + 8 * first, weights_after + element * tile_rows * first
                            collect_vectors((terms, planes_at, terms_at, vectors, table_at, windows_at, pitch))
                            multiply(terms, k, first_map, last_map, length, a, windows_at, pitch, to)
                        following += RESULT_WORDS + TAP_WORDS * w[following + ResultWords.taps]
                        table_after += 8 * k
                        weights_after += element * panels * tile_rows * k
                    other_at = sums_at + sums_bytes if beside == 2 else 0
                    deliver(w, at, group, first_image, first_map, last_map, p0, length, sums_at, other_at, pitch)
                at, offset_table, weights = following, table_after, weights_after
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
    geometry = task.kernel, task.pad, task.stride, task.dilation
    planes, results = (windows if task.forward else gradient_windows)(
        task.source if task.forward else task.result, *geometry
    )
    division = _divide(task, problem.weight_size, planes, results)
    lanes, element = lanes_of(task.dtype), SIZES[task.dtype]
    plane_length = planes.plane_length(division.chunk, lanes.vector)
    channel_length = len(planes.phases) * plane_length
    rows, k = -(-task.maps // lanes.rows) * lanes.rows, task.channels * math.prod(task.kernel)
    taps = sum(len(found.taps) for found in results)
    beside = 2 if not task.forward and task.stride[1] == 2 and task.result[1] % 2 == 0 else 1
    starts = piece_starts(
        8 * BLOCK_WORDS,
        {
            "offsets_start": 8 * task.channels * taps,
            "vectors_start": 16 * division.windows,
            "packed_start": element * (rows * task.channels * taps + PACK_SLACK),
            "windows_start": element * division.terms * division.pitch,
            "sums_start": element * rows * division.pitch * beside,
            "planes_start": element * task.channels * channel_length,
        },
    )
    parts = fitting_shares(division.parts, starts["share_bytes"])
    weight_map, weight_channel = task.weight_strides
    step_h, step_w = (1, 1) if task.forward else task.stride
    phases = phase_words(planes)
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
        taps=taps,
        terms_at_once=division.terms,
        at_once=division.windows,
        pitch=division.pitch,
        pack=PACK[task.dtype].address() if task.forward else 0,
        **starts,
    )
    words += phases + result_words(results, lambda tap: tap.phase * plane_length + planes.offset(tap))
    biased = optional_words(Block.bias, problem.biases)
    return launch(
        WINDOW_PANELS[task.dtype],
        words,
        (Block.x, Block.weight, *biased, Block.y, Block.workspace),
        parts=parts,
        workspace=starts["share_bytes"] * parts,
        after={0: Block.after},
        packs=(weights_in_panels(Block.packed, task.groups, task.maps, k, lanes.rows, task.dtype),)
        if task.forward
        else (),
        note=f"direct, {division.windows} windows in panels, {division.terms} terms at once",
    )


def _divide(task: Task, weight_size: int, planes: Layout, results: tuple[Result, ...]) -> _Division:
    lanes, element = lanes_of(task.dtype), SIZES[task.dtype]
    positions = max(math.prod(found.counts) for found in results)
    # Images at once: whole panels of windows, and planes that stay close.
    image_bytes = element * task.channels * len(planes.phases) * planes.image_pitch
    wanted = max(-(-_PANELS * lanes.columns // positions), _CHUNK_BYTES // image_bytes)
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
