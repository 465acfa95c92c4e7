"""Filters of single planes: depthwise convolution with 3 x 3 kernels and strides of 2.

A result is a filtered plane of the source, of which there may be several from one; vectors of columns, see `columns`.
Shares are made of results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from atled.plugin import Prepared
from atled_cpu_numba.kernels.shared.geometry import Pair
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import in_lines, kernels_by_dtype, launch, optional_words, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout

_ELEMENTS_PER_US = 2e3  # a cautious rate of one core, for the number of shares


@layout
class Block:
    """What the kernel reads."""

    x: int
    weight: int
    bias: int  # or 0
    y: int
    workspace: int
    images: int
    height: int  # of the source
    width: int
    results: int  # per image
    rows: int  # of the result
    columns: int
    pad_h: int
    pad_w: int
    per_plane: int  # results per plane of the source
    share_bytes: int  # of workspace
    after: int  # range kernel to run on what is written of y, or 0
    after_block: int


class Problem(NamedTuple):
    """A depthwise convolution with 3 x 3 kernels and strides of 2.

    source, result: height and width.  results: planes per image; per_plane: of them from one plane of the source.
    """

    images: int
    source: Pair
    results: int
    per_plane: int
    result: Pair
    pad: Pair
    dtype: str


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.depthwise.columns import make_halving_filter, zero_count
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    element, floats = SIZES[dtype], Real(dtype).pointer
    vector, zero_floats = lanes_of(dtype).vector, zero_count(dtype)
    two, one = make_halving_filter(2, dtype), make_halving_filter(1, dtype, masked=True)

    @kernel
    def depthwise_halving(block, part, parts):
        w = words(block)
        images, height, width, results = w[Block.images], w[Block.height], w[Block.width], w[Block.results]
        rows, columns, per_plane = w[Block.rows], w[Block.columns], w[Block.per_plane]
        zeros_at = w[Block.workspace] + w[Block.share_bytes] * part
        zeros = floats(zeros_at)
        for i in range(zero_floats):
            zeros[i] = 0.0
        top = -w[Block.pad_h]
        ahead = height * width
        for unit in range(images * results * part // parts, images * results * (part + 1) // parts):
            image = unit // results
            number = unit - image * results
            x = w[Block.x] + element * (image * (results // per_plane) + number // per_plane) * height * width
            weight = w[Block.weight] + element * 9 * number
            bias = w[Block.bias] + element * number if w[Block.bias] != 0 else zeros_at
            y = w[Block.y] + element * unit * rows * columns
            j = 0
            while j < columns:
                left = columns - j
                if left < vector and j > 0:  # overlapping is quicker than masks
                    j, left = columns - vector, vector
                to, column = y + element * j, 2 * j - w[Block.pad_w]
                if left > vector:
                    last = min(2 * vector, left) - vector
                    two((x, height, width, top, column, ahead, zeros_at, weight, bias, to, columns, rows, last))
                    j += 2 * vector
                else:
                    one((x, height, width, top, column, ahead, zeros_at, weight, bias, to, columns, rows, 0, left))
                    j += vector
            if w[Block.after] != 0:
                call3(w[Block.after], w[Block.after_block], unit * rows * columns, (unit + 1) * rows * columns)
        return 0

    return depthwise_halving


DEPTHWISE_HALVING = kernels_by_dtype("depthwise_halving", _build)


def prepare(problem: Problem, biases: Sequence[bool]) -> Prepared:
    """The convolution of a problem; biases: for each input behind the weight, whether it is there."""
    p = problem
    elements = p.images * p.results * p.result[0] * p.result[1]
    parts = share_count(elements / _ELEMENTS_PER_US, p.images * p.results)
    share_bytes = in_lines(SIZES[p.dtype] * (4 * lanes_of(p.dtype).vector + 16))
    words = filled(
        Block,
        images=p.images,
        height=p.source[0],
        width=p.source[1],
        results=p.results,
        rows=p.result[0],
        columns=p.result[1],
        pad_h=p.pad[0],
        pad_w=p.pad[1],
        per_plane=p.per_plane,
        share_bytes=share_bytes,
    )
    arguments = (Block.x, Block.weight, *optional_words(Block.bias, biases), Block.y, Block.workspace)
    return launch(
        DEPTHWISE_HALVING[p.dtype],
        words,
        arguments,
        parts=parts,
        workspace=share_bytes * parts,
        after={0: Block.after},
        note="depthwise, every second column in vectors",
    )
