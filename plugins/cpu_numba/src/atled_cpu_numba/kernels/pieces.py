"""Kernels whose shares are made of equal units, run in pieces of some units, so that they can carry elementwise ones.

Block (64-bit words):
    0 kernel, 1 units, 2 pieces
    3 elements of the result per unit         4 range kernel to run on each piece of it, or 0, 5 its block
    6 elements of the first input per unit    7 range kernel to run on each piece of it before, or 0, 8 its block
    9 kernel for the whole share, where nothing is run before or after
    10 block of the kernels
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atled.call import Call, Native, Prepared
from atled_cpu_numba.store import Kernel

_PIECE_BYTES = 1 << 15  # of what is carried over, so that it stays in the cache
_HEADER = 10


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.options import kernel

    @kernel
    def in_pieces(block, part, parts):
        w = words(block)
        inner = block + 8 * _HEADER
        if w[4] == 0 and w[7] == 0:
            return call3(w[9], inner, part, parts)
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


def in_pieces(prepared: Prepared, call: Call, units: int, *, alone: Kernel | None = None) -> Prepared:
    """A call that can carry elementwise steps, on its first output and before its first input.

    prepared: the call as it is, its kernel's shares made of `units`: share `part` of `parts` reads and writes those
        from units * part // parts to units * (part + 1) // parts, and of workspace what all shares have in equal parts.
    """
    native = prepared.native
    assert native is not None
    source, result = call.inputs[0], call.outputs[0]
    assert source is not None
    itemsize = result.dtype.itemsize
    # No more shares than the kernel's own, and as many pieces in each: its workspace is for so many.
    pieces = max(native.parts, min(units, -(-itemsize * max(source.size, result.size) // _PIECE_BYTES)))
    header = [native.address, units, pieces, result.size // units, 0, 0, source.size // units, 0, 0]
    header.append(native.address if alone is None else alone.address())
    kernel = IN_PIECES
    return Prepared(
        native=Native(
            kernel.address(),
            np.concatenate([np.array(header, np.int64), native.block]),
            tuple(word if word < 0 else word + _HEADER for word in native.arguments),
            attributes={name: word + _HEADER for name, word in native.attributes.items()},
            parts=native.parts,
            errors=native.errors,
            owner=(kernel, native.owner, alone),
            after={0: 4},
            before={0: 7},
        ),
        workspace=prepared.workspace // native.parts * pieces,
        note=prepared.note,
    )
