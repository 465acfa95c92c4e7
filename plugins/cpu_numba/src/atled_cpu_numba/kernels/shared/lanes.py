"""How wide the processor's vectors are, and the tile sizes that follow from it."""

from __future__ import annotations

import functools

from atled.plugin import NamedTuple
from atled_cpu_numba import processor

SIZES = {"float32": 4, "float64": 8}
"""Bytes of the floats that kernels compute with, by dtype."""


class Lanes(NamedTuple):
    """Sizes in elements.

    vector: of one register.
    rows, columns: of the tile of C that a matrix product keeps in registers; rows is a multiple of 3.
    dot_rows, dot_columns: of the tile of dot products (one register each) of `products.tiles`.
    """

    vector: int
    rows: int
    columns: int
    dot_rows: int
    dot_columns: int

    @property
    def has_short_tiles(self) -> bool:
        """Whether a tile has so few rows that reading what is multiplied takes as long as multiplying: under AVX2."""
        return self.rows < 12


@functools.cache
def host_lanes() -> Lanes:
    """The sizes of float32 for the processor in force: AVX-512 has 32 registers of 16, AVX2 16 of 8, NEON 32 of 4."""
    if processor.has("avx512f"):
        return Lanes(vector=16, rows=12, columns=32, dot_rows=4, dot_columns=6)
    if processor.has("avx2"):
        return Lanes(vector=8, rows=6, columns=16, dot_rows=3, dot_columns=3)
    return Lanes(vector=4, rows=12, columns=8, dot_rows=4, dot_columns=6)


@functools.cache
def lanes_of(dtype: str) -> Lanes:
    """The sizes for "float32" or "float64": in as many registers, half as many elements."""
    lanes = host_lanes()
    if dtype == "float32":
        return lanes
    return lanes._replace(vector=lanes.vector // 2, columns=lanes.columns // 2)
