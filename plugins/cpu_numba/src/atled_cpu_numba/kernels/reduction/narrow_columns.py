"""Sums of columns that are too few for LLVM's loop, which would leave most of them over: in vectors that get narrower.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.vectors import Writer, vector_intrinsic

_ROWS = 8  # that are added to each other before a sum gets them, as in the loop over many columns


def make_add_columns(dtype: str) -> Any:
    """An intrinsic add_columns((x, stride, rows, count, sums)): sums[j] += the numbers of column j of x.

    stride: from row to row.  count: of columns, whose rows are added in the order that docs/accuracy.md states.
    """

    def generate(w: Writer, x: Any, stride: Any, rows: Any, count: Any, sums: Any) -> None:
        builder, x, sums = w.builder, w.pointer(x), w.pointer(sums)

        def load(pointer: Any, width: int) -> Any:
            return w.load_one(pointer) if width == 1 else w.load_lanes(pointer, width)

        def add(place: Any, width: int) -> None:
            """The columns from `place` on."""
            target = w.at(sums, place)
            groups = builder.sdiv(rows, w.number(_ROWS))
            with w.counted(groups, [load(target, width), w.at(x, place)]) as (_, (total, row), following):
                terms = [load(w.at(row, builder.mul(stride, w.number(i))), width) for i in range(_ROWS)]
                while len(terms) > 1:
                    terms = [builder.fadd(a, b) for a, b in zip(terms[::2], terms[1::2], strict=True)]
                following += [builder.fadd(total, terms[0]), w.at(row, builder.mul(stride, w.number(_ROWS)))]
            with w.counted(builder.srem(rows, w.number(_ROWS)), following) as (_, (total, row), last):
                last += [builder.fadd(total, load(row, width)), w.at(row, stride)]
            if width == 1:
                builder.store(last[0], target)
            else:
                w.store_lanes(last[0], target, width)

        with w.counted(builder.sdiv(count, w.number(w.width)), []) as (i, _, _following):
            add(builder.mul(i, w.number(w.width)), w.width)
        width = w.width // 2
        while width:
            with builder.if_then(builder.icmp_signed("!=", builder.and_(count, w.number(width)), w.number(0))):
                add(builder.and_(count, ir.Constant(ir.IntType(64), -2 * width)), width)
            width //= 2

    return vector_intrinsic("add_columns", 5, generate, "See make_add_columns.", dtype)
