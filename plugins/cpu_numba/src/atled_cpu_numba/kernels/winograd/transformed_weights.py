"""The weights of a convolution as Winograd's products read them, which depend on nothing but the weights.

TRANSFORM_WEIGHTS is a kernel of its own: the convolution calls it by address with a block in its workspace, unless it
is given the result (`weights_transformed`), which the engine keeps while the weights are not written.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Native, Pack
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import kernels_by_dtype, native_of, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout

_WEIGHTS_PER_US = 100.0  # pairs of a channel and a map; a cautious rate of one core
PRODUCTS = {9: 36, 25: 36, 3: 6, 7: 10}
"""The products of tiles, and so the matrices of weights, by the taps of a kernel: 3 x 3, 5 x 5, or 3 or 7 in line."""


@layout
class Transform:
    """What TRANSFORM_WEIGHTS reads; strides in elements."""

    weight: int  # address
    target: int  # address of the panels
    taps: int  # workspace: `taps_bytes` for each share
    channels: int
    maps: int
    first_map: int
    weight_map: int  # strides of the weight
    weight_channel: int
    weight_size: int  # elements
    first_tap: int  # 0, or the last one for the gradient, which turns the kernel around
    tap_step: int  # 1, or -1


def taps_bytes(dtype: str, taps: int) -> int:
    """Workspace of a share: the taps in vectors of maps, with a vector of vectors on both sides."""
    vector = lanes_of(dtype).vector
    return SIZES[dtype] * vector * (3 * vector + taps)


def transformed_bytes(channels: int, maps: int, dtype: str, taps: int) -> int:
    """Bytes of the panels: a vector more for each product, or all would compete for the same lines of the cache."""
    lanes = lanes_of(dtype)
    return SIZES[dtype] * PRODUCTS[taps] * (channels * lanes.columns + lanes.vector) * -(-maps // lanes.columns)


def _build(dtype: str, count: int) -> Callable[..., int]:
    """The kernel for weights of `count` taps."""
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.options import kernel
    from atled_cpu_numba.kernels.shared.vectors import make_transpose_block
    from atled_cpu_numba.kernels.winograd.blocks import SIDE, tiles_of
    from atled_cpu_numba.kernels.winograd.columns import columns_of

    element = SIZES[dtype]
    transpose_block = make_transpose_block(dtype)
    products = PRODUCTS[count]
    is_square = products == SIDE * SIDE
    weight_tile = tiles_of(dtype, math.isqrt(count)).weight if is_square else columns_of(dtype, count).weight
    lanes = lanes_of(dtype)
    vector, tile_columns = lanes.vector, lanes.columns
    taps_at_once, share_bytes = min(count, vector), taps_bytes(dtype, count)

    @kernel
    def transform_weights(block, part, parts):
        """Panels of `tile_columns` maps, in each the products, in each channel by channel."""
        w = words(block)
        channels, maps, target = w[Transform.channels], w[Transform.maps], w[Transform.target]
        taps_at = w[Transform.taps] + part * share_bytes
        step = channels * tile_columns + vector
        end = w[Transform.weight] + element * w[Transform.weight_size]
        panels = (maps + tile_columns - 1) // tile_columns
        m0, m1 = panels * part // parts * tile_columns, min(maps, panels * (part + 1) // parts * tile_columns)
        for m in range(m0, m1, vector):
            known = min(vector, maps - m)
            first = w[Transform.first_map] + m
            to = target + element * (m // tile_columns * products * step + m % tile_columns)
            for channel in range(channels):
                start = first * w[Transform.weight_map] + channel * w[Transform.weight_channel]
                start = w[Transform.weight] + element * start
                last = start + element * (known - 1) * w[Transform.weight_map]
                for tap in range(0, count, taps_at_once):
                    # Vectors may be longer than the taps: at the end of the weight they reach to the left instead.
                    here = min(tap, count - taps_at_once)
                    if last + element * (here + vector) > end:
                        here = count - vector
                    taps, weight_map = start + element * here, w[Transform.weight_map]
                    transpose_block((taps, weight_map, known, taps_at + element * vector * (vector + here), vector))
                source = taps_at + element * vector * (vector + w[Transform.first_tap])
                weight_tile((source, w[Transform.tap_step] * vector, to, step))
                to += element * tile_columns
        return 0

    return transform_weights


TRANSFORM_WEIGHTS = {
    9: kernels_by_dtype("transform_weights", _build, 9),
    25: kernels_by_dtype("transform_weights_5x5", _build, 25),
    3: kernels_by_dtype("transform_weights_3", _build, 3),
    7: kernels_by_dtype("transform_weights_7", _build, 7),
}
"""By the taps of a kernel, then by dtype."""


def weights_transformed(
    word: int,
    channels: int,
    maps: int,
    strides: tuple[int, int],
    weight_size: int,
    dtype: str,
    *,
    taps: int,
    turned: bool,
) -> Pack:
    """All weights transformed, the second input of a convolution, for a word of its block.

    strides: of the weight, from map to map and from channel to channel.  taps: of a kernel, one of PRODUCTS.
    """
    words = filled(
        Transform,
        channels=channels,
        maps=maps,
        weight_map=strides[0],
        weight_channel=strides[1],
        weight_size=weight_size,
        first_tap=taps - 1 if turned else 0,
        tap_step=-1 if turned else 1,
    )
    parts = share_count(channels * maps / _WEIGHTS_PER_US, -(-maps // lanes_of(dtype).columns))
    native: Native = native_of(
        TRANSFORM_WEIGHTS[taps][dtype], words, (Transform.weight, Transform.target, Transform.taps), parts
    )
    form = "winograd", taps, channels, maps, strides, weight_size, turned, dtype
    workspace = taps_bytes(dtype, taps) * parts
    return Pack(1, word, form, transformed_bytes(channels, maps, dtype, taps), native, workspace=workspace)
