"""How rows of elements of 2, 4 or 8 bytes are moved.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from atled_cpu_numba.codegen import ints16
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.options import Real, inlined
from atled_cpu_numba.kernels.shared.vectors import make_copy_rows


class Moves(NamedTuple):
    """What a kernel that moves elements is made of.

    pointer: from an address to a typed pointer.  size: bytes per element.  copy_rows: as `make_copy_rows` says.
    """

    pointer: Callable[[Any], Any]
    size: int
    copy_rows: Any


def moves_of(dtype: str) -> Moves:
    """Those of "float32", "float64", or else of elements of 16 bits."""
    if dtype in SIZES:
        real = Real(dtype)
        return Moves(real.pointer, real.size, make_copy_rows(dtype))

    @inlined
    def copy_shorts(arguments):
        source, source_row, target, target_row, rows, count = arguments
        for row in range(rows):
            x, y = ints16(source + 2 * row * source_row), ints16(target + 2 * row * target_row)
            for i in range(count):
                y[i] = x[i]

    return Moves(ints16, 2, copy_shorts)
