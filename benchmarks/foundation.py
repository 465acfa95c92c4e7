"""Benchmark of the foundation: kernels, the cost of ops, training steps, import.

    python benchmarks/foundation.py                       everything, some minutes
    python benchmarks/foundation.py --rows conv step      rows with one of these texts in their name

Ratios are our time over the peer's: below 1 we are faster. Files go to benchmarks/results/.
"""

from __future__ import annotations

import sys

from foundation_rows.chain import OPS
from foundation_rows.imperative import ADDITIONS
from foundation_rows.kernels import KERNELS
from harness.case import Row
from harness.command import run_benchmark

_PEERS = ("atled", "nnabla", "torch")

# Plain float32 sums of up to 1e5 terms, in orders of their own.
_KERNEL_TOLERANCE = 1e-4

_KERNEL_ROWS = [
    Row(
        name,
        "foundation_rows.kernels:kernel",
        ("atled", "reference"),
        {"name": name},
        unit="us",
        tolerance=_KERNEL_TOLERANCE,
    )
    for name in KERNELS
]

_ENGINE_ROWS = [
    Row(
        f"chain of {OPS} ops, {text}",
        "foundation_rows.chain:chain",
        _PEERS,
        {"backward": backward},
        per=OPS,
        unit="us",
        of="op",
        # Rounding grows along the chain.
        tolerance=1e-3,
    )
    for text, backward in (("forward", False), ("with backward", True))
] + [
    Row("imperative add2, 4 elements", "foundation_rows.imperative:addition", _PEERS, per=ADDITIONS, unit="us", of="op")
]

_NETWORK_ROWS = [
    Row(
        text,
        "foundation_rows.training:training_step",
        _PEERS,
        {"network": network},
        of="step",
        # Rounding of the first steps, which Adam enlarges where gradients are near 0.
        tolerance=1e-3,
    )
    for text, network in (
        ("training step, demo (digits)", "digits"),
        ("training step, MLP", "mlp"),
    )
]

_START_ROWS = [
    Row(
        "python -c 'import ...'",
        "foundation_rows.importing:importing",
        ("atled", "numpy", "nnabla", "torch"),
        of="process",
        tolerance=None,
    )
]

ROWS = [*_ENGINE_ROWS, *_NETWORK_ROWS, *_START_ROWS, *_KERNEL_ROWS]

if __name__ == "__main__":
    sys.exit(run_benchmark("foundation", ROWS, (__doc__ or "").splitlines()[0]))
