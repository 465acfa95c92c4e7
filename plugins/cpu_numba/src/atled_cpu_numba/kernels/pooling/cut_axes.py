"""Pieces of kernels that say, axis by axis, what a window cut to the array sees, and which windows see an element.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from typing import Any

from atled_cpu_numba.kernels.pooling.cut_block import Block
from atled_cpu_numba.kernels.shared.options import inlined


@inlined
def along(w: Any, word: int, axis: int) -> int:
    """What a `Block` has of one axis.  w: its words.  word: the first of those that there are for each axis."""
    return w[word + axis]


@inlined
def of_axes(w: Any, word: int) -> tuple[int, int, int, int]:
    """The same of all axes."""
    return along(w, word, 0), along(w, word, 1), along(w, word, 2), along(w, word, 3)


@inlined
def cut(w: Any, axis: int, window: int) -> tuple[int, int]:
    """The first element of a window, and how many it has; w: the words of a `Block`."""
    start = window * w[Block.stride + axis] - w[Block.pad + axis]
    begin = max(start, 0)
    return begin, min(start + w[Block.kernel + axis], w[Block.sizes + axis]) - begin


@inlined
def seeing(w: Any, axis: int, at: int) -> tuple[int, int]:
    """The first window that sees an element, and the first one behind them."""
    place, stride = at + w[Block.pad + axis], w[Block.stride + axis]
    missed = place - w[Block.kernel + axis]
    first = 0 if missed < 0 else missed // stride + 1
    return first, min(place // stride + 1, w[Block.windows + axis])
