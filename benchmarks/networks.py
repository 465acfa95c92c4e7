"""Inference of twenty further networks with atled against ONNX Runtime and OpenVINO: latency.

    python benchmarks/networks.py                         everything on one core
    python benchmarks/networks.py --rows DenseNet U-Net

Other kinds of layers than `inference.py` has: branches that are joined, dilation, groups, one and three axes, larger
images. Ratios are our figure over the peer's: below 1 we are faster. Files go to a folder of benchmarks/results/ that
has the name of the processor.
"""

from __future__ import annotations

import sys

from harness.command import run_benchmark
from networks_table import ROWS

if __name__ == "__main__":
    sys.exit(run_benchmark("networks", ROWS, (__doc__ or "").splitlines()[0]))
