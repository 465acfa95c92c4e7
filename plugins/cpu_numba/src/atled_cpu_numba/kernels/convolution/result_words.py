"""Results and the taps that they see, as words of an argument block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

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


def tap_words(taps: Sequence[Tap], offset: Callable[[Tap], int]) -> list[int]:
    """The words of some taps; one name at a time, for there may be hundreds of taps."""
    words = [0] * (TAP_WORDS * len(taps))
    words[TapWords.offset :: TAP_WORDS] = [offset(tap) for tap in taps]
    words[TapWords.place :: TAP_WORDS] = [tap.place for tap in taps]
    return words


def result_words(results: Iterable[Result], offset: Callable[[Tap], int]) -> list[int]:
    """The words of all results with their taps."""
    words = []
    for found in results:
        words += filled(
            ResultWords,
            taps=len(found.taps),
            start_row=found.start[0],
            start_column=found.start[1],
            rows=found.counts[0],
            columns=found.counts[1],
        )
        words += tap_words(found.taps, offset)
    return words
