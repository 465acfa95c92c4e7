"""Convolution and its adjoint over one or two axes, directly: products of weights with padded planes.

The register tile reads the planes, see `shared.geometry`, through a table of offsets: no unfolded copy of the input is
made. The planes hold several small images, so that tiles are filled. Shares are made of groups and chunks of images;
each packs the weights of its group for itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Prepared
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
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, PACK_SLACK, Pack
from atled_cpu_numba.kernels.shared.geometry import Layout, Result, gradient_windows, windows
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

_COLUMN_VECTORS = 8  # positions that are computed before their results are moved to y
_CHUNK_BYTES = 256 << 10  # of planes, about half of a level-2 cache
_MOST_WASTE = 1.2  # positions computed per result; more, and the columns are unfolded
_FEW_ROWS = 3  # the channels of a picture
_LEAST_POSITIONS = 512  # of a share
_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_WEIGHTS_PER_US = 3e3  # packed; ten times as many where they lie in order
_INNER_BYTES = 8 * BLOCK_WORDS


@layout
class Block(CopiedPlanes):
    """What the kernel reads; strides and lengths in elements. The phases of the source follow, then the results."""

    weight: int
    bias: int  # or 0
    y: int  # or gx
    workspace: int
    share_bytes: int  # of workspace
    chunk: int  # images at once
    maps: int  # of the result, per group
    weight_map: int  # strides of the weight; the kernel's places are contiguous
    weight_channel: int
    results: int
    results_at: int  # word where they start
    plane: int  # elements of one of the result's
    result_width: int
    step_h: int  # from a window's result to the next one in the result's image
    step_w: int
    taps: int  # of all results
    group_weights: int  # from group to group
    pack: int  # address of PACK, or 0 if the weights do not lie in the order of the sums
    packed: int  # address of the packed weights of all groups, or 0
    after: int  # range kernel to run on what is written of the result, or 0
    after_block: int


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, ints64, words
    from atled_cpu_numba.kernels.products.tiles import make_offset_tile
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import make_copy_rows, make_copy_rows_plus

    element, floats = SIZES[dtype], Real(dtype).pointer
    copy_rows, copy_rows_plus = make_copy_rows(dtype), make_copy_rows_plus(dtype)
    copy_planes = make_copy_planes(dtype)
    lanes = lanes_of(dtype)
    tile_rows, tile_columns = lanes.rows, lanes.columns
    third, two_thirds = tile_rows // 3, 2 * tile_rows // 3
    vectors = tile_columns // lanes.vector
    columns_at_once = _COLUMN_VECTORS * lanes.vector
    full = make_offset_tile(tile_rows, vectors, dtype, packed_rows=tile_rows)
    lower = make_offset_tile(two_thirds, vectors, dtype, packed_rows=tile_rows)
    lowest = make_offset_tile(third, vectors, dtype, packed_rows=tile_rows)
    # Few rows are wide: else loading vectors of positions would take longer than multiplying them.
    few_vectors = 4 if lanes.rows == 12 else vectors
    few = make_offset_tile(_FEW_ROWS, few_vectors, dtype, packed_rows=tile_rows)
    single = make_offset_tile(1, _COLUMN_VECTORS, dtype, packed_rows=tile_rows)

    @piece
    def fill_offsets(w, offsets):
        """Per result, channel and tap: where it lies in the planes, from a window's position."""
        channels, channel_length, front = w[Block.channels], w[Block.channel_length], w[Block.front]
        at, done = w[Block.results_at], 0
        for _ in range(w[Block.results]):
            taps = w[at + ResultWords.taps]
            for channel in range(channels):
                for t in range(taps):
                    offsets[done + channel * taps + t] = (
                        channel * channel_length + front + w[at + FIRST_OFFSET + TAP_WORDS * t]
                    )
            done += channels * taps
            at += RESULT_WORDS + TAP_WORDS * taps

    @piece
    def collect_weights(w, group, packed_at):
        """Panels of the group's weights for each result, in the order of its channels and taps."""
        channels, maps, weight_map = w[Block.channels], w[Block.maps], w[Block.weight_map]
        weight_channel = w[Block.weight_channel]
        at, to = w[Block.results_at], packed_at
        for _ in range(w[Block.results]):
            taps = w[at + ResultWords.taps]
            for first in range(0, maps, tile_rows):
                for channel in range(channels):
                    target = floats(to + element * channel * taps * tile_rows)
                    for r in range(min(tile_rows, maps - first)):
                        start = group * w[Block.group_weights] + (first + r) * weight_map + channel * weight_channel
                        source = floats(w[Block.weight] + element * start)
                        for t in range(taps):
                            target[t * tile_rows + r] = source[w[at + FIRST_PLACE + TAP_WORDS * t]]
                to += element * tile_rows * channels * taps
            at += RESULT_WORDS + TAP_WORDS * taps

    @piece
    def multiply(k, maps, length, weights, offsets_at, planes_at, out_at):
        """out = weights x planes for `length` positions, at most columns_at_once."""
        for first in range(0, maps, tile_rows):
            left = maps - first
            a = weights + element * first * k
            c = out_at + element * first * columns_at_once
            if left == 1:
                single((k, a, offsets_at, planes_at, c, columns_at_once))
                continue
            if left <= _FEW_ROWS:
                for j in range(0, length, few_vectors * lanes.vector):
                    few((k, a, offsets_at, planes_at + element * j, c + element * j, columns_at_once))
                continue
            for j in range(0, length, tile_columns):
                if left > two_thirds:
                    full((k, a, offsets_at, planes_at + element * j, c + element * j, columns_at_once))
                elif left > third:
                    lower((k, a, offsets_at, planes_at + element * j, c + element * j, columns_at_once))
                else:
                    lowest((k, a, offsets_at, planes_at + element * j, c + element * j, columns_at_once))

    @piece
    def deliver(w, at, group, first_image, p0, length, out_at):
        """Move the results of the positions from p0 on to y, plus the bias, leaving out positions in the gaps."""
        groups, maps, row_pitch, plane = w[Block.groups], w[Block.maps], w[Block.row_pitch], w[Block.plane]
        step_w = w[Block.step_w]
        start_h, start_w, rows, columns = (
            w[at + ResultWords.start_row],
            w[at + ResultWords.start_column],
            w[at + ResultWords.rows],
            w[at + ResultWords.columns],
        )
        image_rows = w[Block.image_pitch] // row_pitch
        p = p0
        while p < p0 + length:
            line = p // row_pitch
            column = p - line * row_pitch
            following = min(p0 + length, (line + 1) * row_pitch)
            image = line // image_rows
            row = line - image * image_rows
            count = min(columns - column, following - p)
            source = out_at + element * (p - p0)
            p = following
            if row >= rows or count <= 0:
                continue
            target = ((first_image + image) * groups + group) * maps * plane
            target += (row * w[Block.step_h] + start_h) * w[Block.result_width] + column * step_w + start_w
            target = w[Block.y] + element * target
            if step_w == 1 and w[Block.bias] != 0:
                copy_rows_plus(
                    (source, columns_at_once, target, plane, maps, count, w[Block.bias] + element * group * maps)
                )
            elif step_w == 1:
                copy_rows((source, columns_at_once, target, plane, maps, count))
            else:
                for m in range(maps):
                    x, y = floats(source), floats(target)
                    bias = floats(w[Block.bias])[group * maps + m] if w[Block.bias] != 0 else 0.0
                    for j in range(count):
                        y[j * step_w] = x[j] + bias
                    source += element * columns_at_once
                    target += element * plane

    @kernel
    def convolution(block, part, parts):
        w = words(block)
        images, chunk, groups = w[Block.images], w[Block.chunk], w[Block.groups]
        channels, maps = w[Block.channels], w[Block.maps]
        taps_in_all, pack = w[Block.taps], w[Block.pack]
        padded_maps = (maps + tile_rows - 1) // tile_rows * tile_rows
        # Workspace: block of a piece, table of offsets, packed weights, results of some positions, planes.
        inner = w[Block.workspace] + part * w[Block.share_bytes]
        q = words(inner)
        offsets_at = inner + _INNER_BYTES
        packed_at = offsets_at + 8 * channels * taps_in_all
        out_at = packed_at + element * (padded_maps * channels * taps_in_all + PACK_SLACK)
        planes_at = out_at + element * padded_maps * columns_at_once
        chunks = (images + chunk - 1) // chunk
        first_unit, last_unit = groups * chunks * part // parts, groups * chunks * (part + 1) // parts
        if first_unit == last_unit:
            return 0
        planes = floats(planes_at)
        for i in range(channels * w[Block.channel_length]):
            planes[i] = 0.0
        fill_offsets(w, ints64(offsets_at))
        packed_group = -1
        for unit in range(first_unit, last_unit):
            group = unit // chunks
            first_image = (unit - group * chunks) * chunk
            taken = min(chunk, images - first_image)
            if group != packed_group:
                packed_group = group
                if w[Block.packed] != 0:
                    packed_at = w[Block.packed] + element * group * padded_maps * channels * taps_in_all
                elif pack != 0:  # the weights lie in the order of the sums already
                    weights, weight_map = (
                        w[Block.weight] + element * group * w[Block.group_weights],
                        w[Block.weight_map],
                    )
                    q[Pack.source], q[Pack.row], q[Pack.column], q[Pack.rows] = weights, weight_map, 1, maps
                    q[Pack.k], q[Pack.target], q[Pack.width] = channels * taps_in_all, packed_at, tile_rows
                    call3(pack, inner, 0, 1)
                else:
                    collect_weights(w, group, packed_at)
            copy_planes(block, inner, group, 0, channels, first_image, taken, planes_at)
            at, offset_table, weights = w[Block.results_at], offsets_at, packed_at
            for _ in range(w[Block.results]):
                k = channels * w[at + ResultWords.taps]
                end = (
                    (taken - 1) * w[Block.image_pitch]
                    + (w[at + ResultWords.rows] - 1) * w[Block.row_pitch]
                    + w[at + ResultWords.columns]
                )
                for p in range(0, end, columns_at_once):
                    length = min(columns_at_once, end - p)
                    multiply(k, maps, length, weights, offset_table, planes_at + element * p, out_at)
                    deliver(w, at, group, first_image, p, length, out_at)
                at += RESULT_WORDS + TAP_WORDS * w[at + ResultWords.taps]
                offset_table += 8 * k
                weights += element * padded_maps * k
            if w[Block.after] != 0:
                for image in range(first_image, first_image + taken):
                    start = (image * groups + group) * maps * w[Block.plane]
                    call3(w[Block.after], w[Block.after_block], start, start + maps * w[Block.plane])
        return 0

    return convolution


