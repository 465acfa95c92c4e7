"""The layers of `inference_layers.py` by atled."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bench_rows.inference_layers import BN_EPS, window_of


class AtledLayers:
    """See `inference_layers.Layers`; h is a Variable.

    values: (name, kind, shape) of a parameter -> its values.
    parameters: by name and kind, those that a file brought; others are made of `values`, and are there then.
    """

    def __init__(
        self,
        values: Callable[[str, str, Sequence[int]], np.ndarray],
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self._values = values
        self.parameters = dict(parameters or {})
        self._nn = importlib.import_module("atled")
        self._F = importlib.import_module("atled.functions")

    def convolution(
        self, h: Any, channels: int, maps: int, kernel: int, name: str, *, stride: int = 1, groups: int = 1
    ) -> Any:
        w = self._parameter(name, "weight", (maps, channels // groups, kernel, kernel))
        window = {"pad": (kernel // 2,) * 2, "stride": (stride, stride)}
        return self._F.convolution(h, w, group=groups, **window)

    def convolution_nd(
        self,
        h: Any,
        channels: int,
        maps: int,
        kernel: Sequence[int],
        name: str,
        *,
        stride: Sequence[int] | None = None,
        dilation: int = 1,
        groups: int = 1,
        is_padded: bool = True,
    ) -> Any:
        w = self._parameter(name, "weight", (maps, channels // groups, *kernel))
        b = self._parameter(name, "shift", (maps,))
        window = window_of(kernel, stride, dilation, is_padded)
        return self._F.convolution(
            h, w, b, pad=window.pad, stride=window.stride, dilation=window.dilation, group=groups
        )

    def deconvolution(self, h: Any, channels: int, maps: int, kernel: int, name: str) -> Any:
        w = self._parameter(name, "weight", (channels, maps, kernel, kernel))
        return self._F.deconvolution(h, w, self._parameter(name, "shift", (maps,)), stride=(kernel, kernel))

    def batch_normalization(self, h: Any, maps: int, name: str) -> Any:
        kinds = {"beta": "shift", "gamma": "scale", "mean": "shift", "variance": "variance"}
        values = (self._parameter(f"{name} {each}", kind, (1, maps, 1, 1)) for each, kind in kinds.items())
        return self._F.batch_normalization(h, *values, eps=BN_EPS, batch_stat=False)

    def affine(self, h: Any, inputs: int, outputs: int, name: str) -> Any:
        w = self._parameter(name, "weight", (outputs, inputs), is_turned=True)
        return self._F.affine(h, w, self._parameter(name, "shift", (outputs,)), base_axis=len(h.shape) - 1)

    def bias(self, h: Any, maps: int, name: str) -> Any:
        return h + self._parameter(name, "shift", (1, maps, 1, 1))

    def flatten(self, h: Any, size: int) -> Any:
        return self._F.reshape(h, (-1, size))

    def max_pooling(self, h: Any, size: int, stride: int, pad: int = 0) -> Any:
        return self._F.max_pooling(h, (size, size), stride=(stride, stride), pad=(pad, pad))

    def max_pooling_nd(self, h: Any, kernel: Sequence[int]) -> Any:
        return self._F.max_pooling(h, kernel, stride=kernel)

    def average_pooling(self, h: Any, size: int, stride: int, pad: int = 0) -> Any:
        return self._F.average_pooling(h, (size, size), stride=(stride, stride), pad=(pad, pad))

    def mean_of_positions(self, h: Any, *, keepdims: bool = False) -> Any:
        return self._F.mean(h, axis=_positions(h), keepdims=keepdims)

    def max_of_positions(self, h: Any) -> Any:
        return self._F.max(h, axis=_positions(h))

    def relu(self, h: Any, limit: float | None = None) -> Any:
        h = self._F.relu(h)
        return h if limit is None else self._F.minimum_scalar(h, limit)

    def sigmoid(self, h: Any) -> Any:
        return self._F.sigmoid(h)

    def gelu(self, h: Any) -> Any:
        inner = (h + h * h * h * 0.044715) * math.sqrt(2 / math.pi)
        return h * (self._F.tanh(inner) + 1.0) * 0.5

    def layer_normalization(self, h: Any, size: int, name: str) -> Any:
        F = self._F
        last = len(h.shape) - 1
        scale, shift = (self._parameter(name, kind, (1,) * last + (size,)) for kind in ("scale", "shift"))
        centred = h - F.mean(h, axis=last, keepdims=True)
        return centred * (F.mean(centred**2, axis=last, keepdims=True) + BN_EPS) ** -0.5 * scale + shift

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

    def gru(self, h: Any, inputs: int, hidden: int, name: str) -> Any:
        F = self._F
        weight = self._parameter(name, "weight", (3 * hidden, inputs + hidden))
        weight = F.reshape(weight, (1, 3, hidden, inputs + hidden))
        bias = F.reshape(self._parameter(name, "shift", (4 * hidden,)), (1, 1, 4, hidden))
        state = F.constant(0, (1, 1, h.shape[0], hidden))
        return F.reshape(F.gru(F.transpose(h, (1, 0, 2)), state, weight, bias=bias)[1], (-1, hidden))

    def transpose(self, h: Any, axes: Sequence[int]) -> Any:
        return self._F.transpose(h, axes)

    def concatenate(self, *hs: Any) -> Any:
        return self._F.concatenate(*hs, axis=1)

    def halves(self, h: Any, channels: int) -> tuple[Any, Any]:
        images, _, *size = h.shape
        first = self._F.slice(h, start=(0, 0, 0, 0), stop=(images, channels // 2, *size))
        second = self._F.slice(h, start=(0, channels // 2, 0, 0), stop=h.shape)
        return first, second

    def channel_shuffle(self, h: Any, groups: int, channels: int, size: int) -> Any:
        F = self._F
        apart = F.reshape(h, (-1, groups, channels // groups, size, size))
        return F.reshape(F.transpose(apart, (0, 2, 1, 3, 4)), (-1, channels, size, size))

    def pixel_shuffle(self, h: Any, factor: int, channels: int) -> Any:
        F = self._F
        _, _, height, width = h.shape
        apart = F.reshape(h, (-1, channels, factor, factor, height, width))
        return F.reshape(F.transpose(apart, (0, 1, 4, 2, 5, 3)), (-1, channels, height * factor, width * factor))

    def _parameter(self, name: str, kind: str, shape: tuple[int, ...], *, is_turned: bool = False) -> Any:
        key = f"{name} {kind}"
        if key not in self.parameters:
            values = self._values(name, kind, shape)
            self.parameters[key] = self._nn.Variable.from_numpy_array(values.T.copy() if is_turned else values)
        found = self.parameters[key]
        assert found.shape == (shape[::-1] if is_turned else tuple(shape)), f"two layers have the name {name}"
        return found


def _positions(h: Any) -> tuple[int, ...]:
    return tuple(range(2, len(h.shape)))
