"""The k largest float32 of each row for any k: of candidates that are gathered the best are kept, and sorted at last.

An element and its place are one int64, of which the greater one comes first: above are the bits of the float, in the
order of numbers, below is the distance of the place from the last one there can be.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atled_cpu_numba.kernels.largest_words import Largest
from atled_cpu_numba.kernels.shared.launch import in_lines
from atled_cpu_numba.kernels.shared.layout import layout
from atled_cpu_numba.kernels.sorted_keys import NO_KEY, PLACES
from atled_cpu_numba.store import Kernel

AT_ONCE = 16  # elements that are compared with the last of the best before any of them is looked at
_FEWEST = 64  # candidates that the best are chosen of at a time, where there are so many
MOST_LENGTH = PLACES - 1


@layout
class Block(Largest):
    """What the kernel reads."""

    workspace: int  # address
    share_bytes: int  # of it, per share
    most: int  # candidates, a multiple of AT_ONCE


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats32, ints32, ints64, words
    from atled_cpu_numba.kernels.shared.options import inlined, kernel, piece
    from atled_cpu_numba.kernels.sorted_keys import make_sort, make_write

    sort, write = make_sort(), make_write()

    @inlined
    def key_of(bits, place, by_magnitude):
        magnitude = bits & 0x7FFFFFFF
        above = bits ^ 0x7FFFFFFF if bits < 0 and not by_magnitude else magnitude
        above = 0 if magnitude == 0 else above  # both zeros
        above = -(1 << 31) if magnitude > 0x7F800000 else above  # NaN
        return (above << 32) | (PLACES - place)

    @piece
    def keep_best(source_at, upper_at, lower_at, count, k, kept_at):
        """The `k` greatest of `count` different keys, at least as many, in any order.

        source_at, upper_at, lower_at: addresses of the keys, and of as much memory twice; all three are written.
        """
        kept, end = ints64(kept_at), 0
        while end < k < end + count:
            source, upper, lower = ints64(source_at), ints64(upper_at), ints64(lower_at)
            # Neither the least nor the greatest, of three: so neither part is empty.
            a, b, c = source[0], source[count // 2], source[count - 1]
            pivot = max(min(a, b), min(max(a, b), c)) if count > 2 else max(a, c)
            above, below = 0, 0
            for i in range(count):
                key = source[i]
                upper[above] = lower[below] = key
                is_above = 1 if key >= pivot else 0
                above += is_above
                below += 1 - is_above
            if above > k - end:
                source_at, upper_at, count = upper_at, source_at, above
                continue
            for i in range(above):
                kept[end + i] = upper[i]
            end += above
            source_at, lower_at, count = lower_at, source_at, below
        source = ints64(source_at)
        for i in range(k - end):  # as many as are left, if any are missing
            kept[end + i] = source[i]

    @kernel
    def chosen_largest(block, part, parts):
        w = words(block)
        length, k, by_magnitude, most = w[Block.length], w[Block.k], w[Block.by_magnitude] != 0, w[Block.most]
        bytes_each = 8 * (most + AT_ONCE)
        one = w[Block.workspace] + part * w[Block.share_bytes]
        two, three, gathered_at = one + bytes_each, one + 2 * bytes_each, one + 3 * bytes_each
        gathered = ints64(gathered_at)
        for row in range(w[Block.rows] * part // parts, w[Block.rows] * (part + 1) // parts):
            x_at = w[Block.x] + 4 * row * length
            x, bits, index = floats32(x_at), ints32(x_at), ints64(w[Block.index] + 8 * row * k)
            count, last_key, last = 0, NO_KEY, np.float32(0)
            begin = 0
            while begin < length:
                after = min(length, begin + AT_ONCE)
                is_worth = True
                if last_key != NO_KEY and after - begin == AT_ONCE:
                    above = np.int32(0)
                    for i in range(AT_ONCE):
                        value = abs(x[begin + i]) if by_magnitude else x[begin + i]
                        above += np.int32(0) if value <= last else np.int32(1)
                    is_worth = above != 0
                if is_worth:
                    for i in range(begin, after):
                        key = key_of(np.int64(bits[i]), i, by_magnitude)
                        gathered[count] = key
                        count += 1 if key > last_key else 0
                begin = after
                if count > k and (count >= most or begin >= length):
                    for i in range(count):
                        ints64(one)[i] = gathered[i]
                    keep_best(one, two, three, count, k, gathered_at)
                    count, last_key = k, gathered[0]
                    for i in range(1, k):
                        last_key = min(last_key, gathered[i])
                    value = x[PLACES - (last_key & PLACES)]
                    last = abs(value) if by_magnitude else value
            best = ints64(sort(gathered_at, one, k))
            write(best, x, index, w[Block.y], row, length, k, w[Block.alone] != 0)
        return 0

    return chosen_largest


CHOSEN = Kernel("chosen_largest_float32", _build)


def candidates(k: int) -> int:
    """How many are gathered before the best are kept."""
    return -(-max(2 * k, _FEWEST) // AT_ONCE) * AT_ONCE


def workspace_bytes(k: int) -> int:
    """Of a share: candidates, and as much three times."""
    return in_lines(4 * 8 * (candidates(k) + AT_ONCE))
