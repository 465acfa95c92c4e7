"""The rows of `inference.py`, each with its goal."""

from __future__ import annotations

from bench_rows import work
from bench_rows.inference_networks import NETWORKS
from harness.case import Goal, Row

_CASES = "bench_rows.inference:"
_PEERS = ("onnxruntime", "openvino")
_LIBRARIES = ("atled", *_PEERS)

# Rounding grows along fifty layers, and convolutions are computed in different ways.
_TOLERANCE = 1e-4

# By batch; of the best peer's time for one call.
_LATENCIES = {
    "LeNet": {1: 0.6, 8: 0.6},
    "ResNet-18": {1: 0.85, 8: 0.75},
    "MobileNetV2": {1: 0.9, 8: 0.9},
    "encoder": {1: 0.9, 8: 0.9},
    "LSTM": {1: 0.7, 8: 0.7},
}
_NAMES = {"encoder": "transformer encoder, 4 layers, 256 wide, 64 tokens", "LSTM": "LSTM 256, 50 steps"}


def _rows() -> list[Row]:
    rows = []
    for network, goals in _LATENCIES.items():
        name = _NAMES.get(network, network)
        for batch, ratio in goals.items():
            arguments = {"network": network, "batch": batch}
            text = f"{name}, batch {batch}"
            rows.append(
                Row(
                    text,
                    f"{_CASES}latency",
                    _LIBRARIES,
                    arguments,
                    tolerance=_TOLERANCE,
                    goal=Goal(ratio, _PEERS),
                    work=work.inference(NETWORKS[network], batch),
                )
            )
            rows.append(Row(f"{text}: 99th percentile", f"{_CASES}tail_latency", _LIBRARIES, arguments, tolerance=None))
        once = {"network": network, "batch": 1}
        rows.append(_of_process(f"{name}: peak memory", "memory", "MB", once, Goal(1.0, ["onnxruntime"])))
        rows.append(_of_process(f"{name}: first result of a process", "first_result", "s", once, None))
    return rows


def _of_process(name: str, case: str, unit: str, arguments: dict[str, object], goal: Goal | None) -> Row:
    return Row(name, f"{_CASES}{case}", _LIBRARIES, arguments, unit=unit, of="process", tolerance=None, goal=goal)


ROWS = _rows()
