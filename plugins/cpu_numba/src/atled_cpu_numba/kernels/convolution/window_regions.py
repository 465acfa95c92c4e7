"""Which taps lie in the padding: regions of a result's columns, and rows, whose windows do not see them.

Taps far apart leave a small image soon: with dilation 12, windows on 32 x 32 elements see .56 of 3 x 3 taps, and with a
kernel of 7 x 1 on 17 rows .9. What no window of a region sees is neither collected nor multiplied. Rows need not be
divided: a tile of windows, which are some rows, leaves out what lies above or below the image for all of them. A tap
that some windows of a tile see finds zeros beside the image.
"""

from __future__ import annotations

import itertools

from atled.plugin import NamedTuple
from atled_cpu_numba.kernels.shared.geometry import Layout, Pair, Result, layout_of

_Span = tuple[int, int]  # the first window of an axis and the one behind the last one

_WORTHWHILE = 0.93  # of the tiles' time: collecting tap by tap reads planes from farther away
_WORTH_DIVIDING = 0.9  # the same of regions, whose rows are moved to the result in pieces
_NARROW_TILE = 2 / 3  # the same of a tile of fewer vectors: its sums are too few to hide how long each takes


class Regions(NamedTuple):
    """A result, in regions or whole, and the planes that it sees.  share: of the tiles' products, those computed."""

    planes: Layout
    results: tuple[Result, ...]
    share: float


def regions(
    planes: Layout, results: tuple[Result, ...], images: int, sizes: Pair, columns: int, vector: int
) -> Regions | None:
    """A single result, in regions if that pays; None where leaving out taps does not pay.

    sizes: of the source's images.  columns: of a tile, in whole vectors.
    """
    if len(results) != 1:
        return None
    (whole,) = results
    # Tiles that leave out taps hold windows of one image: no result depends on which images are computed at once.
    everything = len(whole.taps) * _tiles(images * whole.counts[0] * whole.counts[1], columns, vector) / images
    divided = tuple(
        _region(planes, whole, sizes, span) for span in _spans(_seen(planes, whole, sizes, 1), whole.counts[1])
    )
    best, least, share = None, everything, 1.0
    for found, worthwhile in ((results, _WORTHWHILE), (divided, _WORTH_DIVIDING)):
        cost = sum(_cost(planes, region, sizes, columns, vector) for region in found)
        if cost / worthwhile < least:
            best, least, share = found, cost / worthwhile, cost / everything
    if best is None:
        return None
    plane = -(-sizes[0] // planes.stride[0]), -(-sizes[1] // planes.stride[1])
    return Regions(layout_of(planes.phases, planes.stride, plane, best), best, share)


def seen_rows(planes: Layout, found: Result, sizes: Pair) -> list[tuple[int, int, int]]:
    """The rows of windows that see something through its taps, in order: the first, the one behind the last, taps."""
    grouped = itertools.groupby(_seen(planes, found, sizes, 0))
    return [(top, bottom, len(list(group))) for (top, bottom), group in grouped]


def _seen(planes: Layout, found: Result, sizes: Pair, axis: int) -> list[_Span]:
    """Per tap the windows of an axis that see something through it."""
    spans = []
    for tap in found.taps:
        shift, elements = (tap.row, tap.column)[axis], sizes[axis] - planes.phases[tap.phase][axis]
        elements = -(-elements // planes.stride[axis])
        first = min(found.counts[axis], max(0, -shift))
        spans.append((first, max(first, min(found.counts[axis], elements - shift))))
    return spans


def _spans(seen: list[_Span], count: int) -> list[_Span]:
    """An axis, divided where a tap begins or ceases to see something."""
    return list(itertools.pairwise(sorted({0, count, *itertools.chain(*seen)})))


def _region(planes: Layout, whole: Result, sizes: Pair, span: _Span) -> Result:
    """The windows of some columns, with the taps that some of them see."""
    left, right = span
    taps = tuple(
        tap._replace(column=tap.column + left)
        for tap, (first, after) in zip(whole.taps, _seen(planes, whole, sizes, 1), strict=True)
        if max(left, first) < min(right, after)
    )
    return Result(taps, (whole.start[0], whole.start[1] + left), (whole.counts[0], right - left))


def _cost(planes: Layout, found: Result, sizes: Pair, columns: int, vector: int) -> float:
    """Tiles of one image times the taps that they see."""
    rows, along = found.counts
    whole, cost = _tiles(rows * along, columns, vector), 0.0
    unfilled = whole - rows * along / columns
    for top, bottom, taps in seen_rows(planes, found, sizes):
        if top == bottom:
            continue
        # At an edge within the image half a tile more, in the mean; at the last one what is missing of the last tile.
        more = 0.5 * (top > 0) + (0.5 if bottom < rows else unfilled)
        cost += taps * min(whole, (bottom - top) * along / columns + more)
    return cost


def _tiles(windows: int, columns: int, vector: int) -> float:
    tiles, rest = divmod(windows, columns)
    return tiles + (0.0 if rest == 0 else _NARROW_TILE if rest <= columns - vector else 1.0)
