"""How rows of elements of 2, 4 or 8 bytes are moved.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from atled_cpu_numba.codegen import ints16
from atled_cpu_numba.kernels.shared.lanes import SIZES, host_lanes
from atled_cpu_numba.kernels.shared.narrow_vectors import rounded
from atled_cpu_numba.kernels.shared.options import Real, inlined
from atled_cpu_numba.kernels.shared.shorts import make_move_shorts
from atled_cpu_numba.kernels.shared.vectors import Writer, make_copy_rows

_FEW_SHORTS = 4  # elements of a part of a row that is shorter than a vector


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

    few, many = _FEW_SHORTS, 2 * host_lanes().vector
    copy_ones, copy_few, copy_many = (_make_copy_shorts(width) for width in (1, few, many))

    @inlined
    def copy_shorts(arguments):
        if arguments[-1] >= many:
            copy_many(arguments)
        elif arguments[-1] >= few:
            copy_few(arguments)
        elif arguments[-1] > 0:
            copy_ones(arguments)

    return Moves(ints16, 2, copy_shorts)


def _make_copy_shorts(width: int) -> Any:
    """The copies of rows of at least `width` elements, so many at a time."""
    move = make_move_shorts(width)

    @inlined
    def copy_by_width(arguments):
        source, source_row, target, target_row, rows, count = arguments
        last = 2 * (count - width)
        for row in range(rows):
            x, y = source + 2 * row * source_row, target + 2 * row * target_row
            for at in range(0, last, 2 * width):
                move((x + at, y + at))
            move((x + last, y + last))  # overlaps the ones before: LLVM's loop for the rest takes longer

    return copy_by_width


def make_number(dtype: str) -> Any:
    """A function from a float64 to an element of `dtype`, as `Moves.pointer` takes it."""
    if dtype in SIZES:
        return Real(dtype).kind

    def bits_of(typing_context, value):
        def code(context, builder, signature, values):
            single = builder.fptrunc(values[0], ir.FloatType())
            return builder.bitcast(rounded(Writer(builder), single, dtype, 1), ir.IntType(16))

        return types.int16(types.float64), code

    return intrinsic(bits_of)
