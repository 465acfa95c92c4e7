"""Winograd's F(4, 7): the transformations of a line of vectors, for seven taps along one axis.

The points of interpolation are 0, four pairs of opposite numbers and infinity. What a pair asks of a line differs only
in the sign of every second element: even and odd ones are summed once for both. All points have short binary fractions,
so that sums of elements and products have exact factors; of those tried, these round least, about as much as F(4 x 4,
3 x 3).

Like `blocks`, importing this module imports numba.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from atled_cpu_numba.kernels.winograd.blocks import Sums

_PAIRS = (Fraction(1, 2), Fraction(3, 4), Fraction(5, 4), Fraction(2))  # with the opposite of each
_RESULTS = 4
_INFINITY = -1  # of a tile's products, the last one


def _factors(roots: tuple[Fraction, ...]) -> list[Fraction]:
    """Those of 1, x^2, x^4 and so on in the product of x^2 - root^2 for all roots."""
    factors = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *factors], [*(root * root * factor for factor in factors), Fraction(0)]
        factors = [above - below for above, below in zip(shifted, scaled, strict=True)]
    return factors


def _without(point: Fraction) -> tuple[Fraction, ...]:
    return tuple(other for other in _PAIRS if other != point)


def _total(s: Sums, factors: list[Fraction], vectors: tuple[Any, ...]) -> Any:
    """The sum of vectors times factors, the last of which is 1."""
    total = vectors[-1]
    for factor, vector in zip(factors[-2::-1], vectors[-2::-1], strict=True):
        total = s.scale_add(float(factor), vector, total)
    return total


def input_line(s: Sums, *elements: Any) -> list[Any]:
    """B' times a column of ten elements."""
    line = [_total(s, _factors(_PAIRS), elements[:-1:2])]
    for point in _PAIRS:
        factors = _factors(_without(point))
        even, odd = _total(s, factors, elements[2::2]), _total(s, factors, elements[1:-1:2])
        line += [s.scale_add(float(point), odd, even), s.scale_add(-float(point), odd, even)]
    return [*line, _total(s, _factors(_PAIRS), elements[1::2])]


def weight_line(s: Sums, *taps: Any) -> list[Any]:
    """G times a column of seven taps."""
    line = [s.scale(float(1 / math.prod(-(point**2) for point in _PAIRS)), taps[0])]
    for point in _PAIRS:
        scale = 1 / (2 * point**2 * math.prod(point**2 - other**2 for other in _without(point)))
        even, odd = (s.scale(float(scale * point**begin), taps[begin]) for begin in (0, 1))
        for power in range(2, len(taps), 2):
            even = s.scale_add(float(scale * point**power), taps[power], even)
        for power in range(3, len(taps), 2):
            odd = s.scale_add(float(scale * point**power), taps[power], odd)
        line += [s.add(even, odd), s.subtract(even, odd)]
    return [*line, taps[-1]]


def output_line(s: Sums, *products: Any) -> list[Any]:
    """A' times a column of ten products."""
    sums = [s.add(products[at], products[at + 1]) for at in range(1, len(products) - 1, 2)]
    differences = [s.subtract(products[at], products[at + 1]) for at in range(1, len(products) - 1, 2)]
    starts = [products[0], None, None, products[_INFINITY]]
    line = []
    for power in range(_RESULTS):
        total = starts[power]
        for point, vector in zip(_PAIRS, differences if power % 2 else sums, strict=True):
            factor = float(point**power)
            total = s.scale(factor, vector) if total is None else s.scale_add(factor, vector, total)
        line.append(total)
    return line
