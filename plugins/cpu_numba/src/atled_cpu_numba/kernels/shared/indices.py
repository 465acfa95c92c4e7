"""Whether indices, such as labels, are in range."""

from __future__ import annotations

from typing import Any


def make_are_within() -> Any:
    """numba's function are_within(numbers, first, after, low, high): whether numbers[first:after] are in [low, high).

    It looks at all of them: LLVM takes vectors only of a loop that nothing leaves.
    """
    from atled_cpu_numba.kernels.shared.options import inlined

    @inlined
    def are_within(numbers, first, after, low, high):
        wrong = 0
        for i in range(first, after):
            wrong |= 1 if numbers[i] < low or numbers[i] >= high else 0
        return wrong == 0

    return are_within
