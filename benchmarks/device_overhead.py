"""What the engine costs on a device: steps of a simulated one whose kernels compute nothing, against the cpu.

    python benchmarks/device_overhead.py              the rows "empty device" of bench.py: below a minute
    python benchmarks/device_overhead.py --rows Adam  rows with one of these texts in their name

The cpu computes what the device does not. A row fails where the empty device launches, copies or replays otherwise
than one that computes. Files go to a folder of benchmarks/results/ that has the name of the processor.
"""

from __future__ import annotations

import sys

from bench_table import DEVICE_ROWS
from harness.command import run_benchmark

if __name__ == "__main__":
    sys.exit(run_benchmark("device-overhead", DEVICE_ROWS, (__doc__ or "").splitlines()[0]))
