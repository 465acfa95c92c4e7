"""Benchmark of atled against NNabla, PyTorch, JAX and NumPy: ops, layers, training steps, start-up, memory.

    python benchmarks/bench.py                        everything, below 15 minutes
    python benchmarks/bench.py --rows conv LSTM       rows with one of these texts in their name
    python benchmarks/bench.py --cores 2 --neighbour  on two cores, quiet and with a busy neighbour

Ratios are our figure over the peer's: below 1 we are faster, or need less. Files go to a folder of benchmarks/results/
that has the name of the processor.
"""

from __future__ import annotations

import sys

from bench_table import ROWS
from harness.command import run_benchmark

if __name__ == "__main__":
    sys.exit(run_benchmark("bench", ROWS, (__doc__ or "").splitlines()[0]))
