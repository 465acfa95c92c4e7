"""Maxima of windows of images whose channels lie behind, and their gradient, in vectors of channels.

Half and bf16 are taken as they are, but for gradients of windows that overlap: their sums are rounded once.
Places lie as with channels in front, (B..., C, T...): those of a row of windows are turned by way of the workspace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from atled.plugin import ArrayDesc, Call, Prepared
from atled_cpu_numba.kernels.pooling.block import PLACE_OUT_OF_RANGE, Block, window_words
from atled_cpu_numba.kernels.shared.elements import item_bytes
from atled_cpu_numba.kernels.shared.launch import ANY, fitting_shares, in_lines, kernels_by_dtype, launch, share_count
from atled_cpu_numba.kernels.shared.layout import NO_WORD, filled
from atled_cpu_numba.kernels.shared.leading_axes import Axis

AXES = 2
_ELEMENTS_PER_US = 5e3  # a cautious rate of one core, for the number of shares
_ONE_ROW = Axis(1, 1, 1, 0, 1, 1)  # the height of a call with one axis


def _build(dtype: str, back: bool, overlap: bool = False) -> Callable[..., int]:
    """Row by row of windows, and window by window: its maxima, or what it gives its elements.

    overlap: whether an element may be in several windows, and gets the sum of what they give.
    """
    from atled_cpu_numba.codegen import bytes8, words
    from atled_cpu_numba.kernels.pooling.window_lanes import make_max_of_window, make_to_elements
    from atled_cpu_numba.kernels.shared.options import inlined, kernel

    element = item_bytes(dtype)
    max_of_window = make_max_of_window(dtype, numbered=True)
    to_elements = make_to_elements(dtype, placed=True, adds=overlap, numbered=True)

    @inlined
    def cut(window, stride, pad, taps, size):
        """The first element that a window sees, the first one behind them, and how many of its places are before."""
        start = window * stride - pad
        return max(0, start), min(size, start + taps), max(0, -start)

    @kernel
    def pool_last(block, part, parts):
        w = words(block)
        height, width, rows, columns = w[Block.height], w[Block.width], w[Block.rows], w[Block.columns]
        kernel_h, kernel_w, channels = w[Block.kernel_h], w[Block.kernel_w], w[Block.channels]
        stride_h, stride_w, pad_h, pad_w = w[Block.stride_h], w[Block.stride_w], w[Block.pad_h], w[Block.pad_w]
        table_at = w[Block.workspace] + part * w[Block.share_bytes]
        numbers_at = table_at + 8 * kernel_h * kernel_w
        turned_at = numbers_at + 8 * kernel_h * kernel_w
        table, numbers, turned = words(table_at), words(numbers_at), bytes8(turned_at)
        all_large, all_small, all_places = w[Block.large], w[Block.small], w[Block.place]
        first, after = w[Block.planes] * rows * part // parts, w[Block.planes] * rows * (part + 1) // parts
        # Whether the windows write all elements of an image.
        is_covered = kernel_h == stride_h and rows * stride_h - pad_h >= height
        is_covered = is_covered and kernel_w == stride_w and columns * stride_w - pad_w >= width
        if back:  # images that no other share writes
            first, after = w[Block.planes] * part // parts * rows, w[Block.planes] * (part + 1) // parts * rows
            place = bytes8(all_places)
            most = 0
            for n in range(first * columns * channels, after * columns * channels):
                most = max(most, place[n])
            if most >= kernel_h * kernel_w:
                return PLACE_OUT_OF_RANGE
        for line in range(first, after):
            image = line // rows
            top, bottom, above = cut(line - image * rows, stride_h, pad_h, kernel_h, height)
            at_large = all_large + element * (image * height + top) * width * channels
            at_places = all_places + (image * channels * rows + line - image * rows) * columns
            if back:
                if line == image * rows and (overlap or not is_covered):
                    gx = bytes8(at_large)
                    for n in range(element * height * width * channels):
                        gx[n] = 0
                for c in range(channels):
                    place = bytes8(at_places + c * rows * columns)
                    for j in range(columns):
                        turned[j * channels + c] = place[j]
            known_before, known_extent, count = 0, 0, 0  # of the columns that the table is for
            for j in range(columns):
                left, right, before = cut(j, stride_w, pad_w, kernel_w, width)
                if before != known_before or right - left != known_extent:
                    known_before, known_extent, count = before, right - left, 0
                    for r in range(bottom - top):
                        for s in range(right - left):
                            table[count] = (r * width + s) * channels
                            numbers[count] = (above + r) * kernel_w + before + s
                            count += 1
                large = at_large + element * left * channels
                small = all_small + element * (line * columns + j) * channels
                place_at = turned_at + j * channels
                if back:
                    to_elements((table_at, numbers_at, count, small, place_at, large, channels))
                else:
                    max_of_window((table_at, numbers_at, count, large, small, place_at, channels))
            if not back and all_places != 0:
                for c in range(channels):
                    place = bytes8(at_places + c * rows * columns)
                    for j in range(columns):
                        place[j] = turned[j * channels + c]
        return 0

    return pool_last


_FORWARD = kernels_by_dtype("max_pooling_last", _build, False, dtypes=ANY)
_BACKWARD = kernels_by_dtype("max_pooling_last_grad", _build, True, dtypes=ANY)
_ADDED = kernels_by_dtype("max_pooling_last_added", _build, True, True)


def prepare(call: Call, large: ArrayDesc, small: ArrayDesc, sizes: Sequence[int], windows: Sequence[int]) -> Prepared:
    """MaxPooling: x -> y, place.  MaxPoolingGrad: gy, place -> gx.

    sizes, windows: the spatial ones of the larger and the smaller array.
    """
    attributes, is_grad = call.attributes, call.spec.name.endswith("Grad")
    geometry = (attributes[name] for name in ("kernel", "pad", "stride"))
    axes = [_ONE_ROW, *map(Axis, sizes, windows, *geometry, (1,) * len(sizes))]
    height, width = axes[-2:]
    images, taps = math.prod(large.shape[: -1 - len(sizes)]), height.kernel * width.kernel
    share_bytes = in_lines(16 * taps + width.result * large.shape[-1])
    seen = small.size * taps + large.size
    parts = share_count(seen / _ELEMENTS_PER_US, max(1, images * (1 if is_grad else height.result)))
    parts = fitting_shares(parts, share_bytes)
    words = filled(
        Block, planes=images, channels=large.shape[-1], share_bytes=share_bytes, **window_words(height, width)
    )
    arguments = (Block.large, Block.small, Block.place if call.wanted[-1] else NO_WORD)
    if is_grad:
        arguments = (Block.small, Block.place, Block.large)
    kernels = _FORWARD
    if is_grad:
        kernels = _ADDED if any(axis.kernel > axis.stride for axis in axes) else _BACKWARD
    return launch(
        kernels[large.dtype.name],
        words,
        (*arguments, Block.workspace),
        parts=parts,
        workspace=parts * share_bytes,
        errors={PLACE_OUT_OF_RANGE: "place out of range"} if is_grad else None,
        note="channels in vectors",
    )
