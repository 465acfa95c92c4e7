"""The steps of `window_panels`, as pieces to be inlined in its kernel.

Importing this module imports numba; so it is imported only inside the function that builds the kernel.
"""

from __future__ import annotations

from collections.abc import Callable

from atled_cpu_numba.codegen import call3, words
from atled_cpu_numba.kernels.convolution.lane_tiles import make_interleave_rows
from atled_cpu_numba.kernels.convolution.panel_words import SPAN_WORDS, Block, SpanWords
from atled_cpu_numba.kernels.convolution.result_words import (
    FIRST_OFFSET,
    FIRST_PLACE,
    RESULT_WORDS,
    TAP_WORDS,
    ResultWords,
)
from atled_cpu_numba.kernels.products.panels import Pack
from atled_cpu_numba.kernels.products.tiles import make_panel_tile
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.options import Real, piece
from atled_cpu_numba.kernels.shared.vectors import make_copy_rows, make_copy_rows_plus

_MAPS_AT_ONCE = 240  # their weights stay in the level-2 cache beside the windows
_LEAST_INTERLEAVED = 4  # elements that `interleave_rows` takes


def make_fill_offsets() -> Callable[..., None]:
    """fill_offsets(w, offsets): where what a window sees lies in the planes, from its position.

    Per result, channel and tap, or tap and channel.
    """

    @piece
    def fill_offsets(w, offsets):
        channels, channel_length, front = w[Block.channels], w[Block.channel_length], w[Block.front]
        by_taps = w[Block.by_taps] != 0
        at, done = w[Block.results_at], 0
        for _ in range(w[Block.results]):
            taps = w[at + ResultWords.taps]
            channel_step, tap_step = (1, channels) if by_taps else (taps, 1)
            for channel in range(channels):
                for t in range(taps):
                    offset = channel * channel_length + front + w[at + FIRST_OFFSET + TAP_WORDS * t]
                    offsets[done + channel * channel_step + t * tap_step] = offset
            done += channels * taps
            at += RESULT_WORDS + TAP_WORDS * taps

    return fill_offsets


def make_pack_weights(dtype: str) -> Callable[..., None]:
    """pack_weights(w, inner, group, packed_at): panels of the group's weights, for sums channel by channel.

    For each result, in the order of its channels and taps.  inner: memory for the block of PACK.
    """
    element, floats, tile_rows = SIZES[dtype], Real(dtype).pointer, lanes_of(dtype).rows

    @piece
    def pack_weights(w, inner, group, packed_at):
        channels, maps, weight_map = w[Block.channels], w[Block.maps], w[Block.weight_map]
        weights = w[Block.weight] + element * group * w[Block.group_weights]
        if w[Block.pack] != 0:  # they lie in this order already
            q = words(inner)
            q[Pack.source], q[Pack.row], q[Pack.column], q[Pack.rows] = weights, weight_map, 1, maps
            q[Pack.k], q[Pack.target], q[Pack.width] = channels * w[Block.taps], packed_at, tile_rows
            call3(w[Block.pack], inner, 0, 1)
            return
        panels = (maps + tile_rows - 1) // tile_rows
        for first in range(0, maps, tile_rows):
            for channel in range(channels):
                start = weights + element * (first * weight_map + channel * w[Block.weight_channel])
                at, panels_at = w[Block.results_at], packed_at
                for _ in range(w[Block.results]):
                    taps = w[at + ResultWords.taps]
                    target = floats(panels_at + element * (first * channels + channel * tile_rows) * taps)
                    for t in range(taps):
                        source = floats(start + element * w[at + FIRST_PLACE + TAP_WORDS * t])
                        if maps - first >= tile_rows:  # a constant number of rows takes half the time
                            for r in range(tile_rows):
                                target[t * tile_rows + r] = source[r * weight_map]
                        else:
                            for r in range(maps - first):
                                target[t * tile_rows + r] = source[r * weight_map]
                    panels_at += element * panels * tile_rows * channels * taps
                    at += RESULT_WORDS + TAP_WORDS * taps

    return pack_weights


def make_pack_by_taps(dtype: str) -> Callable[..., None]:
    """pack_by_taps(w, group, packed_at): panels of the group's weights, for sums tap by tap."""
    element, floats, tile_rows = SIZES[dtype], Real(dtype).pointer, lanes_of(dtype).rows

    @piece
    def pack_by_taps(w, group, packed_at):
        channels, maps, taps, weight_map = w[Block.channels], w[Block.maps], w[Block.taps], w[Block.weight_map]
        weights = w[Block.weight] + element * group * w[Block.group_weights]
        for first in range(0, maps, tile_rows):
            for channel in range(channels):
                source = floats(weights + element * (first * weight_map + channel * w[Block.weight_channel]))
                target = floats(packed_at + element * (first * taps * channels + channel * tile_rows))
                for t in range(taps):
                    for r in range(min(tile_rows, maps - first)):
                        target[t * channels * tile_rows + r] = source[r * weight_map + t]

    return pack_by_taps


