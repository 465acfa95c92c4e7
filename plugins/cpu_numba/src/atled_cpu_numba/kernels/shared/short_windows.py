"""What intrinsics for short windows along rows are made of: their elements in vectors, without masks.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Nothing outside of the rows is read or written (`in_parts`): the last vector overlaps the one before, and what is
shorter than a vector is done in vectors of half as many lanes, and so on. Where the first window or the last one is
cut, vectors begin or end with the row, and lanes are moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.vectors import Writer

_INT32 = ir.IntType(32)


class Lanes:
    """Vectors of some lanes, at most those of a register.

    order: which lane of what `every` gives each element has in the end; None if they are in order.
    """

    def __init__(self, w: Writer, width: int) -> None:
        self.w, self.width = w, width
        self.vector, self._code = ir.VectorType(w.float, width), f"v{width}f{8 * w.size}"
        # Of two registers a processor takes every second lane within groups of 16 bytes, in one instruction.
        group = min(width, 16 // w.size)
        half, groups = group // 2, range(0, width // 2, group // 2 or 1)
        self._windows = [begin + i for at in groups for begin in (at, at + width // 2) for i in range(half)] or [0]
        self.order = None if self._windows == sorted(self._windows) else list(map(self._windows.index, range(width)))

    def load(self, pointer: Any) -> Any:
        return self.w.load_lanes(pointer, self.width)

    def store(self, value: Any, pointer: Any) -> None:
        self.w.store_lanes(value, pointer, self.width)

    def splat(self, value: Any) -> Any:
        """A vector of equal numbers."""
        first = self.w.builder.insert_element(ir.Constant(self.vector, ir.Undefined), value, ir.Constant(_INT32, 0))
        return self._shuffle(first, first, [0] * self.width)

    def first(self, count: Any) -> Any:
        """The mask of the lanes below `count`, an int64 of any sign."""
        builder, numbers = self.w.builder, ir.VectorType(_INT32, self.width)
        limit = builder.insert_element(ir.Constant(numbers, ir.Undefined), builder.trunc(count, _INT32), _INT32(0))
        limit = self._shuffle(limit, limit, [0] * self.width)
        return builder.icmp_signed("<", ir.Constant(numbers, list(range(self.width))), limit)

    def load_masked(self, pointer: Any, mask: Any) -> Any:
        """The lanes of `mask`, 0 elsewhere; nothing is read there."""
        place, zeros = self._masked_place(pointer), ir.Constant(self.vector, [0.0] * self.width)
        kind = [place.type, _INT32, mask.type, self.vector]
        function = self.w.declare(f"llvm.masked.load.{self._code}.p0", self.vector, kind)
        return self.w.builder.call(function, [place, _INT32(self.w.size), mask, zeros])

    def store_masked(self, value: Any, pointer: Any, mask: Any) -> None:
        place = self._masked_place(pointer)
        kind = [self.vector, place.type, _INT32, mask.type]
        function = self.w.declare(f"llvm.masked.store.{self._code}.p0", ir.VoidType(), kind)
        self.w.builder.call(function, [value, place, _INT32(self.w.size), mask])

    def _masked_place(self, pointer: Any) -> Any:
        return self.w.builder.bitcast(pointer, self.vector.as_pointer())

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        """a * b + c, as that of `Writer`."""
        function = self.w.declare(f"llvm.fmuladd.{self._code}", self.vector, [self.vector] * 3)
        return self.w.builder.call(function, [a, b, c])

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

    def every_second(self, a: Any, b: Any, first: int) -> Any:
        """Elements first, first + 2, ... of two vectors in a row, in that order."""
        return self._shuffle(a, b, [first + 2 * window for window in self._windows])

    def rotated(self, value: Any, by: int, *, paired: bool = False) -> Any:
        """Of each element the one `by` further on, around the ends.  paired: in the order of `every_second`."""
        windows = self._windows if paired else range(self.width)
        return self._shuffle(value, value, [windows.index((window + by) % self.width) for window in windows])

    def in_order(self, value: Any) -> Any:
        return value if self.order is None else self._shuffle(value, value, self.order)

    def as_elements(self, value: Any) -> Any:
        """A vector that has a lane per window, in order, in the order of `elements` with strides of 1."""
        return value

    def _shuffle(self, a: Any, b: Any, lanes: Sequence[int]) -> Any:
        return self.w.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_INT32, len(lanes)), list(lanes)))

    def elements(
        self, kernel: int, stride: int, row: Any, begin: Any, left: int, right: int, *, otherwise: Any = None
    ) -> list[Any]:
        """For each place of the windows of a row, its elements, in the order of `every`.

        begin: of the first window.  left, right: how many elements the first window is cut by, 0 or 1, in which case
        the row begins there, and the last one.  otherwise: as in `every`.
        """
        found = []
        for s in range(kernel):
            beyond = s + right - (kernel - 1)
            if left:
                back = min(0, s - left) if stride == 1 else s - left
                at = self.w.at(row, s - left - back)
            else:
                # What is loaded ends with the last element of the last window, or of the row.
                back = beyond + stride - 1 if beyond >= 0 else 0
                at = self.w.at(row, self.w.builder.add(begin, self.w.number(s - back)))
            found.append(self.every(stride, at, back, otherwise=otherwise))
        return found


def in_parts(
    w: Writer,
    columns: Any,
    left: Any,
    right: Any,
    write: Callable[[Lanes, Any, int, Any], None],
    *,
    lanes_of: Sequence[Lanes] = (),
) -> None:
    """Have `write` emit code for vectors of windows that together are all `columns` of a row.

    left, right: how many elements the first window is cut by, 0 or 1, and the last one.
    write(lanes, j, left, right): the windows from `j` on; left: by how many elements the first one of them is cut.
        right: None, or by how many, one or more, the last one is.
    lanes_of: the vectors to take, wide ones first; there are columns for the last one, and one more where a window is
        cut. Without them whole vectors, halves and so on, down to single windows.
    """
    builder, zero = w.builder, w.number(0)
    is_left, is_right = (builder.icmp_signed(">", cut, zero) for cut in (left, right))
    is_cut = builder.zext(builder.or_(is_left, is_right), columns.type)

    def with_lanes(lanes: Lanes) -> None:
        width, whole = lanes.width, w.number(lanes.width)
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

    def choose(widest: Lanes, *others: Lanes) -> None:
        if not others:
            with_lanes(widest)
            return
        least = builder.add(is_cut, w.number(widest.width))
        with builder.if_else(builder.icmp_signed(">=", columns, least)) as (wide, narrow):
            with wide:
                with_lanes(widest)
            with narrow:
                choose(*others)

    choose(*(lanes_of or [Lanes(w, w.width >> halvings) for halvings in range(w.width.bit_length())]))
