"""Winograd's convolutions of an x of half or bf16: the kernels of float32, which widen it as they collect its rows."""

from __future__ import annotations

import copy

from atled.plugin import Native
from atled_cpu_numba.kernels.shared.elements import item_bytes
from atled_cpu_numba.kernels.shared.launch import narrow_dtypes
from atled_cpu_numba.kernels.winograd import forward, lines
from atled_cpu_numba.kernels.winograd.rows import COLLECT_ROWS

# Per family of kernels: what collects, and the words of their block that say by whom and how wide x is.
_FAMILIES = (
    (forward.WINOGRAD, COLLECT_ROWS, forward.Block.collect_rows, forward.Block.source_bytes),
    (lines.WINOGRAD_LINES, lines.COLLECT_LINE, lines.Block.collect_line, lines.Block.source_bytes),
)


def collecting(native: Native, dtype: str) -> Native | None:
    """The same kernel for an x of `dtype`, half or bf16; None if it is none of these, or cannot widen that here."""
    if dtype not in narrow_dtypes():
        return None
    for kernels, collect, address_word, bytes_word in _FAMILIES:
        if native.owner in [by_dtype["float32"] for by_dtype in kernels.values()]:
            narrow = copy.copy(native)
            narrow.block = native.block.copy()
            narrow.block[address_word] = collect[dtype].address()
            narrow.block[bytes_word] = item_bytes(dtype)
            return narrow
    return None
