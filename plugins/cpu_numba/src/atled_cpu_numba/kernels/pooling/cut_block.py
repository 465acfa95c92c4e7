"""The block of the kernels that pool windows cut to the array, and what is made of a window."""

from __future__ import annotations

from atled_cpu_numba.kernels.shared.layout import layout

AXES = 4
PLACE_OUT_OF_RANGE = 1
MAX, SUM, NORM, GATHER = range(4)


@layout
class Block:
    """What the kernels read."""

    large: int  # address of x or gx
    small: int  # address of y or gy
    place: int  # address of the places
    outer: int  # images
    inner: int  # elements of each place of an image
    sizes: int = AXES  # of an image
    windows: int = AXES
    kernel: int = AXES
    stride: int = AXES
    pad: int = AXES
    average: int = 1  # whether sums are divided
    wide: int = 1  # whether places are int32
    least: int = 1  # elements of any window; these three: for windows in vectors
    workspace: int = 1  # address
    share_bytes: int = 1  # of the workspace, per share
