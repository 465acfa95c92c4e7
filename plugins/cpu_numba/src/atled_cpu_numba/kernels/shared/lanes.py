"""How wide the processor's float32 vectors are, and the tile sizes that follow from it."""

from __future__ import annotations

import functools
from typing import NamedTuple

from atled_cpu_numba import processor


class Lanes(NamedTuple):
    """Sizes in elements of float32.

    vector: of one register.
    rows, columns: of the tile of C that a matrix product keeps in registers; rows is a multiple of 3, and of `vector`
        unless it is smaller.
    dot_rows, dot_columns: of the tile of dot products (one register each) of `products.tiles`.
    """

    vector: int
    rows: int
    columns: int
    dot_rows: int
    dot_columns: int


@functools.cache
def host_lanes() -> Lanes:
    """The sizes for the processor in force: AVX-512 has 32 registers of 16, AVX2 16 of 8, NEON 32 of 4."""
    if processor.has("avx512f"):
        return Lanes(vector=16, rows=12, columns=32, dot_rows=4, dot_columns=6)
    if processor.has("avx2"):
        return Lanes(vector=8, rows=6, columns=16, dot_rows=3, dot_columns=3)
    return Lanes(vector=4, rows=12, columns=8, dot_rows=4, dot_columns=6)
