"""The gradient of a convolution with respect to its weight in bf16, by the matrix unit (AMX).

gw (maps, channels x taps) = sum over images and positions of gy (maps, positions) by x (positions, channels x taps).
The positions of some images, or some rows of one, are packed at once: those of gy as rows for all maps, those of x,
shifted by the tap, as a panel of 32 columns, which is multiplied by all of gy. Sums are float32, kept for all columns
of a piece until the last position, and rounded once. Rows of an odd number of positions get a zero behind them, so that
pairs of positions lie side by side in memory; 16 columns of 16 pairs are transposed at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from atled.plugin import Call, Prepared
from atled_cpu_numba import matrix_unit
from atled_cpu_numba.kernels.convolution.phase_planes import PLANES_WORDS, make_fill_planes, planes_of, put_planes
from atled_cpu_numba.kernels.convolution.problem import Task
from atled_cpu_numba.kernels.products.matmul_plan import round_up
from atled_cpu_numba.kernels.products.tile_products import (
    CONFIGURATION_BYTES,
    DEPTH,
    FLOPS_PER_US,
    NOTE,
    PANEL,
    TILE,
    are_worth_tiles,
    row_pitch,
)
from atled_cpu_numba.kernels.shared.launch import fitting_shares, launch, piece_starts, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of
from atled_cpu_numba.kernels.shared.leading_axes import Axis, merge_axes, two_axes
from atled_cpu_numba.store import Kernel

_FEW_POSITIONS = 1024  # of an image: several are taken together, or sums would be loaded and stored too often
_BLOCK_BYTES = 1024  # of 16 x 16 pairs: so much may be written behind a panel, or a part of it read behind planes
_MOST_POSITIONS = 2048  # packed at once: with the rows of gy they stay in the level-2 cache


@layout
class Block:
    """What the kernel reads. Strides in elements, of 2 bytes."""

    x: int  # address
    gy: int  # address
    gw: int  # address
    images: int
    channels: int
    maps: int
    places: int  # of the kernel
    result_rows: int
    result_columns: int
    pieces: int  # of columns, one of which a share has workspace for
    images_at_once: int
    rows_at_once: int  # of positions, of all images that are taken together
    x_image: int
    channel: int  # of x, or of its planes
    pitch: int  # from row to row in there
    is_planes: int  # whether x is read from `planes`, or as it is
    planes: int = PLANES_WORDS
    workspace: int
    share_bytes: int
    a_at: int  # bytes from the share's workspace: rows of gy
    a_pitch: int  # bytes from row to row
    panel_at: int  # tiles of x
    table_at: int  # where 16 columns of x begin
    planes_at: int
    sums_at: int


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats32, ints16, ints32, ints64, words
    from atled_cpu_numba.kernels.shared.matrix_tiles import add_product, configure, release, transpose_pairs
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_narrow_rows
    from atled_cpu_numba.kernels.shared.options import kernel, piece

    narrow_rows, fill_planes = make_narrow_rows("bfloat16", PANEL), make_fill_planes()
    block_bytes = 8 * size_of(Block)  # the taps are behind it

    @piece
    def pack_maps(w, first_image, first_row, rows, depth, target):
        """Rows of gy, one for each map; rows behind the last one repeat it."""
        maps, result_rows, columns = w[Block.maps], w[Block.result_rows], w[Block.result_columns]
        for r in range((maps + PANEL - 1) // PANEL * PANEL):
            y = ints16(target + r * w[Block.a_pitch])
            number = 0
            for row in range(first_row, first_row + rows):
                image = row // result_rows
                place = (first_image + image) * maps + min(r, maps - 1)
                x = ints16(w[Block.gy] + 2 * (place * result_rows + row - image * result_rows) * columns)
                for i in range(columns):
                    y[number + i] = x[i]
                number += columns
                if columns % 2:
                    y[number] = 0
                    number += 1
            for i in range(number, depth):
                y[i] = 0

    @piece
    def pack_columns(w, taps, x, image_step, first_channel, first_column, first_row, rows, steps, panel, table):
        """A panel of x; columns behind the last one repeat it."""
        places, result_rows = w[Block.places], w[Block.result_rows]
        pairs = (w[Block.result_columns] + 1) // 2
        starts = ints64(table)
        for half in range(2):
            target = panel + 1024 * steps * half
            for j in range(TILE):
                column = min(first_column + half * TILE + j, w[Block.channels] * places - 1)
                channel = column // places
                tap = taps[column - channel * places]
                starts[j] = x + 2 * ((channel - first_channel) * w[Block.channel] + tap)
            for row in range(first_row, first_row + rows):
                image = row // result_rows
                at = 2 * (image * image_step + (row - image * result_rows) * w[Block.pitch])
                for block_of_pairs in range((pairs + TILE - 1) // TILE):
                    # The last block moves back, so that nothing is read behind the row; what a short row has too much
                    # is written over by the next one.
                    first = max(0, min(block_of_pairs * TILE, pairs - TILE))
                    last = pairs - 1 - first if w[Block.result_columns] % 2 else -1
                    transpose_pairs((table, at + 4 * first, target + 64 * first, 0xFFFF, last))
                target += 64 * pairs
            end = ints32(target)
            for i in range((steps * TILE - rows * pairs) * TILE):
                end[i] = 0

    @piece
    def sum_panels(w, planes, taps, share, first_panel, after_panel):
        """The gradient's columns of these panels."""
        images, channels, maps, places = w[Block.images], w[Block.channels], w[Block.maps], w[Block.places]
        images_at_once, rows_at_once, columns = w[Block.images_at_once], w[Block.rows_at_once], channels * places
        pairs_of_row = (w[Block.result_columns] + 1) // 2
        # The channels that these columns belong to.
        first_channel, own_channels = 0, channels
        if w[Block.is_planes] != 0:
            first_channel = first_panel * PANEL // places
            own_channels = (min(columns, after_panel * PANEL) - 1) // places + 1 - first_channel
        a_at, panel_at, sums_at = share + w[Block.a_at], share + w[Block.panel_at], share + w[Block.sums_at]
        table, pitch = share + w[Block.table_at], w[Block.a_pitch]
        blocks_of_maps = (maps + PANEL - 1) // PANEL
        sums = floats32(sums_at)
        for i in range((after_panel - first_panel) * blocks_of_maps * PANEL * PANEL):
            sums[i] = 0.0
        for group in range((images + images_at_once - 1) // images_at_once):
            first_image = group * images_at_once
            count = min(images_at_once, images - first_image)
            x, image_step = w[Block.x] + 2 * first_image * w[Block.x_image], w[Block.x_image]
            if w[Block.is_planes] != 0:
                planes_at, image_step = share + w[Block.planes_at], own_channels * w[Block.channel]
                of_channel = w[Block.x_image] // channels
                for image in range(count):
                    source = x + 2 * (image * w[Block.x_image] + first_channel * of_channel)
                    fill_planes(planes, source, planes_at + 2 * image * image_step, own_channels)
                x = planes_at
            all_rows = count * w[Block.result_rows]
            for step_of_rows in range((all_rows + rows_at_once - 1) // rows_at_once):
                first_row = step_of_rows * rows_at_once
                rows = min(rows_at_once, all_rows - first_row)
                steps = (rows * pairs_of_row + TILE - 1) // TILE
                pack_maps(w, first_image, first_row, rows, steps * DEPTH, a_at)
                for panel in range(first_panel, after_panel):
                    column = panel * PANEL
                    pack_columns(w, taps, x, image_step, first_channel, column, first_row, rows, steps, panel_at, table)
                    for number in range(blocks_of_maps):
                        c = sums_at + 4096 * ((panel - first_panel) * blocks_of_maps + number)
                        a = a_at + number * PANEL * pitch
                        add_product((a, pitch, panel_at, 1024 * steps, steps, c, 4 * PANEL))
        for panel in range(first_panel, after_panel):
            c = sums_at + 4096 * (panel - first_panel) * blocks_of_maps
            count = min(PANEL, columns - panel * PANEL)
            narrow_rows((c, PANEL, w[Block.gw] + 2 * panel * PANEL, columns, maps, count))

    @kernel
    def tile_weight(block, part, parts):
        w = words(block)
        pieces, panels = w[Block.pieces], (w[Block.channels] * w[Block.places] + PANEL - 1) // PANEL
        planes, taps = words(block + 8 * Block.planes), ints64(block + block_bytes)
        share = w[Block.workspace] + part * w[Block.share_bytes]
        configure((share,))
        for number in range(pieces * part // parts, pieces * (part + 1) // parts):
            first_panel, after_panel = panels * number // pieces, panels * (number + 1) // pieces
            sum_panels(w, planes, taps, share, first_panel, after_panel)
        release(())
        return 0

    return tile_weight


TILE_WEIGHT = Kernel("tile_weight", _build, parameters=matrix_unit.PARAMETERS)


def prepare(call: Call) -> Prepared | None:
    """ConvolutionWeightGrad in bf16; None where the matrix unit is not there, or has too little to do."""
    if call.spec.name != "ConvolutionWeightGrad" or not matrix_unit.multiplies_bf16():
        return None
    x, gy, gw = call.inputs[0], call.inputs[1], call.outputs[0]
    assert x is not None
    assert gy is not None
    if any(desc.dtype.name != "bfloat16" or desc.strides is not None for desc in (x, gy, gw)):
        return None
    task = _task(call)
    if task is None:
        return None
    positions = math.prod(task.result)
    if not are_worth_tiles(task.maps, DEPTH, task.channels * math.prod(task.kernel)):
        return None
    return _launch(task) if task.images * positions >= TILE else None


def _task(call: Call) -> Task | None:
    """The convolution of which this is the gradient; None for what is not a single group over one or two axes."""
    attributes, x, gy = call.attributes, call.inputs[0], call.inputs[1]
    assert x is not None
    assert gy is not None
    axis = attributes["base_axis"]
    geometry = (attributes[name] for name in ("kernel", "pad", "stride", "dilation"))
    axes = merge_axes(map(Axis, x.shape[axis + 1 :], gy.shape[axis + 1 :], *geometry))
    if attributes["group"] != 1 or attributes.get("channel_last") or len(axes) > 2:
        return None
    sizes, counts, kernel, pad, stride, dilation = two_axes(axes)
    images, channels, maps = math.prod(x.shape[:axis]), x.shape[axis], gy.shape[axis]
    return Task(True, images, 1, channels, maps, sizes, counts, kernel, pad, stride, dilation, x.dtype.name)


def _launch(task: Task) -> Prepared:
    result, source = task.result, math.prod(task.source)
    planes: Mapping[str, int] = {}
    taps: tuple[int, ...]
    if task.is_pointwise and task.stride == (1, 1) and source % 2 == 0 and source >= 2 * TILE:
        result, taps, channel, pitch = (1, source), (0,), source, source
    else:
        shape = planes_of(task)
        planes, taps, channel, pitch = shape.words, shape.taps, shape.channel, shape.pitch
    positions = result[0] * round_up(result[1], 2)
    images_at_once = min(task.images, max(1, -(-_FEW_POSITIONS // positions)))
    rows = images_at_once * result[0]
    if images_at_once == 1:
        rows = -(-rows // -(-positions // _MOST_POSITIONS))
    depth = round_up(rows * round_up(result[1], 2), DEPTH)
    pitch_of_maps = row_pitch(depth)
    columns = task.channels * len(taps)
    panels = -(-columns // PANEL)
    work_us = 2.0 * task.images * positions * task.maps * columns / FLOPS_PER_US
    parts = share_count(work_us, panels)
    while True:
        own = min(task.channels, -(-PANEL * -(-panels // parts) // len(taps)) + 1)
        sizes = piece_starts(
            CONFIGURATION_BYTES,
            {
                "a_at": pitch_of_maps * round_up(task.maps, PANEL),
                "panel_at": 2 * PANEL * depth + _BLOCK_BYTES,
                "table_at": 8 * TILE,
                "planes_at": 2 * images_at_once * own * channel + _BLOCK_BYTES if planes else 0,
                "sums_at": 4 * PANEL * -(-panels // parts) * round_up(task.maps, PANEL),
            },
        )
        fitting = fitting_shares(parts, sizes["share_bytes"])
        if fitting == parts:
            break
        parts = fitting
    words = filled(
        Block,
        images=task.images,
        channels=task.channels,
        maps=task.maps,
        places=len(taps),
        result_rows=result[0],
        result_columns=result[1],
        pieces=parts,
        images_at_once=images_at_once,
        a_pitch=pitch_of_maps,
        rows_at_once=rows,
        x_image=task.channels * source,
        channel=channel,
        pitch=pitch,
        is_planes=int(bool(planes)),
        **sizes,
    )
    put_planes(words, Block.planes, planes)
    return launch(
        TILE_WEIGHT,
        [*words, *taps],
        (Block.x, Block.gy, Block.gw, Block.workspace),
        parts=parts,
        workspace=sizes["share_bytes"] * parts,
        note=NOTE,
    )
