"""Which slices of elements each window of the leading axes sees, as a table for the kernels of `slices`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of
from atled_cpu_numba.kernels.shared.leading_axes import OUTSIDE, Axis, extents, leading_phases


@layout
class Target:
    """What the table for maxima, averages and sums has of each target slice."""

    count: int  # of sources
    pairs: int = 0  # a `Pair` each


@layout
class Pair:
    """What it has of each source of a target."""

    number: int  # the place of the window's slice, or the divisor, 1 of sums
    source: int


TARGET_WORDS, PAIR_WORDS = size_of(Target), size_of(Pair)


def pair_words(name: str, leading: Sequence[Axis], *, including_pad: bool) -> list[int]:
    """The table for maxima, averages and sums: of each target slice the sources, `Target` and `Pair` by `Pair`."""
    seen = _seen(leading)
    if name == "MaxPooling":
        pairs = seen
    else:
        divisors = [
            1 if name.startswith("Sum") else math.prod(counts)
            for counts in itertools.product(*(_counted(axis, including_pad=including_pad) for axis in leading))
        ]
        pairs = [[(divisor, source) for _, source in of_one] for divisor, of_one in zip(divisors, seen, strict=True)]
        if name.endswith("Grad"):
            windows: list[list[tuple[int, int]]] = [[] for _ in range(extents(leading)[1])]
            for number, of_one in enumerate(pairs):
                for divisor, source in of_one:
                    windows[source].append((divisor, number))
            pairs = windows
    words: list[int] = []
    for of_one in pairs:
        words += filled(Target, count=len(of_one))
        for number, source in of_one:
            words += filled(Pair, number=number, source=source)
    return words


def place_words(leading: Sequence[Axis], taps: int) -> list[int]:
    """The table for places: of each slice of windows, for each leading place of the window, the slice of elements."""
    return [dict(seen).get(tap, OUTSIDE) for seen in _seen(leading) for tap in range(taps)]


def _counted(axis: Axis, *, including_pad: bool) -> list[int]:
    """Per window of an axis, how many places count; 1 if none does."""
    margin = axis.pad if including_pad else 0
    lefts = [i * axis.stride - axis.pad for i in range(axis.result)]
    return [max(1, min(left + axis.kernel, axis.source + margin) - max(left, -margin)) for left in lefts]


def _seen(leading: Sequence[Axis]) -> list[list[tuple[int, int]]]:
    """Per slice of windows the pairs of a leading place of the window and the slice of elements there."""
    found: dict[int, list[tuple[int, int]]] = {}
    for phase in leading_phases(leading, forward=True, least=1):
        for number, *places in phase.slices:
            found[number] = list(zip(phase.taps, places, strict=True))
    return [found[number] for number in sorted(found)]
