"""The block of the kernels that pool windows cut to the array, and what is made of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
    divisor: int = 1  # of sums, 0: the elements of each window; these four: for windows in vectors
    least: int = 1  # elements of any window
    workspace: int = 1  # address
    share_bytes: int = 1  # of the workspace, per share


def write_geometry(
    words: list[int], sizes: Sequence[int], windows: Sequence[int], attributes: Mapping[str, Any]
) -> None:
    """Fill in what a block has of each axis, the last of its axes being those of the windows.

    attributes: kernel, stride and pad.
    """
    for word, values, missing in (
        (Block.sizes, sizes, 1),
        (Block.windows, windows, 1),
        (Block.kernel, attributes["kernel"], 1),
        (Block.stride, attributes["stride"], 1),
        (Block.pad, attributes["pad"], 0),
    ):
        for axis, value in enumerate((*[missing] * (AXES - len(values)), *values)):
            words[word + axis] = value
