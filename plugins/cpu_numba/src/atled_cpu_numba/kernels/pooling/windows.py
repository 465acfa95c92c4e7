"""Pooling forward by windows of 2 x 2 with strides of 2, or 3 x 3 with 1 or 2: maxima without places, averages, sums.

A row of windows after the other, from up to three rows of the plane, see `window_blocks`. Shares are made of planes.
Windows of 3 x 3 take half as it is, and most long rows of bf16, by pairs of neighbours: in less time than casts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from atled_cpu_numba.kernels.pooling.block import Block
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import ANY, REALS, in_lines, kernels_by_dtype
from atled_cpu_numba.kernels.shared.leading_axes import Axis
from atled_cpu_numba.store import Kernel

# Per kernel and stride of both axes the dtypes that are taken as they are. Of pairs of bf16 maxima with strides of 1
# would need more registers than there are: casts take as long.
_AVERAGED: Mapping[tuple[int, int], Sequence[str]] = {(2, 2): REALS, (3, 2): ANY, (3, 1): ANY}
_LARGEST = {**_AVERAGED, (3, 1): (*REALS, "float16")}
_WORDS = 8  # of two neighbours in bf16, in a vector


def _build(dtype: str, size: int, stride: int, maxima: bool) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.pooling.window_blocks import make_windows
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_element_access
    from atled_cpu_numba.kernels.shared.options import Real, inlined, kernel, piece

    real = Real(real_of(dtype))
    element, real_bytes, floats, number = item_bytes(dtype), real.size, real.pointer, real.kind
    windows = make_windows(size, stride, dtype, maxima=maxima, words=_WORDS if dtype == "bfloat16" else 0)

    if dtype in SIZES:

        @inlined
        def load_element(at, i):
            return floats(at)[i]

        @inlined
        def store_element(at, i, value):
            floats(at)[i] = value

    else:
        load_element, store_element = make_element_access(dtype, alone=True)

    @piece
    def cut_window(a_at, b_at, c_at, first, after, factor):
        """Of the columns from `first` to `after` of its rows, at least one."""
        found = load_element(a_at, first) if maxima else number(0)
        for r in range(size):
            row_at = a_at if r == 0 else (b_at if r == 1 else c_at)
            total = number(0)
            for j in range(first, after):
                value = load_element(row_at, j)
                if maxima:
                    wins = (value > found or value != value) and found == found
                    found = value if wins else found
                else:
                    total += value
            found += total
        return found if maxima else found * factor

    @kernel
    def pool_windows(block, part, parts):
        w = words(block)
        planes, height, width = w[Block.planes], w[Block.height], w[Block.width]
        rows, columns, pad_h, pad_w = w[Block.rows], w[Block.columns], w[Block.pad_h], w[Block.pad_w]
        factor_at = w[Block.workspace] + part * w[Block.share_bytes]
        factors_at = factor_at + 64
        zeros_at = factors_at + (real_bytes * columns + 63) // 64 * 64
        margin_h, margin_w = (pad_h, pad_w) if w[Block.including_pad] != 0 else (0, 0)
        adds = w[Block.adds] != 0
        factor, factors, zeros = floats(factor_at), floats(factors_at), floats(zeros_at)
        if not maxima:
            for j in range(columns):
                left = j * stride - pad_w
                counted = min(left + size, width + margin_w) - max(left, -margin_w)
                factors[j] = number(1) / number(1 if adds else counted)
            for j in range(width):
                zeros[j] = number(0)  # its bits are zeros of half and bf16, too
        cut = max(0, (columns - 1) * stride - pad_w + size - width)  # elements of the last window
        for plane in range(planes * part // parts, planes * (part + 1) // parts):
            x = w[Block.large] + element * plane * height * width
            for i in range(rows):
                top = i * stride - pad_h
                y_at = w[Block.small] + element * (plane * rows + i) * columns
                a, b, c = x + element * top * width, x + element * (top + 1) * width, x + element * (top + 2) * width
                if maxima:
                    # What stands for a row outside is seen anyway, before it or behind.
                    highest, lowest = x, x + element * (height - 1) * width
                    a, b, c = max(a, highest), min(max(b, highest), lowest), min(c, lowest)
                else:
                    counted = min(top + size, height + margin_h) - max(top, -margin_h)
                    factor[0] = number(1) / number(1 if adds else counted)
                    a = zeros_at if top < 0 else a
                    b = zeros_at if top + 1 < 0 or top + 1 >= height else b
                    c = zeros_at if top + 2 >= height else c
                if columns > 1 or cut + pad_w == 0:
                    windows((a, b, c, columns, pad_w, cut, factors_at, factor_at, y_at))
                else:
                    found = cut_window(a, b, c, 0, min(width, size - pad_w), factors[0] * factor[0])
                    store_element(y_at, 0, found)
        return 0

    return pool_windows


def _kernels(maxima: bool) -> Mapping[tuple[int, int], Mapping[str, Kernel]]:
    name = "max_windows" if maxima else "average_windows"
    return {
        kind: kernels_by_dtype(f"{name}_{kind[0]}_{kind[1]}", _build, *kind, maxima, dtypes=dtypes)
        for kind, dtypes in (_LARGEST if maxima else _AVERAGED).items()
    }


_AVERAGES = _kernels(False)
_KERNELS = {"MaxPooling": _kernels(True), "AveragePooling": _AVERAGES, "SumPooling": _AVERAGES}


def kernel_for(name: str, dtype: str, height: Axis, width: Axis) -> Kernel | None:
    """The kernel for windows along these axes, if there is one; MaxPooling makes no places."""
    kind = width.kernel, width.stride
    if name not in _KERNELS or kind not in _AVERAGED or (height.kernel, height.stride) != kind:
        return None
    # Each window sees an element, of which there are some, and only one at each end is cut.
    taken = all(axis.result and axis.pad in (0, 1) and axis.source > max(0, _start(axis)) for axis in (height, width))
    if dtype == "bfloat16":  # pairs: one window more than a vector has, and no pair of which neither is in the row
        taken = taken and width.result > 2 * _WORDS // width.stride and _start(width) + 1 < width.source
    is_next_cut = _start(width) - width.stride + width.kernel > width.source
    return _KERNELS[name][kind].get(dtype) if taken and not is_next_cut else None


def _start(axis: Axis) -> int:
    """Where the last window begins."""
    return (axis.result - 1) * axis.stride - axis.pad


def share_bytes(dtype: str, width: Axis) -> int:
    """Of the workspace: the factor of a row, those of columns, a row of zeros."""
    real_bytes = SIZES[real_of(dtype)]
    return 64 + in_lines(real_bytes * width.result) + in_lines(real_bytes * width.source)
