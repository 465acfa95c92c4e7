"""numba intrinsics for pooling by short windows: maxima or sums of elements of some rows, a vector at a time.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Nothing outside of the rows is read or written, and no masks are needed: the last vector overlaps the one before, and
what is shorter than a vector is done in vectors of half as many lanes, and so on. Where the first window or the last
one is cut, vectors begin or end with the row, and lanes are moved.

Of equal maxima the first counts, so that of zeros its sign does; a NaN makes the maximum NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.vectors import Writer, vector_intrinsic

_INT32 = ir.IntType(32)


class _Lanes:
    """Vectors of some lanes, at most those of a register.

    order: which lane of what `every` gives each element has in the end; None if they are in order.
    """

    def __init__(self, w: Writer, width: int) -> None:
        self.w, self.width = w, width
        self.vector = ir.VectorType(w.float, width)
        self._whole_numbers = ir.VectorType(ir.IntType(8 * w.size), width)
        # Of two registers a processor takes every second lane within groups of 16 bytes, in one instruction.
        group = min(width, 16 // w.size)
        half, groups = group // 2, range(0, width // 2, group // 2 or 1)
        self._windows = [begin + i for at in groups for begin in (at, at + width // 2) for i in range(half)] or [0]
        self.order = None if self._windows == sorted(self._windows) else list(map(self._windows.index, range(width)))

    def load(self, pointer: Any) -> Any:
        to = self.w.builder.bitcast(pointer, self.vector.as_pointer())
        return self.w.builder.load(to, align=self.w.size, typ=self.vector)

    def store(self, value: Any, pointer: Any) -> None:
        self.w.builder.store(value, self.w.builder.bitcast(pointer, self.vector.as_pointer()), align=self.w.size)

    def splat(self, value: Any) -> Any:
        """A vector of equal numbers."""
        first = self.w.builder.insert_element(ir.Constant(self.vector, ir.Undefined), value, ir.Constant(_INT32, 0))
        return self._shuffle(first, first, [0] * self.width)

    def every(self, stride: int, pointer: Any, first: int, *, otherwise: Any = None) -> Any:
        """Elements first, first + stride, ... of `stride` vectors at `pointer`, in an order that `in_order` mends.

        Instead of elements outside of these vectors, which are `otherwise`, or the nearest ones where that is None.
        """
        vectors = [self.load(self.w.at(pointer, part * self.width)) for part in range(stride)]
        places = [first + stride * window for window in (self._windows if stride == 2 else range(self.width))]
        count = stride * self.width
        made = self._shuffle(vectors[0], vectors[-1], [max(0, min(count - 1, place)) for place in places])
        if otherwise is None or all(0 <= place < count for place in places):
            return made
        inside = ir.Constant(ir.VectorType(ir.IntType(1), self.width), [int(0 <= place < count) for place in places])
        return self.w.builder.select(inside, made, otherwise)

    def in_order(self, value: Any) -> Any:
        return value if self.order is None else self._shuffle(value, value, self.order)

    def _shuffle(self, a: Any, b: Any, lanes: Sequence[int]) -> Any:
        return self.w.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_INT32, len(lanes)), list(lanes)))

    def maximum(self, rows: Sequence[Sequence[Any]]) -> Any:
        """Of some rows of vectors, lane by lane."""
        builder = self.w.builder
        # A comparison gives what was there before where either is NaN, so that a NaN in the first one stays.
        others = [value for row in rows for value in row][1:]
        best = self._greatest([self._greatest(row) for row in rows])
        pairs = zip(others[::2], [*others[1::2], others[-1]], strict=False)
        is_nan = functools.reduce(builder.or_, [builder.fcmp_unordered("uno", *pair) for pair in pairs])
        bits = builder.bitcast(best, self._whole_numbers)
        nan = ir.Constant(self._whole_numbers, [-1] * self.width)
        return builder.bitcast(builder.select(is_nan, nan, bits), self.vector)

    def _greatest(self, values: Sequence[Any]) -> Any:
        """The first one of equal ones: one instruction for each of the others."""
        builder = self.w.builder
        return functools.reduce(lambda a, b: builder.select(builder.fcmp_ordered(">", b, a), b, a), values)

    def total(self, rows: Sequence[Sequence[Any]]) -> Any:
        """The sum of the sums of the rows, from left to right."""
        add = self.w.builder.fadd
        return functools.reduce(add, [functools.reduce(add, row) for row in rows])


def _in_parts(w: Writer, columns: Any, left: Any, right: Any, write: Callable[[_Lanes, Any, int, Any], None]) -> None:
    """Have `write` emit code for vectors of windows that together are all `columns` of a row.

    left, right: how many elements the first window is cut by, 0 or 1, and the last one.
    write(lanes, j, left, right): the windows from `j` on; left: by how many elements the first one of them is cut.
        right: None, or by how many, one or more, the last one is.
    """
    builder, zero = w.builder, w.number(0)
    is_left, is_right = (builder.icmp_signed(">", cut, zero) for cut in (left, right))
    is_cut = builder.zext(builder.or_(is_left, is_right), columns.type)

    def with_lanes(width: int) -> None:
        lanes, whole = _Lanes(w, width), w.number(width)
        last = builder.sub(columns, whole)
        with builder.if_then(is_left):
            write(lanes, zero, 1, None)
        begin, end = builder.select(is_left, whole, zero), builder.select(is_right, last, columns)
        # The last one of these may reach into those that end the row, but not to a window that is cut.
        latest = builder.sub(last, builder.zext(is_right, columns.type))
        rounds = builder.sdiv(builder.add(builder.sub(end, begin), w.number(width - 1)), whole)
        with w.counted(rounds, []) as (i, _, _following):
            j = builder.add(begin, builder.mul(i, whole))
            write(lanes, builder.select(builder.icmp_signed("<", j, latest), j, latest), 0, None)
        with builder.if_then(is_right):
            write(lanes, last, 0, right)

    def choose(width: int) -> None:
        if width == 1:
            with_lanes(1)
            return
        least = builder.add(is_cut, w.number(width))
        with builder.if_else(builder.icmp_signed(">=", columns, least)) as (wide, narrow):
            with wide:
                with_lanes(width)
            with narrow:
                choose(width // 2)

    choose(w.width)


def make_windows(kernel: int, stride: int, dtype: str, *, maxima: bool) -> Any:
    """An intrinsic windows((a, b, c, columns, left, right, factors, factor, y)): one row of windows.

    kernel, stride: 2 and 2, 3 and 2, or 3 and 1: y[j] of so many elements, from stride * j - left on, of each of the
        rows at a, b and, if it is 3, c.
    left, right: by how many elements the first window is cut, 0 or 1, and the last one, 0 to 2, no other being cut.
        At least two windows if one is cut; each sees something.
    maxima: whether y[j] is the maximum; else the sum times factors[j] * factor[0], floats at those addresses.
    """

    def generate(w, a, b, c, columns, left, right, factors, factor, y):
        builder = w.builder
        rows, factors, y = [w.pointer(row) for row in (a, b, c)[:kernel]], w.pointer(factors), w.pointer(y)
        common = None if maxima else w.load_one(w.pointer(factor))

        def elements(lanes, row, begin, left, right):
            """Of one row, for each place in the windows.  begin: of the first window; left, right: cut off, known."""
            found, nothing = [], None if maxima else ir.Constant(lanes.vector, [0.0] * lanes.width)
            for s in range(kernel):
                beyond = s + right - (kernel - 1)
                if left:
                    back = min(0, s - left) if stride == 1 else s - left
                    at = w.at(row, s - left - back)
                else:
                    # What is loaded ends with the last element of the last window, or of the row.
                    back = beyond + stride - 1 if beyond >= 0 else 0
                    at = w.at(row, builder.add(begin, w.number(s - back)))
                found.append(lanes.every(stride, at, back, otherwise=nothing))
            return found

        def finish(lanes, j, left, right):
            begin = builder.sub(builder.mul(j, w.number(stride)), cut)
            seen = [elements(lanes, row, begin, left, right) for row in rows]
            made = lanes.maximum(seen) if maxima else lanes.total(seen)
            if stride != 1:
                made = lanes.in_order(made)
            if not maxima:
                made = builder.fmul(made, builder.fmul(lanes.load(w.at(factors, j)), lanes.splat(common)))
            lanes.store(made, w.at(y, j))

        def write(lanes, j, left, right):
            if right is None:
                finish(lanes, j, left, 0)
            elif kernel == 2 or stride == 1:
                finish(lanes, j, left, 1)
            else:
                with builder.if_else(builder.icmp_signed("==", right, w.number(1))) as (by_one, by_two):
                    for number, branch in enumerate((by_one, by_two), 1):
                        with branch:
                            finish(lanes, j, left, number)

        cut = left
        _in_parts(w, columns, left, right, write)

    return vector_intrinsic("windows", 9, generate, "One row of short windows; see make_windows.", dtype)
