"""Filters of single planes with any kernel, stride and dilation: depthwise convolution.

A result is one filtered plane of the source, some rows of windows at a time, a vector of windows in the lanes. The
adjoint of a convolution with stride 1 is one, too, with the kernel turned around.

Shares are made of results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atled.plugin import Prepared
from atled_cpu_numba.kernels.depthwise.filter_words import Filter, arguments_of, sizes_of
from atled_cpu_numba.kernels.depthwise.padded import Problem
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import kernels_by_dtype, launch, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout

_ROWS_AT_ONCE = 4  # as many independent sums as keep the multipliers busy
_PRODUCTS_PER_US = 8e3  # a cautious rate of one core, for the number of shares
_SHARE_BYTES = 64  # of workspace: a line of the caches


@layout
class Block(Filter):
    """What the kernel reads; workspace is a zero."""

    kernel_h: int
    kernel_w: int
    pad_h: int
    pad_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    tap_step: int  # 1, or -1 for kernels that are turned around


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.window_rows import make_filter_rows

    element, floats = SIZES[dtype], Real(dtype).pointer
    vector = lanes_of(dtype).vector
    several_1, several_2 = make_filter_rows(1, _ROWS_AT_ONCE, dtype), make_filter_rows(2, _ROWS_AT_ONCE, dtype)
    one, one_1, one_2 = (make_filter_rows(stride, 1, dtype) for stride in (0, 1, 2))

    @kernel
    def depthwise_filters(block, part, parts):
        w = words(block)
        results, per_plane, height, width = w[Block.results], w[Block.per_plane], w[Block.height], w[Block.width]
        rows, columns = w[Block.rows], w[Block.columns]
        kernel_h, kernel_w, pad, left = w[Block.kernel_h], w[Block.kernel_w], w[Block.pad_h], -w[Block.pad_w]
        step_h, step, row_step = w[Block.stride_h], w[Block.stride_w], w[Block.dilation_h]
        tap_step = w[Block.dilation_w]
        no_bias = w[Block.workspace] + w[Block.share_bytes] * part
        floats(no_bias)[0] = 0.0
        turn = w[Block.tap_step]  # 1, or -1 for kernels that are turned around
        for unit in range(w[Block.images] * results * part // parts, w[Block.images] * results * (part + 1) // parts):
            image = unit // results
            number = unit - image * results
            x = w[Block.x] + element * (image * (results // per_plane) + number // per_plane) * height * width
            weight, y = (
                w[Block.weight] + element * number * kernel_h * kernel_w,
                w[Block.y] + element * unit * rows * columns,
            )
            if turn < 0:
                weight += element * (kernel_h * kernel_w - 1)
            begin = w[Block.bias] + element * number if w[Block.bias] != 0 else no_bias
            i = 0
            while i < rows:
                top = i * step_h - pad
                bottom = top + (kernel_h - 1) * row_step + (_ROWS_AT_ONCE - 1) * step_h
                to = y + element * i * columns
                taken = i + _ROWS_AT_ONCE
                # What is written beyond a row the following ones replace, in this plane.
                if step <= 2 and top >= 0 and bottom < height and taken <= rows:
                    beyond = 1 if (rows - taken + 1) * columns >= vector else 0
                    seen = (x, width, top, row_step, kernel_h, step_h * width, left, tap_step, kernel_w, step, columns)
                    written = (weight, turn, begin, to, columns, beyond)
                    if step == 1:
                        several_1((*seen, *written))
                    else:
                        several_2((*seen, *written))
                    i = taken
                    continue
                first = min(kernel_h, max(0, (row_step - 1 - top) // row_step))
                count = max(first, min(kernel_h, (height - top + row_step - 1) // row_step)) - first
                row, taps = top + first * row_step, weight + element * turn * first * kernel_w
                beyond = 1 if (rows - i) * columns >= vector else 0
                # Parts of a long row are rows as well, if none of them sees its ends.
                length = (columns - 2 * vector) // (_ROWS_AT_ONCE * vector) * vector
                done = vector + _ROWS_AT_ONCE * length
                whole = left + vector >= 0 and left + done + (kernel_w - 1) * tap_step <= width
                if step == 1 and length > 0 and whole:
                    seen, written = (x, width, row, row_step, count), (taps, turn, begin)
                    one_1((*seen, 0, left, tap_step, kernel_w, 1, vector, *written, to, vector, 0))
                    of_parts = (length, left + vector, tap_step, kernel_w, 1, length)
                    several_1((*seen, *of_parts, *written, to + element * vector, length, 0))
                else:
                    done = 0
                rest = columns - done
                to += element * done
                seen = (x, width, row, row_step, count, 0, left + done, tap_step, kernel_w, step, rest)
                written = (taps, turn, begin, to, rest, beyond)
                if step == 1:
                    one_1((*seen, *written))
                elif step == 2:
                    one_2((*seen, *written))
                else:
                    one((*seen, *written))
                i += 1
            if w[Block.after] != 0:
                call3(w[Block.after], w[Block.after_block], unit * rows * columns, (unit + 1) * rows * columns)
        return 0

    return depthwise_filters


DEPTHWISE_FILTERS = kernels_by_dtype("depthwise_filters", _build)


def prepare(problem: Problem, biases: Sequence[bool]) -> Prepared:
    """The convolution of a problem; biases: for each input behind the weight, whether it is there."""
    p = problem
    products = p.images * p.results * p.kernel[0] * p.kernel[1] * p.result[0] * p.result[1]
    parts = share_count(products / _PRODUCTS_PER_US, p.images * p.results)
    words = filled(
        Block,
        **sizes_of(p),
        share_bytes=_SHARE_BYTES,
        kernel_h=p.kernel[0],
        kernel_w=p.kernel[1],
        pad_h=p.pad[0],
        pad_w=p.pad[1],
        stride_h=p.stride[0],
        stride_w=p.stride[1],
        dilation_h=p.dilation[0],
        dilation_w=p.dilation[1],
        tap_step=-1 if p.turned else 1,
    )
    return launch(
        DEPTHWISE_FILTERS[p.dtype],
        words,
        arguments_of(Block, biases),
        parts=parts,
        workspace=_SHARE_BYTES * parts,
        after={0: Block.after},
        note="depthwise, windows in vectors",
    )
