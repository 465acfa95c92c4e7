"""Sorting of elements with their places, each pair as one int64, for the kernels of the largest elements of float32.

Above are the bits of the float, in the order of numbers, below is the distance of the place from the last one there can
be: of equal elements the first one is the greatest.

The functions import numba; so kernel modules call them only inside the functions that build a kernel.
"""

from __future__ import annotations

from typing import Any

PLACES = (1 << 32) - 1
NO_KEY = -(1 << 63)


def make_sort() -> Any:
    """numba's function sort(source_at, other_at, count), to be called once in a kernel."""
    from atled_cpu_numba.codegen import ints64
    from atled_cpu_numba.kernels.shared.options import inlined, piece

    @inlined
    def merge(a, a_count, b, b_count, to):
        """Two sorted rows as one, the greatest first."""
        i, j, end = 0, 0, a_count + b_count
        for o in range(end):
            if i == a_count or j == b_count:
                break
            first, second = a[i], b[j]
            is_first = first > second
            to[o] = first if is_first else second
            i += 1 if is_first else 0
            j += 0 if is_first else 1
        for o in range(i + j, end):
            if i < a_count:
                to[o] = a[i]
                i += 1
            else:
                to[o] = b[j]
                j += 1

    @piece
    def sort(source_at, other_at, count):
        """Sort `count` keys, the greatest first; the address where they are then, one of the two.

        source_at, other_at: addresses of the keys, and of as much memory besides; room for a multiple of four in both.
        """
        fours = (count + 3) // 4
        keys = ints64(source_at)
        for i in range(count, 4 * fours):
            keys[i] = NO_KEY
        for four in range(fours):
            at = 4 * four
            a, b, c, d = keys[at], keys[at + 1], keys[at + 2], keys[at + 3]
            a, b, c, d = max(a, b), min(a, b), max(c, d), min(c, d)
            a, c, b, d = max(a, c), min(a, c), max(b, d), min(b, d)
            keys[at], keys[at + 1], keys[at + 2], keys[at + 3] = a, max(b, c), min(b, c), d
        width = 4
        while width < count:
            for at in range(0, count, 2 * width):
                first, second = min(width, count - at), max(0, min(width, count - at - width))
                halves = ints64(source_at + 8 * at), ints64(source_at + 8 * (at + first))
                merge(halves[0], first, halves[1], second, ints64(other_at + 8 * at))
            source_at, other_at = other_at, source_at
            width *= 2
        return source_at

    return sort


def make_write() -> Any:
    """numba's function write(keys, x, index, y_at, row, length, k, alone): results of a row of `length` elements x.

    index: of the row.  y_at: the address of all y.  alone: whether y holds the k alone.
    """
    import numpy as np

    from atled_cpu_numba.codegen import floats32
    from atled_cpu_numba.kernels.shared.options import piece

    @piece
    def write(keys, x, index, y_at, row, length, k, alone):
        for i in range(k):
            index[i] = PLACES - (keys[i] & PLACES)
        if alone:
            y = floats32(y_at + 4 * row * k)
            for i in range(k):
                y[i] = x[index[i]]
        else:
            y = floats32(y_at + 4 * row * length)
            for i in range(length):
                y[i] = np.float32(0)
            for i in range(k):
                y[index[i]] = x[index[i]]
        for i in range(k):
            index[i] += row * length

    return write
