"""Says by how much resident memory grows over new shapes and new formulas, and fails beyond a limit.

`make check-growth` runs it. It computes at the call and by plans for so many shapes, and compiles so many chains of
elementwise ops, after a fifth of both as a warm-up.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import atled as nn
import atled.functions as F

_FIRST = 100_000  # elements of the smallest shape


def resident_mib() -> float:
    """Resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def compute_shapes(first: int, count: int) -> None:
    """Compute for so many sizes, one half at the call, the other half by a plan."""
    for size in range(first, first + count):
        if size % 2:
            x = nn.NdArray((size,))
            x.fill(1)
            F.relu(F.relu(x))
        else:
            leaf = nn.Variable((size, 2))
            leaf.d = 1
            F.sum(F.relu(leaf) * 2).forward()


def compile_formulas(chains: Iterator[tuple[Callable[..., nn.Variable], ...]], count: int) -> None:
    """Compute the next chains, each of which is a formula of its own."""
    for chain in itertools.islice(chains, count):
        y = x = nn.Variable((16,))
        x.d = 0.5
        for function in chain:
            y = function(y)
        y.forward()


def main() -> int:
    """Measure; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("shapes", type=int, help="how many shapes are computed")
    parser.add_argument("formulas", type=int, help="how many formulas are compiled")
    parser.add_argument("limit_mib", type=int, help="MiB that memory may grow by; beyond it the exit status is 1")
    options = parser.parse_args()
    shapes, formulas = options.shapes, options.formulas
    chains = itertools.product([F.tanh, F.sigmoid, F.exp, F.elu], repeat=6)
    warm = max(2, shapes // 5)
    compile_formulas(chains, max(1, formulas // 5))
    # Of the sizes measured: others have other kernels, and to compile one takes 30 MiB, which stay.
    compute_shapes(_FIRST, warm)
    gc.collect()
    before = resident_mib()
    compile_formulas(chains, formulas)
    compute_shapes(_FIRST + warm, shapes)
    gc.collect()
    grown = resident_mib() - before
    counts = ", ".join(f"{count} {name}" for name, count in nn.memory_statistics()["caches"].items())
    print(f"{shapes} shapes and {formulas} formulas: {grown:.1f} MiB more ({before:.0f} MiB before); {counts}")
    return int(grown > options.limit_mib)


if __name__ == "__main__":
    sys.exit(main())