def make_fill_ranges(dtype: str) -> Callable[..., tuple[int, int]]:
    """fill_ranges(w, spans_at, spans, columns, p0, length, ranges): which terms the tiles of some windows see.

    Per tile of `length` windows from p0 on: the first of the terms that some of them see, and the one behind the last.
    Returns the same for all these windows. With several images at once there is one span, of all terms.
    """
    tile_columns = lanes_of(dtype).columns

    @piece
    def fill_ranges(w, spans_at, spans, columns, p0, length, ranges):
        lowest, highest = 0, 0
        for tile in range((length + tile_columns - 1) // tile_columns):
            begin = p0 + tile * tile_columns
            top, bottom = begin // columns, (min(begin + tile_columns, p0 + length) - 1) // columns
            first, after = 0, 0
            for number in range(spans):
                at = spans_at + SPAN_WORDS * number
                if spans == 1 or (w[at + SpanWords.top] <= bottom and w[at + SpanWords.bottom] > top):
                    first = w[at + SpanWords.first] if after == 0 else first
                    after = w[at + SpanWords.after]
            ranges[2 * tile], ranges[2 * tile + 1] = first, after
            if after > first:
                lowest = min(lowest, first) if highest > 0 else first
                highest = max(highest, after)
        return lowest, highest

    return fill_ranges


def make_multiply(dtype: str) -> Callable[..., None]:
    """multiply(terms, first_term, k, first_map, last_map, length, weights, windows_at, pitch, ranges, sums_at).

    sums += weights x windows for some terms.  weights: of these terms in the first panel of all.
    """
    element, lanes = SIZES[dtype], lanes_of(dtype)
    vector, tile_rows, tile_columns = lanes.vector, lanes.rows, lanes.columns
    third, two_thirds = tile_rows // 3, 2 * tile_rows // 3
    wide = tile_columns // vector
    full, full_slim = (make_panel_tile(tile_rows, v, dtype, packed_rows=tile_rows) for v in (wide, 1))
    lower, lower_slim = (make_panel_tile(two_thirds, v, dtype, packed_rows=tile_rows) for v in (wide, 1))
    lowest, lowest_slim = (make_panel_tile(third, v, dtype, packed_rows=tile_rows) for v in (wide, 1))

    @piece
    def multiply(terms, first_term, k, first_map, last_map, length, weights, windows_at, pitch, ranges, sums_at):
        ahead = tile_rows * k  # the same terms of the next panel
        for m0 in range(first_map, last_map, _MAPS_AT_ONCE):
            m1 = min(last_map, m0 + _MAPS_AT_ONCE)
            for j in range(0, length, tile_columns):
                tile = j // tile_columns
                skipped = max(0, ranges[2 * tile] - first_term)
                seen = min(terms, ranges[2 * tile + 1] - first_term) - skipped
                if seen <= 0:
                    continue
                b = windows_at + element * (j + skipped * pitch)
                slim = length - j <= vector
                for first in range(m0, m1, tile_rows):
                    left = last_map - first
                    a = weights + element * (first * k + tile_rows * skipped)
                    c = sums_at + element * ((first - first_map) * pitch + j)
                    if left > two_thirds:
                        if slim:
                            full_slim((seen, a, b, pitch, c, pitch, ahead))
                        else:
                            full((seen, a, b, pitch, c, pitch, ahead))
                    elif left > third:
                        if slim:
                            lower_slim((seen, a, b, pitch, c, pitch, ahead))
                        else:
                            lower((seen, a, b, pitch, c, pitch, ahead))
                    elif slim:
                        lowest_slim((seen, a, b, pitch, c, pitch, ahead))
                    else:
                        lowest((seen, a, b, pitch, c, pitch, ahead))

    return multiply


def make_deliver(dtype: str) -> Callable[..., None]:
    """deliver(w, at, group, first_image, first_map, last_map, p0, length, sums_at, other_at, pitch).

    Moves the sums of `length` windows from p0 on to y, plus the bias.  at: word of their result.
    other_at: sums of the result in the columns between, or 0.
    """
    element, floats = SIZES[dtype], Real(dtype).pointer
    copy_rows, copy_rows_plus = make_copy_rows(dtype), make_copy_rows_plus(dtype)
    interleave_rows = make_interleave_rows(dtype)

    @piece
    def scatter(source, count, target, step, added):
        """Move some elements to places `step` apart."""
        x, y = floats(source), floats(target)
        for j in range(count):
            y[j * step] = x[j] + added

    @piece
    def deliver(w, at, group, first_image, first_map, last_map, p0, length, sums_at, other_at, pitch):
        maps, plane, step_w = last_map - first_map, w[Block.plane], w[Block.step_w]
        rows, columns = w[at + ResultWords.rows], w[at + ResultWords.columns]
        step_h, width = w[Block.step_h], w[Block.result_width]
        if step_w == 1 and rows * columns == plane:  # an image's rows are one
            rows, columns = 1, plane
        bias = w[Block.bias] + element * (group * w[Block.maps] + first_map)
        done = 0
        line = p0 // columns
        column = p0 - line * columns
        while done < length:
            image = line // rows
            row = line - image * rows
            count = min(columns - column, length - done)
            target = ((first_image + image) * w[Block.groups] + group) * w[Block.maps] + first_map
            target = target * plane + (row * step_h + w[at + ResultWords.start_row]) * width
            target += column * step_w + w[at + ResultWords.start_column]
            target, source = w[Block.y] + element * target, sums_at + element * done
            if step_w == 1 and w[Block.bias] != 0:
                copy_rows_plus((source, pitch, target, plane, maps, count, bias))
            elif step_w == 1:
                copy_rows((source, pitch, target, plane, maps, count))
            else:
                for m in range(maps):
                    added = floats(bias)[m] if w[Block.bias] != 0 else 0.0
                    beside = source + other_at - sums_at
                    if other_at == 0:
                        scatter(source, count, target, step_w, added)
                    elif w[Block.bias] != 0 or count < _LEAST_INTERLEAVED:
                        scatter(source, count, target, 2, added)
                        scatter(beside, count, target + element, 2, added)
                    else:
                        interleave_rows((source, beside, count, target, 0, 1))
                    source += element * pitch
                    target += element * plane
            done += count
            line, column = line + 1, 0

    return deliver
