"""A numba intrinsic that copies every second element of rows: the planes of a convolution with a stride of 2.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.vectors import vector_intrinsic


def make_copy_every_second(dtype: str, lanes: int) -> Any:
    """An intrinsic that copies every second element of rows, `lanes` of them at a time, a vector or a part of one.

    copy_every_second((source, source_row, target, target_row, rows, count)):
    target[i * target_row + j] = source[i * source_row + 2 * j] for j < count, which is more than `lanes`. Nothing is
    read in front of the first element or behind the last one.
    """

    def generate(w, source, source_row, target, target_row, rows, count):
        builder = w.builder
        source, target = w.pointer(source), w.pointer(target)
        numbers = ir.VectorType(ir.IntType(32), lanes)
        even, odd = (ir.Constant(numbers, [2 * i + first for i in range(lanes)]) for first in (0, 1))
        last = builder.sub(count, w.number(lanes))
        blocks = builder.sdiv(builder.sub(count, w.number(1)), w.number(lanes))

        def copy(x, y, first, order):
            pair = w.load_lanes(x, lanes), w.load_lanes(w.at(x, lanes), lanes)
            w.store_lanes(builder.shuffle_vector(*pair, order), w.at(y, first), lanes)

        with w.counted(rows, [source, target]) as (_, (x, y), following):
            with w.counted(blocks, []) as (i, _, _following):
                first = builder.mul(i, w.number(lanes))
                copy(w.at(x, builder.mul(first, w.number(2))), y, first, even)
            # The last ones overlap those before, and the last of them is the last one that is read.
            copy(w.at(x, builder.sub(builder.mul(last, w.number(2)), w.number(1))), y, last, odd)
            following += [w.at(x, source_row), w.at(y, target_row)]

    return vector_intrinsic("copy_every_second", 6, generate, "See make_copy_every_second.", dtype)
