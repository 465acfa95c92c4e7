"""What a long static graph costs before its first result: recording its calls and planning them."""

from __future__ import annotations

import itertools
import time

import numpy as np

from bench_rows.recorded import recorded
from harness.case import Case

CALLS = 100_000

# Steps that are fused hold 40 nodes: chains whose lengths differ by that have the same formulas.
_STEP = 40


def planning(library: str) -> Case:
    """Seconds to record a line of sines on four elements and to run it for the first time.

    Every chain is longer than the last, so that no plan is known, by a number of calls for which nothing is compiled.
    """
    api = recorded(library)

    def first_run(calls: int) -> float:
        start = time.perf_counter()
        y = api.nn.Variable((4,))
        y.d = np.linspace(-1, 1, 4)
        for _ in range(calls):
            y = api.F.sin(y)
        y.forward()
        return time.perf_counter() - start

    first_run(CALLS % _STEP + _STEP)  # imports, and compiles
    lengths = itertools.count(CALLS, _STEP)
    return Case(lambda: first_run(next(lengths)), is_reading=True)
