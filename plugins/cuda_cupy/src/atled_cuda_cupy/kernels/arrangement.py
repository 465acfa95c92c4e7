"""Where the elements of one array lie in another one: axes with strides, merged, counted in units of several bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from atled_cuda_cupy.kernels.division import divisor

UNIT_BYTES = 16
"""The most that a thread loads at once."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of the array that is walked in C order; `stride` is that of the other one, in elements.

    The other array has the `count` elements from `start` on, every `step`-th; by default as many as there are places.
    """

    size: int
    stride: int
    start: int = 0
    step: int = 1
    count: int = -1

    @property
    def held(self) -> int:
        """The elements of the other array along it."""
        return self.size if self.count < 0 else self.count

    @property
    def is_whole(self) -> bool:
        """Whether each place has an element of its own."""
        return self.start == 0 and self.step == 1 and self.held == self.size


def strides(shape: Sequence[int]) -> list[int]:
    """Of a contiguous array, in elements."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def merged(axes: Sequence[Axis], *, spreads: bool = False) -> list[Axis]:
    """The same with fewer axes, at least one; spreads: whether there is nothing at places without an element."""
    kept: list[Axis] = []
    for axis in axes:
        if axis.size == 1 and axis.is_whole:
            continue
        if kept:
            outer = kept[-1]
            fits = outer.is_whole or (spreads and outer.step == 1)
            if fits and axis.is_whole and outer.stride == axis.stride * axis.size:
                inner = axis.size
                kept[-1] = Axis(outer.size * inner, axis.stride, outer.start * inner, 1, outer.held * inner)
                continue
        kept.append(axis)
    return kept or [Axis(1, 1)]


def unit_count(itemsize: int, *multiples: int) -> int:
    """How many elements make a unit: the most that divide all of the numbers."""
    return max(math.gcd(UNIT_BYTES // itemsize, *multiples), 1)


def in_units(
    axes: Sequence[Axis], itemsize: int, base: int = 0, *, spreads: bool = False
) -> tuple[list[Axis], int, int]:
    """The axes and the base counted in units, and the elements of a unit. Units lie along the last axis."""
    *outer, last = axes
    width = 1
    if last.stride == 1 and (last.is_whole or (spreads and last.step == 1)):
        width = unit_count(itemsize, base, last.size, last.start, last.held, *(axis.stride for axis in outer))
    made = [replace(axis, stride=axis.stride // width) for axis in outer]
    made.append(replace(last, size=last.size // width, start=last.start // width, count=last.held // width))
    return made, base // width, width


def division(number: int) -> tuple[int, int, int]:
    """A number, and the words by which `divided` of indexing.cuh divides by it."""
    return number, *divisor(number, is_wide=False)
