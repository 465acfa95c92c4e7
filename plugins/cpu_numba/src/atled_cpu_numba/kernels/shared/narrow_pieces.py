"""Pieces of arrays as kernels compute with them: as they are, or widened into a buffer and rounded from it.

A kernel that reads and writes its large arrays by these functions is one for float16 and bfloat16 as well, which are
widened in the level-1 cache each time that they are read. Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from atled.plugin import NamedTuple
from atled_cpu_numba.kernels.shared.lanes import lanes_of
from atled_cpu_numba.kernels.shared.narrow_vectors import make_narrow_rows, make_widen_rows
from atled_cpu_numba.kernels.shared.options import Real, inlined


class Pieces(NamedTuple):
    """real: the dtype computed in.  item: bytes of an element of the arrays.  is_buffered: whether they are widened.

    read(address, count, buffer) -> the address of `count` reals: `buffer`, if they had to be widened.
    target(address, buffer) -> where those are computed that belong to `address`.
    write(buffer, address, count): bring them there from the buffer, if that is where they are.
    """

    real: str
    item: int
    is_buffered: bool
    read: Callable[..., Any]
    target: Callable[..., Any]
    write: Callable[..., Any]


def pieces_of(dtype: str) -> Pieces:
    """The functions for arrays of a dtype, for code in kernels."""
    if dtype in ("float32", "float64"):

        @inlined
        def read_real(address, count, buffer):
            return address

        @inlined
        def target_real(address, buffer):
            return address

        @inlined
        def write_real(buffer, address, count):
            pass

        return Pieces(dtype, Real(dtype).size, False, read_real, target_real, write_real)
    whole = 2 * lanes_of("float32").vector
    widen_rows, narrow_rows = make_widen_rows(dtype, whole), make_narrow_rows(dtype, whole)

    @inlined
    def read(address, count, buffer):
        widen_rows((address, 0, buffer, 0, 1, count))
        return buffer

    @inlined
    def target(address, buffer):
        return buffer

    @inlined
    def write(buffer, address, count):
        narrow_rows((buffer, 0, address, 0, 1, count))

    return Pieces("float32", 2, True, read, target, write)
