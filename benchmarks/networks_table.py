"""The rows of `networks.py`, each with its goal."""

from __future__ import annotations

from bench_rows import work
from bench_rows.further_inference import NETWORKS
from harness.case import Goal, Row

_PEERS = ("onnxruntime", "openvino")

# Rounding grows along a hundred layers, and convolutions are computed in different ways.
_TOLERANCE = 1e-4

# Of the best peer's time for one call.
_RATIO = 0.95

_NAMES = {
    "Inception blocks": "two Inception blocks, 768 maps of 17x17",
    "MLP-Mixer": "MLP-Mixer, 4 layers, 64 patches, 256 wide",
    "TCN": "TCN, 6 blocks, 512 steps",
    "wav2vec encoder": "encoder of wav2vec 2.0, 64 maps, one second",
    "keyword spotting": "keyword spotting, 1-d separable",
    "text CNN": "text CNN, 60 words",
    "GRU": "GRU 256, 50 steps",
    "autoencoder": "autoencoder of MLPerf Tiny",
}

ROWS = [
    Row(
        f"{_NAMES.get(name, name)}, batch {batch}",
        "bench_rows.further_inference:latency",
        ("atled", *_PEERS),
        {"network": name, "batch": batch},
        tolerance=_TOLERANCE,
        goal=Goal(_RATIO, _PEERS),
        work=work.inference(network, batch),
    )
    for name, network in NETWORKS.items()
    for batch in (1, 8)
]
