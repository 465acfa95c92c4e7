"""The engines that the stand-in offers, each with a numerical note, so that a wrong choice shows in the values."""

from __future__ import annotations

from typing import Any

import numpy as np

from fake_cudnn import rules as r
from fake_cudnn.descriptors import Descriptor, Refused

TENSOR_CORE, DOWN_CONVERT, WINOGRAD, NONDETERMINISTIC = 0, 1, 5, 4
HEURISTICS_A, FALLBACK = 3, 2

DOWN_CONVERTING, TENSOR_CORES, FAST, UNORDERED, PLAIN = 12, 10, 11, 13, 14
NOTES = {
    DOWN_CONVERTING: [TENSOR_CORE, DOWN_CONVERT],
    TENSOR_CORES: [TENSOR_CORE],
    FAST: [WINOGRAD],
    UNORDERED: [NONDETERMINISTIC],
    PLAIN: [],
}
WORKSPACE = {DOWN_CONVERTING: 0, TENSOR_CORES: 1024, FAST: 0, UNORDERED: 100, PLAIN: 64}
_OFFERED: dict[int, list[tuple[int, list[tuple[int, int]]]]] = {
    HEURISTICS_A: [
        (DOWN_CONVERTING, []),
        (TENSOR_CORES, [(2, 5), (25, 1)]),
        (TENSOR_CORES, [(2, 1), (25, 0)]),
        (FAST, []),
        (UNORDERED, [(2, 3)]),
    ],
    FALLBACK: [(PLAIN, [])],
}


def offered(graph: Descriptor, mode: int) -> list[tuple[int, list[tuple[int, int]]]]:
    """(engine, knobs) of each configuration that the heuristics have for a graph."""
    if not _is_known(graph):
        return []
    is_pooling = graph.one(801).kind in (r.RESAMPLE_FORWARD, r.RESAMPLE_BACKWARD)
    return [] if is_pooling and mode != FALLBACK else _OFFERED.get(mode, [])


def _is_known(graph: Descriptor) -> bool:
    """A single operation, or what cuDNN has precompiled: convolution, a residual added, a bias added, rectified."""
    first, *others = graph.values[801]
    if not others:
        return first.kind != r.OPERATION_POINTWISE
    if first.kind != r.FORWARD or any(one.kind != r.OPERATION_POINTWISE for one in others):
        return False
    shape = [_role(one) for one in others]
    return shape in (["bias"], ["residual", "bias"], ["bias", "relu"], ["residual", "bias", "relu"])


def _role(operation: Descriptor) -> str:
    if operation.one(750).one(0) == 100:
        return "relu"
    dims, full = operation.one(752).values[902], operation.one(753).values[902]
    return "residual" if dims == full else "bias"


def check(graph: Descriptor, engine: int) -> None:
    """Refuse an engine that there is not, or not for this graph."""
    if engine not in NOTES or not _is_known(graph):
        raise Refused(r.NOT_SUPPORTED, f"there is no engine {engine} for this graph")


def rounded(engine: int, values: np.ndarray[Any, Any], data_type: int) -> np.ndarray[Any, Any]:
    """Factors as an engine sees them."""
    if data_type == 0 and engine == TENSOR_CORES:
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        cut = ((bits + 0x1000) & np.uint32(0xFFFFE000)).view(np.float32)
        return np.where(np.isfinite(values), cut, values)
    if engine == DOWN_CONVERTING:
        return values.astype(np.float16)
    return values
