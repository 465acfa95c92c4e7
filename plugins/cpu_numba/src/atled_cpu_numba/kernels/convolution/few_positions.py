"""Convolutions whose result has few positions per image and many maps: maps in the lanes, positions in the rows.

A register tile is two vectors of maps by ten or twelve positions (five or six under AVX2), of which no vector of
positions is filled badly: 49 positions are five tiles of ten. Tiles are within rows, where these fill them. Elsewhere
the columns of the source are unfolded, see `shared.geometry`, so that positions follow one another through every tap;
a 1 x 1 kernel reads the source in place. Where tiles are low and panels of maps many, the more of them the larger the
planes, it collects it first, tile by tile: so a tile reads few lines, longer sums stay in the level-1 cache, and
results are transposed eight by eight.

Shares are made of images, groups and panels of maps; each copies or collects the planes of its groups. Of several
images each packs a panel once, unless it is given the panels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from atled.plugin import Prepared
from atled_cpu_numba.kernels.convolution.copied_planes import CopiedPlanes, copied_words, make_copy_planes
from atled_cpu_numba.kernels.convolution.images import phase_words
from atled_cpu_numba.kernels.convolution.packed_weights import weights_in_panels
from atled_cpu_numba.kernels.convolution.problem import Task
from atled_cpu_numba.kernels.products.matmul_plan import even_step
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, PACK_SLACK, Pack
from atled_cpu_numba.kernels.shared.geometry import windows
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    fitting_shares,
    in_lines,
    kernels_by_dtype,
    launch,
    optional_words,
    piece_starts,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of

_MOST_POSITIONS = 1024  # more, and planes that are read again for every panel of maps leave the nearer caches
# The same of products that read the source in place, where tiles are low: more, and tiles with positions in the lanes
# take down to .73 of the time (Zen 3; at 196 the same, at 49 and 100 up to 1.16).
_MOST_PRODUCT_POSITIONS = 200
MOST_IMAGES = 2  # more, and their positions fill vectors together
_MOST_LANES = 1.1  # positions computed per position of a row, for tiles within rows; of an image, for more images
_PLANES_BYTES = 24 << 10  # of an image's planes that stay in the level-1 cache, whatever the number of images
_NEVER = 1 << 60
_TERMS_AHEAD = 32  # of weights that nobody has asked for yet
# Of a sum of a 1 x 1 kernel with a stride, so that more images pay, too: on Zen 3 eight of 512 channels take .86 of the
# time of products of them all, of 1024 .83, of 256 as long.
_MANY_TERMS = 512
# The same without a stride: where sums are computed as a whole, a panel of so many terms is three times the level-1
# cache. On Zen 3 eight images of 1024 channels take .94 to .96 of the time, of 2048 .87, of 4096 .74, of 512 and 768
# .95 to 1.03; where weights are packed in each run, of 1024 .96 to .99, of 2048 .91 to .95.
_MANY_TERMS_IN_PLACE = 1024
# The same of weights that leave the level-2 cache, which products of all images read again for each panel of positions,
# where an image stays there and images are few. On Zen 3 three images of 7 x 7 take .93 to .95 of the time; eight with
# 320 channels and 1280 maps .97, with 512 and 512 .97, with 160 and 960 1.0, within a network .96 and .97; 32 images
# .995 to 1.03. Of smaller weights, 576 channels and 160 maps, eight take 1.04.
_FAR_WEIGHT_BYTES = 512 << 10
_NEAR_IMAGE_BYTES = 256 << 10  # larger ones, 528 channels of 14 x 14, take 1.02
_SOME_IMAGES = 8  # 32 gain nothing, see above
_LEAST_TERMS = 64  # of a sum; fewer, and transposing a tile takes longer than it saves
# Of a panel at a time: with the lines of the source that a tile reads, which the tiles beside it read again, they stay
# in the level-1 cache.
_MOST_TERMS = 128
_MOST_COLLECTED_TERMS = 320  # the same where a tile has lines of its own
_LOW_COST = 1.02  # of a position by the lower tiles, of which there are more
# Of a position of a 3 x 3 kernel, in those of vectors of windows: on Zen 3, 49 positions take .88 of the time of 56
# windows, 36 that of 40, but 81 as long as 88, and 64 1.1 of 64.
_WINDOW_COST = 1.06
# Of groups, by 3 x 3 kernels: terms of a sum, and maps in panels. On Zen 3, 49 positions of groups of 32 maps take .84
# to .88 of the time of windows in panels, of 64 maps .88, 784 .94; groups of 16 maps .95 to .98 of that of rows.
_LEAST_GROUP_TERMS = 144
_MOST_GROUP_PANELS = 4
_COLLECTING_PANELS = 4  # of maps; fewer, and collecting takes longer than it saves
# The same of a source that could be read in place, whose planes, as many as there are terms at a time, leave the
# level-1 cache: each tile then finds its lines in the one behind it, collected or not. On Zen 3, with 192 channels or
# more, 14 x 14 positions in place take .87 to .93 of the time with 64 maps, .95 with 96, .93 to .99 with 128 and 160,
# as long with 192, and 1.02 with 384; 10 x 10 and 12 x 12 .87 to .95, up to 192 maps .98; 9 x 9 and 13 x 13 .93 to
# 1.01. 8 x 8, which do not leave it, take up to 1.2, 7 x 7 1.05 to 1.12. Of double, 14 x 14 take .81 to .96, 7 x 7 .89
# to 1.03.
_FAR_COLLECTING_PANELS = 12
_NEAR_PLANES_BYTES = 32 << 10
_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares


@layout
class Block(CopiedPlanes):
    """What the kernel reads; lengths in elements, starts in bytes of a share's workspace. Offsets of taps follow.

    Where the source is read in place, nothing is copied: `copy_images` is 0 then, `channel_length` that of the source.
    """

    pack: int  # address of PACK
    weight: int
    bias: int  # or 0
    y: int
    workspace: int
    share_bytes: int  # of workspace, which begins with the block of a piece
    maps: int
    positions: int
    taps: int
    offsets_start: int
    bias_start: int
    packed_start: int
    panel_bytes: int  # from panel to panel of what is packed there for all images; 0: one panel, for one unit
    sums_start: int
    planes_start: int
    tiles_start: int  # of what is collected
    lower: int  # 1: tiles of fewer positions waste less
    runs: int  # of positions that follow one another: rows, or all as one
    run_length: int
    run_step: int  # of the source, from run to run
    collects: int  # 1: the source of a 1 x 1 kernel is collected tile by tile
    leaves: int  # 1: tiles leave their sums position by position, to be transposed by whole vectors
    k_step: int  # terms of all tiles of a panel, before the next ones
    packed: int  # address of the packed weights, or 0
    after: int  # range kernel to run on what is written of the result, or 0
    after_block: int


def can(task: Task) -> bool:
    """Whether it is computed here: a convolution whose maps fill panels, with a tile of positions."""
    lanes = lanes_of(task.dtype)
    are_filled = task.maps % lanes.columns == 0 and math.prod(task.result) >= lanes.rows
    return task.forward and are_filled


def suits(task: Task) -> bool:
    """Whether it pays, too: positions are few."""
    are_products = task.is_pointwise and lanes_of(task.dtype).has_short_tiles
    is_strided = are_products and task.stride != (1, 1)
    if is_strided:
        is_one_by_one = task.channels >= _MANY_TERMS
    else:
        are_many = task.channels >= _MANY_TERMS_IN_PLACE or _has_far_weights(task)
        is_filled = _fills_tiles(math.prod(task.result), task.dtype)
        is_one_by_one = _is_near(task) or (are_many and is_filled and _could_collect(task))
    return (
        can(task)
        and (task.groups == 1 or suits_groups(task))
        and not (is_strided and not _could_collect(task))
        and math.prod(task.result) <= (_MOST_PRODUCT_POSITIONS if are_products else _MOST_POSITIONS)
        and task.channels * math.prod(task.kernel) >= _LEAST_TERMS
        and (task.images <= MOST_IMAGES or is_one_by_one)
    )


def suits_groups(task: Task) -> bool:
    """Whether groups are such that it pays: so small that windows in panels are collected for few maps."""
    lanes = lanes_of(task.dtype)
    has_windows = task.kernel == (3, 3) and max(task.stride) <= 2 and task.dilation == (1, 1)
    is_small = task.channels * 9 >= _LEAST_GROUP_TERMS and task.maps <= _MOST_GROUP_PANELS * lanes.columns
    return task.groups > 1 and lanes.has_short_tiles and can(task) and has_windows and is_small


def precedes_panels(task: Task) -> bool:
    """Whether it takes less time than windows in panels: of small groups, or where tiles waste less than vectors."""
    lanes, positions = lanes_of(task.dtype), math.prod(task.result)
    if task.groups > 1:
        return suits(task)
    if not (lanes.has_short_tiles and can(task) and task.is_3x3 and task.images == 1):
        return False
    computed = min(_computed(positions, rows) for rows in _tile_rows(task.dtype))
    return _WINDOW_COST * computed <= -(-positions // lanes.vector) * lanes.vector


def _is_near(task: Task) -> bool:
    """Whether each image stays in the level-1 cache, and other kernels would have to read it from farther away."""
    near = SIZES[task.dtype] * task.channels * math.prod(task.source) <= _PLANES_BYTES
    return lanes_of(task.dtype).has_short_tiles and _has_whole_rows(task) and near


def _has_far_weights(task: Task) -> bool:
    """Whether the weights of a 1 x 1 kernel leave the level-2 cache, and each of some images stays there."""
    element = SIZES[task.dtype]
    is_near = element * task.channels * math.prod(task.source) <= _NEAR_IMAGE_BYTES
    return is_near and task.images <= _SOME_IMAGES and element * task.channels * task.maps > _FAR_WEIGHT_BYTES


def _in_place(task: Task) -> bool:
    return task.is_pointwise and task.stride == (1, 1)


def _could_collect(task: Task) -> bool:
    """Whether the source of a 1 x 1 kernel has so many panels of maps that collecting it takes less than it saves."""
    lanes = lanes_of(task.dtype)
    has_panels = lanes.has_short_tiles and task.maps >= _COLLECTING_PANELS * lanes.columns
    return task.is_pointwise and has_panels and math.prod(task.result) >= lanes.vector


def _collects(task: Task) -> bool:
    """Whether the source is collected tile by tile before it is multiplied."""
    step_bytes = SIZES[task.dtype] * _MOST_TERMS * math.prod(task.result)
    is_near = not _in_place(task) or step_bytes <= _NEAR_PLANES_BYTES
    least_maps = _FAR_COLLECTING_PANELS * lanes_of(task.dtype).columns
    return _could_collect(task) and (is_near or task.maps >= least_maps)


def _has_whole_rows(task: Task) -> bool:
    """Whether tiles within rows waste little."""
    return not _in_place(task) and _fills_tiles(task.result[1], task.dtype)


def _fills_tiles(positions: int, dtype: str) -> bool:
    """Whether tiles of so many positions waste little."""
    return min(_computed(positions, rows) for rows in _tile_rows(dtype)) <= _MOST_LANES * positions


def _tile_rows(dtype: str) -> tuple[int, int]:
    """Positions of the two kinds of tiles."""
    rows = lanes_of(dtype).rows
    return rows * 5 // 6, rows


def _fill_no_square(dtype: str) -> bool:
    """Whether tiles, though not low, have fewer positions than a vector has lanes: under AVX-512.

    Transposed one by one and written in parts of vectors, 12 x 32 sums take 184 moves between lanes, which Intel's
    processors make on one port. As parts of whole squares they take at most 96, of what other ports leave and read.
    """
    lanes = lanes_of(dtype)
    return not lanes.has_short_tiles and lanes.rows < lanes.vector


def _computed(positions: int, rows: int) -> int:
    """Positions computed for so many by tiles of `rows`; where there are fewer, no tile fits."""
    return -(-positions // rows) * rows if positions >= rows else _NEVER


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, ints64, words
    from atled_cpu_numba.kernels.convolution.lane_tiles import (
        make_collect_tile,
        make_collected_tile,
        make_position_tile,
    )
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import make_copy_rows, make_transpose_block

    element, floats, lanes = SIZES[dtype], Real(dtype).pointer, lanes_of(dtype)
    (low, high), columns, can_leave = _tile_rows(dtype), lanes.columns, _fill_no_square(dtype)
    copy_planes = make_copy_planes(dtype)
    tile_high = make_position_tile(high, columns // lanes.vector, dtype)
    tile_low = make_position_tile(low, columns // lanes.vector, dtype)
    collected_high = make_collected_tile(high, columns // lanes.vector, dtype)
    collected_low = make_collected_tile(low, columns // lanes.vector, dtype)
    collect_high, collect_low = make_collect_tile(high, dtype), make_collect_tile(low, dtype)
    low_reach, high_reach = (-(-rows // lanes.vector) * lanes.vector for rows in (low, high))
    copy_rows, transpose_block, vector = make_copy_rows(dtype), make_transpose_block(dtype), lanes.vector

    @piece
    def collect(low_tiles, x, x_row, positions, k, to):
        """Tiles of all positions, term by term, which are x_row apart; zeros where the last one has none.

        Some terms of all tiles before the next ones: the lines of the source that neighbours share, of longer sums,
        leave the level-1 cache before the next tile.
        """
        rows, reach = (low, low_reach) if low_tiles else (high, high_reach)
        for block in range((k + _MOST_TERMS - 1) // _MOST_TERMS):
            first = block * _MOST_TERMS
            count = min(_MOST_TERMS, k - first)
            for tile in range((positions + rows - 1) // rows):
                at, left = x + element * (first * x_row + tile * rows), positions - tile * rows
                target = to + element * (tile * k + first) * rows
                # What is written behind terms is replaced by the next ones, but behind the last ones by no others.
                whole = count - (first + count) // k if left >= reach else 0
                if low_tiles:
                    collect_low((whole, at, x_row, target))
                else:
                    collect_high((whole, at, x_row, target))
                at, target = at + element * whole * x_row, target + element * whole * rows
                if left < rows:
                    rest = floats(target)
                    for i in range((count - whole) * rows):
                        rest[i] = 0.0
                copy_rows((at, x_row, target, rows, count - whole, min(rows, left)))

    @piece
    def transpose_sums(sums_at, at, y, positions):
        """Write a vector of positions, from `at` on, of all maps of a panel."""
        for m in range(0, columns, vector):
            source = sums_at + element * (at * columns + m)
            transpose_block((source, columns, vector, y + element * (m * positions + at), positions))

    @piece
    def multiply_collected(low_tiles, x, positions, k, k_step, weights, bias_at, sums_at, y, is_first):
        """The maps of a panel at all positions, by way of sums that lie position by position."""
        rows = low if low_tiles else high
        for k_part in range((k + k_step - 1) // k_step):  # a range with a step that is a variable could raise
            k0 = k_part * k_step
            kc = min(k_step, k - k0)
            b = weights + element * k0 * columns
            tiles = (positions + rows - 1) // rows
            # The weights that come next are asked for, a piece of them by each tile; before all others, its own.
            ahead, ahead_step = b + element * kc * columns, (columns + tiles - 1) // tiles
            for tile in range(tiles):
                is_own = is_first and k0 == 0 and tile == 0
                wanted = b + element * _TERMS_AHEAD * columns if is_own else ahead
                wanted_step = columns if is_own else ahead_step
                a, kept = x + element * (tile * k + k0) * rows, sums_at + element * tile * rows * columns
                s, s_step = (bias_at, 0) if k0 == 0 else (kept, columns)
                if low_tiles:
                    collected_low((kc, a, b, s, s_step, kept, wanted, wanted_step))
                else:
                    collected_high((kc, a, b, s, s_step, kept, wanted, wanted_step))
                ahead += element * kc * ahead_step
        for m in range(0, columns, vector):
            for p in range(0, positions, vector):
                at = min(p, positions - vector)  # the last ones overlap those before
                source = sums_at + element * (at * columns + m)
                transpose_block((source, columns, vector, y + element * (m * positions + at), positions))

    @piece
    def multiply(w, x, k, offsets_at, weights, bias_at, sums_at, y, is_first):
        """The same where tiles read the planes, and write the maps themselves unless they leave their sums."""
        positions, k_step = w[Block.positions], w[Block.k_step]
        rows = low if w[Block.lower] != 0 else high
        runs, run_length = w[Block.runs], w[Block.run_length]
        tiles = (run_length + rows - 1) // rows
        for k_part in range((k + k_step - 1) // k_step):  # a range with a step that is a variable could raise
            k0 = k_part * k_step
            kc = min(k_step, k - k0)
            taps_at, b = offsets_at + 8 * k0, weights + element * k0 * columns
            is_last, written = k0 + kc == k, 0
            kept = sums_at
            ahead, ahead_step = b + element * kc * columns, (columns + runs * tiles - 1) // (runs * tiles)
            for run in range(runs):
                for tile in range(tiles):
                    at = min(tile * rows, run_length - rows)  # the last one overlaps the one before
                    place = run * run_length + at
                    a, c = x + element * (run * w[Block.run_step] + at), y + element * place
                    s, s_step = (bias_at, 0) if k0 == 0 else (kept, columns)
                    left = 0 if is_last else kept
                    if can_leave and is_last and w[Block.leaves] != 0:
                        # Position by position: no further on than the sums of tiles to come, which wait there.
                        left = sums_at + element * place * columns
                    is_own = is_first and k0 == 0 and run == 0 and tile == 0
                    wanted = b + element * _TERMS_AHEAD * columns if is_own else ahead
                    wanted_step = columns if is_own else ahead_step
                    if w[Block.lower] != 0:
                        tile_low((kc, taps_at, a, b, s, s_step, left, c, positions, wanted, wanted_step))
                    else:
                        tile_high((kc, taps_at, a, b, s, s_step, left, c, positions, wanted, wanted_step))
                    kept += element * rows * columns
                    ahead += element * kc * ahead_step
                    if can_leave and is_last and w[Block.leaves] != 0:
                        # A vector of positions as soon as it is there, while it is in the level-1 cache.
                        while written + vector <= place + rows:
                            transpose_sums(sums_at, written, y, positions)
                            written += vector
        if can_leave and w[Block.leaves] != 0 and positions % vector != 0:
            transpose_sums(sums_at, positions - vector, y, positions)  # these overlap those before

    @kernel
    def few_positions(block, part, parts):
        w = words(block)
        channels, maps, positions, taps = w[Block.channels], w[Block.maps], w[Block.positions], w[Block.taps]
        size, k, k_step = w[Block.height] * w[Block.width], channels * taps, w[Block.k_step]
        groups, panels = w[Block.groups], maps // columns
        inner = w[Block.workspace] + part * w[Block.share_bytes]
        q = words(inner)
        offsets_at, bias_at = inner + w[Block.offsets_start], inner + w[Block.bias_start]
        sums_at, planes_at = inner + w[Block.sums_start], inner + w[Block.planes_start]
        offsets, bias, tiles_at = ints64(offsets_at), floats(bias_at), inner + w[Block.tiles_start]
        all_panels = groups * panels
        units = w[Block.images] * all_panels
        first_unit, last_unit = units * part // parts, units * (part + 1) // parts
        if first_unit == last_unit:
            return 0
        for channel in range(channels):
            for t in range(taps):
                offsets[channel * taps + t] = channel * w[Block.channel_length] + w[OFFSETS + t]
        if w[Block.copy_images] != 0:
            planes = floats(planes_at)
            for i in range(channels * w[Block.channel_length]):
                planes[i] = 0.0
        copied = -1
        for unit in range(first_unit, last_unit):
            place = unit // panels  # of the group in all images
            image = place // groups
            group = place - image * groups
            first = (unit - image * all_panels) * columns  # of the maps of all groups
            x = w[Block.x] + element * place * channels * size
            if w[Block.copy_images] != 0:
                if place != copied:
                    copied = place
                    copy_planes(block, inner, group, 0, channels, image, 1, planes_at)
                    if w[Block.collects] != 0:
                        collect(w[Block.lower] != 0, planes_at, w[Block.channel_length], positions, k, tiles_at)
                x = planes_at
            elif w[Block.collects] != 0 and place != copied:
                copied = place
                collect(w[Block.lower] != 0, x, positions, positions, k, tiles_at)
            weights = inner + w[Block.packed_start] + (unit - image * all_panels) * w[Block.panel_bytes]
            if w[Block.packed] != 0:
                weights = w[Block.packed] + element * first * k
            elif w[Block.panel_bytes] == 0 or unit - first_unit < all_panels:
                source = w[Block.weight] + element * first * k
                q[Pack.source], q[Pack.row], q[Pack.column], q[Pack.rows] = source, k, 1, columns
                q[Pack.k], q[Pack.target], q[Pack.width] = k, weights, columns
                call3(w[Block.pack], inner, 0, 1)
            for m in range(columns):
                bias[m] = floats(w[Block.bias])[first + m] if w[Block.bias] != 0 else 0.0
            start = (image * groups * maps + first) * positions
            y = w[Block.y] + element * start
            is_first = unit == first_unit
            if w[Block.collects] != 0:
                is_low = w[Block.lower] != 0
                multiply_collected(is_low, tiles_at, positions, k, k_step, weights, bias_at, sums_at, y, is_first)
            else:
                multiply(w, x, k, offsets_at, weights, bias_at, sums_at, y, is_first)
            if w[Block.after] != 0:
                call3(w[Block.after], w[Block.after_block], start, start + columns * positions)
        return 0

    return few_positions


OFFSETS = size_of(Block)  # the word where the offsets of the taps start
FEW_POSITIONS = kernels_by_dtype("few_positions", _build)


def prepare(task: Task, biases: Sequence[bool]) -> Prepared:
    """The convolution of a task that `suits`; biases: for each input behind the weight, whether it is there."""
    lanes, element = lanes_of(task.dtype), SIZES[task.dtype]
    in_place, collects = _in_place(task), _collects(task)
    by_rows = _has_whole_rows(task) and not collects
    planes, (result,) = windows(task.source, task.kernel, task.pad, task.stride, task.dilation, unfold=not by_rows)
    positions, k = math.prod(task.result), task.channels * len(result.taps)
    runs, run_length = task.result if by_rows else (1, positions)
    low, high = (_computed(run_length, rows) for rows in _tile_rows(task.dtype))
    plane_length = planes.plane_length(1, 0)
    is_low = low * _LOW_COST < high if collects else low < high
    rows = _tile_rows(task.dtype)[0 if is_low else 1]
    channel_length = positions if in_place else len(planes.phases) * plane_length
    offsets = [0 if in_place else tap.phase * plane_length + planes.front + planes.offset(tap) for tap in result.taps]
    k_step = even_step(k, _MOST_COLLECTED_TERMS if collects else _MOST_TERMS, 1)
    tiled = -(-run_length // rows) * rows  # positions of a run
    leaves = _fill_no_square(task.dtype) and not collects and positions >= lanes.vector
    panels, panel_bytes = task.groups * task.maps // lanes.columns, element * (k * lanes.columns + PACK_SLACK)
    packs_all = task.images > MOST_IMAGES
    starts = piece_starts(
        8 * BLOCK_WORDS,
        {
            "offsets_start": 8 * k,
            "bias_start": element * lanes.columns,
            "packed_start": panel_bytes * (panels if packs_all else 1),
            "sums_start": element * lanes.columns * runs * tiled if collects or leaves or k_step < k else 0,
            "planes_start": 0 if in_place else element * task.channels * channel_length,
            "tiles_start": element * task.channels * tiled if collects else 0,
        },
    )
    work_us = 2.0 * task.images * task.groups * task.maps * k * positions / _FLOPS_PER_US
    parts = share_count(work_us, task.images * panels)
    if collects or not in_place:  # every share copies planes
        parts = -(-parts // 2)
    parts = fitting_shares(parts, starts["share_bytes"])
    copied = copied_words(planes, plane_length, task.dtype)
    if in_place:
        copied.update(copy_images=0, channel_length=channel_length)
    words = filled(
        Block,
        **copied,
        pack=PACK[task.dtype].address(),
        images=task.images,
        groups=task.groups,
        channels=task.channels,
        height=task.source[0],
        width=task.source[1],
        maps=task.maps,
        positions=positions,
        taps=len(result.taps),
        phases_at=OFFSETS + len(offsets),
        k_step=k_step,
        lower=int(is_low),
        runs=runs,
        run_length=run_length,
        run_step=planes.row_pitch,
        collects=int(collects),
        leaves=int(leaves),
        panel_bytes=panel_bytes if packs_all else 0,
        **starts,
    )
    arguments = (Block.x, Block.weight, *optional_words(Block.bias, biases), Block.y, Block.workspace)
    return launch(
        FEW_POSITIONS[task.dtype],
        [*words, *offsets, *phase_words(planes)],
        arguments,
        parts=parts,
        workspace=in_lines(starts["share_bytes"] * parts),
        after={0: Block.after},
        packs=(weights_in_panels(Block.packed, task.groups, task.maps, k, lanes.columns, task.dtype),),
        note="direct, few positions" + (", tile by tile" if collects else ", in place" if in_place else ""),
    )
