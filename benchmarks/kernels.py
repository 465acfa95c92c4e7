"""Benchmark of single kernels: backend cpu against the NumPy reference.

    python benchmarks/kernels.py                       everything, about two minutes
    python benchmarks/kernels.py --rows conv pooling   rows with one of these texts in their name

Ratios are our time over the reference's: below 1 we are faster. Files go to a folder of benchmarks/results/ that has
the name of the processor.
"""

from __future__ import annotations

import sys

from bench_rows.kernels import KERNELS
from harness.case import Row
from harness.command import run_benchmark

ROWS = [Row(name, "bench_rows.kernels:kernel", ("atled", "reference"), {"name": name}, unit="us") for name in KERNELS]

if __name__ == "__main__":
    sys.exit(run_benchmark("kernels", ROWS, (__doc__ or "").splitlines()[0]))
