"""A numba intrinsic for filters of some planes together, along a row of windows a vector at a time.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
A vector of all rows is computed plane by plane, each as `plane_blocks` computes it alone: its nine taps are in
registers, and the sums wait in a buffer of that vector's rows for the next plane.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.depthwise.plane_blocks import Filter
from atled_cpu_numba.kernels.shared.short_windows import in_parts
from atled_cpu_numba.kernels.shared.vectors import vector_intrinsic


def make_volume_filter(stride: int, dtype: str) -> Any:
    """An intrinsic for the sum of filtered planes, of any width.

    volume_filter((x, height, width, weight, step, table, count, bias, sums, y, columns, left, right)):
    x: planes of height x width, with one row of padding above each.  weight, step: address of filters of nine taps, and
    from one tap to the next; they begin one behind the other.
    table: address of `count` >= 1 pairs: which filter, and of which plane.  Products are added in that order.
    bias: address of a vector of what is added.  sums: room for a vector of each row of windows, and one more.
    y: address of the results, `columns` in a row.
    left, right: as those of `plane_blocks.make_filter`.
    """

    def generate(w, x, height, width, weight, step, table, count, bias, sums, y, columns, left, right):
        builder, int64 = w.builder, ir.IntType(64)
        pairs = builder.inttoptr(table, int64.as_pointer())
        plane_bytes = builder.mul(builder.mul(height, width), w.number(w.size))
        last = builder.sub(count, w.number(1))

        def write_strip(lanes, j, *cuts):
            def is_number(n, wanted, then, otherwise):
                return builder.select(builder.icmp_signed("==", n, wanted), then, otherwise)

            to = builder.add(y, builder.mul(j, w.number(w.size)))
            with w.counted(count, []) as (n, _, _following):
                pair = builder.gep(pairs, [builder.mul(n, w.number(2))])
                tap = builder.load(pair, typ=int64)
                place = builder.load(builder.gep(pair, [w.number(1)]), typ=int64)
                plane = builder.add(x, builder.mul(plane_bytes, place))
                taps = builder.add(weight, builder.mul(tap, w.number(9 * w.size)))
                line, pitch = is_number(n, last, to, sums), is_number(n, last, columns, w.number(w.width))
                filtered = Filter(w, (plane, height, width, w.number(1), bias, taps, step, bias, line, pitch), stride)
                begun = is_number(n, w.number(0), bias, sums), is_number(n, w.number(0), w.number(0), w.number(w.width))
                is_last = builder.icmp_signed("==", n, last)

                def store(total, at):
                    if lanes.order is not None and stride > 1:
                        total = builder.select(is_last, lanes.in_order(total), total)
                    lanes.store(total, at)

                ahead = builder.mul(height, width)
                elements = filtered.elements_of(lanes, j, left, *cuts, ahead=ahead)
                filtered.strip(lanes, elements, store, (w.pointer(begun[0]), begun[1]))

        in_parts(w, columns, left, right, write_strip)

    return vector_intrinsic("volume_filter", 13, generate, "The sum of filtered planes; see make_volume_filter.", dtype)
