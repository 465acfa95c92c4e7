"""Rows of windows: which vectors of a padded plane hold the elements that they see, and how far apart rows lie.

Their elements are collected by `collect_vectors` of `lane_tiles`.
"""

from __future__ import annotations

from typing import Any

from atled_cpu_numba.kernels.shared.cache_lines import LINE_BYTES
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of


def pitch_of(windows: int, dtype: str) -> int:
    """Elements from row to row: an odd number of the cache's lines, so that rows use all of the level-1 cache.

    The last vector may reach beyond the last window.
    """
    line = LINE_BYTES // SIZES[dtype]
    lines = -(-(windows + lanes_of(dtype).vector) // line)
    return (lines + 1 - lines % 2) * line


def make_fill_vectors(dtype: str) -> Any:
    """A function that fills in the table of vectors for some windows, for kernels to be inlined in.

    fill_vectors(rows, columns, image_pitch, row_pitch, first, length, table): for `length` windows from `first` on, of
    images of rows x columns windows, in planes of those pitches. Each vector takes two words, where it starts in the
    plane and among the windows; returns how many there are.
    """
    from atled_cpu_numba.kernels.shared.options import piece

    vector = lanes_of(dtype).vector

    @piece
    def fill_vectors(rows, columns, image_pitch, row_pitch, first, length, table):
        if columns == row_pitch and rows * row_pitch == image_pitch:  # no gaps
            rows, columns = 1, rows * columns
        count, done = 0, 0
        line = first // columns
        column = first - line * columns
        while done < length:
            image = line // rows
            start = image * image_pitch + (line - image * rows) * row_pitch + column
            in_row = min(columns - column, length - done)
            # What the last vector has beyond the row, the following row replaces.
            for j in range(0, in_row, vector):
                table[2 * count], table[2 * count + 1] = start + j, done + j
                count += 1
            done += in_row
            line, column = line + 1, 0
        return count

    return fill_vectors
