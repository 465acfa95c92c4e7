"""A numba intrinsic that adds multiples of rows in half or bf16 to a row of float32.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.narrow_vectors import STORED, widened
from atled_cpu_numba.kernels.shared.vectors import vector_intrinsic


def make_add_rows(rows: int, dtype: str) -> Any:
    """An intrinsic add_rows((factors, source, source_row, sums, vectors)): adds rows to sums.

    sums[j] += factors[r] * source[r, j] for r < rows, the terms in the order of the rows.
    factors, sums: addresses of float32.  vectors: of columns.
    source, source_row: address of rows of `dtype`, elements from one to the next.
    """

    def generate(w, factors, source, source_row, sums, vectors):
        builder, kind = w.builder, ir.VectorType(STORED[dtype], w.width)
        factors, sums = w.pointer(factors), w.pointer(sums)
        each = [w.splat(w.load_one(w.at(factors, r))) for r in range(rows)]
        steps = [builder.mul(source_row, w.number(2 * r)) for r in range(rows)]
        with w.counted(vectors, []) as (i, _, _following):
            j = builder.mul(i, w.number(w.width))
            begin, total = builder.add(source, builder.mul(j, w.number(2))), w.load(w.at(sums, j))
            for factor, step in zip(each, steps, strict=True):
                place = builder.inttoptr(builder.add(begin, step), kind.as_pointer())
                value = widened(w, builder.load(place, align=2, typ=kind), dtype, w.width)
                total = w.multiply_add(factor, value, total)
            w.store(total, w.at(sums, j))

    return vector_intrinsic("add_rows", 5, generate, "Rows added to sums; see make_add_rows.")
