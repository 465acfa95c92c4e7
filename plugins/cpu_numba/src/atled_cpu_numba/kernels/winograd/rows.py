"""The piece that the Winograd kernels share: rows of some planes with the planes in the lanes, and zeros around them.

COLLECT_ROWS is a kernel of its own, called by address with a block in the caller's workspace, so that it is compiled
once. Planes of half and bf16 are widened on the way.
"""

from __future__ import annotations

from collections.abc import Callable

from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import ANY, kernels_by_dtype
from atled_cpu_numba.kernels.shared.layout import layout

BLOCK_BYTES = 128  # room that a caller reserves for the block


@layout
class CollectRows:
    """The block of COLLECT_ROWS."""

    source: int  # address of the first plane
    known: int  # contiguous planes, at most as many as a vector has lanes; the last one is repeated in further lanes
    height: int  # of a plane
    width: int
    top: int  # the first row wanted, may be negative
    lines: int  # rows wanted
    left: int  # column of the result in which column 0 of the planes is; zeros outside of them
    length: int  # columns of the result
    flat: int  # workspace: a vector per element of the rows and a vector's width more, for rows that fill vectors badly
    padded: int  # address of the result: lines x length vectors


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.narrow_writer import make_widening_transpose_block
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.vectors import make_copy

    real, source_element = real_of(dtype), item_bytes(dtype)
    element, floats = SIZES[real], Real(real).pointer
    transpose_block = make_widening_transpose_block(dtype)
    vector = lanes_of(real).vector
    copy = make_copy(vector, real)

    @kernel
    def collect_rows(block, part, parts):
        w = words(block)
        source, known, height = w[CollectRows.source], w[CollectRows.known], w[CollectRows.height]
        width, top, lines = w[CollectRows.width], w[CollectRows.top], w[CollectRows.lines]
        left, length = min(w[CollectRows.left], w[CollectRows.length]), w[CollectRows.length]
        flat, padded = w[CollectRows.flat], w[CollectRows.padded]
        count = min(width, length - left)
        blocks = (count + vector - 1) // vector
        in_rows = count >= vector and 5 * count >= 4 * vector * blocks
        begin, end = max(0, top) * width, min(height, top + lines) * width
        begin = max(0, min(begin, end - vector))
        for p in range(0 if in_rows else (end - begin + vector - 1) // vector):
            here = min(begin + p * vector, end - vector)
            at = flat + element * vector * (here - begin)
            transpose_block((source + source_element * here, height * width, known, at, vector))
        for i in range(lines):
            target = padded + element * vector * i * length
            line = floats(target)
            inside = top + i >= 0 and top + i < height
            before, after = (vector * left, vector * (left + count)) if inside else (vector * length, vector * length)
            for j in range(before):
                line[j] = 0.0
            for j in range(after, vector * length):
                line[j] = 0.0
            if inside and in_rows:
                at, to = source + source_element * (top + i) * width, target + element * vector * left
                for p in range(blocks):
                    here = min(p * vector, count - vector)
                    transpose_block(
                        (at + source_element * here, height * width, known, to + element * vector * here, vector)
                    )
            elif inside:
                at, to = flat + element * vector * ((top + i) * width - begin), target + element * vector * left
                for j in range(count):
                    copy((at + element * vector * j, to + element * vector * j))
        return 0

    return collect_rows


COLLECT_ROWS = kernels_by_dtype("collect_rows", _build, dtypes=ANY)
