"""Convolutions over three axes and more as convolutions over two: what becomes of the axes in front.

Axes that change nothing are merged first. Then a slice of the result, one place of it along the leading axes, sees one
slice of the source through each leading place of the kernel, a *leading tap*: it is a result over two axes, of as many
source planes as there are channels times leading taps.
Taps that see padding alone are left out where enough slices have them in common.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from atled.plugin import NamedTuple
from atled_cpu_numba.kernels.shared.geometry import Pair

OUTSIDE = -1  # a slice of the source that is padding
_SLICE = -1  # beside the taps: the slice itself


class Axis(NamedTuple):
    """An axis of a convolution or its adjoint: elements of the source and of the result, attributes of the windows."""

    source: int
    result: int
    kernel: int
    pad: int
    stride: int
    dilation: int

    @property
    def is_passed_through(self) -> bool:
        """Whether the result's elements see the source's one by one."""
        return (self.kernel, self.pad) == (1, 0) and (self.stride == 1 or self.source == self.result == 1)


class Phase(NamedTuple):
    """Slices of the result that are computed with the same leading taps.

    taps: their places in the flattened leading axes of the kernel; none if nothing is seen.
    slices: of each its place in the flattened leading axes of the result, then of what it sees through each tap, the
        place in those of the source, or OUTSIDE.
    """

    taps: tuple[int, ...]
    slices: tuple[tuple[int, ...], ...]


def merge_axes(axes: Iterable[Axis]) -> tuple[Axis, ...]:
    """The axes of the same convolution, fewer if possible where they are more than two; at least one."""
    given = tuple(axes)
    if len(given) <= 2:
        return given
    merged: list[Axis] = []
    for axis in given:
        if axis.is_passed_through and axis.source == 1:
            continue
        if axis.is_passed_through and merged and merged[-1].is_passed_through:
            size = merged.pop().source * axis.source
            merged.append(Axis(size, size, 1, 0, 1, 1))
        else:
            merged.append(axis)
    return tuple(merged) or given[-1:]


def two_axes(axes: Sequence[Axis]) -> tuple[Pair, ...]:
    """Pairs for height and width of source, result, kernel, pad, stride and dilation; one axis gets the height 1."""
    height, width = (Axis(1, 1, 1, 0, 1, 1), *axes)[-2:]
    return tuple(zip(height, width, strict=True))


def extents(axes: Sequence[Axis]) -> tuple[int, int, int]:
    """How many places the kernel, the source and the result have along all the axes together."""
    return (
        math.prod(axis.kernel for axis in axes),
        math.prod(axis.source for axis in axes),
        math.prod(axis.result for axis in axes),
    )


def leading_phases(axes: Sequence[Axis], *, forward: bool, least: int) -> tuple[Phase, ...]:
    """The slices of a convolution's result or, not `forward`, of its adjoint's; `axes` without the last two.

    least: where fewer slices see the same, they are computed together with others that see more.
    """
    phases: dict[tuple[int, ...], list[dict[int, int]]] = {}
    per_axis = [[_seen(axis, place, forward=forward) for place in range(axis.result)] for axis in axes]
    for number, seen in enumerate(itertools.product(*per_axis)):
        found = list(itertools.product(*seen))
        taps = [_flat([tap for tap, _ in of_axes], [axis.kernel for axis in axes]) for of_axes in found]
        places = [_flat([place for _, place in of_axes], [axis.source for axis in axes]) for of_axes in found]
        phases.setdefault(tuple(taps), []).append({_SLICE: number, **dict(zip(taps, places, strict=True))})
    for few in sorted(phases, key=len):
        wider = [more for more in phases if set(few) < set(more)]
        if few and wider and len(phases[few]) < least:
            phases[min(wider, key=len)] += phases.pop(few)
    return tuple(
        Phase(taps, tuple(tuple(found.get(key, OUTSIDE) for key in (_SLICE, *taps)) for found in slices))
        for taps, slices in phases.items()
    )


def pair_count(phases: Sequence[Phase]) -> int:
    """How many pairs of a slice and a leading tap are computed."""
    return sum(len(phase.taps) * len(phase.slices) for phase in phases)


def slices_note(axes: Sequence[Axis], pieces: int, at_once: int, taps: int) -> str:
    """What is said of a call whose groups are `pieces`; `axes`: the leading ones."""
    pieces_note = "group by group, " if pieces > 1 else ""
    return pieces_note + (f"{at_once} slices at once of {taps} leading taps" if axes else f"{at_once} images at once")


def one_tap_each(phases: Sequence[Phase]) -> tuple[Phase, ...]:
    """For each leading tap the slices that see something through it."""
    pairs: dict[int, list[tuple[int, ...]]] = {}
    for phase in phases:
        for number, *places in phase.slices:
            for tap, place in zip(phase.taps, places, strict=True):
                if place != OUTSIDE:
                    pairs.setdefault(tap, []).append((number, place))
    return tuple(Phase((tap,), tuple(slices)) for tap, slices in pairs.items())


def _seen(axis: Axis, place: int, *, forward: bool) -> list[Pair]:
    """What a place of the result sees along one axis: pairs of a tap and a place in the source."""
    pairs = []
    for tap in range(axis.kernel):
        if forward:
            at, rest = place * axis.stride - axis.pad + tap * axis.dilation, 0
        else:
            at, rest = divmod(place + axis.pad - tap * axis.dilation, axis.stride)
        if rest == 0 and 0 <= at < axis.source:
            pairs.append((tap, at))
    return pairs


def _flat(place: Sequence[int], sizes: Sequence[int]) -> int:
    """The place in the flattened axes."""
    return sum(i * math.prod(sizes[axis + 1 :]) for axis, i in enumerate(place))
