"""The k largest float64 of short rows, as `halved_largest` finds those of float32: a range with the k-th is halved.

Elements are int64 in the order of numbers, beside which there is no room for a place: those from the k-th on are sorted
with their places in an array of their own, so that of equal ones the first stays the first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atled_cpu_numba.kernels.largest_words import Largest
from atled_cpu_numba.kernels.shared.launch import in_lines
from atled_cpu_numba.kernels.shared.layout import layout
from atled_cpu_numba.store import Kernel

_LEAST = -(1 << 63)
_MAGNITUDE, _INFINITY = (1 << 63) - 1, 0x7FF << 52


@layout
class Block(Largest):
    """What the kernel reads."""

    workspace: int  # address
    share_bytes: int  # of it, per share
    sorted_bytes: int  # of a share: of the keys that are sorted; as many for their places, and both twice


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats64, ints64, words
    from atled_cpu_numba.kernels.shared.options import inlined, kernel, piece
    from atled_cpu_numba.kernels.shared.scalars import choose

    least_order, magnitude_mask = np.int64(_LEAST), np.int64(_MAGNITUDE)

    @inlined
    def order_of(bits, by_magnitude):
        magnitude = bits & magnitude_mask
        above = choose(bits < 0 and not by_magnitude, bits ^ magnitude_mask, magnitude)
        above = choose(magnitude == 0, np.int64(0), above)  # both zeros
        return choose(magnitude > _INFINITY, least_order, above)  # NaN

    @piece
    def count_from(orders, length, least):
        """How many are `least` or above."""
        count = 0
        for i in range(length):
            count += 1 if orders[i] >= least else 0
        return count

    @inlined
    def merge(at, first_count, second_count, keys, places, to_keys, to_places):
        """Two sorted rows, one behind the other from `at` on, as one; of equal ones those of the first come first."""
        i, j, middle, end = at, at + first_count, at + first_count, at + first_count + second_count
        for o in range(at, end):
            if i == middle or j == end:
                break
            is_first = keys[i] >= keys[j]
            source = i if is_first else j
            to_keys[o], to_places[o] = keys[source], places[source]
            i += 1 if is_first else 0
            j += 0 if is_first else 1
        for o in range(i + j - middle, end):
            source = i if i < middle else j
            to_keys[o], to_places[o] = keys[source], places[source]
            i += 1 if i < middle else 0
            j += 1 if source == j else 0

    @piece
    def sort(keys_at, places_at, other_keys_at, other_places_at, count):
        """Sort keys with their places, the greatest first; the address where the places are then, one of the two."""
        keys, places = ints64(keys_at), ints64(places_at)
        for at in range(0, count - 1, 2):
            a, b, first, second = keys[at], keys[at + 1], places[at], places[at + 1]
            keys[at], keys[at + 1] = max(a, b), min(a, b)
            places[at], places[at + 1] = choose(a >= b, first, second), choose(a >= b, second, first)
        width = 2
        while width < count:
            for at in range(0, count, 2 * width):
                first_count, second_count = min(width, count - at), max(0, min(width, count - at - width))
                merge(
                    at,
                    first_count,
                    second_count,
                    ints64(keys_at),
                    ints64(places_at),
                    ints64(other_keys_at),
                    ints64(other_places_at),
                )
            keys_at, other_keys_at = other_keys_at, keys_at
            places_at, other_places_at = other_places_at, places_at
            width *= 2
        return places_at

    @kernel
    def halved_doubles(block, part, parts):
        w = words(block)
        length, k, by_magnitude = w[Block.length], w[Block.k], w[Block.by_magnitude] != 0
        step = w[Block.sorted_bytes]
        keys_at = w[Block.workspace] + part * w[Block.share_bytes]
        keys, places, orders = ints64(keys_at), ints64(keys_at + step), ints64(keys_at + 4 * step)
        for row in range(w[Block.rows] * part // parts, w[Block.rows] * (part + 1) // parts):
            x_at = w[Block.x] + 8 * row * length
            x, bits, index = floats64(x_at), ints64(x_at), ints64(w[Block.index] + 8 * row * k)
            greatest, lowest = least_order, magnitude_mask
            for i in range(length):
                order = order_of(bits[i], by_magnitude)
                orders[i] = order
                greatest, lowest = max(greatest, order), min(lowest, order)
            # From `least` on there are k or more, above `most` less than k.
            least, most, count = lowest, greatest, length
            while count != k and least < most:
                # Half way, rounded up: neither the sum of both nor their distance need be an int64.
                middle = (least & most) + ((least ^ most) >> 1) + ((least ^ most) & 1)
                found = count_from(orders, length, middle)
                are_enough = found >= k
                count = found if are_enough else count
                least, most = middle if are_enough else least, most if are_enough else middle - 1
            end = 0
            if count == k:
                for i in range(length):
                    order = orders[i]
                    keys[end], places[end] = order, i
                    end += 1 if order >= least else 0
            else:  # several are equal to the k-th: as many of the first as are missing
                missing, i = k - count_from(orders, length, least + 1), 0
                while end < k:
                    order = orders[i]
                    is_equal = order == least
                    keys[end], places[end] = order, i
                    end += 1 if order > least or (is_equal and missing > 0) else 0
                    missing -= 1 if is_equal else 0
                    i += 1
            best = ints64(sort(keys_at, keys_at + step, keys_at + 2 * step, keys_at + 3 * step, k))
            for i in range(k):
                index[i] = best[i]
            if w[Block.alone] != 0:
                y = floats64(w[Block.y] + 8 * row * k)
                for i in range(k):
                    y[i] = x[index[i]]
            else:
                y = floats64(w[Block.y] + 8 * row * length)
                for i in range(length):
                    y[i] = 0.0
                for i in range(k):
                    y[index[i]] = x[index[i]]
            for i in range(k):
                index[i] += row * length
        return 0

    return halved_doubles


HALVED = Kernel("halved_largest_float64", _build)


def key_bytes(k: int) -> int:
    """Of the keys that are sorted; one more is written behind them."""
    return in_lines(8 * (k + 1))


def workspace_bytes(length: int, k: int) -> int:
    """Of a share."""
    return 4 * key_bytes(k) + in_lines(8 * length)
