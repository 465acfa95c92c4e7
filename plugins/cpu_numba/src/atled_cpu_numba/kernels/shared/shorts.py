"""numba intrinsics that move elements of 16 bits: square blocks, transposed, and some neighbours.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from typing import Any

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


transpose_shorts = vector_intrinsic(
    "transpose_shorts",
    4,
    _generate_transpose,
    "transpose_shorts((source, source_row, target, target_row)): a block; from row to row in elements.",
)


def make_move_shorts(count: int) -> Any:
    """An intrinsic move_shorts((source, target)) of `count` neighbours; all are read before one is written."""
    kind = _SHORT if count == 1 else ir.VectorType(_SHORT, count)

    def generate(w, source, target):
        builder = w.builder
        value = builder.load(builder.inttoptr(source, kind.as_pointer()), align=2, typ=kind)
        builder.store(value, builder.inttoptr(target, kind.as_pointer()), align=2)

    return vector_intrinsic("move_shorts", 2, generate, f"move_shorts((source, target)): {count} elements.")
