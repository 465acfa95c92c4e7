"""The argument block of pooling over one or two trailing axes; one axis has the height 1."""

from __future__ import annotations

from atled_cpu_numba.kernels.shared.layout import layout
from atled_cpu_numba.kernels.shared.leading_axes import Axis

PLACE_OUT_OF_RANGE = 1  # the error that kernels for places return


@layout
class Block:
    """What all kernels read; shares are made of planes."""

    planes: int
    height: int  # of x, gx
    width: int
    rows: int  # windows per plane, of y, gy, place
    columns: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    including_pad: int  # whether the places of the padding count
    adds: int  # whether windows are added up, in place of averaged
    large: int  # address of the larger array: x or gx
    small: int  # address of the smaller one: y, gy or ggx
    place: int  # address
    workspace: int  # address
    share_bytes: int  # of the workspace, per share
    wide: int  # whether places are int32 (1) or bytes (0)
    strip: int  # windows of a row that are computed at a time by `maxima`
    channels: int  # behind each place of a plane, which then is an image


def window_words(height: Axis, width: Axis) -> dict[str, int]:
    """The words for sizes and windows along two axes, whose source is the larger array."""
    return {
        "height": height.source,
        "width": width.source,
        "rows": height.result,
        "columns": width.result,
        "kernel_h": height.kernel,
        "kernel_w": width.kernel,
        "stride_h": height.stride,
        "stride_w": width.stride,
        "pad_h": height.pad,
        "pad_w": width.pad,
    }
