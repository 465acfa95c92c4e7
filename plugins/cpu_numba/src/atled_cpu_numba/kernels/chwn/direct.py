"""Convolution and its adjoint as direct sums, for images with the batch innermost, in float32: any kernel and steps.

The same element of many images is a vector. For each position of the result a table is made of the taps that see
something there; so padding and strides cost nothing.

In memory the elements that a position sees of two vectors of images lie a batch apart, a power of two of bytes as a
rule: they share a few sets of the caches and drive each other out before the next position, or the next tile of maps,
reads them. So a piece of the result and of the batch, of two vectors of images, is made from a copy in which these lie
beside one another, where that fits the level-2 cache.

Shares are made of pieces; each packs all weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import NamedTuple, Prepared
from atled_cpu_numba.kernels.chwn.axes import AXIS_WORDS, AxisWords, put_axes
from atled_cpu_numba.kernels.chwn.problem import Problem
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, launch, optional_words, piece_starts, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.kernels.shared.leading_axes import Axis
from atled_cpu_numba.store import Kernel

_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_LEAST_IMAGES = 64  # times positions of a share: below, packing the weights takes too long
_COPY_BYTES = 256 << 10  # of what is copied at once: half of the smallest level-2 caches
_LEAST_COLUMNS = 8  # of a piece that is made from a copy: fewer share too little of what they see


@layout
class Block:
    """What the kernel reads; strides in elements, starts in bytes from a share's workspace."""

    x: int  # address of x or gy
    weight: int
    bias: int  # or 0
    y: int  # or gx
    workspace: int
    share_bytes: int
    forward: int  # 0: the adjoint
    images: int
    channels: int
    maps: int
    depth: int = AXIS_WORDS
    height: int = AXIS_WORDS
    width: int = AXIS_WORDS
    x_channel: int
    y_image: int
    y_map: int
    weight_map: int
    weight_channel: int
    rows_at_once: int  # of the result, in a piece
    columns_at_once: int
    images_at_once: int
    copied: int  # whether pieces are made from copies
    weights_start: int
    bias_start: int
    table_start: int
    stage_start: int
    copy_start: int


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats32, words
    from atled_cpu_numba.kernels.chwn.products import make_tap_tile
    from atled_cpu_numba.kernels.chwn.tiles import make_put, make_taken
    from atled_cpu_numba.kernels.shared.options import inlined, kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import make_copy

    lanes = host_lanes()
    vector, rows = lanes.vector, lanes.rows
    third, two_thirds = rows // 3, 2 * rows // 3
    full = make_tap_tile(rows, 2, packed_rows=rows)
    lower = make_tap_tile(two_thirds, 2, packed_rows=rows)
    lowest = make_tap_tile(third, 2, packed_rows=rows)
    slim = make_tap_tile(rows, 1, packed_rows=rows)
    put, taken, copy = make_put(), make_taken(), make_copy(vector)

    @piece
    def pack_weights(w, depth, height, width, target, bias_at):
        """Per tile, tap in the order of `find_taps` and channel: `rows` weights, as many of them as it has maps."""
        channels, maps = w[Block.channels], w[Block.maps]
        lines, in_line = height[AxisWords.kernel], width[AxisWords.kernel]
        taps = depth[AxisWords.kernel] * lines * in_line
        bias = floats32(bias_at)
        for i in range(maps):
            bias[i] = floats32(w[Block.bias])[i] if w[Block.bias] != 0 else 0.0
        first = 0
        while first < maps:
            known = taken(maps - first)
            for tap in range(taps):
                a, b, c = tap // (lines * in_line), tap // in_line % lines, tap % in_line
                c = c if w[Block.forward] != 0 else in_line - 1 - c
                start = a * depth[AxisWords.weight] + b * height[AxisWords.weight] + c * width[AxisWords.weight]
                start += first * w[Block.weight_map]
                packed = floats32(target + 4 * rows * tap * channels)
                for channel in range(channels):
                    at = w[Block.weight] + 4 * (start + channel * w[Block.weight_channel])
                    for i in range(known):
                        packed[channel * rows + i] = floats32(at + 4 * i * w[Block.weight_map])[0]
            first += known
            target += 4 * rows * taps * channels

    @piece
    def seen(forward, axis, place, tap):
        """The element of the source that a place of the result sees through a tap of one axis, or -1."""
        if forward != 0:
            at = place * axis[AxisWords.stride] - axis[AxisWords.pad] + tap * axis[AxisWords.dilation]
        else:
            from_first = place + axis[AxisWords.pad] - tap * axis[AxisWords.dilation]
            at = from_first // axis[AxisWords.stride]
            if at * axis[AxisWords.stride] != from_first:
                at = -1
        return at if at < axis[AxisWords.source] else -1

    @inlined
    def vectors_of(images, image):
        """The first images of two vectors; the last vector overlaps the one before it."""
        return min(image, images - vector), min(image + vector, images - vector)

    @piece
    def span(forward, axis, first, last):
        """Begin and end of the elements of the source between which places `first` to `last` of the result see all."""
        reach = (axis[AxisWords.kernel] - 1) * axis[AxisWords.dilation]
        if forward != 0:
            begin = first * axis[AxisWords.stride] - axis[AxisWords.pad]
            end = last * axis[AxisWords.stride] - axis[AxisWords.pad] + reach + 1
        else:
            begin = -(-(first + axis[AxisWords.pad] - reach) // axis[AxisWords.stride])
            end = (last + axis[AxisWords.pad]) // axis[AxisWords.stride] + 1
        return max(begin, 0), min(end, axis[AxisWords.source])

    @piece
    def sees_all(forward, axis, place):
        """Whether a place of the result sees an element of the source through each tap of one axis."""
        last = axis[AxisWords.kernel] - 1
        if forward == 0 and axis[AxisWords.stride] > 1:
            return False  # or every so often; then another place sees through other taps
        return seen(forward, axis, place, 0) >= 0 and seen(forward, axis, place, last) >= 0

    @piece
    def find_taps(w, depth, height, width, place, steps, x_channel, table):
        """Fills the table for a position, `place` along each axis; how many entries there are.

        Taps of a line go in the order of what they see. Neighbours that see elements whose channels follow each other
        in memory are one entry: with few channels there is more to do between two entries than within one.
        steps: from element to element of the source, along each axis.
        """
        forward, channels = w[Block.forward], w[Block.channels]
        count, number, follows = 0, 0, steps[2] == channels * x_channel
        for i in range(depth[AxisWords.kernel]):
            d = seen(forward, depth, place[0], i)
            for j in range(height[AxisWords.kernel]):
                h, last = seen(forward, height, place[1], j), -1
                for k in range(width[AxisWords.kernel]):
                    e = seen(forward, width, place[2], k if forward != 0 else width[AxisWords.kernel] - 1 - k)
                    if d >= 0 and h >= 0 and e >= 0:
                        if follows and last >= 0 and e == last + 1:
                            table[3 * count - 1] += channels
                        else:
                            table[3 * count] = d * steps[0] + h * steps[1] + e * steps[2]
                            table[3 * count + 1] = number * rows * channels
                            table[3 * count + 2] = channels
                            count += 1
                        last = e
                    else:
                        last = -1
                    number += 1
        return count

    @piece
    def copy_seen(w, depth, height, width, x0, x1, planes, lines, columns, target):
        """Two vectors of all channels, for planes, lines and columns of the source from begin to end, side by side."""
        channels, count = w[Block.channels], columns[1] - columns[0]
        pair, x_channel, x_column = 4 * 2 * vector, 4 * w[Block.x_channel], 4 * width[AxisWords.x]
        for d in range(planes[0], planes[1]):
            for h in range(lines[0], lines[1]):
                at = 4 * (d * depth[AxisWords.x] + h * height[AxisWords.x]) + columns[0] * x_column
                for channel in range(channels):
                    source0, source1, to = x0 + at, x1 + at, target + pair * channel
                    for _ in range(count):
                        copy((source0, to))
                        copy((source1, to + 4 * vector))
                        source0, source1, to = source0 + x_column, source1 + x_column, to + pair * channels
                    at += x_channel
                target += pair * channels * count

    @kernel
    def chwn_direct(block, part, parts):
        w = words(block)
        depth, height = words(block + 8 * Block.depth), words(block + 8 * Block.height)
        width = words(block + 8 * Block.width)
        forward, images, channels, maps = w[Block.forward], w[Block.images], w[Block.channels], w[Block.maps]
        inner = w[Block.workspace] + part * w[Block.share_bytes]
        weights, bias = inner + w[Block.weights_start], inner + w[Block.bias_start]
        table, stage = inner + w[Block.table_start], inner + w[Block.stage_start]
        copied, seen_at = w[Block.copied] != 0, inner + w[Block.copy_start]
        per_row, per_plane = width[AxisWords.result], height[AxisWords.result]
        in_piece = w[Block.rows_at_once], w[Block.columns_at_once], w[Block.images_at_once]
        row_pieces, column_pieces = -(-per_plane // in_piece[0]), -(-per_row // in_piece[1])
        image_pieces = -(-images // in_piece[2])
        units = depth[AxisWords.result] * row_pieces * column_pieces * image_pieces
        u0, u1 = units * part // parts, units * (part + 1) // parts
        if u0 == u1:
            return 0
        pack_weights(w, depth, height, width, weights, bias)
        per_tile = 4 * rows * depth[AxisWords.kernel] * height[AxisWords.kernel] * width[AxisWords.kernel] * channels
        in_place = w[Block.y_image] == 1
        map_step = w[Block.y_map] if in_place else 2 * vector
        for unit in range(u0, u1):
            place = unit // image_pieces
            i0, c0 = unit % image_pieces * in_piece[2], place % column_pieces * in_piece[1]
            b0, a = place // column_pieces % row_pieces * in_piece[0], place // column_pieces // row_pieces
            b1, c1 = min(b0 + in_piece[0], per_plane), min(c0 + in_piece[1], per_row)
            x0, x1, x_channel = w[Block.x], w[Block.x], w[Block.x_channel]
            steps = (depth[AxisWords.x], height[AxisWords.x], width[AxisWords.x])
            if copied:
                planes, lines = span(forward, depth, a, a), span(forward, height, b0, b1 - 1)
                columns = span(forward, width, c0, c1 - 1)
                n0, n1 = vectors_of(images, i0)
                copy_seen(w, depth, height, width, x0 + 4 * n0, x1 + 4 * n1, planes, lines, columns, seen_at)
                x_channel, column = 2 * vector, 2 * vector * channels
                line = column * (columns[1] - columns[0])
                steps = (line * (lines[1] - lines[0]), line, column)
                x0 = seen_at - 4 * (planes[0] * steps[0] + lines[0] * line + columns[0] * column)
                x1 = x0 + 4 * vector
            ahead = steps[2] * (width[AxisWords.stride] if forward != 0 else 1)
            for b in range(b0, b1):
                entries, begin, known = 0, 0, False
                for c in range(c0, c1):
                    # From one position that sees through all taps of its row to the next one the table is the same.
                    whole = sees_all(forward, width, c)
                    if not (known and whole):
                        entries = find_taps(w, depth, height, width, (a, b, c), steps, x_channel, words(table))
                        begin, known = c, whole
                    shift = 4 * (c - begin) * ahead
                    y = w[Block.y] + 4 * (a * depth[AxisWords.y] + b * height[AxisWords.y] + c * width[AxisWords.y])
                    for image in range(i0, min(i0 + in_piece[2], images), 2 * vector):
                        n0, n1 = vectors_of(images, image)
                        from0 = x0 + shift + (0 if copied else 4 * n0)
                        from1 = x1 + shift + (0 if copied else 4 * n1)
                        k, start = 0, weights
                        while k < maps:
                            to0 = y + 4 * (n0 * w[Block.y_image] + k * w[Block.y_map])
                            to1 = y + 4 * (n1 * w[Block.y_image] + k * w[Block.y_map])
                            y0, y1 = (to0, to1) if in_place else (stage, stage + 4 * vector)
                            m = taken(maps - k)
                            given = (entries, table, x_channel, from0, from1, start, bias + 4 * k, y0, y1, map_step, m)
                            if image + vector >= images:
                                slim(given)
                            elif m > two_thirds:
                                full(given)
                            elif m > third:
                                lower(given)
                            else:
                                lowest(given)
                            for i in range(0 if in_place else m):
                                at = stage + 4 * i * map_step
                                put(at, to0 + 4 * i * w[Block.y_map], w[Block.y_image])
                                if image + vector < images:
                                    put(at + 4 * vector, to1 + 4 * i * w[Block.y_map], w[Block.y_image])
                            k += m
                            start += per_tile
        return 0

    return chwn_direct


CHWN_DIRECT = Kernel("chwn_direct", _build)


def prepare(problem: Problem) -> Prepared:
    """The convolution or adjoint of any problem."""
    p, lanes = problem, host_lanes()
    taps = math.prod(axis.kernel for axis in p.axes)
    tiles = -(-p.maps // lanes.rows) + 1  # the last two may share what one and a third would take
    maps = tiles * lanes.rows
    pieces = _pieces_of(p)
    starts = piece_starts(
        0,
        {
            "weights_start": 4 * maps * taps * p.channels,
            "bias_start": 4 * maps,
            "table_start": 24 * taps,
            "stage_start": 4 * lanes.rows * 2 * lanes.vector,
            "copy_start": pieces.copied_bytes,
        },
    )
    parts = fitting_shares(share_count(p.flops / _FLOPS_PER_US, _piece_count(p, pieces)), starts["share_bytes"])
    words = filled(
        Block,
        forward=int(p.forward),
        images=p.images,
        channels=p.channels,
        maps=p.maps,
        x_channel=p.source[1],
        y_image=p.result[0],
        y_map=p.result[1],
        weight_map=p.weight[0],
        weight_channel=p.weight[1],
        rows_at_once=pieces.rows,
        columns_at_once=pieces.columns,
        images_at_once=pieces.images,
        copied=int(pieces.copied_bytes > 0),
        **starts,
    )
    put_axes(words, p, (Block.depth, Block.height, Block.width))
    biased = optional_words(Block.bias, p.biases)
    return launch(
        CHWN_DIRECT,
        words,
        (Block.x, Block.weight, *biased, Block.y, Block.workspace),
        parts=parts,
        workspace=starts["share_bytes"] * parts,
        note="direct, batch innermost",
    )


class _Pieces(NamedTuple):
    """What is made at once: rows and columns of a plane of the result, of so many images.

    copied_bytes: of the copy of what a piece sees; 0: it is read in place.
    """

    rows: int
    columns: int
    images: int
    copied_bytes: int


def _pieces_of(p: Problem) -> _Pieces:
    """Pieces that fit the cache, enough of them for all shares."""
    depth, height, width = (axis.result for axis in p.axes)
    pair = 2 * host_lanes().vector
    positions = depth * height * width
    shares = share_count(p.flops / _FLOPS_PER_US, max(1, min(positions, positions * p.images // _LEAST_IMAGES)))
    # Side by side are the vectors of a batch that has no more. Of points nothing is seen twice, but by tiles of maps:
    # for 16 of them a copy takes about as long as it saves.
    if p.images not in (pair // 2, pair) and any(axis.kernel > 1 for axis in p.axes):
        found = _divided(p, _Pieces(height, width, pair, 0), shares)
        while (size := _seen_bytes(p, found)) > _COPY_BYTES and (found.rows > 1 or found.columns >= 2 * _LEAST_COLUMNS):
            rows, columns = found.rows, found.columns
            found = found._replace(rows=-(-rows // 2)) if rows > 1 else found._replace(columns=-(-columns // 2))
        if size <= _COPY_BYTES:
            return found._replace(copied_bytes=size)
    # All images at once: what lies side by side in memory is read and written soon after one another.
    return _divided(p, _Pieces(1, width, p.images, 0), shares)


def _divided(p: Problem, pieces: _Pieces, shares: int) -> _Pieces:
    """Pieces of fewer rows, then of fewer columns, if there are fewer of them than shares."""
    least = -(-shares // _piece_count(p, pieces))
    rows = max(1, pieces.rows // least)
    pieces = pieces._replace(rows=rows)
    least = -(-shares // _piece_count(p, pieces))
    return pieces._replace(columns=max(1, pieces.columns // least))


def _piece_count(p: Problem, pieces: _Pieces) -> int:
    depth, height, width = (axis.result for axis in p.axes)
    return depth * -(-height // pieces.rows) * -(-width // pieces.columns) * -(-p.images // pieces.images)


def _seen_bytes(p: Problem, pieces: _Pieces) -> int:
    """Of what a piece sees of all channels."""
    spans = map(_span, (p,) * 3, p.axes, (1, pieces.rows, pieces.columns))
    return 4 * pieces.images * p.channels * math.prod(spans)


def _span(p: Problem, axis: Axis, places: int) -> int:
    """Elements of the source that so many places of the result see, those in between included, at the most."""
    reach = (axis.kernel - 1) * axis.dilation
    seen = (places - 1) * axis.stride + reach + 1 if p.forward else (places - 1 + reach) // axis.stride + 1
    return min(axis.source, seen)
