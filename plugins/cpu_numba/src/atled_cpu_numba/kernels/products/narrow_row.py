"""One row in half or bf16 times a matrix, which is widened as it is read, and products of one term.

Such a product reads each element of its matrix, or writes it, once: casting the matrix would take longer than
multiplying. Of a matrix stored by rows, sums are float32, in the order of the terms after the bias, and rounded once;
shares are made of whole vectors of columns. Few rows by a matrix stored by columns are the dot products of float32, and
products of one term its formula.
"""

from __future__ import annotations

from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.products import outer_products
from atled_cpu_numba.kernels.products.matmul import DOT_PRODUCTS, dot_products, product_of, task_of, ways
from atled_cpu_numba.kernels.shared.lanes import lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    NARROW,
    fitting_shares,
    kernels_by_dtype,
    launch,
    narrow_dtypes,
    optional_words,
    piece_starts,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout

_ROWS_AT_ONCE = 8  # of the matrix: with their factors and a sum they fill the registers
_LEAST_ELEMENTS = 1 << 12  # of smaller matrices casts take no longer than a call
_ELEMENTS_PER_US = 4e3  # a cautious rate of one core, for the number of shares


@layout
class Block:
    """What the kernel reads."""

    x: int  # address of the row
    b: int  # address of the matrix, (k, n)
    bias: int  # address, or 0
    y: int  # address
    k: int
    n: int
    workspace: int
    share_bytes: int
    sums_at: int  # bytes from the share's workspace, which begins with the row, widened
    after: int  # range kernel to run on what is written of y, or 0
    after_block: int


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.products.narrow_row_blocks import make_add_rows
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_narrow_rows, make_widen_rows
    from atled_cpu_numba.kernels.shared.options import kernel

    vector = lanes_of("float32").vector
    widen_rows, narrow_rows = make_widen_rows(dtype, vector), make_narrow_rows(dtype, vector)
    add_rows, add_row = make_add_rows(_ROWS_AT_ONCE, dtype), make_add_rows(1, dtype)

    @kernel
    def narrow_row(block, part, parts):
        w = words(block)
        k, n = w[Block.k], w[Block.n]
        first, after = n // vector * part // parts * vector, n // vector * (part + 1) // parts * vector
        columns, b = after - first, w[Block.b] + 2 * first
        x_at = w[Block.workspace] + part * w[Block.share_bytes]
        sums_at = x_at + w[Block.sums_at]
        sums = floats32(sums_at)
        widen_rows((w[Block.x], 0, x_at, 0, 1, k))
        if w[Block.bias] != 0:
            widen_rows((w[Block.bias] + 2 * first, 0, sums_at, 0, 1, columns))
        else:
            for j in range(columns):
                sums[j] = 0.0
        whole = k - k % _ROWS_AT_ONCE
        for i in range(0, whole, _ROWS_AT_ONCE):
            add_rows((x_at + 4 * i, b + 2 * i * n, n, sums_at, columns // vector))
        for i in range(whole, k):
            add_row((x_at + 4 * i, b + 2 * i * n, n, sums_at, columns // vector))
        narrow_rows((sums_at, 0, w[Block.y] + 2 * first, 0, 1, columns))
        if w[Block.after] != 0:
            call3(w[Block.after], w[Block.after_block], first, after)
        return 0

    return narrow_row


NARROW_ROW = kernels_by_dtype("narrow_row", _build, dtypes=NARROW)


def prepare(call: Call) -> Prepared | None:
    """An Affine or BatchMatmul all of whose floats are of one narrow dtype; None where it is no such product."""
    if call.spec.name not in ("Affine", "BatchMatmul"):
        return None
    names = {desc.dtype.name for desc in (*call.inputs, *call.outputs) if desc is not None}
    read = product_of(call) if len(names) == 1 and names <= {*narrow_dtypes()} else None
    if read is None:
        return None
    task = task_of(call)
    way = next(way.name for way in ways(task._replace(dtype="float32")) if way.pays)
    if way == outer_products.NAME:
        return outer_products.prepare(task.product, task.arguments, call.outputs[0].dtype)
    if way == DOT_PRODUCTS and task.product.k * task.product.n >= _LEAST_ELEMENTS:
        return dot_products(task)
    if read.is_transposed or call.outputs[0].strides is not None:
        return None
    p, vector = read.product, lanes_of("float32").vector
    is_row = (p.batch, p.m, p.a_column, p.b_row, p.b_column) == (1, 1, 1, p.n, 1)
    if not is_row or p.n % vector or p.k * p.n < _LEAST_ELEMENTS:
        return None
    starts = piece_starts(4 * p.k, {"sums_at": 4 * p.n})
    parts = fitting_shares(share_count(p.k * p.n / _ELEMENTS_PER_US, p.n // vector), starts["share_bytes"])
    biases = [desc is not None for desc in call.inputs[2:]]
    return launch(
        NARROW_ROW[call.outputs[0].dtype.name],
        filled(Block, k=p.k, n=p.n, **starts),
        (Block.x, Block.b, *optional_words(Block.bias, biases), Block.y, Block.workspace),
        parts=parts,
        workspace=starts["share_bytes"] * parts,
        after={0: Block.after},
        note="sums of rows, widened as they are read",
    )
