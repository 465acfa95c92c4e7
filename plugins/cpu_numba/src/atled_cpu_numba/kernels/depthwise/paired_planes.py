"""Filters of narrow planes in bfloat16 as it is, a row in one vector: what `planes` takes here, with its block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from atled_cpu_numba.kernels.depthwise.plane_walk import make_plane_walk
from atled_cpu_numba.kernels.depthwise.plane_words import Block
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
    from atled_cpu_numba.codegen import ints16, ints64, words
    from atled_cpu_numba.kernels.depthwise.plane_blocks import make_paired_filter
    from atled_cpu_numba.kernels.shared.options import kernel, piece

    filtered = make_paired_filter(stride, WORDS)
    seen, made = 2 * WORDS, 2 * WORDS // stride  # elements of a vector

    @piece
    def copy(source, target, count):
        x, y = ints16(source), ints16(target)
        for i in range(count):
            y[i] = x[i]

    @piece
    def filter_plane(w, own, unit, end, number, plane):
        height, width, rows, columns, elements, zeros_at = own
        x, y = w[Block.x] + 2 * plane * height * width, w[Block.y] + 2 * unit * rows * columns
        weight = w[Block.weight] + 2 * (9 * number + w[Block.first_tap])
        bias = w[Block.bias] + 2 * number if w[Block.bias] != 0 else zeros_at
        # Vectors are read behind a plane, and written behind a result, where others follow. Else on copies.
        follows = (unit + 1) * rows * columns + made - columns <= end * rows * columns
        is_copied = not (follows and (plane + 1) * height * width + seen - width <= elements)
        source, target = x, y
        if is_copied:
            source = zeros_at + _ZERO_BYTES
            target = source + (2 * (height * width + seen) + 63) // 64 * 64
            copy(x, source, height * width)
        filtered((source, height, width, w[Block.pad_h], zeros_at, weight, w[Block.tap_step], bias, target, columns))
        if is_copied:
            copy(target, y, rows * columns)

    walk = make_plane_walk(Block, filter_plane)

    @kernel
    def paired_planes(block, part, parts):
        w = words(block)
        height, width, rows, columns = w[Block.height], w[Block.width], w[Block.rows], w[Block.columns]
        zeros_at = w[Block.workspace] + w[Block.share_bytes] * part
        ints64(zeros_at)[0] = 0
        elements = w[Block.images] * w[Block.results] // w[Block.per_plane] * height * width
        walk(w, part, parts, rows * columns, (height, width, rows, columns, elements, zeros_at))
        return 0

    return paired_planes


KERNELS = {
    stride: Kernel(f"paired_planes_{stride}_bfloat16", partial(_build, stride), parameters=("bfloat16", stride))
    for stride in (1, 2)
}
"""By stride."""
