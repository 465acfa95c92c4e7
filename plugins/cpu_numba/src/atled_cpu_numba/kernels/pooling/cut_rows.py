"""Pooling of windows cut to the array where the channels are in front: by rows, a place of the windows at a time.

Innermost is the loop over the windows of a row that have an element at that place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from atled_cpu_numba.kernels.pooling.cut_block import GATHER, MAX, NORM, PLACE_OUT_OF_RANGE, SUM, Block
from atled_cpu_numba.kernels.shared.launch import kernels_by_dtype


def _build_windows(dtype: str, way: int) -> Callable[..., int]:
    """One result per window: its maximum, sum, average or norm, or the element at its place."""
    from atled_cpu_numba.codegen import bytes8, ints32, words
    from atled_cpu_numba.kernels.pooling.cut_axes import along, cut
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    number, floats = real.kind, real.pointer

    @kernel
    def pool_rows(block, part, parts):
        w = words(block)
        windows0, windows1, windows2 = w[Block.windows], along(w, Block.windows, 1), along(w, Block.windows, 2)
        sizes0, sizes1, sizes2 = w[Block.sizes], along(w, Block.sizes, 1), along(w, Block.sizes, 2)
        columns, width, taps = along(w, Block.windows, 3), along(w, Block.sizes, 3), along(w, Block.kernel, 3)
        stride, pad = along(w, Block.stride, 3), along(w, Block.pad, 3)
        x, y = floats(w[Block.large]), floats(w[Block.small])
        narrow, broad, wide = bytes8(w[Block.place]), ints32(w[Block.place]), w[Block.wide]
        rows = w[Block.outer] * windows0 * windows1 * windows2
        for row in range(rows * part // parts, rows * (part + 1) // parts):
            rest = row // windows2
            begin2, extent2 = cut(w, 2, row - rest * windows2)
            begin1, extent1 = cut(w, 1, rest % windows1)
            rest //= windows1
            image = rest // windows0
            begin0, extent0 = cut(w, 0, rest - image * windows0)
            outside = extent0 * extent1 * extent2
            to = row * columns
            if way == GATHER:
                for i in range(columns):
                    here = broad[to + i] if wide != 0 else np.int32(narrow[to + i])
                    if here < 0 or here >= outside * cut(w, 3, i)[1]:
                        return PLACE_OUT_OF_RANGE
            for i in range(columns):
                y[to + i] = number(0)
            for tap in range(outside * taps):
                before = tap // taps
                k = tap - before * taps
                at0 = before // (extent1 * extent2)
                at1 = before // extent2 - at0 * extent1
                at2 = before % extent2
                line = ((image * sizes0 + begin0 + at0) * sizes1 + begin1 + at1) * sizes2 + begin2 + at2
                shift = k - pad
                source = line * width + shift
                first = 0 if shift >= 0 else (stride - 1 - shift) // stride
                after = min(columns, (width - 1 - shift) // stride + 1) if shift < width else 0
                if way == SUM:
                    for i in range(first, after):
                        y[to + i] += x[source + i * stride]
                elif way == NORM:
                    for i in range(first, after):
                        y[to + i] += x[source + i * stride] * x[source + i * stride]
                else:
                    for i in range(first, after):
                        start = i * stride - pad
                        begin = max(start, 0)
                        own = np.int32(before * (min(start + taps, width) - begin) + i * stride + shift - begin)
                        value, best = x[source + i * stride], y[to + i]
                        if way == GATHER:
                            here = broad[to + i] if wide != 0 else np.int32(narrow[to + i])
                            y[to + i] = value if here == own else best
                        elif own == 0 or value > best or (value != value and best == best):
                            y[to + i] = value
                            if wide != 0:
                                broad[to + i] = own
                            else:
                                narrow[to + i] = np.uint8(own)
            if way == SUM and w[Block.average] != 0:
                for i in range(columns):
                    y[to + i] /= number(outside * cut(w, 3, i)[1])
            if way == NORM:
                for i in range(columns):
                    y[to + i] = np.sqrt(y[to + i])
        return 0

    return pool_rows


def _build_elements(dtype: str, *, placed: bool) -> Callable[..., int]:
    """One result per element: the sum of the gradients of the windows that see it, or whose place it is."""
    from atled_cpu_numba.codegen import bytes8, ints32, words
    from atled_cpu_numba.kernels.pooling.cut_axes import along, cut, seeing
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    number, floats = real.kind, real.pointer

    @kernel
    def pool_rows_back(block, part, parts):
        w = words(block)
        windows0, windows1, windows2 = w[Block.windows], along(w, Block.windows, 1), along(w, Block.windows, 2)
        sizes0, sizes1, sizes2 = w[Block.sizes], along(w, Block.sizes, 1), along(w, Block.sizes, 2)
        columns, width, taps = along(w, Block.windows, 3), along(w, Block.sizes, 3), along(w, Block.kernel, 3)
        stride, pad = along(w, Block.stride, 3), along(w, Block.pad, 3)
        gx, gy = floats(w[Block.large]), floats(w[Block.small])
        narrow, broad, wide = bytes8(w[Block.place]), ints32(w[Block.place]), w[Block.wide]
        if placed:
            rows = w[Block.outer] * windows0 * windows1 * windows2
            for row in range(rows * part // parts, rows * (part + 1) // parts):
                rest = row // windows2
                outside = cut(w, 2, row - rest * windows2)[1] * cut(w, 1, rest % windows1)[1]
                outside *= cut(w, 0, rest // windows1 % windows0)[1]
                for i in range(columns):
                    here = broad[row * columns + i] if wide != 0 else np.int32(narrow[row * columns + i])
                    if here < 0 or here >= outside * cut(w, 3, i)[1]:
                        return PLACE_OUT_OF_RANGE
        lines = w[Block.outer] * sizes0 * sizes1 * sizes2
        for line in range(lines * part // parts, lines * (part + 1) // parts):
            rest = line // sizes2
            at2 = line - rest * sizes2
            at1 = rest % sizes1
            rest //= sizes1
            image = rest // sizes0
            at0 = rest - image * sizes0
            for j in range(line * width, (line + 1) * width):
                gx[j] = number(0)
            low0, high0 = seeing(w, 0, at0)
            low1, high1 = seeing(w, 1, at1)
            low2, high2 = seeing(w, 2, at2)
            for i0 in range(low0, high0):
                begin0, extent0 = cut(w, 0, i0)
                for i1 in range(low1, high1):
                    begin1, extent1 = cut(w, 1, i1)
                    for i2 in range(low2, high2):
                        begin2, extent2 = cut(w, 2, i2)
                        source = (((image * windows0 + i0) * windows1 + i1) * windows2 + i2) * columns
                        before = ((at0 - begin0) * extent1 + at1 - begin1) * extent2 + at2 - begin2
                        outside = extent0 * extent1 * extent2
                        for k in range(taps):
                            shift = k - pad
                            to = line * width + shift
                            first = 0 if shift >= 0 else (stride - 1 - shift) // stride
                            after = min(columns, (width - 1 - shift) // stride + 1) if shift < width else 0
                            for i in range(first, after):
                                start = i * stride - pad
                                begin = max(start, 0)
                                extent = min(start + taps, width) - begin
                                value = gy[source + i]
                                if placed:
                                    own = np.int32(before * extent + i * stride + shift - begin)
                                    here = broad[source + i] if wide != 0 else np.int32(narrow[source + i])
                                    value = value if here == own else number(0)
                                elif w[Block.average] != 0:
                                    value = value / number(outside * extent)
                                gx[to + i * stride] += value
        return 0

    return pool_rows_back


WINDOWS = {
    "WindowMax": kernels_by_dtype("window_max_rows", partial(_build_windows, way=MAX)),
    "WindowMaxGather": kernels_by_dtype("window_max_gather_rows", partial(_build_windows, way=GATHER)),
    "WindowNorm": kernels_by_dtype("window_norm_rows", partial(_build_windows, way=NORM)),
    "WindowSum": kernels_by_dtype("window_sum_rows", partial(_build_windows, way=SUM)),
}
ELEMENTS = {
    "WindowMaxGrad": kernels_by_dtype("window_max_grad_rows", partial(_build_elements, placed=True)),
    "WindowSumGrad": kernels_by_dtype("window_sum_grad_rows", partial(_build_elements, placed=False)),
}
