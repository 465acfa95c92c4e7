"""The words of the kernels that filter single planes, see `planes`."""

from __future__ import annotations

from atled_cpu_numba.kernels.depthwise.filter_words import Filter
from atled_cpu_numba.kernels.shared.layout import layout


@layout
class Block(Filter):
    """What the kernels read; workspace is zeros."""

    pad_h: int
    pad_w: int
    strips: int  # whether one vector of all rows is computed after the other
    cut: int  # 1 if the last window of a row is cut
    first_tap: int  # 0, or 8 for a kernel that is turned around
    tap_step: int  # 1, or -1