CONVOLUTION = kernels_by_dtype("convolution", _build)


def prepare(task: Task, problem: Problem) -> Prepared:
    """The convolution or adjoint of any problem over one or two axes."""
    planes, results = choose_layout(task)
    parts, chunk = _divide(task, problem.weight_size, planes, results)
    plane_length = planes.plane_length(chunk, _columns_at_once(task.dtype))
    share_bytes = _share_bytes(task, results, len(planes.phases) * plane_length)
    parts = fitting_shares(parts, share_bytes)
    words = _words(task, problem.weight_size, planes, results, chunk, share_bytes)
    note = f"direct, {chunk} images at once"
    if task.forward:
        note += f", {len(planes.phases)} {'unfolded ' if _is_unfolded(task, planes) else ''}phases"
    biased = optional_words(Block.bias, problem.biases)
    arguments = (Block.x, Block.weight, *biased, Block.y, Block.workspace)
    k = task.channels * math.prod(task.kernel)
    return launch(
        CONVOLUTION[task.dtype],
        words,
        arguments,
        parts=parts,
        workspace=share_bytes * parts,
        after={0: Block.after},
        packs=(weights_in_panels(Block.packed, task.groups, task.maps, k, lanes_of(task.dtype).rows, task.dtype),)
        if task.forward
        else (),
        note=note,
    )


