"""1 x 1 convolutions, and their adjoints for stride 1, in float32: matrix products that read and write images in place.

y (maps, positions) = weight (maps, channels) by x (channels, positions), for each image: rows of positions are vectors
already, so nothing is copied but the panel of x that is being multiplied. Panels are whole; the positions that are left
over are collected from some images and multiplied together, before those images: each is finished while it is in the
cache. With a stride, all positions are collected.

Block (64-bit words; strides in elements):
    0 MULTIPLY_ROWS, 1 positions multiplied in place
    2 x or gy, 3 weight, 4 bias or 0, 5 y or gx, 6 workspace, 7 bytes of it per share
    8 images, 9 groups, 10 channels, 11 maps (both per group), 12 positions of an image of the result
    13 weight_map, 14 weight_channel          strides of the weight; 15 weights from group to group
    16 images whose positions that are left over are collected
    17 maps at once, 18 pieces of so many
    19 range kernel to run on what is written of the result, or 0, 20 its block
    21 COPY_IMAGES, or 0 without a stride, 22 height, 23 width of the source, 24 stride_h, 25 stride_w
    26 the one phase of COPY_IMAGES, as a pair, 28 width of the result
Shares are made of groups, pieces of maps, and images, which are the quickest to change: a piece of the weight stays in
the cache for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from atled.plugin import Prepared
from atled_cpu_numba.kernels.convolution.images import COPY_IMAGES
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS
from atled_cpu_numba.kernels.products.row_products import MULTIPLY_ROWS
from atled_cpu_numba.kernels.shared.geometry import Pair
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, launch, share_count
from atled_cpu_numba.store import Kernel

LEAST_CHANNELS = 4  # fewer, and panels take longer to copy than to multiply

_WEIGHT_BYTES = 768 << 10  # of the maps at once, which stay in the level-2 cache
_MOST_MAPS = 512  # at once: their bias takes a row of a panel each
_COLLECTED_BYTES = 1 << 20  # with their results
_PHASE = 26  # word of the block
_FLOPS_PER_US = 150e3  # a cautious rate of one core, for the number of shares
_SLIM_COST = 0.55  # of a panel of one vector, in whole panels


class Problem(NamedTuple):
    """A 1 x 1 convolution, or its adjoint; channels and maps are those of one group.

    weight: strides from map to map and from channel to channel.  stride: of the windows, 1 in an adjoint.
    """

    images: int
    groups: int
    channels: int
    maps: int
    source: Pair
    result: Pair
    stride: Pair
    weight: Pair

    @property
    def positions(self) -> int:
        """Elements of one map of the result."""
        return math.prod(self.result)


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.shared.options import kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import copy_rows

    columns = host_lanes().columns
    block_bytes = 8 * BLOCK_WORDS

    @piece
    def fill_starts(bias, first, maps, starts_at):
        """What the sums of each map start from, as a row of a panel: they are the same for all panels."""
        starts = floats32(starts_at)
        for m in range(maps):
            value = floats32(bias)[first + m] if bias != 0 else 0.0
            for j in range(columns):
                starts[m * columns + j] = value

    @piece
    def collect(w, copying, block, x, taken, collected_at, pitch):
        """The positions of `taken` images that are not multiplied in place; copying: a block for it."""
        groups, channels, positions, in_place = w[9], w[10], w[12], w[1]
        if w[21] != 0:
            q = words(copying)
            q[0], q[1], q[2], q[3] = x, taken, channels, groups * channels * w[22] * w[23]
            q[4], q[5], q[6], q[7], q[8], q[9] = w[22], w[23], collected_at, pitch, pitch, 0
            q[10], q[11], q[12], q[13], q[14], q[15] = positions, w[28], w[24], w[25], 1, block + 8 * _PHASE
            call3(w[21], copying, 0, 1)
            return
        rest = positions - in_place
        for i in range(taken):
            tail = x + 4 * (i * groups * channels * positions + in_place)
            copy_rows((tail, positions, collected_at + 4 * i * rest, pitch, channels, rest))

    @piece
    def multiply(w, inner, x, x_row, positions, following, y, y_row):
        """y = weight x + starts; `following`: from the last panel of x to the one that is multiplied next."""
        q = words(inner)
        panels = (positions + columns - 1) // columns
        for panel in range(panels):
            at = panel * columns
            # MULTIPLY_ROWS: k, m, n, a, a_row, b, b_step, b_panel, c, c_row, s, s_row, s_column, copy, ahead, a_column
            q[2], q[5], q[6], q[8], q[9] = min(columns, positions - at), x + 4 * at, x_row, y + 4 * at, y_row
            q[14] = columns if panel + 1 < panels else following
            call3(w[0], inner, 0, 1)

    @kernel
    def pointwise(block, part, parts):
        w = words(block)
        images, groups, channels, maps, positions = w[8], w[9], w[10], w[11], w[12]
        in_place, at_once, rows_at_once, pieces = w[1], w[16], w[17], w[18]
        rest = positions - in_place
        pitch, last = at_once * rest, (in_place - 1) // columns * columns
        whole = in_place == 0 and at_once == 1  # one image is collected: its results lie as they are to stay
        # Workspace: blocks of the pieces, starts of the sums, a panel of x, what is collected, its results.
        inner = w[6] + part * w[7]
        copying = inner + block_bytes
        starts_at = copying + block_bytes
        panel_at = starts_at + 4 * rows_at_once * columns
        collected_at = panel_at + 4 * channels * columns
        results_at = collected_at + 4 * channels * pitch
        q = words(inner)
        unit, end = groups * pieces * images * part // parts, groups * pieces * images * (part + 1) // parts
        while unit < end:
            outer = unit // images
            first_image = unit - outer * images
            group = outer // pieces
            first = (outer - group * pieces) * rows_at_once
            rows = min(rows_at_once, maps - first)
            after = min(images, first_image + end - unit)
            unit += after - first_image
            fill_starts(w[4], group * maps + first, rows, starts_at)
            q[0], q[1], q[3], q[4] = channels, rows, w[3] + 4 * (group * w[15] + first * w[13]), w[13]
            q[7], q[10], q[11], q[12], q[13], q[15] = columns, starts_at, columns, 0, panel_at, w[14]
            for image in range(first_image, after):
                x = w[2] + 4 * (image * groups + group) * channels * w[22] * w[23]
                y = w[5] + 4 * ((image * groups + group) * maps + first) * positions
                number = (image - first_image) % max(1, at_once)
                if rest != 0 and number == 0:
                    taken = min(at_once, after - image)
                    collect(w, copying, block, x, taken, collected_at, pitch)
                    multiply(w, inner, collected_at, pitch, taken * rest, 0, y if whole else results_at, pitch)
                following = groups * channels * positions - last if image + 1 < after else 0
                multiply(w, inner, x, positions, in_place, following, y, positions)
                if rest != 0 and not whole:
                    copy_rows((results_at + 4 * number * rest, pitch, y + 4 * in_place, positions, rows, rest))
                if w[19] != 0:
                    start = ((image * groups + group) * maps + first) * positions
                    call3(w[19], w[20], start, start + rows * positions)
        return 0

    return pointwise


POINTWISE = Kernel("pointwise", _build)


def prepare(problem: Problem, arguments: Sequence[int]) -> Prepared:
    """The convolution of a problem; arguments: those of `convolution_lanes.prepare`."""
    p, lanes = problem, host_lanes()
    strided = p.stride != (1, 1)
    work_us = 2.0 * p.images * p.groups * p.channels * p.maps * p.positions / _FLOPS_PER_US
    tiles = -(-p.maps // lanes.rows)
    parts = share_count(work_us, p.groups * p.images * -(-tiles // 4))
    rows = min(_MOST_MAPS, max(4 * lanes.rows, _WEIGHT_BYTES // (4 * p.channels)))
    pieces = -(-p.maps // rows)
    if p.groups * p.images * pieces < parts:
        pieces = -(-parts // (p.groups * p.images))
    rows = -(-tiles // pieces) * lanes.rows
    pieces = -(-p.maps // rows)
    parts = min(parts, p.groups * p.images * pieces)
    per_share = -(-p.images * p.groups * pieces // parts)
    in_place, at_once = _collected(p, rows, min(p.images, per_share))
    pitch = at_once * (p.positions - in_place)
    floats = (rows + p.channels) * (lanes.columns + pitch)
    share_bytes = -(-(16 * BLOCK_WORDS + 4 * floats) // 64) * 64
    parts = fitting_shares(parts, share_bytes)
    words = [
        MULTIPLY_ROWS.address(),
        in_place,
        0,
        0,
        0,
        0,
        0,
        share_bytes,
        p.images,
        p.groups,
        p.channels,
        p.maps,
        p.positions,
    ]
    words += [*p.weight, p.maps * p.channels, at_once, rows, pieces, 0, 0]
    words += [COPY_IMAGES.address() if strided else 0, *p.source, *p.stride, 0, 0, p.result[1]]
    assert words[_PHASE : _PHASE + 2] == [0, 0]
    workspace = share_bytes * parts
    if strided:
        note = f"1x1, {at_once} images at once"
    else:
        note = f"1x1, images in place, rest of {at_once} at once" if pitch else "1x1, images in place"
    return launch(POINTWISE, words, arguments, parts=parts, workspace=workspace, after={0: 19}, note=note)


def _collected(p: Problem, rows: int, most: int) -> tuple[int, int]:
    """How many positions are multiplied in place, and of how many images the rest is collected: 0 if there is none."""
    columns = host_lanes().columns
    strided = p.stride != (1, 1)
    whole = 0 if strided else p.positions // columns * columns
    rest = p.positions - whole
    most = min(most, _COLLECTED_BYTES // (4 * max(1, rest) * (p.channels + rows)))
    if rest == 0 or most < 2:
        return (0, 1) if strided else (p.positions, 0)

    def cost(images: int) -> float:
        """Panels per image."""
        wide, left = divmod(images * rest, columns)
        last = 0.0 if left == 0 else _SLIM_COST if left <= host_lanes().vector else 1.0
        return whole / columns + (wide + last) / images

    best = min(cost(images) for images in range(1, most + 1))
    images = next(n for n in range(1, most + 1) if cost(n) <= 1.002 * best)
    images = -(-most // -(-most // images))
    return (whole, images) if strided or images > 1 else (p.positions, 0)
