"""The words that blocks of direct sums have for each spatial axis."""

from __future__ import annotations

from atled_cpu_numba.kernels.chwn.problem import Problem
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of


@layout
class AxisWords:
    """Sizes, steps and strides along one axis; x and y are what is read and made, for a weight's gradient x and gy."""

    source: int
    result: int
    kernel: int
    pad: int
    stride: int
    dilation: int
    x: int  # strides in elements
    y: int
    weight: int


AXIS_WORDS = size_of(AxisWords)


def put_axes(words: list[int], problem: Problem, starts: tuple[int, ...]) -> None:
    """Fills in the words of the axes, which begin at `starts`."""
    strides = zip(problem.source[2:], problem.result[2:], problem.weight[2:], strict=True)
    for start, axis, (x, y, weight) in zip(starts, problem.axes, strides, strict=True):
        words[start : start + AXIS_WORDS] = filled(AxisWords, **axis._asdict(), x=x, y=y, weight=weight)
