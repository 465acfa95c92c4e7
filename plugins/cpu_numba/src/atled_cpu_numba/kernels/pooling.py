"""Pooling over one or two trailing axes: maxima, averages and their gradients.

A call with one axis is one of height 1. Block of all kernels (64-bit words):
    0 planes, 1 height, 2 width            of x, gx
    3 rows, 4 columns                      windows per plane, of y, gy, index
    5 kernel_h, 6 kernel_w, 7 stride_h, 8 stride_w, 9 pad_h, 10 pad_w     (not for MaxPoolingGrad, MaxPoolingGather)
    11 including_pad                       1: the places of the padding count
    12 x, y or gx; the larger array        13 y, gy or ggx; the smaller one        14 index
    15 workspace, 16 bytes of it per share

Windows are computed row by row, one position of the kernel after the other, so that loops run along a row whatever the
geometry; windows of 2 x 2 with stride 2 have a loop of their own. Shares are made of planes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from atled.call import Call, Prepared
from atled_cpu_numba.kernels.launch import launch, refuse_floats, share_count
from atled_cpu_numba.store import Kernel

_INDEX_OUT_OF_RANGE = 1
_ERRORS = {_INDEX_OUT_OF_RANGE: "index out of range"}
_ELEMENTS_PER_US = 1000.0  # a cautious rate of one core, for the number of shares


def _build_max(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.options import Real, kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def max_pooling(block, part, parts):
        w = words(block)
        planes, height, width, rows, columns = w[0], w[1], w[2], w[3], w[4]
        kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w = w[5], w[6], w[7], w[8], w[9], w[10]
        pairs = kernel_h == 2 and kernel_w == 2 and stride_w == 2 and pad_h == 0 and pad_w == 0
        # Windows that lie within a row of x, and within its height, need no clipping.
        whole_columns = min(columns, (width - 2) // 2 + 1) if pairs else 0
        for plane in range(planes * part // parts, planes * (part + 1) // parts):
            for i in range(rows):
                y = floats(w[13] + size * (plane * rows + i) * columns)
                index = ints64(w[14] + 8 * (plane * rows + i) * columns)
                top = i * stride_h - pad_h
                first, after = max(0, -top), min(kernel_h, height - top)
                start = 0
                if pairs and after == 2:
                    start = whole_columns
                    a = floats(w[12] + size * (plane * height + top) * width)
                    b = floats(w[12] + size * (plane * height + top + 1) * width)
                    for j in range(whole_columns):
                        best, place = a[2 * j], top * width + 2 * j
                        at = place
                        v = a[2 * j + 1]
                        wins = (v > best) | ((v != v) & (best == best))
                        best, place = v if wins else best, at + 1 if wins else place
                        v = b[2 * j]
                        wins = (v > best) | ((v != v) & (best == best))
                        best, place = v if wins else best, at + width if wins else place
                        v = b[2 * j + 1]
                        wins = (v > best) | ((v != v) & (best == best))
                        best, place = v if wins else best, at + width + 1 if wins else place
                        y[j] = best
                        index[j] = place
                for j in range(start, columns):
                    y[j] = number(-math.inf)
                    index[j] = (top + first) * width + max(0, j * stride_w - pad_w)
                for r in range(first, after):
                    x = floats(w[12] + size * (plane * height + top + r) * width)
                    for s in range(kernel_w):
                        left = s - pad_w
                        low = max(start, (-left + stride_w - 1) // stride_w) if left < 0 else start
                        high = min(columns, (width - 1 - left) // stride_w + 1) if left < width else 0
                        place = (top + r) * width + left
                        if stride_w == 1:
                            for j in range(low, high):
                                v = x[left + j]
                                wins = (v > y[j]) | ((v != v) & (y[j] == y[j]))
                                y[j] = v if wins else y[j]
                                index[j] = place + j if wins else index[j]
                        elif stride_w == 2:
                            for j in range(low, high):
                                v = x[left + 2 * j]
                                wins = (v > y[j]) | ((v != v) & (y[j] == y[j]))
                                y[j] = v if wins else y[j]
                                index[j] = place + 2 * j if wins else index[j]
                        else:
                            for j in range(low, high):
                                v = x[left + stride_w * j]
                                wins = (v > y[j]) | ((v != v) & (y[j] == y[j]))
                                y[j] = v if wins else y[j]
                                index[j] = place + stride_w * j if wins else index[j]
        return 0

    return max_pooling


def _build_max_grad(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.options import Real, kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def max_pooling_grad(block, part, parts):
        w = words(block)
        inputs, windows = w[1] * w[2], w[3] * w[4]
        first, after = w[0] * part // parts, w[0] * (part + 1) // parts
        lowest, highest = 0, -1
        all_index = ints64(w[14])
        for j in range(first * windows, after * windows):
            lowest = min(lowest, all_index[j])
            highest = max(highest, all_index[j])
        if lowest < 0 or highest >= inputs:
            return _INDEX_OUT_OF_RANGE
        for plane in range(first, after):
            gx, gy = floats(w[12] + size * plane * inputs), floats(w[13] + size * plane * windows)
            index = ints64(w[14] + 8 * plane * windows)
            for j in range(inputs):
                gx[j] = number(0)
            for j in range(windows):
                gx[index[j]] += gy[j]
        return 0

    return max_pooling_grad


def _build_max_gather(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.options import Real, kernel

    real = Real(dtype)
    floats, size = real.pointer, real.size

    @kernel
    def max_pooling_gather(block, part, parts):
        w = words(block)
        inputs, windows = w[1] * w[2], w[3] * w[4]
        first, after = w[0] * part // parts, w[0] * (part + 1) // parts
        all_index = ints64(w[14])
        for j in range(first * windows, after * windows):
            if all_index[j] < 0 or all_index[j] >= inputs:
                return _INDEX_OUT_OF_RANGE
        for plane in range(first, after):
            x, y = floats(w[12] + size * plane * inputs), floats(w[13] + size * plane * windows)
            index = ints64(w[14] + 8 * plane * windows)
            for j in range(windows):
                y[j] = x[index[j]]
        return 0

    return max_pooling_gather


def _build_average(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.options import Real, kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def average_pooling(block, part, parts):
        w = words(block)
        planes, height, width, rows, columns = w[0], w[1], w[2], w[3], w[4]
        kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w = w[5], w[6], w[7], w[8], w[9], w[10]
        margin_h, margin_w = (pad_h, pad_w) if w[11] != 0 else (0, 0)
        pairs = kernel_h == 2 and kernel_w == 2 and stride_w == 2 and pad_h == 0 and pad_w == 0
        whole_columns = min(columns, (width - 2) // 2 + 1) if pairs else 0
        for plane in range(planes * part // parts, planes * (part + 1) // parts):
            for i in range(rows):
                y = floats(w[13] + size * (plane * rows + i) * columns)
                top = i * stride_h - pad_h
                first, after = max(0, -top), min(kernel_h, height - top)
                start = 0
                if pairs and after == 2:
                    start = whole_columns
                    a = floats(w[12] + size * (plane * height + top) * width)
                    b = floats(w[12] + size * (plane * height + top + 1) * width)
                    for j in range(whole_columns):
                        y[j] = ((a[2 * j] + a[2 * j + 1]) + (b[2 * j] + b[2 * j + 1])) * number(0.25)
                for j in range(start, columns):
                    y[j] = number(0)
                for r in range(first, after):
                    x = floats(w[12] + size * (plane * height + top + r) * width)
                    for s in range(kernel_w):
                        left = s - pad_w
                        low = max(start, (-left + stride_w - 1) // stride_w) if left < 0 else start
                        high = min(columns, (width - 1 - left) // stride_w + 1) if left < width else 0
                        if stride_w == 1:
                            for j in range(low, high):
                                y[j] += x[left + j]
                        elif stride_w == 2:
                            for j in range(low, high):
                                y[j] += x[left + 2 * j]
                        else:
                            for j in range(low, high):
                                y[j] += x[left + stride_w * j]
                covered_h = min(top + kernel_h, height + margin_h) - max(top, -margin_h)
                for j in range(start, columns):
                    left = j * stride_w - pad_w
                    covered_w = min(left + kernel_w, width + margin_w) - max(left, -margin_w)
                    y[j] /= number(max(1, max(0, covered_h) * max(0, covered_w)))
        return 0

    return average_pooling


def _build_average_grad(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.options import Real, kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def average_pooling_grad(block, part, parts):
        w = words(block)
        planes, height, width, rows, columns = w[0], w[1], w[2], w[3], w[4]
        kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w = w[5], w[6], w[7], w[8], w[9], w[10]
        margin_h, margin_w = (pad_h, pad_w) if w[11] != 0 else (0, 0)
        pairs = kernel_h == 2 and kernel_w == 2 and stride_h == 2 and stride_w == 2 and pad_h == 0 and pad_w == 0
        whole_columns = min(columns, (width - 2) // 2 + 1) if pairs else 0
        share = floats(w[15] + part * w[16])
        for plane in range(planes * part // parts, planes * (part + 1) // parts):
            plane_at = w[12] + size * plane * height * width
            gx = floats(plane_at)
            written = 0  # elements of the plane that hold their value or a sum already
            for i in range(rows):
                gy = floats(w[13] + size * (plane * rows + i) * columns)
                top = i * stride_h - pad_h
                first, after = max(0, -top), min(kernel_h, height - top)
                # Zeros only up to where this row of windows reaches, so that they are still in the cache when added to.
                reach = max(written, min(height, top + kernel_h) * width)
                start = 0
                if pairs and after == 2:
                    start = whole_columns
                    a, b = floats(plane_at + size * top * width), floats(plane_at + size * (top + 1) * width)
                    for j in range(whole_columns):
                        v = gy[j] * number(0.25)
                        a[2 * j], a[2 * j + 1] = v, v
                        b[2 * j], b[2 * j + 1] = v, v
                    for j in range(2 * whole_columns, width):
                        a[j], b[j] = number(0), number(0)
                else:
                    for j in range(written, reach):
                        gx[j] = number(0)
                written = reach
                covered_h = min(top + kernel_h, height + margin_h) - max(top, -margin_h)
                for j in range(start, columns):
                    left = j * stride_w - pad_w
                    covered_w = min(left + kernel_w, width + margin_w) - max(left, -margin_w)
                    share[j] = gy[j] / number(max(1, max(0, covered_h) * max(0, covered_w)))
                for r in range(first, after):
                    row = floats(plane_at + size * (top + r) * width)
                    for s in range(kernel_w):
                        left = s - pad_w
                        low = max(start, (-left + stride_w - 1) // stride_w) if left < 0 else start
                        high = min(columns, (width - 1 - left) // stride_w + 1) if left < width else 0
                        if stride_w == 1:
                            for j in range(low, high):
                                row[left + j] += share[j]
                        else:
                            for j in range(low, high):
                                row[left + stride_w * j] += share[j]
            for j in range(written, height * width):
                gx[j] = number(0)
        return 0

    return average_pooling_grad


_DTYPES = ("float32", "float64")


def _kernels(name: str, build: Callable[[str], Callable[..., int]]) -> dict[str, Kernel]:
    return {dtype: Kernel(f"{name}_{dtype}", partial(build, dtype), parameters=(dtype,)) for dtype in _DTYPES}


_KERNELS = {
    "MaxPooling": _kernels("max_pooling", _build_max),
    "MaxPoolingGrad": _kernels("max_pooling_grad", _build_max_grad),
    "MaxPoolingGather": _kernels("max_pooling_gather", _build_max_gather),
    "AveragePooling": _kernels("average_pooling", _build_average),
    "AveragePoolingGrad": _kernels("average_pooling_grad", _build_average_grad),
}

# Words of inputs and outputs.
_ARGUMENTS = {
    "MaxPooling": (12, 13, 14),
    "MaxPoolingGrad": (13, 14, 12),
    "MaxPoolingGather": (12, 14, 13),
    "AveragePooling": (12, 13),
    "AveragePoolingGrad": (13, 12, 15),
}


def accepts(call: Call) -> bool | str:
    """Whether x is float32 or float64 and the windows have one or two axes."""
    refused = refuse_floats(call, _DTYPES, floats=(0,))
    if refused:
        return refused
    axes = _axis_count(call)
    return axes <= 2 or f"pools over one or two axes, not {axes}"


def prepare(call: Call) -> Prepared:
    """MaxPooling: x -> y, index.  MaxPoolingGrad: gy, index -> gx.  MaxPoolingGather: ggx, index -> y.

    AveragePooling: x -> y.  AveragePoolingGrad: gy -> gx.
    """
    name, attributes = call.spec.name, call.attributes
    axes = _axis_count(call)
    first, result = call.inputs[0], call.outputs[0]
    assert first is not None
    large, small = (result, first) if name.endswith("Grad") else (first, result)
    planes = math.prod(large.shape[:-axes])
    words = [planes, *_two(large.shape[-axes:], 1), *_two(small.shape[-axes:], 1)]
    words += [*_two(attributes.get("kernel", ()), 1), *_two(attributes.get("stride", ()), 1), *_two(attributes.get("pad", ()), 0)]
    share_bytes = -(-small.shape[-1] * small.dtype.itemsize // 64) * 64 if name == "AveragePoolingGrad" else 0
    words += [int(attributes.get("including_pad", False)), 0, 0, 0, 0, share_bytes]
    parts = share_count((large.size + small.size) / _ELEMENTS_PER_US, planes)
    return launch(
        _KERNELS[name][large.dtype.name],
        words,
        _ARGUMENTS[name] if share_bytes or name != "AveragePoolingGrad" else (13, 12),
        parts=parts,
        workspace=share_bytes * parts,
        errors=_ERRORS if name in ("MaxPoolingGrad", "MaxPoolingGather") else None,
    )


def _axis_count(call: Call) -> int:
    """How many axes the windows have."""
    attributes = call.attributes
    return len(attributes["shape"] if "shape" in attributes else attributes["kernel"])


def _two(values: tuple[int, ...], missing: int) -> tuple[int, int]:
    """The values for height and width."""
    padded = (missing, missing, *values)
    return padded[-2], padded[-1]
