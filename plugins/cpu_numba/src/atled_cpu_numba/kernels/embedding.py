"""Embed, rows of a table by index, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.indices import make_are_within
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import (
    ANY,
    MOVED,
    ODD_PAIRS,
    REALS,
    in_floats32,
    is_brief,
    kernels_by_dtype,
    launch,
    moved_as,
    narrow_dtypes,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import Kernel


@layout
class Block:
    """What both kernels read."""

    index: int  # address of the indices, int64
    table: int  # address of w, or of gw
    chosen: int  # address of y, or of gy
    count: int  # of indices
    rows: int  # of the table
    length: int  # of a row


_INDEX_OUT_OF_RANGE = 1
_ERRORS = {_INDEX_OUT_OF_RANGE: "index out of range"}
_NARROW = 32  # elements of a row, of which one vector at a time is quicker than several in a loop
_LEAST_SHORTS = 8  # of 16 bits in a row of an odd number: fewer, one by one, take longer than between casts
_LEAST_HALVES = 4  # float16 in a row of a gradient; a vector of four has no conversion that waits
_ELEMENTS_PER_US = 1500.0  # a cautious rate of one core, for the number of shares


def _build_embed(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.moves import moves_of
    from atled_cpu_numba.kernels.shared.options import inlined, kernel
    from atled_cpu_numba.kernels.shared.vectors import make_copy_chosen_rows

    (pointer, size, copy_rows), are_within = moves_of(dtype), make_are_within()
    if dtype in SIZES:
        narrow, copy_chosen_rows = _NARROW, make_copy_chosen_rows(dtype)

        @inlined
        def copy_row(row, y, length):
            # For one row LLVM's loop, several vectors at a time, takes .75 of the time of `copy_rows`.
            source, target = pointer(row), pointer(y)
            for j in range(length):
                target[j] = source[j]

    else:
        narrow, copy_chosen_rows = 0, inlined(lambda arguments: None)  # not called: no row is so short

        @inlined
        def copy_row(row, y, length):
            copy_rows((row, length, y, length, 1, length))

    @kernel
    def embed(block, part, parts):
        w = words(block)
        index, rows, length = ints64(w[Block.index]), w[Block.rows], w[Block.length]
        first, after = w[Block.count] * part // parts, w[Block.count] * (part + 1) // parts
        if not are_within(index, first, after, 0, rows):
            return _INDEX_OUT_OF_RANGE
        if length <= narrow:
            chosen_at, y_at = w[Block.index] + 8 * first, w[Block.chosen] + size * first * length
            copy_chosen_rows((w[Block.table], length, y_at, length, after - first, length, chosen_at))
            return 0
        for i in range(first, after):
            row, y = w[Block.table] + size * index[i] * length, w[Block.chosen] + size * i * length
            copy_row(row, y, length)
        return 0

    return embed


def _build_grad(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_reading
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real, are_within, (elements, read) = Real(real_of(dtype)), make_are_within(), make_reading(dtype)
    number, floats, size, item = real.kind, real.pointer, real.size, item_bytes(dtype)

    @kernel
    def embed_grad(block, part, parts):
        w = words(block)
        index, count, rows, length = ints64(w[Block.index]), w[Block.count], w[Block.rows], w[Block.length]
        if not are_within(index, 0, count, 0, rows):
            return _INDEX_OUT_OF_RANGE
        # A share is a range of rows of the table: equal indices meet in one share.
        first, after = rows * part // parts, rows * (part + 1) // parts
        gw = floats(w[Block.table])
        for j in range(first * length, after * length):
            gw[j] = number(0)
        if length == 1:  # the gradient of a choice of elements; a loop for each would take ten times as long
            for i in range(count):
                if first <= index[i] < after:
                    gw[index[i]] += read(elements(w[Block.chosen]), i)
            return 0
        for i in range(count):
            if first <= index[i] < after:
                row = floats(w[Block.table] + size * index[i] * length)
                gy = elements(w[Block.chosen] + item * i * length)
                for j in range(length):
                    row[j] += read(gy, j)
        return 0

    return embed_grad


_SHORTS = Kernel("embed_shorts", partial(_build_embed, MOVED[0]), parameters=(MOVED[0],))  # of an odd number in a row
_KERNELS = {
    "Embed": kernels_by_dtype("embed", _build_embed),
    "EmbedGrad": kernels_by_dtype("embed_grad", _build_grad, dtypes=ANY),
}


def accepts(call: Call) -> bool | str:
    """Whether the table is float32 or float64 and the indices are int64."""
    table, indices = (1, 0) if call.spec.name == "Embed" else (0, 1)
    moves = call.spec.name == "Embed"
    refused = refuse_floats(call, MOVED if moves else REALS, floats=(table,), moves=moves)
    if refused:
        return refused
    given = call.inputs[table]
    assert given is not None
    length = math.prod(given.shape[1:])
    if length < _LEAST_SHORTS and in_floats32(given.dtype, length) is None:
        return ODD_PAIRS
    index = call.inputs[indices]
    assert index is not None
    return index.dtype == np.int64 or f"takes int64 indices, not {index.dtype}"


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: gy, which is added up in float32.

    Not float16 in rows too short for vectors: converted one by one, each element waits for the one before.
    """
    gy, table = call.inputs[0], call.outputs[0]
    assert gy is not None
    if call.spec.name != "EmbedGrad" or gy.dtype.name not in narrow_dtypes():
        return ()
    is_alone = gy.dtype.name == "float16" and math.prod(table.shape[1:]) < _LEAST_HALVES
    return () if is_alone else (0,)


def prepare(call: Call) -> Prepared:
    """Embed: x0, w -> y.  EmbedGrad: gy, x0 -> gw; gy may be narrow (`narrow_arguments`)."""
    forward = call.spec.name == "Embed"
    index = call.inputs[0 if forward else 1]
    table = call.inputs[1] if forward else call.outputs[0]
    assert index is not None
    assert table is not None
    rows, length = table.shape[0], math.prod(table.shape[1:])
    moved = index.size * length
    work_us = (moved if forward else moved + table.size) / _ELEMENTS_PER_US
    kind = moved_as(table.dtype)
    kernel = _SHORTS
    if not forward:
        gy = call.inputs[0]
        assert gy is not None
        kernel = _KERNELS["EmbedGrad"][gy.dtype.name]
    elif kind in REALS:
        kernel = _KERNELS["Embed"][kind]
    elif (pairs := in_floats32(table.dtype, length)) is not None:
        kernel, (length,) = _KERNELS["Embed"]["float32"], pairs
    words = filled(Block, count=index.size, rows=rows, length=length)
    # Each share of a gradient reads all indices, which short rows would not be worth.
    parts = share_count(work_us, index.size if forward else min(rows, length))
    arguments = (Block.index, Block.table, Block.chosen) if forward else (Block.chosen, Block.index, Block.table)
    brief = forward and is_brief(work_us, index.size)
    return launch(kernel, words, arguments, parts=parts, is_brief=brief, errors=_ERRORS)
