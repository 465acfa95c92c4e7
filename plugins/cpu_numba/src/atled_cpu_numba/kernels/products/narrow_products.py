"""Products in half and bf16, 1 x 1 convolutions among them: widened panel by panel, and rounded from the cache.

Sums are those of float32: a panel of B is widened where the product would have copied it, its columns of the result are
rounded where they have just been summed up, and A is widened once for all panels. So no array of float32 is as large as
B or as the result, but for a weight, which the engine keeps widened as long as nobody writes it. A 1 x 1 convolution is
the product of its weight by the positions of all images.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from atled.plugin import Call, NamedTuple, Pack, Prepared
from atled_cpu_numba.kernels.convolution.problem import problem_of, task_of
from atled_cpu_numba.kernels.products.matmul import product_of
from atled_cpu_numba.kernels.products.matmul_plan import is_avx2, round_up
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS
from atled_cpu_numba.kernels.products.row_products import MULTIPLY_ROWS, Rows
from atled_cpu_numba.kernels.shared.lanes import lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    NARROW,
    fitting_shares,
    in_lines,
    kernels_by_dtype,
    launch,
    narrow_dtypes,
    native_of,
    optional_words,
    piece_starts,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout

_LONGEST_SUMS = 1024  # a panel is to stay in the cache for all rows of A, as in float32
# Of A, widened at once, about: they stay in the level-2 cache, which is half as large where vectors are those of AVX2.
_A_ELEMENTS, _AVX2_A_ELEMENTS = 1 << 18, 1 << 17
_ROW_SLACK = 16  # behind each row of A: rows a power of two apart evict each other from the cache
_FLOPS_PER_US = 150e3  # a cautious rate of one core, for the number of shares


@layout
class Block:
    """What the kernel reads; strides in elements."""

    multiply_rows: int  # address of MULTIPLY_ROWS
    a: int  # address of A, (m, k)
    a_row: int
    b: int  # address of B, (images, k, n)
    b_row: int
    b_image: int
    y: int  # address of the result, (images, m, n)
    y_row: int
    y_image: int
    bias: int  # address, or 0
    is_bias_of_rows: int
    images: int
    m: int
    k: int
    n: int
    rows_at_once: int  # of A
    workspace: int
    share_bytes: int
    a_at: int  # bytes from the share's workspace: A widened
    panel_at: int  # a panel of B
    result_at: int  # its columns of the result
    starts_at: int  # what the sums start from
    bias_at: int  # the bias widened
    widened_a: int  # address of A as it would be there for all rows, or 0
    widened_b: int  # of the panels of B, one behind the other, or 0


@layout
class Widen:
    """What WIDEN_PANELS reads; lengths in elements."""

    source: int  # address of rows
    target: int  # of panels of so many columns of them
    workspace: int  # unused
    rows: int
    columns: int
    row: int  # from row to row
    width: int  # columns of a panel
    pitch: int  # from row to row of a panel


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.products.starts import make_fill_starts
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_narrow_rows, make_widen_rows
    from atled_cpu_numba.kernels.shared.options import kernel, piece

    columns = lanes_of("float32").columns
    widen_rows, narrow_rows = make_widen_rows(dtype, columns), make_narrow_rows(dtype, columns)
    fill_rows = make_fill_starts()

    @piece
    def fill_starts(w, share, first, rows):
        """What the sums start from: a row for all rows, or a row of equal numbers for each."""
        starts, bias = share + w[Block.starts_at], share + w[Block.bias_at]
        if w[Block.bias] == 0:
            fill_rows((0, starts, 1, columns))
        elif w[Block.is_bias_of_rows] != 0:
            widen_rows((w[Block.bias] + 2 * first, 0, bias, 0, 1, rows))
            fill_rows((bias, starts, rows, columns))

    @piece
    def move_panel(w, panel, k, at, place, row, image_step, writes):
        """Widen a panel of columns, or round it to where it belongs; how many columns it has.

        Those of an image that fill no panel are put together with those of other images.
        """
        n, images = w[Block.n], w[Block.images]
        whole = n // columns
        rest = n - whole * columns
        start = (panel - images * whole) * columns
        count = columns if start < 0 else min(columns, images * rest - start)
        done = 0
        while done < count:
            if start < 0:
                image = panel // whole
                column, taken = (panel - image * whole) * columns, columns
            else:
                image = (start + done) // rest
                inside = start + done - image * rest
                column, taken = whole * columns + inside, min(rest - inside, count - done)
            outside = place + 2 * (image * image_step + column)
            if writes:
                narrow_rows((at + 4 * done, columns, outside, row, k, taken))
            else:
                widen_rows((outside, row, at + 4 * done, columns, k, taken))
            done += taken
        return count

    @kernel
    def narrow_product(block, part, parts):
        w = words(block)
        m, k, n, images, rows_at_once = w[Block.m], w[Block.k], w[Block.n], w[Block.images], w[Block.rows_at_once]
        panels = images * (n // columns) + (images * (n % columns) + columns - 1) // columns
        units = panels * ((m + rows_at_once - 1) // rows_at_once)
        share = w[Block.workspace] + part * w[Block.share_bytes]
        panel_at, result_at, starts_at = (
            share + w[Block.panel_at],
            share + w[Block.result_at],
            share + w[Block.starts_at],
        )
        has_row = w[Block.bias] != 0 and w[Block.is_bias_of_rows] == 0
        if has_row:
            widen_rows((w[Block.bias], 0, starts_at, 0, 1, n))
        q = words(share)
        a_at, pitch = share + w[Block.a_at], k + _ROW_SLACK
        widened = -1
        for unit in range(units * part // parts, units * (part + 1) // parts):
            piece_of_a = unit // panels
            panel = unit - piece_of_a * panels
            first = piece_of_a * rows_at_once
            rows = min(rows_at_once, m - first)
            if piece_of_a != widened:
                if w[Block.widened_a] != 0:
                    a_at = w[Block.widened_a] + 4 * first * pitch
                else:
                    a_row = w[Block.a_row]
                    widen_rows((w[Block.a] + 2 * first * a_row, a_row, a_at, pitch, rows, k))
                fill_starts(w, share, first, rows)
                widened = piece_of_a
            if w[Block.widened_b] != 0:
                panel_at, count = w[Block.widened_b] + 4 * columns * k * panel, min(columns, n - panel * columns)
            else:
                count = move_panel(w, panel, k, panel_at, w[Block.b], w[Block.b_row], w[Block.b_image], False)
            q[Rows.k], q[Rows.m], q[Rows.n], q[Rows.a], q[Rows.a_row] = k, rows, count, a_at, pitch
            q[Rows.b], q[Rows.b_step], q[Rows.b_panel], q[Rows.copy] = panel_at, columns, columns * k, 0
            q[Rows.c], q[Rows.c_row], q[Rows.ahead], q[Rows.a_column] = result_at, columns, columns, 1
            q[Rows.s] = starts_at + (4 * columns * panel if has_row else 0)
            q[Rows.s_row] = columns if w[Block.is_bias_of_rows] != 0 else 0
            q[Rows.s_column], q[Rows.bounds] = 0, 0
            call3(w[Block.multiply_rows], share, 0, 1)
            y_row = w[Block.y_row]
            move_panel(w, panel, rows, result_at, w[Block.y] + 2 * first * y_row, y_row, w[Block.y_image], True)
        return 0

    return narrow_product


def _build_panels(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_widen_rows
    from atled_cpu_numba.kernels.shared.options import kernel

    widen_rows = make_widen_rows(dtype, lanes_of("float32").columns)

    @kernel
    def widen_panels(block, part, parts):
        w = words(block)
        columns, width, row, pitch = w[Widen.columns], w[Widen.width], w[Widen.row], w[Widen.pitch]
        for panel in range((columns + width - 1) // width):
            source, count = w[Widen.source] + 2 * panel * width, min(width, columns - panel * width)
            target = w[Widen.target] + 4 * panel * w[Widen.rows] * pitch
            widen_rows((source, row, target, pitch, w[Widen.rows], count))
        return 0

    return widen_panels


NARROW_PRODUCT = kernels_by_dtype("narrow_product", _build, dtypes=NARROW)
WIDEN_PANELS = kernels_by_dtype("widen_panels", _build_panels, dtypes=NARROW)


class _Product(NamedTuple):
    """The sizes and strides of Block, and for each input behind the factors whether it is there."""

    images: int
    m: int
    k: int
    n: int
    a_row: int
    b_row: int
    b_image: int
    y_row: int
    y_image: int
    biases: tuple[bool, ...]
    is_convolution: bool


def prepare(call: Call) -> Prepared | None:
    """The call in narrow floats; None where whole arrays are cast around the kernel for float32."""
    descs = [desc for desc in (*call.inputs, *call.outputs) if desc is not None]
    dtype = descs[0].dtype
    if any(desc.dtype != dtype for desc in descs) or dtype.name not in narrow_dtypes():
        return None
    p = _product(call)
    lanes = lanes_of("float32")
    if p is None or not 0 < p.k <= _LONGEST_SUMS or p.m < lanes.rows or p.images * p.n < lanes.columns:
        return None
    return _launch(p, dtype.name)


def _product(call: Call) -> _Product | None:
    """The call as one product, if it is one that reads and writes rows."""
    name = call.spec.name
    biases = tuple(desc is not None for desc in call.inputs[2:])
    if name in ("Affine", "BatchMatmul"):
        read = product_of(call)
        if read is None or read.is_transposed:
            return None
        p = read.product
        if p.batch != 1 or p.a_column != 1 or p.b_column != 1:
            return None
        return _Product(1, p.m, p.k, p.n, p.a_row, p.b_row, 0, p.y_row, 0, biases, is_convolution=False)
    if name != "Convolution" or call.attributes.get("channel_last"):
        return None
    if any(desc is not None and desc.strides is not None for desc in (*call.inputs, *call.outputs)):
        return None
    problem = problem_of(call)
    if len(problem.axes) > 2:
        return None
    task = task_of(problem)
    if not task.is_pointwise or task.groups != 1 or task.stride != (1, 1):
        return None
    n, k, m = math.prod(task.result), task.channels, task.maps
    return _Product(task.images, m, k, n, k, n, k * n, n, m * n, biases, is_convolution=True)


def _launch(p: _Product, dtype: str) -> Prepared:
    lanes = lanes_of("float32")
    panels = p.images * (p.n // lanes.columns) + -(-p.images * (p.n % lanes.columns) // lanes.columns)
    # Even pieces: each of them widens all panels.
    pieces = max(1, round(p.m * p.k / (_AVX2_A_ELEMENTS if is_avx2("float32") else _A_ELEMENTS)))
    rows = round_up(-(-p.m // pieces), lanes.rows)
    units = panels * -(-p.m // rows)
    starts = lanes.columns * rows if p.is_convolution else p.n + lanes.columns
    elements = {
        "a_at": rows * (p.k + _ROW_SLACK),
        "panel_at": lanes.columns * p.k,
        "result_at": lanes.columns * rows,
        "starts_at": starts,
        "bias_at": rows,
    }
    sizes = piece_starts(in_lines(8 * BLOCK_WORDS), {name: 4 * count for name, count in elements.items()})
    parts = share_count(2.0 * p.images * p.m * p.k * p.n / _FLOPS_PER_US, units)
    parts = fitting_shares(parts, sizes["share_bytes"])
    places: dict[str, Any] = {name: value for name, value in p._asdict().items() if hasattr(Block, name)}
    words = filled(
        Block,
        multiply_rows=MULTIPLY_ROWS["float32"].address(),
        is_bias_of_rows=int(p.is_convolution and any(p.biases)),
        rows_at_once=rows,
        **places,
        **sizes,
    )
    first, second = (Block.b, Block.a) if p.is_convolution else (Block.a, Block.b)
    if p.is_convolution:
        weight = _widened(Block.widened_a, dtype, p.m, p.k, p.a_row, p.k, p.k + _ROW_SLACK)
    else:
        weight = _widened(Block.widened_b, dtype, p.k, p.n, p.b_row, lanes.columns, lanes.columns)
    return launch(
        NARROW_PRODUCT[dtype],
        words,
        (first, second, *optional_words(Block.bias, p.biases), Block.y, Block.workspace),
        parts=parts,
        workspace=sizes["share_bytes"] * parts,
        packs=(weight,),
        note=f"widened in panels of {lanes.columns} columns, {lanes.rows}x{lanes.columns} tiles",
    )


def _widened(word: int, dtype: str, rows: int, columns: int, row: int, width: int, pitch: int) -> Pack:
    """The second input, widened in panels, for a word of the block; sizes as those of Widen."""
    words = filled(Widen, rows=rows, columns=columns, row=row, width=width, pitch=pitch)
    native = native_of(WIDEN_PANELS[dtype], words, (Widen.source, Widen.target, Widen.workspace))
    form = "widened panels", rows, columns, row, width, pitch, dtype
    return Pack(1, word, form, 4 * -(-columns // width) * rows * pitch, native)
