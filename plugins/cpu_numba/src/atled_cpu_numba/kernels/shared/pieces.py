"""Kernels whose shares are made of equal units, run piece by piece: elementwise steps can run before and after each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atled.plugin import Call, Native, Prepared
from atled_cpu_numba.kernels.shared.launch import most_shares
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of
from atled_cpu_numba.store import Kernel

_PIECE_BYTES = 1 << 15  # of what is carried over, so that it stays in the cache


@layout
class Block:
    """What pieces need; the kernel's own block follows."""

    kernel: int
    units: int
    pieces: int
    result_step: int  # elements of the result per unit
    after: int  # range kernel to run on each piece of the result, or 0
    after_block: int
    input_step: int  # elements of the input per unit
    before: int  # range kernel to run on each piece of the input before it is read, or 0
    before_block: int
    checks: int  # whether the kernel checks indices: then all of them before any piece, by the share 0 of 0
    alone: int  # kernel for the whole share, where nothing is run before or after


_HEADER = size_of(Block)


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import kernel

    @kernel
    def in_pieces(block, part, parts):
        w = words(block)
        inner = block + 8 * _HEADER
        if w[Block.after] == 0 and w[Block.before] == 0:
            return call3(w[Block.alone], inner, part, parts)
        if w[Block.checks] != 0:
            # All of them, whatever the share: what others carry must not be done either.
            code = call3(w[Block.kernel], inner, 0, 0)
            if code != 0:
                return code
        units, pieces = w[Block.units], w[Block.pieces]
        for piece in range(pieces * part // parts, pieces * (part + 1) // parts):
            first, after = units * piece // pieces, units * (piece + 1) // pieces
            if w[Block.before] != 0:
                call3(w[Block.before], w[Block.before_block], first * w[Block.input_step], after * w[Block.input_step])
            code = call3(w[Block.kernel], inner, piece, pieces)
            if code != 0:
                return code
            if w[Block.after] != 0:
                call3(w[Block.after], w[Block.after_block], first * w[Block.result_step], after * w[Block.result_step])
        return 0

    return in_pieces


IN_PIECES = Kernel("in_pieces", _build)


def in_pieces(
    prepared: Prepared,
    call: Call,
    units: int,
    *,
    source: int | None = 0,
    result: int | None = 0,
    in_place: bool = False,
    checks: bool = False,
    pieces: int = 0,
    alone: Kernel | None = None,
) -> Prepared:
    """A call that can carry elementwise steps, on one output and before one input.

    prepared: the call as it is, its kernel's shares made of `units`: share `part` of `parts` reads and writes those
        from units * part // parts to units * (part + 1) // parts, and of workspace what all shares have in equal parts.
    source, result: position of the input before which steps are carried, and of the output; None for neither.
    in_place: whether that input may have the memory of that output.
    checks: whether the kernel checks indices; called as share 0 of 0, it has to check all of them and do nothing else.
    pieces: how many, if it matters to the kernel; at least as many as there are shares.
    alone: a kernel with the same block for whole shares on which nothing is carried; the call's own if not given.
    """
    native = prepared.native
    assert native is not None
    result_size, input_size = 0 if result is None else call.outputs[result].size, 0
    if source is not None:
        desc = call.inputs[source]
        assert desc is not None
        input_size = desc.size
    # No more shares than the kernel's own, and as many pieces in each: its workspace is for so many.
    nbytes = call.outputs[0].dtype.itemsize * max(result_size, input_size)
    pieces = pieces or max(native.parts, min(units, -(-nbytes // _PIECE_BYTES)))
    header = filled(
        Block,
        kernel=native.address,
        units=units,
        pieces=pieces,
        result_step=result_size // units,
        input_step=input_size // units,
        checks=int(checks),
        alone=native.address if alone is None else alone.address(),
    )
    return Prepared(
        native=Native(
            IN_PIECES.address(),
            np.concatenate([np.array(header, np.int64), native.block]),
            tuple(word if word < 0 else word + _HEADER for word in native.arguments),
            attributes={name: word + _HEADER for name, word in native.attributes.items()},
            parts=native.parts,
            most_parts=most_shares(pieces),
            is_brief=native.is_brief,
            errors=native.errors,
            owner=(IN_PIECES, native.owner, alone),
            after=None if result is None else {result: Block.after},
            before=None if source is None else {source: Block.before},
            in_place={source: result} if in_place and source is not None and result is not None else None,
        ),
        workspace=prepared.workspace // native.parts * pieces,
        note=prepared.note,
    )
