"""numba intrinsics that move elements of 16 bits: square blocks, transposed, and single ones.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from llvmlite import ir

from atled_cpu_numba.kernels.shared.vectors import transpose_registers, vector_intrinsic

SIDE = 8
"""Elements of a row of a block: 16 bytes."""

_SHORT = ir.IntType(16)
_ROW = ir.VectorType(_SHORT, SIDE)


def _generate_transpose(w, source, source_row, target, target_row):
    builder = w.builder

    def place(address, row, number):
        at = builder.add(address, builder.mul(row, w.number(2 * number)))
        return builder.inttoptr(at, _ROW.as_pointer())

    rows = [builder.load(place(source, source_row, r), align=2, typ=_ROW) for r in range(SIDE)]
    transpose_registers(w, rows)
    for c in range(SIDE):
        builder.store(rows[c], place(target, target_row, c), align=2)


def _generate_move(w, source, target):
    builder = w.builder
    value = builder.load(builder.inttoptr(source, _SHORT.as_pointer()), align=2, typ=_SHORT)
    builder.store(value, builder.inttoptr(target, _SHORT.as_pointer()), align=2)


transpose_shorts = vector_intrinsic(
    "transpose_shorts",
    4,
    _generate_transpose,
    "transpose_shorts((source, source_row, target, target_row)): a block; from row to row in elements.",
)
move_short = vector_intrinsic("move_short", 2, _generate_move, "move_short((source, target)): one element.")
