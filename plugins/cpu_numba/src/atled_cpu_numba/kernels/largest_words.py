"""The words that the blocks of both kernels of the largest elements begin with."""

from __future__ import annotations


class Largest:
    """What both kernels read first."""

    x: int  # address
    y: int  # address
    index: int  # address
    rows: int
    length: int  # of a row
    k: int
    by_magnitude: int  # whether it decides
    alone: int  # whether y holds the k alone
