"""Concatenate, Stack and Split: several arrays beside one that holds them all, row by row.

With the axes before the joining one merged, each array is rows, and a row of the whole is one row of each array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.launch import MOVED, in_floats32, is_brief, launch, refuse_floats, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of
from atled_cpu_numba.store import Kernel


@layout
class Piece:
    """What the kernel reads of each array that is beside others; lengths in its elements."""

    address: int
    length: int  # of its rows


@layout
class Block:
    """What the kernel reads."""

    whole: int  # address of the array that holds them all
    rows: int
    length: int  # of a row of the whole
    count: int  # of arrays
    joins: int  # whether the whole is written
    pieces: int = 0  # a `Piece` each


_PIECE_WORDS = size_of(Piece)
_BYTES_PER_US = 6000.0  # a cautious rate of one core, for the number of shares
_SMALL_BYTES_PER_US = 40000.0  # of arrays that are in its own cache, as small ones are


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.moves import moves_of
    from atled_cpu_numba.kernels.shared.options import kernel

    _, size, copy_rows = moves_of(dtype)

    @kernel
    def join(block, part, parts):
        w = words(block)
        rows, whole_length, joins = w[Block.rows], w[Block.length], w[Block.joins] != 0
        first, after = rows * part // parts, rows * (part + 1) // parts
        whole = w[Block.whole] + size * first * whole_length
        for i in range(w[Block.count]):
            length = w[Block.pieces + _PIECE_WORDS * i + Piece.length]
            piece = w[Block.pieces + _PIECE_WORDS * i + Piece.address] + size * first * length
            source, source_row = (piece, length) if joins else (whole, whole_length)
            target, target_row = (whole, whole_length) if joins else (piece, length)
            copy_rows((source, source_row, target, target_row, after - first, length))
            whole += size * length
        return 0

    return join


# By the bytes of their elements: rows of float64 are moved as float32, and those of 16 bits in pairs, if they are even.
_KERNELS = {
    4: Kernel("join", partial(_build, "float32")),
    2: Kernel("join_shorts", partial(_build, MOVED[0]), parameters=(MOVED[0],)),
}


def accepts(call: Call) -> bool | str:
    """Whether all arrays are of one dtype of 16, 32 or 64 bits, and none is empty."""
    inputs, outputs = range(len(call.inputs)), len(call.outputs)
    return refuse_floats(call, MOVED, floats=inputs, outputs=outputs, empty=False, moves=True) or True


def _lengths(call: Call) -> tuple[int, tuple[int, ...]]:
    """The bytes of what is moved, and how many of it a row of each array has, that of the whole first."""
    joined = (call.outputs[:1], call.inputs) if call.spec.name != "Split" else (call.inputs, call.outputs)
    whole, *pieces = [desc for descs in joined for desc in descs if desc is not None]
    rows = math.prod(whole.shape[: call.attributes["axis"]])
    counts = tuple(desc.size // rows for desc in (whole, *pieces))
    lengths = in_floats32(whole.dtype, *counts)
    return (2, counts) if lengths is None else (4, lengths)


def prepare(call: Call) -> Prepared:
    """Concatenate, Stack: x... -> y.  Split: x -> y..."""
    joins = call.spec.name != "Split"
    whole = call.outputs[0] if joins else call.inputs[0]
    assert whole is not None
    rows = math.prod(whole.shape[: call.attributes["axis"]])
    size, (whole_length, *pieces) = _lengths(call)
    words = filled(Block, rows=rows, length=whole_length, count=len(pieces), joins=int(joins))
    places = []
    for length in pieces:
        places.append(len(words) + Piece.address)
        words += filled(Piece, length=length)
    arguments = (*places, Block.whole) if joins else (Block.whole, *places)
    moved = 2 * whole.nbytes
    work_us = moved / _BYTES_PER_US
    brief = is_brief(moved / _SMALL_BYTES_PER_US, rows * len(pieces))
    return launch(_KERNELS[size], words, arguments, parts=share_count(work_us, rows), is_brief=brief)
