"""What tracing and verification cost while they are off: calls with the check for them, and with it taken out.

    python benchmarks/observation_cost.py

Interleaved rounds in one process; the ratio is the median of the rounds' ratios, with its quartiles.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import atled as nn
import atled.functions as F
from atled.graph.run import binding, one_call
from atled_contexts import is_observed

ROUNDS = 41
CALLS = 2000


def rows() -> dict[str, Callable[[], object]]:
    """The smallest work there is, for which a fixed cost weighs most."""
    x = nn.NdArray.from_numpy_array(np.ones((4, 4), np.float32))
    v = nn.Variable((4, 4), need_grad=True)
    v.d = 1.0
    y = F.tanh(F.relu(v))
    y.forward()
    return {"F.relu of a 4x4 array": lambda: F.relu(x), "forward of a graph of two ops": y.forward}


def seconds_per_call(function: Callable[[], object]) -> float:
    """Mean over many calls."""
    start = time.perf_counter()
    for _ in range(CALLS):
        function()
    return (time.perf_counter() - start) / CALLS


def main() -> None:
    """Measure and print."""
    modules = (binding, one_call)
    # `bool()` is False and the quickest call there is: as near to no check as a run-time patch comes.
    variants = {"with": is_observed, "without": bool}
    print(f"the check itself: {seconds_per_call(is_observed) * 1e9:.0f} ns")
    for name, function in rows().items():
        ratios = []
        times: dict[str, list[float]] = {key: [] for key in variants}
        for number in range(ROUNDS):
            order = list(variants) if number % 2 else list(variants)[::-1]
            for key in order:
                for module in modules:
                    module.is_observed = variants[key]  # type: ignore[attr-defined]  # patched for the measurement
                times[key].append(seconds_per_call(function))
            ratios.append(times["with"][-1] / times["without"][-1])
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"{name}: {statistics.median(times['with']) * 1e6:.2f} us with, "
            f"{statistics.median(times['without']) * 1e6:.2f} us without, ratio {middle:.3f} ({low:.3f} to {high:.3f})"
        )


if __name__ == "__main__":
    main()
