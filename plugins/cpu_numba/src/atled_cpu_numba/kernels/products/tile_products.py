"""Products in bf16 by the matrix unit (AMX), convolutions and their adjoints among them.

y (images, m, positions) = A (m, k) B (images, k, positions). A is the weight of a convolution, or the first matrix of a
product; each share copies its rows once. A panel of B, of 32 columns and all k, is packed right before it is
multiplied by all rows of A; sums stay in the tiles over all k, are float32, and are rounded once.

The columns of a convolution's B are never made as a whole: its row (channel, tap) is a plane of the source, padded, and
shifted by the tap. With strides, a plane is cut into phases, so that the positions of a tap lie side by side again; the
adjoint has zeros between its numbers instead. Results are computed for whole rows of the padded plane, and those beside
the result are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from atled.plugin import Call, NamedTuple, Prepared
from atled_cpu_numba import matrix_unit
from atled_cpu_numba.kernels.convolution.phase_planes import PLANES_WORDS, make_fill_planes, planes_of, put_planes
from atled_cpu_numba.kernels.convolution.problem import problem_of, task_of
from atled_cpu_numba.kernels.products.matmul import product_of
from atled_cpu_numba.kernels.products.matmul_plan import round_up
from atled_cpu_numba.kernels.shared.launch import fitting_shares, launch, optional_words, piece_starts, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of
from atled_cpu_numba.store import Kernel

FLOPS_PER_US = 500e3
"""A cautious rate of one core, for the number of shares: a fifth of 512 products per cycle."""

NOTE = "16x16 tiles of bf16, by AMX"

CONFIGURATION_BYTES = 64  # of the shapes of the tiles
TILE = 16  # rows of a tile, columns of a tile of C
DEPTH = 32  # numbers of a row of a tile of A
PANEL = 2 * TILE  # rows and columns that are multiplied at once

_LEAST = 16  # rows, columns and terms for which tiles are filled by half, or more
_A_ELEMENTS = 1 << 19  # packed at once: half of the level-2 cache of all processors that have tiles
_LONGEST_SUMS = 1 << 14  # a panel of B, with all of its rows, is to stay in that cache


@layout
class Block:
    """What the kernel reads. Strides in elements, of 2 bytes.

    A[r, i] is at r * a_row + i // a_run * a_group + i % a_run * a_column.
    B[i, p] is at i // b_run * b_group + taps[i % b_run] + p * b_column, of an image or of its planes.
    """

    a: int  # address
    a_row: int
    a_run: int
    a_group: int
    a_column: int
    b: int  # address
    b_image: int
    b_run: int
    b_group: int
    b_column: int  # 1, or the numbers of a column lie side by side
    y: int  # address
    y_image: int
    y_row: int
    bias: int  # address, or 0
    is_bias_of_rows: int
    images: int
    m: int
    k: int
    rows_at_once: int  # of A: a multiple of 32
    result_rows: int  # of positions; each has `pitch`, of which result_columns are wanted
    result_columns: int
    pitch: int
    is_planes: int  # whether B's rows come from `planes` made of an image; else from the image itself
    channels: int  # of an image
    planes: int = PLANES_WORDS
    workspace: int
    share_bytes: int
    a_at: int  # bytes from the share's workspace: rows of A
    a_pitch: int  # bytes from row to row
    panel_at: int  # tiles of B
    result_at: int  # of C, 32 x 32
    bias_at: int  # the bias widened
    rows_at: int  # where the rows of B begin, or columns of it
    spare_at: int  # two rows of a panel
    planes_at: int


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats32, ints16, ints32, ints64, words
    from atled_cpu_numba.kernels.shared.matrix_tiles import (
        add_product,
        configure,
        pair_rows,
        release,
        transpose_pairs,
    )
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_narrow_rows, make_widen_rows
    from atled_cpu_numba.kernels.shared.options import kernel, piece

    widen_rows, narrow_rows = make_widen_rows("bfloat16", PANEL), make_narrow_rows("bfloat16", PANEL)
    fill_planes = make_fill_planes()
    block_bytes = 8 * size_of(Block)  # the taps are behind it

    @piece
    def pack_rows(w, target, pitch, first, rows):
        """Rows of A, `pitch` bytes apart, with zeros behind; rows behind the last one repeat it."""
        k, run, group, column = w[Block.k], w[Block.a_run], w[Block.a_group], w[Block.a_column]
        for r in range((rows + PANEL - 1) // PANEL * PANEL):
            y = ints16(target + r * pitch)
            x = ints16(w[Block.a] + 2 * (first + min(r, rows - 1)) * w[Block.a_row])
            if column == 1 and run == k:
                for i in range(k):
                    y[i] = x[i]
            elif run == k:
                for i in range(k):
                    y[i] = x[i * column]
            else:
                for i in range(k // run):
                    for j in range(run):
                        y[i * run + j] = x[i * group + j * column]
            for i in range(k, (k + DEPTH - 1) // DEPTH * DEPTH):
                y[i] = 0

    @piece
    def find_rows(w, taps, rows):
        """Where the rows of B begin, in bytes from its first one."""
        for i in range(w[Block.k]):
            group = i // w[Block.b_run]
            rows[i] = 2 * (group * w[Block.b_group] + taps[i - group * w[Block.b_run]])

    @piece
    def pack_rows_in_pairs(w, origin, rows, count, panel, spare):
        """A panel of B whose rows lie in memory, two of them number by number; `count` columns are there."""
        k = w[Block.k]
        steps = (k + DEPTH - 1) // DEPTH
        edge = ints16(spare)
        for pair in range(steps * TILE):
            i = 2 * pair
            x, z = origin, origin
            if i < k:
                x += rows[i]
            if i + 1 < k:
                z += rows[i + 1]
            if count < PANEL or i + 1 >= k:
                for j in range(PANEL):
                    inside = min(j, count - 1)
                    edge[j] = ints16(x)[inside] if i < k else 0
                    edge[PANEL + j] = ints16(z)[inside] if i + 1 < k else 0
                x, z = spare, spare + 2 * PANEL
            pair_rows((x, z, panel + 64 * pair, 1024 * steps))

    @piece
    def pack_columns(w, origin, count, panel, table):
        """A panel of B whose columns lie in memory, so that pairs do."""
        k = w[Block.k]
        steps = (k + DEPTH - 1) // DEPTH
        places = ints64(table)
        for half in range(2):
            target = panel + 1024 * steps * half
            for j in range(TILE):
                places[j] = origin + 2 * min(half * TILE + j, count - 1) * w[Block.b_column]
            for step in range(k // DEPTH):
                transpose_pairs((table, 64 * step, target + 1024 * step, 0, -1))
            if k % DEPTH:
                for j in range(TILE):
                    x, y = ints16(places[j]), ints32(target + 4 * j)
                    for pair in range(k // DEPTH * TILE, steps * TILE):
                        i = 2 * pair
                        lower = x[i] & 0xFFFF if i < k else 0
                        y[pair * TILE] = lower | x[i + 1] << 16 if i + 1 < k else lower

    @piece
    def start_sums(w, bias, first, rows, column, count, result):
        """The bias, or zeros, in all of C."""
        c = floats32(result)
        for r in range(PANEL):
            if w[Block.bias] == 0:
                for j in range(PANEL):
                    c[r * PANEL + j] = 0.0
            elif w[Block.is_bias_of_rows] != 0:
                value = bias[first + min(r, rows - 1)]
                for j in range(PANEL):
                    c[r * PANEL + j] = value
            else:
                for j in range(PANEL):
                    c[r * PANEL + j] = bias[column + min(j, count - 1)]

    @piece
    def write_sums(w, result, y, rows, position, count):
        """Round the wanted columns of C to where they belong."""
        pitch, wanted = w[Block.pitch], w[Block.result_columns]
        done = 0
        while done < count:
            row = (position + done) // pitch
            column = position + done - row * pitch
            taken = min(pitch - column, count - done)
            kept = min(taken, wanted - column)
            if kept > 0:
                narrow_rows((result + 4 * done, PANEL, y + 2 * (row * wanted + column), w[Block.y_row], rows, kept))
            done += taken

    @kernel
    def tile_product(block, part, parts):
        w = words(block)
        m, k, images, at_once = w[Block.m], w[Block.k], w[Block.images], w[Block.rows_at_once]
        positions = w[Block.result_rows] * w[Block.pitch]
        panels = (positions + PANEL - 1) // PANEL
        units = (m + at_once - 1) // at_once * images * panels
        steps = (k + DEPTH - 1) // DEPTH
        pitch = w[Block.a_pitch]
        share = w[Block.workspace] + part * w[Block.share_bytes]
        a_at, panel_at, result_at = share + w[Block.a_at], share + w[Block.panel_at], share + w[Block.result_at]
        rows_at, spare = share + w[Block.rows_at], share + w[Block.spare_at]
        planes_at = share + w[Block.planes_at]
        bias = floats32(share + w[Block.bias_at])
        if w[Block.bias] != 0:
            count = m if w[Block.is_bias_of_rows] != 0 else positions
            widen_rows((w[Block.bias], 0, share + w[Block.bias_at], 0, 1, count))
        if w[Block.b_column] == 1:
            find_rows(w, ints64(block + block_bytes), ints64(rows_at))
        configure((share,))
        packed, filled_image = -1, -1
        for unit in range(units * part // parts, units * (part + 1) // parts):
            piece_of_a = unit // (images * panels)
            image = unit // panels - piece_of_a * images
            position = unit % panels * PANEL
            first = piece_of_a * at_once
            rows = min(at_once, m - first)
            if piece_of_a != packed:
                pack_rows(w, a_at, pitch, first, rows)
                packed = piece_of_a
            origin = w[Block.b] + 2 * image * w[Block.b_image]
            count = min(PANEL, positions - position)
            readable = count
            if w[Block.is_planes] != 0:
                if image != filled_image:
                    fill_planes(words(block + 8 * Block.planes), origin, planes_at, w[Block.channels])
                    filled_image = image
                origin, readable = planes_at, PANEL  # there is room behind the planes
            if w[Block.b_column] == 1:
                pack_rows_in_pairs(w, origin + 2 * position, ints64(rows_at), readable, panel_at, spare)
            else:
                pack_columns(w, origin + 2 * position * w[Block.b_column], readable, panel_at, rows_at)
            y = w[Block.y] + 2 * (image * w[Block.y_image] + first * w[Block.y_row])
            for pair in range((rows + PANEL - 1) // PANEL):
                r = pair * PANEL
                here = min(PANEL, rows - r)
                start_sums(w, bias, first + r, here, position, count, result_at)
                add_product((a_at + r * pitch, pitch, panel_at, 1024 * steps, steps, result_at, 4 * PANEL))
                write_sums(w, result_at, y + 2 * r * w[Block.y_row], here, position, count)
        release(())
        return 0

    return tile_product


TILE_PRODUCT = Kernel("tile_product", _build, parameters=matrix_unit.PARAMETERS)


class _Product(NamedTuple):
    """What of a call the kernel is told.

    words: of Block, but for what `_launch` finds.  taps: shifts of B's rows within a channel.
    planes: the words of Planes, if there are such.  plane_bytes: what they take.
    biases: for each input behind the factors whether it is there.
    is_of_rows: whether the bias has a number for each row.
    is_swapped: whether the first input is B.
    """

    words: dict[str, int]
    taps: tuple[int, ...]
    planes: Mapping[str, int]
    plane_bytes: int
    biases: tuple[bool, ...]
    is_of_rows: bool
    is_swapped: bool


def prepare(call: Call) -> Prepared | None:
    """The call in bf16; None where the matrix unit is not there, or has too little to do."""
    descs = [desc for desc in (*call.inputs, *call.outputs) if desc is not None]
    if any(desc.dtype.name != "bfloat16" for desc in descs) or not matrix_unit.multiplies_bf16():
        return None
    product = _product(call) if call.spec.name in ("Affine", "BatchMatmul") else _convolution(call)
    return None if product is None else _launch(product)


def are_worth_tiles(m: int, k: int, n: int) -> bool:
    """Whether a product fills tiles well enough."""
    return min(m, n, k) >= _LEAST and k <= _LONGEST_SUMS


def _product(call: Call) -> _Product | None:
    read = product_of(call)
    if read is None:
        return None
    p = read.product
    by_rows, by_columns = p.b_column == 1, p.b_row == 1
    if p.batch != 1 or not (by_rows or by_columns) or not are_worth_tiles(p.m, p.k, p.n):
        return None
    biases = tuple(desc is not None for desc in call.inputs[2:])
    words = {
        "a_row": p.a_row,
        "a_run": p.k,
        "a_column": p.a_column,
        "m": p.m,
        "k": p.k,
        "images": 1,
        "b_run": 1 if by_rows else p.k,
        "b_group": p.b_row,
        "b_column": 1 if by_rows else p.b_column,
        "y_row": p.y_row,
        "result_rows": 1,
        "result_columns": p.n,
        "pitch": p.n,
    }
    return _Product(words, (0,), {}, 0, biases, is_of_rows=False, is_swapped=read.is_transposed)


def _convolution(call: Call) -> _Product | None:
    if call.spec.name not in ("Convolution", "ConvolutionDataGrad", "Deconvolution"):
        return None
    strided = any(desc is not None and desc.strides is not None for desc in (*call.inputs, *call.outputs))
    if strided or call.attributes.get("channel_last"):
        return None
    problem = problem_of(call)
    if len(problem.axes) > 2 or problem.groups != 1:
        return None
    task = task_of(problem)
    places, positions = math.prod(task.kernel), math.prod(task.result)
    k = task.channels * places
    if not are_worth_tiles(task.maps, k, positions):
        return None
    map_stride, channel_stride = task.weight_strides
    run, group = (k, 0) if task.forward else (places, channel_stride)  # the weight's rows lie as they are, or in runs
    words = {
        "a_row": map_stride,
        "a_run": run,
        "a_group": group,
        "a_column": 1,
        "m": task.maps,
        "k": k,
        "images": task.images,
        "b_run": places,
        "b_column": 1,
        "b_image": task.channels * math.prod(task.source),
        "y_image": task.maps * positions,
        "y_row": positions,
        "channels": task.channels,
    }
    if task.is_pointwise and task.stride == (1, 1):
        words |= {"b_group": positions, "result_rows": 1, "result_columns": positions, "pitch": positions}
        return _Product(words, (0,), {}, 0, problem.biases, is_of_rows=True, is_swapped=True)
    shape = planes_of(task)
    words |= {"b_group": shape.channel, "is_planes": 1, "pitch": shape.pitch}
    words |= {"result_rows": task.result[0], "result_columns": task.result[1]}
    # The last panel of a plane's rows goes on behind it.
    plane_bytes = 2 * (task.channels * shape.channel + shape.pitch + PANEL)
    return _Product(words, shape.taps, shape.words, plane_bytes, problem.biases, is_of_rows=True, is_swapped=True)


def row_pitch(depth: int) -> int:
    """Bytes from row to row of A: an odd number of lines, so that the 16 rows of a tile lie in 16 sets of the cache."""
    return 64 * (depth // DEPTH | 1)


def _launch(p: _Product) -> Prepared:
    m, k, images = p.words["m"], p.words["k"], p.words["images"]
    positions = p.words["result_rows"] * p.words["pitch"]
    depth = round_up(k, DEPTH)
    rows = round_up(-(-m // max(1, round(m * depth / _A_ELEMENTS))), PANEL)
    pitch = row_pitch(depth)
    units = -(-m // rows) * images * -(-positions // PANEL)
    sizes = piece_starts(
        CONFIGURATION_BYTES,
        {
            "a_at": rows * pitch,
            "panel_at": 2 * PANEL * depth,
            "result_at": 4 * PANEL * PANEL,
            "bias_at": 4 * (m if p.is_of_rows else positions) if any(p.biases) else 0,
            "rows_at": 8 * max(k, TILE),
            "spare_at": 4 * PANEL,
            "planes_at": p.plane_bytes,
        },
    )
    parts = share_count(2.0 * images * m * k * positions / FLOPS_PER_US, units)
    parts = fitting_shares(parts, sizes["share_bytes"])
    words = filled(Block, **p.words, **sizes, rows_at_once=rows, a_pitch=pitch, is_bias_of_rows=int(p.is_of_rows))
    put_planes(words, Block.planes, p.planes)
    first, second = (Block.b, Block.a) if p.is_swapped else (Block.a, Block.b)
    return launch(
        TILE_PRODUCT,
        [*words, *p.taps],
        (first, second, *optional_words(Block.bias, p.biases), Block.y, Block.workspace),
        parts=parts,
        workspace=sizes["share_bytes"] * parts,
        note=NOTE,
    )
