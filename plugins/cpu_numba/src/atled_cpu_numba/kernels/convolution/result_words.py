"""Results and the taps that they see, as words of an argument block."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from atled_cpu_numba.kernels.shared.geometry import Result, Tap
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of


@layout
class ResultWords:
    """A result; its taps follow, then the next result."""

    taps: int  # how many
    start_row: int  # in the result's image
    start_column: int
    rows: int
    columns: int


@layout
class TapWords:
    """A tap."""

    offset: int  # from a window's position to the element that it sees
    place: int  # in the flattened kernel


RESULT_WORDS, TAP_WORDS = size_of(ResultWords), size_of(TapWords)
# From a result to the words of its first tap.
FIRST_OFFSET, FIRST_PLACE = RESULT_WORDS + TapWords.offset, RESULT_WORDS + TapWords.place


def tap_words(taps: Iterable[Tap], offset: Callable[[Tap], int]) -> list[int]:
    """The words of some taps."""
    return [word for tap in taps for word in filled(TapWords, offset=offset(tap), place=tap.place)]


def result_words(results: Iterable[Result], offset: Callable[[Tap], int]) -> list[int]:
    """The words of all results with their taps."""
    words = []
    for found in results:
        (start_row, start_column), (rows, columns) = found.start, found.counts
        start = {"start_row": start_row, "start_column": start_column}
        words += filled(ResultWords, taps=len(found.taps), **start, rows=rows, columns=columns)
        words += tap_words(found.taps, offset)
    return words
