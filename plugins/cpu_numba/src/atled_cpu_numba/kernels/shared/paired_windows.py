"""Elements of windows along rows of bfloat16, of two neighbours at a time: a word of both is shifted, or masked.

So three columns of a kernel take two loads and four operations for two vectors of windows, where numbers of 16 bits
would be spread over a vector for each of the columns.
Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.narrow_vectors import rounded_bits
from atled_cpu_numba.kernels.shared.short_windows import Lanes
from atled_cpu_numba.kernels.shared.vectors import Writer

_INT32 = ir.IntType(32)
_LOWER, _UPPER = 0xFFFF, 0xFFFF0000


class PairedLanes(Lanes):
    """Vectors of windows of three columns, of some words: as many windows with strides of 2, twice as many with 1.

    Those are in vectors of the even windows, then the odd ones.
    """

    def __init__(self, w: Writer, words: int, stride: int) -> None:
        super().__init__(w, words if stride == 2 else 2 * words)
        self._count, self._words, self._stride = words, ir.VectorType(_INT32, words), stride
        self._half, self.order = ir.VectorType(w.float, words), None

    def store(self, value: Any, pointer: Any) -> None:
        if self._stride == 2:
            super().store(value, pointer)
            return
        builder, count = self.w.builder, self._count
        bits = rounded_bits(self.w, value, self.width)
        even, odd = (self._shuffle(bits, bits, range(begin, begin + count)) for begin in (0, count))
        word = builder.or_(builder.lshr(even, self._numbers(16)), builder.and_(odd, self._numbers(_UPPER)))
        builder.store(word, builder.bitcast(pointer, self._words.as_pointer()), align=2)

    def elements(
        self, kernel: int, stride: int, row: Any, begin: Any, left: int, right: int, *, otherwise: Any = None
    ) -> list[Any]:
        """See Lanes."""
        assert (kernel, stride) == (3, self._stride)
        at, is_nearest = self.w.at(row, 0 if left else begin), otherwise is None
        if stride == 2:
            if left:
                middle, last = self._pairs(at)
                return [self._moved(last, -1, middle if is_nearest else None), middle, last]
            first, middle = self._pairs(at)
            if not right:
                return [first, middle, self._pairs(self.w.at(at, 1))[1]]
            return [first, middle, self._moved(first, 1, middle if is_nearest else None)]
        assert not is_nearest
        # Elements 0, 2, ... under the windows, then those from 1, 2 and 3 on.
        if left:
            b, c = self._pairs(at)
            a, d = self._moved(c, -1), self._pairs(self.w.at(at, 1))[1]
        else:
            a, b = self._pairs(at)
            c, d = self._pairs(self.w.at(at, 1 if right else 2))
            c, d = (d, self._moved(b, 1)) if right else (c, d)
        return [self._joined(a, b), self._joined(b, c), self._joined(c, d)]

    def as_elements(self, value: Any) -> Any:
        """See Lanes."""
        if self._stride == 2:
            return value
        return self._shuffle(value, value, [*range(0, self.width, 2), *range(1, self.width, 2)])

    def elements_of_row(self, row: Any, seen: Any) -> list[Any]:
        """The same for a whole row, of which the first and the last window may be cut; seen: of `elements_below`."""
        b, c = self._pairs(row, seen)
        if self._stride == 2:
            return [self._moved(c, -1), b, c]
        return [self._joined(self._moved(c, -1), b), self._joined(b, c), self._joined(c, self._moved(b, 1))]

    def elements_below(self, count: Any) -> Any:
        """The mask of the elements below `count`, an int64, in words."""
        builder, words = self.w.builder, self._words
        limit = builder.insert_element(ir.Constant(words, ir.Undefined), builder.trunc(count, _INT32), _INT32(0))
        limit = self._shuffle(limit, limit, [0] * self._count)
        number = [ir.Constant(words, [2 * lane + part for lane in range(self._count)]) for part in range(2)]
        lower, upper = (builder.sext(builder.icmp_signed("<", each, limit), words) for each in number)
        return builder.or_(builder.and_(lower, self._numbers(_LOWER)), builder.and_(upper, self._numbers(_UPPER)))

    def _pairs(self, pointer: Any, seen: Any = None) -> tuple[Any, Any]:
        """Elements 0, 2, ... and 1, 3, ... from a pointer on; 0 where they are not seen."""
        builder = self.w.builder
        word = builder.load(builder.bitcast(pointer, self._words.as_pointer()), align=2, typ=self._words)
        word = word if seen is None else builder.and_(word, seen)
        even, odd = builder.shl(word, self._numbers(16)), builder.and_(word, self._numbers(_UPPER))
        return builder.bitcast(even, self._half), builder.bitcast(odd, self._half)

    def _moved(self, value: Any, by: int, nearest: Any = None) -> Any:
        """Of each element the one `by` further on, 1 or -1, and at the end that of `nearest`, or 0."""
        count = self._count
        other = ir.Constant(self._half, [0.0] * count) if nearest is None else nearest
        places = [lane + by if 0 <= lane + by < count else count + lane for lane in range(count)]
        return self._shuffle(value, other, places)

    def _joined(self, even: Any, odd: Any) -> Any:
        return self._shuffle(even, odd, range(2 * self._count))

    def _numbers(self, value: int) -> Any:
        return ir.Constant(self._words, [value] * self._count)
