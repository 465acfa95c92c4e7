"""Kernels whose shares are made of equal units, run in pieces of some units, so that they can carry elementwise ones.

Block (64-bit words):
    0 kernel, 1 units, 2 pieces
    3 elements of the result per unit     4 range kernel to run on each piece of it, or 0, 5 its block
    6 elements of the input per unit      7 range kernel to run on each piece of it before, or 0, 8 its block
    9 whether the kernel checks indices: then all of them before any piece, by the share 0 of 0
    10 kernel for the whole share, where nothing is run before or after
    11 block of the kernels
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atled.plugin import Call, Native, Prepared
from atled_cpu_numba.kernels.shared.launch import most_shares
from atled_cpu_numba.store import Kernel

_PIECE_BYTES = 1 << 15  # of what is carried over, so that it stays in the cache
_HEADER = 11


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import kernel

    @kernel
    def in_pieces(block, part, parts):
        w = words(block)
        inner = block + 8 * _HEADER
        if w[4] == 0 and w[7] == 0:
            return call3(w[10], inner, part, parts)
        if w[9] != 0:
            # All of them, whatever the share: what others carry must not be done either.
            code = call3(w[0], inner, 0, 0)
            if code != 0:
                return code
        units, pieces = w[1], w[2]
        for piece in range(pieces * part // parts, pieces * (part + 1) // parts):
            first, after = units * piece // pieces, units * (piece + 1) // pieces
            if w[7] != 0:
                call3(w[7], w[8], first * w[6], after * w[6])
            code = call3(w[0], inner, piece, pieces)
            if code != 0:
                return code
            if w[4] != 0:
                call3(w[4], w[5], first * w[3], after * w[3])
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
    sizes = [0 if result is None else call.outputs[result].size, 0]
    if source is not None:
        desc = call.inputs[source]
        assert desc is not None
        sizes[1] = desc.size
    # No more shares than the kernel's own, and as many pieces in each: its workspace is for so many.
    nbytes = call.outputs[0].dtype.itemsize * max(sizes)
    pieces = pieces or max(native.parts, min(units, -(-nbytes // _PIECE_BYTES)))
    header = [native.address, units, pieces, sizes[0] // units, 0, 0, sizes[1] // units, 0, 0, int(checks)]
    header.append(native.address if alone is None else alone.address())
    kernel = IN_PIECES
    return Prepared(
        native=Native(
            kernel.address(),
            np.concatenate([np.array(header, np.int64), native.block]),
            tuple(word if word < 0 else word + _HEADER for word in native.arguments),
            attributes={name: word + _HEADER for name, word in native.attributes.items()},
            parts=native.parts,
            most_parts=most_shares(pieces),
            errors=native.errors,
            owner=(kernel, native.owner, alone),
            after=None if result is None else {result: 4},
            before=None if source is None else {source: 7},
            in_place={source: result} if in_place and source is not None and result is not None else None,
        ),
        workspace=prepared.workspace // native.parts * pieces,
        note=prepared.note,
    )
