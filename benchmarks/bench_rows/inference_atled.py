"""The layers of `inference_networks.py` by atled."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench_rows.inference_networks import BN_EPS


class AtledLayers:
    """See `inference_networks.Layers`; h is a Variable.

    values: (name, kind, shape) of a parameter -> its values.
    """

    def __init__(self, values: Callable[[str, str, Sequence[int]], np.ndarray]) -> None:
        self._values = values
        self._nn = importlib.import_module("atled")
        self._F = importlib.import_module("atled.functions")

    def convolution(
        self, h: Any, channels: int, maps: int, kernel: int, name: str, *, stride: int = 1, groups: int = 1
    ) -> Any:
        w = self._parameter(name, "weight", (maps, channels // groups, kernel, kernel))
        window = {"pad": (kernel // 2,) * 2, "stride": (stride, stride)}
        return self._F.convolution(h, w, group=groups, **window)

    def batch_normalization(self, h: Any, maps: int, name: str) -> Any:
        kinds = {"beta": "shift", "gamma": "scale", "mean": "shift", "variance": "variance"}
        values = (self._parameter(f"{name} {each}", kind, (1, maps, 1, 1)) for each, kind in kinds.items())
        return self._F.batch_normalization(h, *values, eps=BN_EPS, batch_stat=False)

    def affine(self, h: Any, inputs: int, outputs: int, name: str) -> Any:
        w, b = self._values(name, "weight", (outputs, inputs)).T, self._parameter(name, "shift", (outputs,))
        return self._F.affine(h, self._nn.Variable.from_numpy_array(w.copy()), b, base_axis=len(h.shape) - 1)

    def bias(self, h: Any, maps: int, name: str) -> Any:
        return h + self._parameter(name, "shift", (1, maps, 1, 1))

    def flatten(self, h: Any, size: int) -> Any:
        return self._F.reshape(h, (-1, size))

    def max_pooling(self, h: Any, size: int, stride: int, pad: int = 0) -> Any:
        return self._F.max_pooling(h, (size, size), stride=(stride, stride), pad=(pad, pad))

    def mean_of_positions(self, h: Any) -> Any:
        return self._F.mean(h, axis=(2, 3))

    def relu(self, h: Any, limit: float | None = None) -> Any:
        h = self._F.relu(h)
        return h if limit is None else self._F.minimum_scalar(h, limit)

    def layer_normalization(self, h: Any, size: int, name: str) -> Any:
        F = self._F
        scale, shift = (self._parameter(name, kind, (1, 1, size)) for kind in ("scale", "shift"))
        centred = h - F.mean(h, axis=2, keepdims=True)
        return centred * (F.mean(centred**2, axis=2, keepdims=True) + BN_EPS) ** -0.5 * scale + shift

    def attention(self, q: Any, k: Any, v: Any, heads: int, size: int) -> Any:
        F = self._F
        _, steps, _ = q.shape

        def apart(h: Any) -> Any:
            return F.transpose(F.reshape(h, (-1, steps, heads, size // heads)), (0, 2, 1, 3))

        weights = F.softmax(F.batch_matmul(apart(q), apart(k), transpose_b=True) * (1 / math.sqrt(size // heads)), 3)
        joined = F.transpose(F.batch_matmul(weights, apart(v)), (0, 2, 1, 3))
        return F.reshape(joined, (-1, steps, size))

    def lstm(self, h: Any, inputs: int, hidden: int, name: str) -> Any:
        F = self._F
        weight = self._parameter(name, "weight", (4 * hidden, inputs + hidden))
        weight = F.reshape(weight, (1, 4, hidden, inputs + hidden))
        bias = F.reshape(self._parameter(name, "shift", (4 * hidden,)), (1, 1, 4, hidden))
        state = F.constant(0, (1, 1, h.shape[0], hidden))
        return F.reshape(F.lstm(F.transpose(h, (1, 0, 2)), state, state, weight, bias=bias)[1], (-1, hidden))

    def _parameter(self, name: str, kind: str, shape: tuple[int, ...]) -> Any:
        return self._nn.Variable.from_numpy_array(self._values(name, kind, shape))
