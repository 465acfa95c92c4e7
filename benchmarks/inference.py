"""Inference with atled against ONNX Runtime and OpenVINO: latency, slowest calls, memory, time to a first result.

    python benchmarks/inference.py                        everything on one core, below 10 minutes
    python benchmarks/inference.py --cores 2 --rows "batch 1"
    python benchmarks/inference.py --cores 2 --neighbour one --rows "batch 1"     quiet, and with one core busy

Ratios are our figure over the peer's: below 1 we are faster, or need less. Files go to a folder of benchmarks/results/
that has the name of the processor.
"""

from __future__ import annotations

import sys

from harness.command import run_benchmark
from inference_table import ROWS

if __name__ == "__main__":
    sys.exit(run_benchmark("inference", ROWS, (__doc__ or "").splitlines()[0]))
