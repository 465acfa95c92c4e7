"""1 x 1 convolutions, and their adjoints for stride 1: matrix products that read and write images in place.

y (maps, positions) = weight (maps, channels) by x (channels, positions), for each image: rows of positions are vectors
already, so nothing is copied but the panel of x that is being multiplied and, where it pays, the weight.
Panels are whole; the positions that are left over are collected from some images and multiplied together, before those
images: each is finished while it is in the cache. With a stride, all positions are collected.

Shares are made of groups, pieces of maps, and images, which are the quickest to change: a piece of the weight stays in
the cache for all of them. Where there are too few of these, images are cut into runs of positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from atled.plugin import NamedTuple, Prepared
from atled_cpu_numba.kernels.convolution.images import COPY_IMAGES, PHASE_WORDS, CopyImages
from atled_cpu_numba.kernels.products.matmul_plan import do_rows_conflict, is_avx2, padded_row, round_up
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, PACK_SLACK, Pack
from atled_cpu_numba.kernels.products.row_products import MULTIPLY_ROWS, Rows
from atled_cpu_numba.kernels.products.wide_products import MULTIPLY_WIDE, WIDE_ROWS, are_wide, wide_columns
from atled_cpu_numba.kernels.shared.geometry import Pair
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    fitting_shares,
    in_lines,
    kernels_by_dtype,
    launch,
    optional_words,
    share_count,
    unbounded,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout

LEAST_CHANNELS = 4  # fewer, and panels take longer to copy than to multiply

_WEIGHT_BYTES = 768 << 10  # of the maps at once, which stay in the level-2 cache
_MOST_MAPS = 512  # at once: their bias takes a row of a panel each
_COLLECTED_BYTES = 1 << 20  # with their results
_FLOPS_PER_US = 150e3  # a cautious rate of one core, for the number of shares
_RUN_PANELS = 4  # of positions, the least that is a share of its own: each reads all of the weight
_SLIM_COST = 0.55  # of a panel of one vector, in whole panels

# As `matmul_plan._STRIDED_PANELS` of a matrix: measured on Zen 3, sums of a weight stored by columns take .05 to .3
# longer than transposed, and transposing takes as long as it spares for a hundred positions.
_LEAST_TRANSPOSED_POSITIONS = 128
# Of channels that are whole pages, a tile reads 1.1 to 5 times as many lines of the level-2 cache as of a weight packed
# with another pitch (see `matmul_plan`). For so many positions packing takes up to .014 of the time, measured on Zen 3.
_LEAST_PACKED_POSITIONS = 1024


@layout
class Block:
    """What the kernel reads; strides in elements."""

    multiply: int  # address of MULTIPLY_ROWS or MULTIPLY_WIDE
    columns: int  # of a panel of positions
    in_place: int  # positions multiplied in place
    x: int  # address of x or gy
    weight: int
    bias: int  # or 0
    y: int  # or gx
    workspace: int
    share_bytes: int  # of workspace
    images: int
    groups: int
    channels: int  # per group
    maps: int  # per group
    positions: int  # of an image of the result
    weight_map: int  # strides of the weight
    weight_channel: int
    group_weights: int  # from group to group
    pack: int  # address of PACK where the weight is packed first, transposed or not, or 0
    weight_pitch: int  # from map to map then
    packed: int  # elements of workspace for that
    at_once: int  # images whose positions that are left over are collected
    rows_at_once: int  # maps
    pieces: int  # of so many maps
    runs: int  # of panels, into which an image is cut; 1 where some are collected
    after: int  # range kernel to run on what is written of the result, or 0
    after_block: int
    copy_images: int  # address of COPY_IMAGES, or 0 without a stride
    height: int  # of the source
    width: int
    stride_h: int
    stride_w: int
    phase: int = PHASE_WORDS  # the one of COPY_IMAGES, which is (0, 0)
    result_width: int
    low: int  # the least number that a result is to be
    high: int  # the greatest


class Problem(NamedTuple):
    """A 1 x 1 convolution, or its adjoint; channels and maps are those of one group.

    weight: strides from map to map and from channel to channel.  stride: of the windows, 1 in an adjoint.
    """

    images: int
    groups: int
    channels: int
    maps: int
    source: Pair
    result: Pair
    stride: Pair
    weight: Pair
    dtype: str

    @property
    def positions(self) -> int:
        """Elements of one map of the result."""
        return math.prod(self.result)


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.products.starts import make_fill_starts
    from atled_cpu_numba.kernels.shared.options import kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import make_copy_rows

    element = SIZES[dtype]
    copy_rows = make_copy_rows(dtype)
    fill_starts, block_bytes = make_fill_starts(dtype), 8 * BLOCK_WORDS

    @piece
    def collect(w, copying, block, x, taken, collected_at, pitch):
        """The positions of `taken` images that are not multiplied in place; copying: a block for it."""
        groups, channels, positions = w[Block.groups], w[Block.channels], w[Block.positions]
        in_place = w[Block.in_place]
        if w[Block.copy_images] != 0:
            q = words(copying)
            image_step = groups * channels * w[Block.height] * w[Block.width]
            q[CopyImages.x], q[CopyImages.images] = x, taken
            q[CopyImages.channels], q[CopyImages.image_step] = channels, image_step
            height, width = w[Block.height], w[Block.width]
            q[CopyImages.height], q[CopyImages.width], q[CopyImages.target] = height, width, collected_at
            q[CopyImages.plane_length], q[CopyImages.channel_length], q[CopyImages.front] = pitch, pitch, 0
            row_pitch, stride_h, stride_w = w[Block.result_width], w[Block.stride_h], w[Block.stride_w]
            phase_table = block + 8 * Block.phase
            q[CopyImages.image_pitch], q[CopyImages.row_pitch] = positions, row_pitch
            q[CopyImages.stride_h], q[CopyImages.stride_w] = stride_h, stride_w
            q[CopyImages.phases], q[CopyImages.phase_table] = 1, phase_table
            call3(w[Block.copy_images], copying, 0, 1)
            return
        rest = positions - in_place
        for i in range(taken):
            tail = x + element * (i * groups * channels * positions + in_place)
            copy_rows((tail, positions, collected_at + element * i * rest, pitch, channels, rest))

    @piece
    def multiply(w, inner, x, x_row, positions, following, y, y_row):
        """y = weight x + starts; `following`: from the last panel of x to the one that is multiplied next."""
        q, columns = words(inner), w[Block.columns]
        panels = (positions + columns - 1) // columns
        for panel in range(panels):
            at = panel * columns
            n, b, c = min(columns, positions - at), x + element * at, y + element * at
            q[Rows.n], q[Rows.b], q[Rows.b_step], q[Rows.c], q[Rows.c_row] = n, b, x_row, c, y_row
            q[Rows.ahead] = columns if panel + 1 < panels else following
            call3(w[Block.multiply], inner, 0, 1)

    @kernel
    def pointwise(block, part, parts):
        w = words(block)
        images, groups, channels, maps = w[Block.images], w[Block.groups], w[Block.channels], w[Block.maps]
        positions, columns = w[Block.positions], w[Block.columns]
        in_place, at_once, rows_at_once = w[Block.in_place], w[Block.at_once], w[Block.rows_at_once]
        pieces, runs, panels = w[Block.pieces], w[Block.runs], (in_place + columns - 1) // columns
        all_runs = images * runs
        rest = positions - in_place
        pitch, last = at_once * rest, (in_place - 1) // columns * columns
        image_length = groups * channels * positions
        whole = in_place == 0 and at_once == 1  # one image is collected: its results lie as they are to stay
        # Workspace: blocks of the pieces, starts of the sums, the weight packed, a panel of x, what is collected,
        # its results.
        inner = w[Block.workspace] + part * w[Block.share_bytes]
        copying = inner + block_bytes
        starts_at = copying + block_bytes
        packed_at = starts_at + element * rows_at_once * columns
        panel_at = packed_at + element * w[Block.packed]
        collected_at = panel_at + element * channels * columns
        results_at = collected_at + element * channels * pitch
        q = words(inner)
        unit, end = groups * pieces * all_runs * part // parts, groups * pieces * all_runs * (part + 1) // parts
        while unit < end:
            outer = unit // all_runs
            first_run = unit - outer * all_runs
            group = outer // pieces
            first = (outer - group * pieces) * rows_at_once
            rows = min(rows_at_once, maps - first)
            after = min(all_runs, first_run + end - unit)
            unit += after - first_run
            # The same for all panels.
            bias = w[Block.bias]
            fill_starts((bias + element * (group * maps + first) if bias != 0 else 0, starts_at, rows, columns))
            weights = w[Block.weight] + element * (group * w[Block.group_weights] + first * w[Block.weight_map])
            weight_map, weight_channel = w[Block.weight_map], w[Block.weight_channel]
            if w[Block.pack] != 0:
                packing = words(copying)
                packing[Pack.source], packing[Pack.row], packing[Pack.column] = weights, weight_channel, weight_map
                packing[Pack.rows], packing[Pack.k] = channels, rows
                packing[Pack.target], packing[Pack.width] = packed_at, w[Block.weight_pitch]
                call3(w[Block.pack], copying, 0, 1)
                weights, weight_map, weight_channel = packed_at, w[Block.weight_pitch], 1
            q[Rows.k], q[Rows.m], q[Rows.a], q[Rows.a_row] = channels, rows, weights, weight_map
            q[Rows.b_panel], q[Rows.s], q[Rows.s_row], q[Rows.s_column] = columns, starts_at, columns, 0
            q[Rows.copy], q[Rows.a_column], q[Rows.bounds] = panel_at, weight_channel, block + 8 * Block.low
            for run in range(first_run, after):
                image = run // runs
                begin = panels * (run - image * runs) // runs * columns
                count = min(panels * (run - image * runs + 1) // runs * columns, in_place) - begin
                x = w[Block.x] + element * (image * groups + group) * channels * w[Block.height] * w[Block.width]
                y = w[Block.y] + element * ((image * groups + group) * maps + first) * positions
                number = (run - first_run) % max(1, at_once)
                if rest != 0 and number == 0:
                    taken = min(at_once, after - run)
                    collect(w, copying, block, x, taken, collected_at, pitch)
                    multiply(w, inner, collected_at, pitch, taken * rest, 0, y if whole else results_at, pitch)
                following = 0
                if begin + count < in_place:
                    following = columns
                elif run + 1 < after:
                    following = image_length - last
                multiply(w, inner, x + element * begin, positions, count, following, y + element * begin, positions)
                if rest != 0 and not whole:
                    copy_rows(
                        (results_at + element * number * rest, pitch, y + element * in_place, positions, rows, rest)
                    )
                if w[Block.after] != 0:
                    start = ((image * groups + group) * maps + first) * positions
                    if runs == 1:
                        call3(w[Block.after], w[Block.after_block], start, start + rows * positions)
                    else:
                        for _ in range(rows):
                            call3(w[Block.after], w[Block.after_block], start + begin, start + begin + count)
                            start += positions
        return 0

    return pointwise


POINTWISE = kernels_by_dtype("pointwise", _build)


def prepare(problem: Problem, biases: Sequence[bool]) -> Prepared:
    """The convolution of a problem; biases: for each input behind the weight, whether it is there."""
    p, lanes, element = problem, lanes_of(problem.dtype), SIZES[problem.dtype]
    strided, is_wide = p.stride != (1, 1), are_wide(p.maps, p.positions, lanes)
    tile_rows, columns = (WIDE_ROWS, wide_columns(lanes)) if is_wide else (lanes.rows, lanes.columns)
    work_us = 2.0 * p.images * p.groups * p.channels * p.maps * p.positions / _FLOPS_PER_US
    tiles = -(-p.maps // tile_rows)
    runs = 1 if strided else -(-p.positions // (_RUN_PANELS * columns))
    parts = share_count(work_us, p.groups * p.images * max(runs, -(-tiles // 4)))
    rows = min(_MOST_MAPS, max(4 * tile_rows, _WEIGHT_BYTES // (element * p.channels)))
    pieces = -(-p.maps // rows)
    wanted = -(-parts // (p.groups * p.images))
    if pieces < wanted and wanted <= -(-tiles // 4):
        pieces = wanted
    rows = -(-tiles // pieces) * tile_rows
    pieces = -(-p.maps // rows)
    per_share = -(-p.images * p.groups * pieces // parts)
    in_place, at_once = _collected(p, rows, min(p.images, per_share), columns)
    # Positions that are collected are those of whole images.
    runs = 1 if at_once else min(runs, -(-parts // (p.groups * p.images * pieces)))
    parts = min(parts, p.groups * p.images * pieces * runs)
    pitch = at_once * (p.positions - in_place)
    weight_pitch = padded_row(p.channels, p.dtype)
    packed = round_up(rows * weight_pitch + PACK_SLACK, columns) if _is_packed(p) else 0
    floats = (rows + p.channels) * (columns + pitch) + packed
    share_bytes = in_lines(16 * BLOCK_WORDS + element * floats)
    parts = fitting_shares(parts, share_bytes)
    words = filled(
        Block,
        multiply=(MULTIPLY_WIDE if is_wide else MULTIPLY_ROWS)[p.dtype].address(),
        columns=columns,
        in_place=in_place,
        share_bytes=share_bytes,
        images=p.images,
        groups=p.groups,
        channels=p.channels,
        maps=p.maps,
        positions=p.positions,
        weight_map=p.weight[0],
        weight_channel=p.weight[1],
        group_weights=p.maps * p.channels,
        pack=PACK[p.dtype].address() if packed else 0,
        weight_pitch=weight_pitch,
        packed=packed,
        at_once=at_once,
        rows_at_once=rows,
        pieces=pieces,
        runs=runs,
        copy_images=COPY_IMAGES[p.dtype].address() if strided else 0,
        height=p.source[0],
        width=p.source[1],
        stride_h=p.stride[0],
        stride_w=p.stride[1],
        result_width=p.result[1],
        **unbounded(p.dtype),
    )
    arguments = (Block.x, Block.weight, *optional_words(Block.bias, biases), Block.y, Block.workspace)
    workspace = share_bytes * parts
    if strided:
        note = f"1x1, {at_once} images at once"
    else:
        note = f"1x1, images in place, rest of {at_once} at once" if pitch else "1x1, images in place"
    if packed:
        note += ", weight packed" if p.weight[1] == 1 else ", weight transposed"
    return launch(
        POINTWISE[p.dtype],
        words,
        arguments,
        parts=parts,
        workspace=workspace,
        after={0: Block.after},
        bounds={0: Block.low},
        note=note,
    )


def _is_packed(p: Problem) -> bool:
    """Whether the weight is stored in a way that tiles read slowly, and multiplied often enough to pack it."""
    positions = p.images * p.positions
    if p.weight[1] == 1:
        return positions >= _LEAST_PACKED_POSITIONS and do_rows_conflict(p.weight[0], p.dtype)
    return positions >= _LEAST_TRANSPOSED_POSITIONS and is_avx2(p.dtype)


def _collected(p: Problem, rows: int, most: int, columns: int) -> tuple[int, int]:
    """How many positions are multiplied in place, and of how many images the rest is collected: 0 if there is none."""
    strided = p.stride != (1, 1)
    whole = 0 if strided else p.positions // columns * columns
    rest = p.positions - whole
    most = min(most, _COLLECTED_BYTES // (SIZES[p.dtype] * max(1, rest) * (p.channels + rows)))
    if rest == 0 or most < 2:
        return (0, 1) if strided else (p.positions, 0)

    def cost(images: int) -> float:
        """Panels per image."""
        wide, left = divmod(images * rest, columns)
        last = min(1.0, _SLIM_COST * -(-left // lanes_of(p.dtype).vector))
        return whole / columns + (wide + last) / images

    best = min(cost(images) for images in range(1, most + 1))
    images = next(n for n in range(1, most + 1) if cost(n) <= 1.002 * best)
    images = -(-most // -(-most // images))
    return (whole, images) if strided or images > 1 else (p.positions, 0)
