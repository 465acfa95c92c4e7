"""numba intrinsics for 3 x 3 filters of single planes: a vector of columns at a time, from the top row to the bottom.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Each row is loaded once, shifted by 0, 1 and 2 columns, and takes part in the three results that see it. What lies
outside the plane is zero, by masks: no padded copy is made.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.lanes import host_lanes
from atled_cpu_numba.kernels.vectors import Writer, vector_intrinsic

_WIDTH = host_lanes().vector
_INT32 = ir.IntType(32)
_INTS32 = ir.VectorType(_INT32, _WIDTH)
_VECTOR = ir.VectorType(ir.FloatType(), _WIDTH)
_MASK = ir.VectorType(ir.IntType(1), _WIDTH)
_ZEROS = ir.Constant(_VECTOR, [0.0] * _WIDTH)
_NO_LANES = ir.Constant(_MASK, [0] * _WIDTH)


def _prefetch(w: Writer, place: Any) -> None:
    """Have the processor load what is at `place`, if there is such a place."""
    kind = [ir.FloatType().as_pointer(), _INT32, _INT32, _INT32]
    function = w.declare("llvm.prefetch.p0", ir.VoidType(), kind)
    read, keep, data = ir.Constant(_INT32, 0), ir.Constant(_INT32, 3), ir.Constant(_INT32, 1)
    w.builder.call(function, [place, read, keep, data])


class _Plane:
    """The rows of a plane as the windows of a vector of columns see them."""

    def __init__(self, w: Writer, start: Any, height: Any, width: Any, column: Any, lanes: Any = None) -> None:
        """column: where the first window begins, may be negative.  lanes: mask of those that are wanted."""
        self.w, self.start, self.height, self.width, self.column = w, start, height, width, column
        builder = w.builder
        self.size = builder.mul(height, width)
        self.masks = []
        for s in range(3):
            first = w.splat(builder.trunc(builder.add(column, w.number(s)), _INT32), _INTS32)
            places = builder.add(first, ir.Constant(_INTS32, list(range(_WIDTH))))
            # As unsigned numbers, negative ones are beyond every width.
            inside = builder.icmp_unsigned("<", places, w.splat(builder.trunc(width, _INT32), _INTS32))
            self.masks.append(inside if lanes is None else builder.and_(inside, lanes))

    def load(self, row: Any) -> list[Any]:
        """Row `row`, which may be outside, shifted by 0, 1 and 2 columns."""
        w, builder = self.w, self.w.builder
        inside = builder.icmp_unsigned("<", row, self.height)
        at = w.at(w.at(self.start, builder.mul(row, self.width)), self.column)
        # The same place in the next plane: columns of rows are no sequence that the processor would foresee.
        _prefetch(w, w.at(w.at(at, 1), self.size))
        masks = [builder.select(inside, mask, _NO_LANES) for mask in self.masks]
        return [w.load_masked(w.at(at, s), mask) for s, mask in enumerate(masks)]


def _generate_filter(w, x, height, width, row, column, weight, step, bias, accumulate, y, y_width, rows, count):
    builder = w.builder
    x, weight, y = w.pointer(x), w.pointer(weight), w.pointer(y)
    taps = [w.splat(builder.load(w.at(weight, builder.mul(step, w.number(t))), typ=ir.FloatType())) for t in range(9)]
    start = w.splat(builder.load(w.pointer(bias), typ=ir.FloatType()))
    plane = _Plane(w, x, height, width, column)
    adding = builder.icmp_signed("!=", accumulate, w.number(0))
    lanes = w.first_lanes(count)
    kept = builder.select(adding, lanes, _NO_LANES)

    def plus(total, r, values):
        for s in range(3):
            total = w.multiply_add(taps[3 * r + s], values[s], total)
        return total

    first = plane.load(row)
    second = plane.load(builder.add(row, w.number(1)))
    upper = plus(plus(start, 0, first), 1, second)
    lower = plus(start, 0, second)
    whole = builder.and_(builder.not_(adding), builder.icmp_signed(">=", count, w.number(_WIDTH)))
    with w.counted(rows, [upper, lower]) as (i, (upper, lower), following):
        values = plane.load(builder.add(row, builder.add(i, w.number(2))))
        result = plus(upper, 2, values)
        to = w.at(y, builder.mul(i, y_width))
        with builder.if_else(whole) as (then, otherwise):
            with then:
                w.store(result, to)
            with otherwise:
                w.store_masked(builder.fadd(result, w.load_masked(to, kept)), to, lanes)
        following += [plus(lower, 1, values), plus(start, 0, values)]


filter_columns = vector_intrinsic(
    "filter_columns",
    13,
    _generate_filter,
    """filter_columns((x, height, width, row, column, weight, step, bias, accumulate, y, y_width, rows, count)).

    x: plane of height x width.  row, column: where the first window begins, may be negative.
    weight, step: address of the first of nine taps, and from one to the next.  bias: address of what is added.
    accumulate: 1 to add to y, 0 to set it.
    y: address of the first result, y_width from row to row, `rows` rows.  count: columns, from 1 on; further ones than
    a vector's are ignored.
    """,
)


def _generate_correlate(w, x, height, width, row, column, gy, gy_width, rows, count, sums):
    builder = w.builder
    x, gy, sums = w.pointer(x), w.pointer(gy), w.pointer(sums)
    lanes = w.first_lanes(count)
    plane = _Plane(w, x, height, width, column, lanes)
    before = [w.load(w.at(sums, t * _WIDTH)) for t in range(9)]
    with w.counted(builder.add(rows, w.number(2)), [_ZEROS, _ZEROS, *before]) as (i, phis, following):
        values = plane.load(builder.add(row, i))
        known = builder.select(builder.icmp_signed("<", i, rows), lanes, _NO_LANES)
        gy_row = w.at(gy, builder.mul(i, gy_width))
        _prefetch(w, w.at(gy_row, builder.mul(rows, gy_width)))
        seen = [w.load_masked(gy_row, known), *phis[:2]]
        following += seen[:2]
        following += [w.multiply_add(seen[t // 3], values[t % 3], phis[2 + t]) for t in range(9)]
    for t in range(9):
        w.store(following[2 + t], w.at(sums, t * _WIDTH))


correlate_columns = vector_intrinsic(
    "correlate_columns",
    10,
    _generate_correlate,
    """correlate_columns((x, height, width, row, column, gy, gy_width, rows, count, sums)).

    sums: nine vectors, to whose lanes the products of gy with what each tap sees are added.  The rest as above.
    """,
)


def _generate_total(w, vector, target):
    w.builder.store(w.total(w.load(w.pointer(vector))), w.pointer(target), align=4)


store_total = vector_intrinsic(
    "store_total", 2, _generate_total, "store_total((vector, target)): target[0] = sum of the lanes of a vector."
)
