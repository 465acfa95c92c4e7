"""The adjoint of a convolution with kernels of 5 x 5 and the channels in the lanes.

Each position of gy adds its maps' kernels to a window of gx, whose sums stay in registers meanwhile: nothing is
computed for the margins, which gather half of all products where small images have wide kernels. In the end positions
of channels are transposed to planes.

Shares are made of groups and images; each packs the weights of its groups for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atled.plugin import NamedTuple, Prepared
from atled_cpu_numba.kernels.shared.geometry import Pair
from atled_cpu_numba.kernels.shared.lanes import SIZES, host_lanes, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    fitting_shares,
    in_lines,
    kernels_by_dtype,
    launch,
    optional_words,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout

_SIDE = 5  # of a kernel: 25 sums leave room in 32 registers; with fewer, reading and writing windows takes too long
_PLACES = _SIDE * _SIDE
_MOST_WASTE = 1.4  # lanes per channel
_WEIGHT_BYTES = 40 << 10  # of a vector of channels, read for each position: most of a level-1 cache
_FLOPS_PER_US = 100e3  # a cautious rate of one core, for the number of shares


@layout
class Block:
    """What the kernel reads; strides in elements."""

    gy: int  # address
    weight: int
    bias: int  # or 0
    gx: int
    workspace: int
    share_bytes: int  # of workspace
    images: int
    groups: int
    maps: int  # of gy, per group
    rows: int
    columns: int
    channels: int  # of gx, per group
    height: int
    width: int
    pad_h: int
    pad_w: int
    stride_h: int
    stride_w: int
    lines: int  # of padded gx
    length: int
    after: int  # range kernel to run on what is written of gx, or 0
    after_block: int


class Problem(NamedTuple):
    """An adjoint over two axes without dilation; channels and maps are those of one group."""

    images: int
    groups: int
    maps: int
    channels: int
    source: Pair
    result: Pair
    kernel: Pair
    pad: Pair
    stride: Pair
    dtype: str


def can(problem: Problem) -> bool:
    """Whether the tile is that of the kernel, and there are results for a vector."""
    vector = lanes_of(problem.dtype).vector
    return problem.kernel == (_SIDE, _SIDE) and problem.result[0] * problem.result[1] >= vector


def suits(problem: Problem) -> bool:
    """Whether it pays, too: the channels fill the lanes, and the weights stay close."""
    vector = lanes_of(problem.dtype).vector
    return (
        can(problem)
        and host_lanes().vector >= 16  # registers enough
        and -(-problem.channels // vector) * vector <= _MOST_WASTE * problem.channels
        and SIZES[problem.dtype] * vector * problem.maps * _PLACES <= _WEIGHT_BYTES
    )


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.convolution.lane_tiles import make_window_tile
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece
    from atled_cpu_numba.kernels.winograd.blocks import tiles_of

    element, floats = SIZES[dtype], Real(dtype).pointer
    vector = lanes_of(dtype).vector
    store_transposed = tiles_of(dtype).store_transposed
    tile = make_window_tile(_SIDE, _SIDE, dtype)

    @piece
    def pack_weights(w, group, packed_at):
        """Per vector of channels, map and place: a vector."""
        maps, channels = w[Block.maps], w[Block.channels]
        for first in range(0, channels, vector):
            for m in range(maps):
                for i in range(min(vector, channels - first)):
                    source = floats(w[Block.weight] + element * ((group * maps + m) * channels + first + i) * _PLACES)
                    target = floats(packed_at + element * ((first * maps + vector * m) * _PLACES + i))
                    for t in range(_PLACES):
                        target[vector * t] = source[t]

    @piece
    def deliver(w, x_at, gx, known):
        """Positions of `known` channels to planes."""
        height, width, length = w[Block.height], w[Block.width], w[Block.length]
        plane = height * width
        x_at += element * vector * (w[Block.pad_h] * length + w[Block.pad_w])
        rows, count = height, width
        if length == width:  # no margin: all rows are one
            rows, count = 1, plane
        for row in range(rows):
            for p in range((count + vector - 1) // vector):
                here = max(0, min(p * vector, count - vector))
                source = x_at + element * vector * (row * length + here)
                store_transposed((source, min(vector, count), gx + element * (row * width + here), plane, known))

    @kernel
    def adjoint_lanes(block, part, parts):
        w = words(block)
        images, groups, maps, rows = w[Block.images], w[Block.groups], w[Block.maps], w[Block.rows]
        columns, channels = w[Block.columns], w[Block.channels]
        lines, length, positions = w[Block.lines], w[Block.length], w[Block.rows] * w[Block.columns]
        packed_at = w[Block.workspace] + part * w[Block.share_bytes]
        x_at = packed_at + element * ((channels + vector - 1) // vector * vector * maps * _PLACES)
        x = floats(x_at)
        packed_group = -1
        for unit in range(groups * images * part // parts, groups * images * (part + 1) // parts):
            group = unit // images
            image = unit - group * images
            if group != packed_group:
                packed_group = group
                pack_weights(w, group, packed_at)
            source = w[Block.gy] + element * (image * groups + group) * maps * positions
            for first in range(0, channels, vector):
                known = min(vector, channels - first)
                for i in range(lines * length * vector):
                    x[i] = 0.0
                weights = packed_at + element * first * maps * _PLACES
                for row in range(rows):
                    gy = source + element * row * columns
                    to = x_at + element * vector * row * w[Block.stride_h] * length
                    for _ in range(columns):
                        tile((maps, gy, positions, weights, to, vector * length))
                        gy += element
                        to += element * vector * w[Block.stride_w]
                if w[Block.bias] != 0:
                    bias = w[Block.bias] + element * (group * channels + first)
                    for i in range(lines * length):
                        for c in range(known):
                            x[vector * i + c] += floats(bias)[c]
                gx = (
                    w[Block.gx]
                    + element * ((image * groups + group) * channels + first) * w[Block.height] * w[Block.width]
                )
                deliver(w, x_at, gx, known)
            if w[Block.after] != 0:
                start = (image * groups + group) * channels * w[Block.height] * w[Block.width]
                call3(w[Block.after], w[Block.after_block], start, start + channels * w[Block.height] * w[Block.width])
        return 0

    return adjoint_lanes


ADJOINT_LANES = kernels_by_dtype("adjoint_lanes", _build)


def prepare(problem: Problem, biases: Sequence[bool]) -> Prepared:
    """The adjoint of a problem that `suits`; biases: for each input behind the weight, whether it is there."""
    p, vector = problem, lanes_of(problem.dtype).vector
    channels = -(-p.channels // vector) * vector
    lines, length = p.result[0] + 2 * p.pad[0], p.result[1] + 2 * p.pad[1]
    work_us = 2.0 * p.images * p.groups * p.source[0] * p.source[1] * p.maps * channels * _PLACES / _FLOPS_PER_US
    parts = share_count(work_us, p.groups * p.images)
    # What is transposed may reach a vector beyond the last position.
    share_bytes = SIZES[p.dtype] * (channels * p.maps * _PLACES + vector * (lines * length + vector))
    share_bytes = in_lines(share_bytes)
    parts = fitting_shares(parts, share_bytes)
    words = filled(
        Block,
        share_bytes=share_bytes,
        images=p.images,
        groups=p.groups,
        maps=p.maps,
        rows=p.source[0],
        columns=p.source[1],
        channels=p.channels,
        height=p.result[0],
        width=p.result[1],
        pad_h=p.pad[0],
        pad_w=p.pad[1],
        stride_h=p.stride[0],
        stride_w=p.stride[1],
        lines=lines,
        length=length,
    )
    arguments = (Block.gy, Block.weight, *optional_words(Block.bias, biases), Block.gx, Block.workspace)
    note = "direct, channels in lanes, windows of gx in registers"
    workspace = share_bytes * parts
    return launch(
        ADJOINT_LANES[p.dtype], words, arguments, parts=parts, workspace=workspace, after={0: Block.after}, note=note
    )
