"""The piece that the Winograd kernels share: rows of some planes with the planes in the lanes, and zeros around them.

COLLECT_ROWS is a kernel of its own, called by address with a block in the caller's workspace, so that it is compiled
once. Its block: source, known, height, width, top, lines, left, length, flat, padded.
    source: address of the first of `known` contiguous planes of height x width, at most as many as a vector has lanes;
        the last one is repeated in further lanes.
    top: the first row wanted, may be negative; `lines` rows are.
    padded: address of the result, lines x length vectors, in which column 0 of the planes is at `left`; zeros outside.
    flat: address of scratch memory, a vector for each element of the rows and a vector's width of them more; for rows
        that are shorter than a vector or fill the last one badly.
"""

from __future__ import annotations

from collections.abc import Callable

from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.store import Kernel

BLOCK_BYTES = 128  # room that a caller reserves for the block


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats32, words
    from atled_cpu_numba.kernels.shared.options import kernel
    from atled_cpu_numba.kernels.shared.vectors import make_copy, transpose_block

    vector = host_lanes().vector
    copy = make_copy(vector)

    @kernel
    def collect_rows(block, part, parts):
        w = words(block)
        source, known, height, width, top, lines = w[0], w[1], w[2], w[3], w[4], w[5]
        left, length, flat, padded = min(w[6], w[7]), w[7], w[8], w[9]
        count = min(width, length - left)
        blocks = (count + vector - 1) // vector
        in_rows = count >= vector and 5 * count >= 4 * vector * blocks
        begin, end = max(0, top) * width, min(height, top + lines) * width
        begin = max(0, min(begin, end - vector))
        for p in range(0 if in_rows else (end - begin + vector - 1) // vector):
            here = min(begin + p * vector, end - vector)
            at = flat + 4 * vector * (here - begin)
            transpose_block((source + 4 * here, height * width, known, at, vector))
        for i in range(lines):
            target = padded + 4 * vector * i * length
            line = floats32(target)
            inside = top + i >= 0 and top + i < height
            before, after = (vector * left, vector * (left + count)) if inside else (vector * length, vector * length)
            for j in range(before):
                line[j] = 0.0
            for j in range(after, vector * length):
                line[j] = 0.0
            if inside and in_rows:
                at, to = source + 4 * (top + i) * width, target + 4 * vector * left
                for p in range(blocks):
                    here = min(p * vector, count - vector)
                    transpose_block((at + 4 * here, height * width, known, to + 4 * vector * here, vector))
            elif inside:
                at, to = flat + 4 * vector * ((top + i) * width - begin), target + 4 * vector * left
                for j in range(count):
                    copy((at + 4 * vector * j, to + 4 * vector * j))
        return 0

    return collect_rows


COLLECT_ROWS = Kernel("collect_rows", _build)
