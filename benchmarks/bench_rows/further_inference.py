"""Inference of further networks: its latency.

Beside `inference.py`, whose processes are timed from their start and import no more than they need.
"""

from __future__ import annotations

from bench_rows import inference
from bench_rows.inference_images import IMAGE_NETWORKS
from bench_rows.inference_pixels import PIXEL_NETWORKS
from bench_rows.inference_sequences import SEQUENCE_NETWORKS
from harness.case import Case

NETWORKS = IMAGE_NETWORKS | PIXEL_NETWORKS | SEQUENCE_NETWORKS


def latency(library: str, network: str, batch: int) -> Case:
    """One call on a batch that lies in an array of the user's; the result is read as an array."""
    return inference.latency_of(library, NETWORKS[network], batch)
