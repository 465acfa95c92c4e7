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
        *,
        stride: int = 1,
        masked: bool = True,
    ) -> None:
        """plane: the first six arguments of the intrinsics.  offsets: from the first window to each vector's.

        lanes: mask of those of the last vector that are wanted.  stride: from window to window, 1 or 2.
        masked: whether the first and the last vector may see columns outside.
        """
        start, self.height, self.width, self.row, column, ahead, zeros = plane
        builder = w.builder
        self.w, self.offsets, self.stride = w, offsets, stride
        self.start, self.zeros = w.at(w.pointer(start), column), w.pointer(zeros)
        self.next = w.at(self.start, ahead)
        # Where the vectors begin that are loaded for one vector of windows.
        self.places = [0, 1, 2] if stride == 1 else [0, w.width, 2, w.width + 2]
        self.masks: list[list[Any]] = [[None] * len(self.places) for _ in offsets]
        for v in {0, len(offsets) - 1} if masked else ():
            first = builder.add(column, offsets[v])
            self.masks[v] = [self._inside(builder.add(first, w.number(s))) for s in self.places]
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
            for line in range(self.stride):
                # The same place in what comes next: columns of rows are no sequence that the processor would foresee.
                here = w.at(w.at(self.next, elements), line * w.width)
                w.prefetch(w.at(here, builder.add(offset, w.number(1))))
        inside = builder.icmp_unsigned("<", row, self.height)
        return builder.select(inside, w.at(self.start, elements), self.zeros)

    def load(self, row: Any, v: int) -> list[Any]:
        """Vector `v` of a row for the windows' columns 0, 1 and 2."""
        w = self.w
        places = [w.at(w.at(row, self.offsets[v]), s) for s in self.places]
        loaded = [
            w.load(place) if mask is None else w.load_masked(place, mask)
            for place, mask in zip(places, self.masks[v], strict=True)
        ]
        if self.stride == 1:
            return loaded
        even, odd = (
            ir.Constant(ir.VectorType(_INT32, w.width), list(range(first, 2 * w.width, 2))) for first in (0, 1)
        )
        shuffled = w.builder.shuffle_vector
        return [
            shuffled(loaded[0], loaded[1], even),
            shuffled(loaded[0], loaded[1], odd),
            shuffled(loaded[2], loaded[3], even),
        ]


def _offsets(w: Writer, vectors: int, last: Any) -> list[Any]:
    return [*(w.number(v * w.width) for v in range(vectors - 1)), last]


def make_filter(vectors: int, dtype: str, *, masked: bool = False, adds: bool = False) -> Any:
    """An intrinsic for some columns of a filtered plane.

    filter((x, height, width, row, column, ahead, zeros, weight, step, bias, y, y_width, rows, last)):
    x: plane of height x width.  row, column: where the first window begins, may be negative.
    ahead: elements from here to what will be read next.  zeros: address of `zero_count` of them.
    weight, step: address of the first of nine taps, and from one to the next.  bias: address of what is added.
    y: address of the first result, y_width from row to row, `rows` rows.
    last: from the first vector to the last one, the others follow one another; 0 if there is one.
    masked: for one vector; there is a 15th argument, how many columns there are, from 1 on. Without, whole vectors are
        written, from the top row down.
    adds: whether it adds to y instead of setting it.
    """

    def generate(w, *arguments):
        weight, step, bias, y, y_width, rows, last, *rest = arguments[7:]
        builder = w.builder
        weight, y = w.pointer(weight), w.pointer(y)
        taps = [w.splat(w.load_one(w.at(weight, builder.mul(step, w.number(t))))) for t in range(9)]
        start = w.splat(w.load_one(w.pointer(bias)))
        offsets = _offsets(w, vectors, last)
        plane = _Plane(w, arguments[:7], offsets)
        lanes = w.first_lanes(rest[0]) if masked else None

        def plus(total, r, values):
            return _plus(w, taps, total, r, values)

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
                _store(w, plus(upper, 2, values), w.at(line, offset), lanes, adds)
                following += [plus(lower, 1, values), plus(start, 0, values)]

    name = f"filter_{vectors}" + ("_masked" if masked else "") + ("_adding" if adds else "")
    return vector_intrinsic(
        name, 15 if masked else 14, generate, "Columns of a filtered plane; see make_filter.", dtype
    )


def make_halving_filter(dtype: str, *, inside: bool = False, masked: bool = False) -> Any:
    """An intrinsic for one vector of columns of a plane that is filtered with strides of 2.

    The arguments are those of the intrinsic of `make_filter`, `last` being 0, and windows begin in every second column.
    inside: whether all columns that the vector's windows see are in the plane.  masked: as there.
    """

    def generate(w, *arguments):
        weight, step, bias, y, y_width, rows, _last, *rest = arguments[7:]
        builder = w.builder
        weight, y = w.pointer(weight), w.pointer(y)
        taps = [w.splat(w.load_one(w.at(weight, builder.mul(step, w.number(t))))) for t in range(9)]
        start = w.splat(w.load_one(w.pointer(bias)))
        plane = _Plane(w, arguments[:7], [w.number(0)], stride=2, masked=not inside)
        lanes = w.first_lanes(rest[0]) if masked else None
        # The last row under a window is the first one under the next window.
        carried = [_plus(w, taps, start, 0, plane.load(plane.at(w.number(0)), 0))]
        with w.counted(rows, carried) as (i, (total,), following):
            row = builder.add(i, i)
            middle, lower = (plane.load(plane.at(builder.add(row, w.number(r))), 0) for r in (1, 2))
            total = _plus(w, taps, _plus(w, taps, total, 1, middle), 2, lower)
            _store(w, total, w.at(y, builder.mul(i, y_width)), lanes, adds=False)
            following.append(_plus(w, taps, start, 0, lower))

    name = "halving_filter" + ("_inside" if inside else "") + ("_masked" if masked else "")
    return vector_intrinsic(name, 15 if masked else 14, generate, "See make_halving_filter.", dtype)


def _plus(w: Writer, taps: list[Any], total: Any, r: int, values: list[Any]) -> Any:
    """The total, and what row `r` of the kernel makes of the three vectors of a row of the plane."""
    for s in range(3):
        total = w.multiply_add(taps[3 * r + s], values[s], total)
    return total


def _store(w: Writer, result: Any, to: Any, lanes: Any, adds: bool) -> None:
    """Set, or add to, some lanes of y, all if `lanes` is None.

    What only sets must not load: a processor that stored to a part of the vector just before waits until that is done.
    """
    if adds:
        result = w.builder.fadd(result, w.load(to) if lanes is None else w.load_masked(to, lanes))
    if lanes is None:
        w.store(result, to)
    else:
        w.store_masked(result, to, lanes)


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
