"""Concatenate, Stack and Split: several arrays beside one that holds them all, row by row.

With the axes before the joining one merged, each array is rows, and a row of the whole is one row of each array.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.launch import MOVED, ODD_PAIRS, in_floats32, launch, refuse_floats, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of
from atled_cpu_numba.store import Kernel


@layout
class Piece:
    """What the kernel reads of each array that is beside others; lengths in float32, of which a float64 is two."""

    address: int
    length: int  # of its rows


@layout
class Block:
    """What the kernel reads."""

    whole: int  # address of the array that holds them all
    rows: int
    length: int  # of a row of the whole, in float32
    count: int  # of arrays
    joins: int  # whether the whole is written
    pieces: int = 0  # a `Piece` each


_PIECE_WORDS = size_of(Piece)
_BYTES_PER_US = 6000.0  # a cautious rate of one core, for the number of shares


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.options import kernel
    from atled_cpu_numba.kernels.shared.vectors import copy_rows

    @kernel
    def join(block, part, parts):
        w = words(block)
        rows, whole_length, joins = w[Block.rows], w[Block.length], w[Block.joins] != 0
        first, after = rows * part // parts, rows * (part + 1) // parts
        whole = w[Block.whole] + 4 * first * whole_length
        for i in range(w[Block.count]):
            length = w[Block.pieces + _PIECE_WORDS * i + Piece.length]
            piece = w[Block.pieces + _PIECE_WORDS * i + Piece.address] + 4 * first * length
            source, source_row = (piece, length) if joins else (whole, whole_length)
            target, target_row = (whole, whole_length) if joins else (piece, length)
            copy_rows((source, source_row, target, target_row, after - first, length))
            whole += 4 * length
        return 0

    return join


_KERNEL = Kernel("join", _build)


def accepts(call: Call) -> bool | str:
    """Whether all arrays are of one dtype of 16, 32 or 64 bits, and none is empty."""
    inputs, outputs = range(len(call.inputs)), len(call.outputs)
    refused = refuse_floats(call, MOVED, floats=inputs, outputs=outputs, empty=False, moves=True)
    if refused:
        return refused
    return True if _lengths(call) is not None else ODD_PAIRS


def _lengths(call: Call) -> tuple[int, ...] | None:
    """How many float32 a row of each array has, that of the whole first; None where a row is no such number."""
    joined = (call.outputs[:1], call.inputs) if call.spec.name != "Split" else (call.inputs, call.outputs)
    whole, *pieces = [desc for descs in joined for desc in descs if desc is not None]
    rows = math.prod(whole.shape[: call.attributes["axis"]])
    return in_floats32(whole.dtype, *(desc.size // rows for desc in (whole, *pieces)))


def prepare(call: Call) -> Prepared:
    """Concatenate, Stack: x... -> y.  Split: x -> y..."""
    joins = call.spec.name != "Split"
    whole = call.outputs[0] if joins else call.inputs[0]
    assert whole is not None
    rows = math.prod(whole.shape[: call.attributes["axis"]])
    lengths = _lengths(call)
    assert lengths is not None
    whole_length, *pieces = lengths
    words = filled(Block, rows=rows, length=whole_length, count=len(pieces), joins=int(joins))
    places = []
    for length in pieces:
        places.append(len(words) + Piece.address)
        words += filled(Piece, length=length)
    arguments = (*places, Block.whole) if joins else (Block.whole, *places)
    return launch(_KERNEL, words, arguments, parts=share_count(2 * whole.nbytes / _BYTES_PER_US, rows))
