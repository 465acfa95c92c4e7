"""Guarded host memory, for verification: it shows writes beside an array, and elements that were not written."""

from __future__ import annotations

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.storage import ALIGNMENT

POISON = 0xFF
"""The byte of memory that nothing was written to: every float of such bytes is NaN."""

_GUARD = 0xA5
_MARGIN = 2 * ALIGNMENT  # bytes on either side, at least


class GuardedArray:
    """Aligned memory of its own.

    values: the array.
    """

    def __init__(self, desc: ArrayDesc) -> None:
        raw = np.full(desc.nbytes + 2 * _MARGIN + ALIGNMENT, _GUARD, np.uint8)
        start = _MARGIN + -(raw.ctypes.data + _MARGIN) % ALIGNMENT
        self._before = raw[:start]
        self._after = raw[start + desc.nbytes :]
        inside = raw[start : start + desc.nbytes]
        inside[:] = POISON
        self.values = np.ndarray(desc.shape, desc.dtype, inside)

    @property
    def is_intact(self) -> bool:
        """Whether nothing was written beside it."""
        return not self.damage

    @property
    def damage(self) -> str:
        """Where the nearest byte beside it was written, in words; "" where none was."""
        before, after = np.flatnonzero(self._before != _GUARD), np.flatnonzero(self._after != _GUARD)
        words = [f"{len(self._before) - before[-1]} bytes before its beginning"] if before.size else []
        words += [f"{after[0] + 1} bytes after its end"] if after.size else []
        return " and ".join(words)
