"""Elementwise steps that a kernel has computed on each range of its input, just before it reads that range.

The kernel's block holds the words of `Carried`.

Scratch memory stands where the input would: per share a block for the range kernel of its own, then one range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from atled.plugin import RANGE_BLOCK_WORDS
from atled_cpu_numba.kernels.shared.layout import layout


@layout
class Carried:
    """What a kernel's block says about the steps."""

    kernel: int  # range kernel, or 0
    block: int  # its block
    copied: int  # words of that block, or 0 where what is made has memory in full
    made: int  # the one of them for the address of what is made, where it has not
    share_bytes: int  # of workspace


PARAMETERS = (RANGE_BLOCK_WORDS,)  # of every kernel that carries: its code has the number, which is the core's
_BLOCK_BYTES = 8 * RANGE_BLOCK_WORDS


def share_bytes(range_bytes: int) -> int:
    """The workspace of one share whose ranges have so many bytes at most."""
    return _BLOCK_BYTES + -(-range_bytes // 64) * 64


def columns_of(size: int, first: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Two functions for kernels on blocks of columns, which lie in the rows of the input one piece in each.

    open_share: as that of `ranges_of`, whose parameters `w`, `x` and `own` the next one has, too.
    rows_at(w, x, own, start, rows, columns, count) -> the address of the first of some rows of the block, made if that
        is carried, and how many elements the next one is further on; start: element of the input with which the first
        one begins, columns: of a whole row, count: of the block.
    """
    from atled_cpu_numba.kernels.shared.options import inlined

    open_share, range_at = ranges_of(size, first)

    @inlined
    def rows_at(w, x, own, start, rows, columns, count):
        if count == columns:
            return range_at(w, x, own, start, start + rows * columns, 0), columns
        if w[first + Carried.kernel] == 0:
            return x + size * start, columns
        at = 0
        for k in range(rows):
            begin = start + k * columns
            place = range_at(w, x, own, begin, begin + count, k * count)
            if k == 0:
                at = place
        return at, columns if own == 0 else count

    return open_share, rows_at


def ranges_of(size: int, first: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Two functions for kernels on elements of `size` bytes, in whose blocks the words of `Carried` begin with `first`.

    open_share(w, x, part) -> the workspace of a share, 0 if it has none; w: the block, x: address of the input.
    range_at(w, x, own, begin, end, skip) -> the address of element `begin` of the input, from which those up to `end`
        can be read; own: what `open_share` gave, skip: elements of a range in workspace that are in use already.
    """
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import inlined

    @inlined
    def open_share(w, x, part):
        if w[first + Carried.copied] == 0:
            return 0
        own = x + part * w[first + Carried.share_bytes]
        block, copied = words(w[first + Carried.block]), words(own)
        for i in range(w[first + Carried.copied]):
            copied[i] = block[i]
        return own

    @inlined
    def range_at(w, x, own, begin, end, skip):
        address = x + size * begin
        if w[first + Carried.kernel] != 0:
            if own == 0:
                call3(w[first + Carried.kernel], w[first + Carried.block], begin, end)
            else:
                address = own + _BLOCK_BYTES + size * skip
                words(own)[w[first + Carried.made]] = address - size * begin
                call3(w[first + Carried.kernel], own, begin, end)
        return address

    return open_share, range_at
