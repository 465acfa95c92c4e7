"""The k largest float32 of rows that stay in the nearest cache: a range that holds the k-th of them is halved.

Elements are int32 in the order of numbers, which are counted many at a time; then those from the k-th on are sorted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atled_cpu_numba.kernels.largest_words import Largest
from atled_cpu_numba.kernels.shared.launch import in_lines
from atled_cpu_numba.kernels.shared.layout import layout
from atled_cpu_numba.kernels.sorted_keys import NO_KEY, PLACES
from atled_cpu_numba.store import Kernel

MOST_LENGTH = 1024  # elements; of longer rows most are not worth a second look
_RANKED = 16  # keys that are compared with one at a time, to find how many are greater
_MOST_RANKED = 64  # beyond, merging looks at fewer
_LEAST = -(1 << 31)


@layout
class Block(Largest):
    """What the kernel reads."""

    workspace: int  # address
    share_bytes: int  # of it, per share
    sorted_bytes: int  # of a share: of its keys that are sorted, of which there are twice as many


def _build() -> Callable[..., int]:
    from numba import types

    from atled_cpu_numba.codegen import floats32, ints32, ints64, words
    from atled_cpu_numba.kernels.shared.options import inlined, kernel, piece
    from atled_cpu_numba.kernels.shared.scalars import choose
    from atled_cpu_numba.kernels.sorted_keys import make_sort, make_write

    sort, write, whole = make_sort(), make_write(), types.int32

    @inlined
    def order_of(bits, by_magnitude):
        magnitude = whole(bits & 0x7FFFFFFF)
        above = choose(bits < whole(0) and not by_magnitude, whole(bits ^ 0x7FFFFFFF), magnitude)
        above = choose(magnitude == whole(0), whole(0), above)  # both zeros
        return choose(magnitude > whole(0x7F800000), whole(_LEAST), above)  # NaN

    @piece
    def count_from(orders, length, least):
        """How many are `least` or above."""
        count = whole(0)
        for i in range(length):
            count = whole(count + choose(orders[i] >= least, whole(1), whole(0)))
        return count

    @piece
    def rank(source_at, target_at, count):
        """Sort a few keys, the greatest first; room for a multiple of _RANKED is there."""
        keys, target = ints64(source_at), ints64(target_at)
        rounds = (count + _RANKED - 1) // _RANKED
        for i in range(count, rounds * _RANKED):
            keys[i] = NO_KEY
        for i in range(count):
            key, place = keys[i], 0
            for j in range(rounds * _RANKED):
                place += 1 if keys[j] > key else 0
            target[place] = key

    @kernel
    def halved_largest(block, part, parts):
        w = words(block)
        length, k, by_magnitude = w[Block.length], w[Block.k], w[Block.by_magnitude] != 0
        one = w[Block.workspace] + part * w[Block.share_bytes]
        other, orders_at = one + w[Block.sorted_bytes], one + 2 * w[Block.sorted_bytes]
        keys, orders = ints64(one), ints32(orders_at)
        for row in range(w[Block.rows] * part // parts, w[Block.rows] * (part + 1) // parts):
            x_at = w[Block.x] + 4 * row * length
            x, bits, index = floats32(x_at), ints32(x_at), ints64(w[Block.index] + 8 * row * k)
            greatest = whole(_LEAST)
            for i in range(length):
                order = order_of(bits[i], by_magnitude)
                orders[i] = order
                greatest = max(greatest, order)
            # From `least` on there are k or more, from `most` on less than k.
            least, most = np.int64(_LEAST), np.int64(greatest) + 1
            count = length
            while count != k and most - least > 1:
                middle = (least + most) >> 1
                found = np.int64(count_from(orders, length, whole(middle)))
                are_enough = found >= k
                count = found if are_enough else count
                least, most = middle if are_enough else least, most if are_enough else middle
            end, bound = 0, whole(least)
            if count == k:
                for i in range(length):
                    keys[end] = (np.int64(orders[i]) << 32) | (PLACES - i)
                    end += 1 if orders[i] >= bound else 0
            else:  # several are equal to the k-th: the first of them, behind all that are above
                for i in range(length):
                    keys[end] = (np.int64(orders[i]) << 32) | (PLACES - i)
                    end += 1 if orders[i] > bound else 0
                i = 0
                while end < k:
                    keys[end] = (np.int64(orders[i]) << 32) | (PLACES - i)
                    end += 1 if orders[i] == bound else 0
                    i += 1
            if k <= _MOST_RANKED:
                rank(one, other, k)
                best = ints64(other)
            else:
                best = ints64(sort(one, other, k))
            write(best, x, index, w[Block.y], row, length, k, w[Block.alone] != 0)
        return 0

    return halved_largest


HALVED = Kernel("halved_largest_float32", _build)


def key_bytes(k: int) -> int:
    """Of the keys that are sorted; one more is written behind them, and few are filled up."""
    return in_lines(8 * (k + _RANKED))


def workspace_bytes(length: int, k: int) -> int:
    """Of a share."""
    return 2 * key_bytes(k) + in_lines(4 * length)
