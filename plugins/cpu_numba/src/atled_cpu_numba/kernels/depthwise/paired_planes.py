"""Filters of narrow planes in bfloat16 as it is, a row in one vector: what `planes` takes here, with its block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from atled_cpu_numba.kernels.depthwise.plane_words import Block
from atled_cpu_numba.kernels.depthwise.squares import LEAST_AFTER
from atled_cpu_numba.kernels.shared.geometry import Pair
from atled_cpu_numba.kernels.shared.launch import in_lines
from atled_cpu_numba.store import Kernel

_ZERO_BYTES = 64  # of workspace, before the copies
WORDS = 8  # of two neighbours, in a vector; the same on all processors
_FEWEST = 9  # elements of a row: half of a vector would be empty, or its two halves joined, which is slower than casts


def can(width: int, pad: Pair) -> bool:
    """Whether a row of a plane is in one vector, with one row and column of padding."""
    return pad == (1, 1) and _FEWEST <= width <= 2 * WORDS


def share_bytes(elements: int, results: int) -> int:
    """Of workspace: zeros, then a plane and a result, and a vector behind each."""
    return _ZERO_BYTES + sum(in_lines(2 * (count + 2 * WORDS)) for count in (elements, results))


def _build(stride: int) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, ints16, ints64, words
    from atled_cpu_numba.kernels.depthwise.plane_blocks import make_paired_filter
    from atled_cpu_numba.kernels.shared.options import kernel, piece

    filtered = make_paired_filter(stride, WORDS)
    seen, made = 2 * WORDS, 2 * WORDS // stride  # elements of a vector

    @piece
    def copy(source, target, count):
        x, y = ints16(source), ints16(target)
        for i in range(count):
            y[i] = x[i]

    @kernel
    def paired_planes(block, part, parts):
        w = words(block)
        height, width, results, per_plane = w[Block.height], w[Block.width], w[Block.results], w[Block.per_plane]
        rows, columns = w[Block.rows], w[Block.columns]
        own = w[Block.workspace] + w[Block.share_bytes] * part
        ints64(own)[0] = 0
        units = w[Block.images] * results
        first, end = units * part // parts, units * (part + 1) // parts
        begin = first * rows * columns  # of what `after` is to see
        elements = units // per_plane * height * width
        for unit in range(first, end):
            image = unit // results
            number = unit - image * results
            plane = image * (results // per_plane) + number // per_plane
            x, y = w[Block.x] + 2 * plane * height * width, w[Block.y] + 2 * unit * rows * columns
            weight = w[Block.weight] + 2 * (9 * number + w[Block.first_tap])
            bias = w[Block.bias] + 2 * number if w[Block.bias] != 0 else own
            behind = (unit + 1) * rows * columns
            # Vectors are read behind a plane, and written behind a result, where others follow. Else on copies.
            follows = behind + made - columns <= end * rows * columns
            is_copied = not (follows and (plane + 1) * height * width + seen - width <= elements)
            source, target = x, y
            if is_copied:
                source = own + _ZERO_BYTES
                target = source + (2 * (height * width + seen) + 63) // 64 * 64
                copy(x, source, height * width)
            filtered((source, height, width, w[Block.pad_h], own, weight, w[Block.tap_step], bias, target, columns))
            if is_copied:
                copy(target, y, rows * columns)
            if w[Block.after] != 0 and (unit + 1 == end or behind - begin >= LEAST_AFTER):
                call3(w[Block.after], w[Block.after_block], begin, behind)
                begin = behind
        return 0

    return paired_planes


KERNELS = {
    stride: Kernel(f"paired_planes_{stride}_bfloat16", partial(_build, stride), parameters=("bfloat16", stride))
    for stride in (1, 2)
}
"""By stride."""
