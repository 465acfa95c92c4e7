"""numba intrinsics for 3 x 3 filters of single planes: up to four vectors of columns at a time, from the top row down.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Each row is loaded once, shifted by 0, 1 and 2 columns, and takes part in the three results that see it. No padded copy
is made: columns outside the plane are left out by masks that are the same for all rows, and rows outside are read from
zeros that the caller has.

There are few registers for masks, so of several vectors only the first and the last may see columns outside.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.lanes import lanes_of
from atled_cpu_numba.kernels.shared.vectors import Writer, vector_intrinsic

_INT32 = ir.IntType(32)

MOST_VECTORS = 4


def zero_count(dtype: str) -> int:
    """How many zeros the intrinsics need: the widest row, shifted by two, in whole lines."""
    return MOST_VECTORS * lanes_of(dtype).vector + 16


class _Plane:
    """The rows of a plane as the windows of some vectors of columns see them."""

    def __init__(
        self,
        w: Writer,
        plane: tuple[Any, ...],
        offsets: list[Any],
        lanes: Any = None,
        shifts: tuple[int, ...] = (0, 1, 2),
    ) -> None:
        """plane: the first six arguments of the intrinsics.  offsets: from the first window to each vector's.

        lanes: mask of those of the last vector that are wanted.
        shifts: from a vector's first column to what is loaded.
        """
        start, self.height, self.width, self.row, column, ahead, zeros = plane
        builder = w.builder
        self.w, self.offsets, self.shifts = w, offsets, shifts
        self.start, self.zeros = w.at(w.pointer(start), column), w.pointer(zeros)
        self.next = w.at(self.start, ahead)
        self.masks: list[list[Any]] = [[None] * len(shifts) for _ in offsets]
        for v in {0, len(offsets) - 1}:
            first = builder.add(column, offsets[v])
            self.masks[v] = [self._inside(builder.add(first, w.number(s))) for s in shifts]
        if lanes is not None:
            self.masks[-1] = [builder.and_(mask, lanes) for mask in self.masks[-1]]

    def _inside(self, column: Any) -> Any:
        """The mask of the lanes that are in the plane, from a column on."""
        w, builder = self.w, self.w.builder
        numbers = ir.VectorType(_INT32, w.width)
        lanes = ir.Constant(numbers, list(range(w.width)))
        places = builder.add(w.splat(builder.trunc(column, _INT32), numbers), lanes)
        # As unsigned numbers, negative ones are beyond every width.
        return builder.icmp_unsigned("<", places, w.splat(builder.trunc(self.width, _INT32), numbers))

    def at(self, i: Any) -> Any:
        """The address of row `i` from the first one on, which may be outside."""
        w, builder = self.w, self.w.builder
        row = builder.add(self.row, i)
        elements = builder.mul(row, self.width)
        for offset in self.offsets:
            # The same place in what comes next: columns of rows are no sequence that the processor would foresee.
            w.prefetch(w.at(w.at(self.next, elements), builder.add(offset, w.number(1))))
        inside = builder.icmp_unsigned("<", row, self.height)
        return builder.select(inside, w.at(self.start, elements), self.zeros)

    def load(self, row: Any, v: int) -> list[Any]:
        """Vector `v` of a row, as often as it is shifted."""
        places = [self.w.at(self.w.at(row, self.offsets[v]), s) for s in self.shifts]
        return [
            self.w.load(place) if mask is None else self.w.load_masked(place, mask)
            for place, mask in zip(places, self.masks[v], strict=True)
        ]


def _offsets(w: Writer, vectors: int, last: Any) -> list[Any]:
    return [*(w.number(v * w.width) for v in range(vectors - 1)), last]


def make_filter(vectors: int, dtype: str, *, masked: bool = False) -> Any:
    """An intrinsic for some columns of a filtered plane.

    filter((x, height, width, row, column, ahead, zeros, weight, step, bias, y, y_width, rows, last)):
    x: plane of height x width.  row, column: where the first window begins, may be negative.
    ahead: elements from here to what will be read next.  zeros: address of `zero_count` of them.
    weight, step: address of the first of nine taps, and from one to the next.  bias: address of what is added.
    y: address of the first result, y_width from row to row, `rows` rows.
    last: from the first vector to the last one, the others follow one another; 0 if there is one.
    masked: for one vector; there is a 15th argument, how many columns there are, from 1 on, and a 16th, 1 to add to y,
        0 to set it.
    """

    def generate(w, *arguments):
        weight, step, bias, y, y_width, rows, last, *rest = arguments[7:]
        builder = w.builder
        weight, y = w.pointer(weight), w.pointer(y)
        taps = [w.splat(w.load_one(w.at(weight, builder.mul(step, w.number(t))))) for t in range(9)]
        start = w.splat(w.load_one(w.pointer(bias)))
        offsets = _offsets(w, vectors, last)
        plane = _Plane(w, arguments[:7], offsets)
        if masked:
            lanes = w.first_lanes(rest[0])
            kept = builder.select(builder.icmp_signed("!=", rest[1], w.number(0)), lanes, w.first_lanes(w.number(0)))

        def plus(total, r, values):
            for s in range(3):
                total = w.multiply_add(taps[3 * r + s], values[s], total)
            return total

        first, second = plane.at(w.number(0)), plane.at(w.number(1))
        carried = []
        for v in range(vectors):
            seen = plane.load(second, v)
            carried += [plus(plus(start, 0, plane.load(first, v)), 1, seen), plus(start, 0, seen)]
        with w.counted(rows, carried) as (i, phis, following):
            row = plane.at(builder.add(i, w.number(2)))
            line = w.at(y, builder.mul(i, y_width))
            for v, offset in enumerate(offsets):
                upper, lower = phis[2 * v : 2 * v + 2]
                values = plane.load(row, v)
                result, to = plus(upper, 2, values), w.at(line, offset)
                if masked:
                    w.store_masked(builder.fadd(result, w.load_masked(to, kept)), to, lanes)
                else:
                    w.store(result, to)
                following += [plus(lower, 1, values), plus(start, 0, values)]

    count = 16 if masked else 14
    return vector_intrinsic(
        f"filter_{vectors}", count, generate, "Columns of a filtered plane; see make_filter.", dtype
    )


def make_halving_filter(vectors: int, dtype: str, *, masked: bool = False) -> Any:
    """An intrinsic for some columns of a filtered plane of which every second row and column is wanted.

    filter((x, height, width, row, column, ahead, zeros, weight, bias, y, y_width, rows, last)):
    vectors: 1 or 2; the zeros that there are do not reach further.
    masked: for one vector; there is a 14th argument, how many columns there are, from 1 on.
    The rest as in `make_filter`, whose taps follow one another.
    """

    def generate(w, *arguments):
        weight, bias, y, y_width, rows, last, *rest = arguments[7:]
        builder = w.builder
        weight, y = w.pointer(weight), w.pointer(y)
        taps = [w.splat(w.load_one(w.at(weight, t))) for t in range(9)]
        start = w.splat(w.load_one(w.pointer(bias)))
        offsets = _offsets(w, vectors, last)
        doubled = [builder.mul(offset, w.number(2)) for offset in offsets]
        plane = _Plane(w, arguments[:7], doubled, shifts=(0, w.width, 2, w.width + 2))
        lanes = w.first_lanes(rest[0]) if masked else None
        numbers = ir.VectorType(_INT32, w.width)
        even, odd = (ir.Constant(numbers, [2 * i + k for i in range(w.width)]) for k in (0, 1))

        def plus(total, r, row, v):
            """The products of a row of taps; a row of the plane by every second of its columns."""
            first, second, later, last = plane.load(row, v)
            seen = (
                builder.shuffle_vector(first, second, even),
                builder.shuffle_vector(first, second, odd),
                builder.shuffle_vector(later, last, even),
            )
            for s in range(3):
                total = w.multiply_add(taps[3 * r + s], seen[s], total)
            return total

        top = plane.at(w.number(0))
        with w.counted(rows, [plus(start, 0, top, v) for v in range(vectors)]) as (i, phis, following):
            middle = builder.add(builder.mul(i, w.number(2)), w.number(1))
            row, next_row = plane.at(middle), plane.at(builder.add(middle, w.number(1)))
            line = w.at(y, builder.mul(i, y_width))
            for v, offset in enumerate(offsets):
                result, to = plus(plus(phis[v], 1, row, v), 2, next_row, v), w.at(line, offset)
                if masked:
                    w.store_masked(result, to, lanes)
                else:
                    w.store(result, to)
                following.append(plus(start, 0, next_row, v))

    return vector_intrinsic(
        f"halving_filter_{vectors}",
        14 if masked else 13,
        generate,
        "Every second of the columns and rows of a filtered plane; see make_halving_filter.",
        dtype,
    )


def make_correlate(vectors: int, dtype: str) -> Any:
    """An intrinsic for what some columns bring to the gradient of a filter.

    correlate((x, height, width, row, column, ahead, zeros, gy, gy_width, rows, count, gy_ahead, sums)):
    count: columns, of which the last vector has from 1 on; further ones than its lanes are ignored.
    gy: address of the first of them, gy_width from row to row, `rows` rows.  gy_ahead: as `ahead`.
    sums: nine vectors, to whose lanes the products of gy with what each tap sees are added.
    The rest as in `make_filter`.
    """

    def generate(w, *arguments):
        gy, gy_width, rows, count, gy_ahead, sums = arguments[7:]
        builder = w.builder
        gy, sums = w.pointer(gy), w.pointer(sums)
        last = w.number((vectors - 1) * w.width)
        offsets = _offsets(w, vectors, last)
        lanes = w.first_lanes(builder.sub(count, last))
        plane = _Plane(w, arguments[:7], offsets, lanes)
        totals = [w.load(w.at(sums, t * w.width)) for t in range(9)]

        def accumulate(totals, row, seen):
            """Add what the vectors of gy bring that see a row: seen[r] is under the windows' row r, or None."""
            totals = list(totals)
            for v in range(vectors):
                values = plane.load(row, v)
                for r, vectors_seen in enumerate(seen):
                    if vectors_seen is not None:
                        for s in range(3):
                            t = 3 * r + s
                            totals[t] = w.multiply_add(vectors_seen[v], values[s], totals[t])
            return totals

        def load_gy(i):
            line = w.at(gy, builder.mul(i, gy_width))
            for offset in offsets:
                w.prefetch(w.at(w.at(line, gy_ahead), offset))
            whole = [w.load(w.at(line, offset)) for offset in offsets[:-1]]
            return [*whole, w.load_masked(w.at(line, offsets[-1]), lanes)]

        nothing = [w.zeros] * vectors
        with w.counted(rows, [*nothing, *nothing, *totals]) as (i, phis, following):
            seen = [load_gy(i), phis[:vectors], phis[vectors : 2 * vectors]]
            following += [*seen[0], *seen[1], *accumulate(phis[2 * vectors :], plane.at(i), seen)]
        upper, lower = following[vectors : 2 * vectors], following[:vectors]
        totals = accumulate(following[2 * vectors :], plane.at(rows), [None, lower, upper])
        totals = accumulate(totals, plane.at(builder.add(rows, w.number(1))), [None, None, lower])
        for t in range(9):
            w.store(totals[t], w.at(sums, t * w.width))

    return vector_intrinsic(f"correlate_{vectors}", 13, generate, "Gradient of a filter; see make_correlate.", dtype)


def _generate_total(w, vector, target):
    w.builder.store(w.total(w.load(w.pointer(vector))), w.pointer(target), align=w.size)


def make_store_total(dtype: str) -> Any:
    """An intrinsic store_total((vector, target)): target[0] = sum of the lanes of a vector."""
    return vector_intrinsic("store_total", 2, _generate_total, "See make_store_total.", dtype)
