"""The words of the kernels that filter single planes, see `planes`."""

from __future__ import annotations

from atled_cpu_numba.kernels.shared.layout import layout


@layout
class Block:
    """What the kernels read."""

    x: int  # address
    weight: int
    bias: int  # or 0
    y: int
    workspace: int
    share_bytes: int  # of workspace: zeros
    images: int
    height: int  # of the source
    width: int
    results: int  # per image
    rows: int  # of the result
    columns: int
    pad_h: int
    pad_w: int
    strips: int  # whether one vector of all rows is computed after the other
    cut: int  # 1 if the last window of a row is cut
    per_plane: int  # results per plane of the source
    first_tap: int  # 0, or 8 for a kernel that is turned around
    tap_step: int  # 1, or -1
    after: int  # range kernel to run on what is written of y, or 0
    after_block: int
