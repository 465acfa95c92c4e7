"""The layout in which the convolution kernels read images: padded planes, in which every tap is one fixed offset.

With a stride, the elements of an image are sorted into phases by their place modulo the stride, so that neighbouring
windows see neighbouring elements; each phase of each channel is a plane of its own. In a plane, several images follow
one another. Gaps of zeros between rows and between images serve as padding on both sides: reading left of a row ends up
in the gap of the row before.

    position p = (image * image_rows + row) * row_pitch + column     of a window, or of an element
    element seen by window p through a tap: plane[front + p + offset], offset = row_shift * row_pitch + column_shift

With the columns unfolded, each column of the kernel has planes of its own, which hold the columns that it sees: then no
gap is needed between rows, which pays if rows are short and the kernel is wide.

Windows beyond the last column or row of the result are computed along with the others and dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

from atled.plugin import NamedTuple


class Tap(NamedTuple):
    """One position of the kernel, as seen by the windows of one result phase.

    phase: number of the source phase it reads.  row, column: shift against the window's position.
    place: its place in the flattened kernel.
    """

    phase: int
    row: int
    column: int
    place: int


class Result(NamedTuple):
    """Results whose windows see the same taps: where they start in the result's image, how many there are per axis."""

    taps: tuple[Tap, ...]
    start: tuple[int, int]
    counts: tuple[int, int]


class Layout(NamedTuple):
    """Everything about the planes that does not depend on the number of images.

    phases: the source phases as (row, column) modulo `stride`; with the columns unfolded, the column is that of the
        first element, may be negative, and a row ends after `row_pitch` elements.
    front: zeros before the first image.  back: elements that may be read behind the last position.
    """

    phases: tuple[tuple[int, int], ...]
    stride: tuple[int, int]
    row_pitch: int
    image_rows: int
    front: int
    back: int

    @property
    def image_pitch(self) -> int:
        """Elements from one image to the next one."""
        return self.row_pitch * self.image_rows

    def plane_length(self, images: int, slack: int) -> int:
        """Elements of a plane of so many images; up to `slack` of them may be read behind the last position."""
        length = self.front + images * self.image_pitch + self.back + slack
        length = -(-length // 16) * 16
        # Planes a multiple of 4 KiB apart would compete for the same lines of the level-1 cache.
        return length + 16 if length % 256 == 0 else length

    def offset(self, tap: Tap) -> int:
        """From the position of a window to the element it sees."""
        return tap.row * self.row_pitch + tap.column


Pair = tuple[int, int]


def windows(
    sizes: Pair, kernel: Pair, pad: Pair, stride: Pair, dilation: Pair, *, unfold: bool = False
) -> tuple[Layout, tuple[Result, ...]]:
    """How a convolution reads its input: one result, as many source phases as the taps need.

    unfold: whether the columns are to be unfolded.
    """
    counts = _counts(sizes, kernel, pad, stride, dilation)
    found = []
    for r in range(kernel[0]):
        for s in range(kernel[1]):
            (row, a), (column, b) = (
                divmod(i * d - p, step) for i, d, p, step in zip((r, s), dilation, pad, stride, strict=True)
            )
            if unfold:
                b, column = s * dilation[1] - pad[1], 0
            found.append((a, b, row, column, r * kernel[1] + s))
    phases = tuple(sorted({(a, b) for a, b, *_ in found}))
    taps = tuple(Tap(phases.index((a, b)), row, column, place) for a, b, row, column, place in found)
    results = (Result(taps, (0, 0), counts),)
    plane = -(-sizes[0] // stride[0]), counts[1] if unfold else -(-sizes[1] // stride[1])
    return layout_of(phases, stride, plane, results), results


def gradient_windows(
    sizes: Pair, kernel: Pair, pad: Pair, stride: Pair, dilation: Pair
) -> tuple[Layout, tuple[Result, ...]]:
    """How the gradient with respect to an input of size `sizes` reads gy: one result for each phase of the stride."""
    counts = _counts(sizes, kernel, pad, stride, dilation)
    results = []
    for a in range(min(stride[0], sizes[0])):
        for b in range(min(stride[1], sizes[1])):
            taps = []
            for r in range(kernel[0]):
                for s in range(kernel[1]):
                    (row, rest_row), (column, rest_column) = (
                        divmod(first + p - i * d, step)
                        for first, p, i, d, step in zip((a, b), pad, (r, s), dilation, stride, strict=True)
                    )
                    if rest_row == 0 and rest_column == 0:
                        taps.append(Tap(0, row, column, r * kernel[1] + s))
            found = (-(-(sizes[0] - a) // stride[0]), -(-(sizes[1] - b) // stride[1]))
            results.append(Result(tuple(taps), (a, b), found))
    return layout_of(((0, 0),), (1, 1), counts, tuple(results)), tuple(results)


def _counts(sizes: Pair, kernel: Pair, pad: Pair, stride: Pair, dilation: Pair) -> Pair:
    rows, columns = (
        (n + 2 * p - (d * (k - 1) + 1)) // s + 1
        for n, k, p, s, d in zip(sizes, kernel, pad, stride, dilation, strict=True)
    )
    return rows, columns


def layout_of(phases: tuple[Pair, ...], stride: Pair, plane: Pair, results: Sequence[Result]) -> Layout:
    """Planes of `plane` rows and columns, with the gaps that the results' taps need beside these."""
    gaps = []
    for axis in (0, 1):
        gap = 0
        for result in results:
            count = result.counts[axis]
            gap = max(gap, count - plane[axis])
            for tap in result.taps:
                shift = (tap.row, tap.column)[axis]
                gap = max(gap, -shift, shift + count - plane[axis])
        gaps.append(gap)
    image_rows, row_pitch = plane[0] + gaps[0], plane[1] + gaps[1]
    offsets = [tap.row * row_pitch + tap.column for result in results for tap in result.taps]
    return Layout(
        phases, stride, row_pitch, image_rows, max(0, -min(offsets, default=0)), max(0, max(offsets, default=0))
    )
