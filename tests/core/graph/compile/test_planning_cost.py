"""What planning costs grows with the number of calls, no faster."""

from __future__ import annotations

import cProfile
from collections.abc import Callable

import numpy as np
import pytest

import atled as nn
import atled.functions as F

SMALL, LARGE = 1_000, 8_000


def comb(count: int) -> nn.Variable:
    """A line of calls, every second of which also reads one array."""
    x = nn.Variable.from_numpy_array(np.zeros(4, np.float32), need_grad=True)
    y = x
    for _ in range(count // 2):
        y = F.sin(y) + x
    return y


def python_calls(run: Callable[[], object]) -> int:
    """How many calls of Python functions and of built-in ones `run` makes."""
    profile = cProfile.Profile()
    profile.runcall(run)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.slow
def test_calls_of_python_per_node_do_not_grow():
    counts = {}
    with nn.context_scope(nn.Context("fusing", fallback="raise")):
        comb(100).forward()  # what is imported, inferred and decided once
        for size in (SMALL, LARGE):
            y = comb(size)
            counts[size] = [python_calls(run) / size for run in (y.forward, y.backward)]
    for small, large in zip(counts[SMALL], counts[LARGE], strict=True):
        assert large < 1.05 * small