def choose_layout(task: Task) -> tuple[Layout, tuple[Result, ...]]:
    """The planes, in a convolution with or without the columns unfolded: whichever computes less in vain."""
    geometry = task.kernel, task.pad, task.stride, task.dilation
    if not task.forward:
        return gradient_windows(task.result, *geometry)
    planes, results = windows(task.source, *geometry)
    if task.kernel[1] > 1 and planes.image_pitch >= _MOST_WASTE * math.prod(task.result):
        return windows(task.source, *geometry, unfold=True)
    return planes, results


def _is_unfolded(task: Task, planes: Layout) -> bool:
    return task.kernel[1] > 1 and planes.row_pitch == task.result[1]


def _columns_at_once(dtype: str) -> int:
    return _COLUMN_VECTORS * lanes_of(dtype).vector


def _divide(task: Task, weight_size: int, planes: Layout, results: tuple[Result, ...]) -> tuple[int, int]:
    """How many shares there are, and how many images the planes of each hold."""
    images, groups = task.images, task.groups
    flops = 2.0 * groups * task.maps * task.channels * images
    flops *= sum(len(found.taps) * math.prod(found.counts) for found in results)
    copied = images * groups * (task.channels * math.prod(task.source) + task.maps * math.prod(task.result))
    work_us = (flops + 20.0 * copied) / _FLOPS_PER_US
    # A share of few positions would waste much of its last tile, and read all weights for it.
    parts = share_count(work_us, groups * max(1, images * planes.image_pitch // _LEAST_POSITIONS))
    if groups == 1:
        packing_us = weight_size / groups / _WEIGHTS_PER_US / (10 if task.forward else 1)
        parts = max(1, min(parts, int(0.1 * work_us / packing_us)))
    # Unfolded images have gaps between them alone: one by one, nothing is computed in vain.
    alone = _is_unfolded(task, planes) and math.prod(task.result) >= 2 * lanes_of(task.dtype).columns
    image_bytes = SIZES[task.dtype] * task.channels * len(planes.phases) * planes.image_pitch
    per_share = max(1, images * groups // parts)
    fitting = _CHUNK_BYTES // image_bytes
    chunk = (
        1
        if task.forward and alone
        else _chunk(images, per_share, planes.image_pitch, fitting, lanes_of(task.dtype).columns)
    )
    return min(parts, groups * -(-images // chunk)), chunk


def _share_bytes(task: Task, results: tuple[Result, ...], channel_length: int) -> int:
    tile_rows = lanes_of(task.dtype).rows
    rows = -(-task.maps // tile_rows) * tile_rows
    weights = task.channels * sum(len(found.taps) for found in results)
    floats = rows * weights + PACK_SLACK + rows * _columns_at_once(task.dtype) + task.channels * channel_length
    return in_lines(_INNER_BYTES + 8 * weights + SIZES[task.dtype] * floats)


def _words(
    task: Task, weight_size: int, planes: Layout, results: tuple[Result, ...], chunk: int, share_bytes: int
) -> list[int]:
    plane_length = planes.plane_length(chunk, _columns_at_once(task.dtype))
    weight_map, weight_channel = task.weight_strides
    step_h, step_w = (1, 1) if task.forward else task.stride
    phases = phase_words(planes)
    words = filled(
        Block,
        **copied_words(planes, plane_length, task.dtype),
        share_bytes=share_bytes,
        images=task.images,
        chunk=chunk,
        groups=task.groups,
        channels=task.channels,
        height=task.source[0],
        width=task.source[1],
        maps=task.maps,
        weight_map=weight_map,
        weight_channel=weight_channel,
        phases_at=size_of(Block),
        results=len(results),
        results_at=size_of(Block) + len(phases),
        plane=math.prod(task.result),
        result_width=task.result[1],
        step_h=step_h,
        step_w=step_w,
        taps=sum(len(found.taps) for found in results),
        group_weights=weight_size // task.groups,
        pack=PACK[task.dtype].address() if task.forward else 0,
    )
    return words + phases + result_words(results, lambda tap: tap.phase * plane_length + planes.offset(tap))


def _chunk(images: int, per_share: int, image_pitch: int, fitting: int, columns: int) -> int:
    """How many images the planes hold: up to `fitting`, so that few of `columns` of the last tile are wasted."""
    most = max(1, min(images, per_share, max(4, fitting)))

    def waste(chunk: int) -> float:
        positions = chunk * image_pitch
        # Twice the memory is worth it if it saves 4 percent.
        return -(-positions // columns) * columns / positions * (1.04 if chunk > fitting else 1.0)

    best = min(range(1, most + 1), key=lambda chunk: (round(waste(chunk), 2), -chunk))
    return -(-images // -(-images // best))
