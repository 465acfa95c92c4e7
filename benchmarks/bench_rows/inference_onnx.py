"""The layers of `inference_layers.py` as nodes of an ONNX graph, for the runtimes that read such."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench_rows.inference_layers import BN_EPS, Network, parameter, window_of

_OPSET = 17
_IR_VERSION = 10

# Gates of our weights are input, forget, new content, output; ONNX has input, output, forget, new content.
_GATES = [0, 3, 1, 2]
# Of gated recurrent units ours are reset, update, new content; ONNX has update, reset, new content.
_GRU_GATES = [1, 0, 2]


def onnx_model(network: Network, batch: int) -> bytes:
    """The network for batches of this size as a serialized model; its input is "x"."""
    onnx = importlib.import_module("onnx")
    helper, float_type = onnx.helper, onnx.TensorProto.FLOAT
    layers = OnnxLayers(onnx, batch)
    result = network.result(layers, _Name("x", layers)).name
    x = helper.make_tensor_value_info("x", float_type, [batch, *network.shape])
    y = helper.make_tensor_value_info(result, float_type, None)
    graph = helper.make_graph(layers.nodes, "network", [x], [y], layers.constants)
    opset = helper.make_opsetid("", _OPSET)
    serialized: bytes = helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION).SerializeToString()
    return serialized


class _Name:
    """A value of the graph, under the arithmetic that networks use."""

    def __init__(self, name: str, layers: OnnxLayers) -> None:
        self.name = name
        self._layers = layers

    def __add__(self, other: _Name) -> _Name:
        return self._layers.node("Add", [self, other])

    def __mul__(self, other: _Name) -> _Name:
        return self._layers.node("Mul", [self, other])


class OnnxLayers:
    """See `inference_layers.Layers`; h is a `_Name`.

    nodes, constants: of the graph so far.
    """

    def __init__(self, onnx: Any, batch: int) -> None:
        self._onnx = onnx
        self._batch = batch
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, op: str, inputs: list[Any], outputs: int = 1, **attributes: Any) -> Any:
        """A node; its last output of so many."""
        return self.outputs(op, inputs, outputs, **attributes)[-1]

    def outputs(self, op: str, inputs: list[Any], count: int, **attributes: Any) -> list[_Name]:
        """A node; all its outputs."""
        names = [f"{op}{len(self.nodes)}_{position}" for position in range(count)]
        given = [each.name if isinstance(each, _Name) else each for each in inputs]
        self.nodes.append(self._onnx.helper.make_node(op, given, names, **attributes))
        return [_Name(name, self) for name in names]

    def constant(self, values: Any) -> str:
        """A constant of the graph, by name."""
        name = f"constant{len(self.constants)}"
        self.constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def convolution(
        self, h: Any, channels: int, maps: int, kernel: int, name: str, *, stride: int = 1, groups: int = 1
    ) -> Any:
        w = self.constant(parameter(name, "weight", (maps, channels // groups, kernel, kernel)))
        window = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "strides": [stride] * 2}
        return self.node("Conv", [h, w], group=groups, **window)

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
        w = self.constant(parameter(name, "weight", (maps, channels // groups, *kernel)))
        b = self.constant(parameter(name, "shift", (maps,)))
        window = window_of(kernel, stride, dilation, is_padded)
        return self.node(
            "Conv",
            [h, w, b],
            kernel_shape=window.kernel,
            strides=window.stride,
            pads=window.pad * 2,  # before each axis, then behind each
            dilations=window.dilation,
            group=groups,
        )

    def deconvolution(self, h: Any, channels: int, maps: int, kernel: int, name: str) -> Any:
        w = self.constant(parameter(name, "weight", (channels, maps, kernel, kernel)))
        b = self.constant(parameter(name, "shift", (maps,)))
        return self.node("ConvTranspose", [h, w, b], kernel_shape=[kernel] * 2, strides=[kernel] * 2)

    def batch_normalization(self, h: Any, maps: int, name: str) -> Any:
        kinds = {"gamma": "scale", "beta": "shift", "mean": "shift", "variance": "variance"}
        values = [
            self.constant(parameter(f"{name} {each}", kind, (1, maps, 1, 1)).ravel()) for each, kind in kinds.items()
        ]
        return self.node("BatchNormalization", [h, *values], epsilon=BN_EPS)

    def affine(self, h: Any, inputs: int, outputs: int, name: str) -> Any:
        w = self.constant(parameter(name, "weight", (outputs, inputs)).T)
        return self.node("Add", [self.node("MatMul", [h, w]), self.constant(parameter(name, "shift", (outputs,)))])

    def bias(self, h: Any, maps: int, name: str) -> Any:
        return self.node("Add", [h, self.constant(parameter(name, "shift", (1, maps, 1, 1)))])

    def flatten(self, h: Any, size: int) -> Any:
        return self.node("Reshape", [h, self.constant(np.array([-1, size]))])

    def max_pooling(self, h: Any, size: int, stride: int, pad: int = 0) -> Any:
        return self.node("MaxPool", [h], kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def max_pooling_nd(self, h: Any, kernel: Sequence[int]) -> Any:
        return self.node("MaxPool", [h], kernel_shape=kernel, strides=kernel)

    def average_pooling(self, h: Any, size: int, stride: int, pad: int = 0) -> Any:
        window = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        return self.node("AveragePool", [h], count_include_pad=1, **window)

    def mean_of_positions(self, h: Any, *, keepdims: bool = False) -> Any:
        mean = self.node("GlobalAveragePool", [h])
        return mean if keepdims else self.node("Flatten", [mean])

    def max_of_positions(self, h: Any) -> Any:
        return self.node("Flatten", [self.node("GlobalMaxPool", [h])])

    def relu(self, h: Any, limit: float | None = None) -> Any:
        if limit is None:
            return self.node("Relu", [h])
        return self.node("Clip", [h, self.constant(np.float32(0)), self.constant(np.float32(limit))])

    def sigmoid(self, h: Any) -> Any:
        return self.node("Sigmoid", [h])

    def gelu(self, h: Any) -> Any:
        cube = self._scaled(h * h * h, 0.044715)
        inner = self._scaled(h + cube, math.sqrt(2 / math.pi))
        above = self.node("Add", [self.node("Tanh", [inner]), self.constant(np.float32(1))])
        return self._scaled(h * above, 0.5)

    def _scaled(self, h: Any, factor: float) -> Any:
        return self.node("Mul", [h, self.constant(np.float32(factor))])

    def layer_normalization(self, h: Any, size: int, name: str) -> Any:
        scale, shift = (self.constant(parameter(name, kind, (size,))) for kind in ("scale", "shift"))
        return self.node("LayerNormalization", [h, scale, shift], epsilon=BN_EPS)

    def attention(self, q: Any, k: Any, v: Any, heads: int, size: int) -> Any:
        apart = self.constant(np.array([self._batch, -1, heads, size // heads]))

        def of_heads(h: Any, order: list[int]) -> Any:
            return self.node("Transpose", [self.node("Reshape", [h, apart])], perm=order)

        scores = self.node("MatMul", [of_heads(q, [0, 2, 1, 3]), of_heads(k, [0, 2, 3, 1])])
        scaled = self.node("Mul", [scores, self.constant(np.float32(1 / math.sqrt(size // heads)))])
        attended = self.node("MatMul", [self.node("Softmax", [scaled], axis=3), of_heads(v, [0, 2, 1, 3])])
        joined = self.node("Transpose", [attended], perm=[0, 2, 1, 3])
        return self.node("Reshape", [joined, self.constant(np.array([self._batch, -1, size]))])

    def lstm(self, h: Any, inputs: int, hidden: int, name: str) -> Any:
        weight = parameter(name, "weight", (4 * hidden, inputs + hidden)).reshape(4, hidden, -1)[_GATES]
        bias = parameter(name, "shift", (4 * hidden,)).reshape(4, hidden)[_GATES]
        flat = weight.reshape(1, 4 * hidden, -1)
        biases = np.concatenate([bias.reshape(1, -1), np.zeros((1, 4 * hidden), np.float32)], 1)
        given = [flat[:, :, :inputs], flat[:, :, inputs:], biases]
        steps = self.node("Transpose", [h], perm=[1, 0, 2])
        last = self.node("LSTM", [steps, *map(self.constant, given)], outputs=2, hidden_size=hidden)
        return self.node("Reshape", [last, self.constant(np.array([-1, hidden]))])

    def gru(self, h: Any, inputs: int, hidden: int, name: str) -> Any:
        weight = parameter(name, "weight", (3 * hidden, inputs + hidden)).reshape(3, hidden, -1)[_GRU_GATES]
        bias = parameter(name, "shift", (4 * hidden,)).reshape(4, hidden)
        flat = weight.reshape(1, 3 * hidden, -1)
        # The new content has a bias of its own beside the product with the state, the last of our four.
        of_state = np.concatenate([np.zeros((2, hidden), np.float32), bias[3:]])
        biases = np.concatenate([bias[_GRU_GATES], of_state]).reshape(1, -1)
        given = [flat[:, :, :inputs], flat[:, :, inputs:], biases]
        steps = self.node("Transpose", [h], perm=[1, 0, 2])
        constants = map(self.constant, given)
        last = self.node("GRU", [steps, *constants], outputs=2, hidden_size=hidden, linear_before_reset=1)
        return self.node("Reshape", [last, self.constant(np.array([-1, hidden]))])

    def transpose(self, h: Any, axes: Sequence[int]) -> Any:
        return self.node("Transpose", [h], perm=axes)

    def concatenate(self, *hs: Any) -> Any:
        return self.node("Concat", list(hs), axis=1)

    def halves(self, h: Any, channels: int) -> tuple[Any, Any]:
        first, second = self.outputs("Split", [h], 2, axis=1)
        return first, second

    def channel_shuffle(self, h: Any, groups: int, channels: int, size: int) -> Any:
        apart = self.constant(np.array([self._batch, groups, channels // groups, size, size]))
        turned = self.node("Transpose", [self.node("Reshape", [h, apart])], perm=[0, 2, 1, 3, 4])
        return self.node("Reshape", [turned, self.constant(np.array([self._batch, channels, size, size]))])

    def pixel_shuffle(self, h: Any, factor: int, channels: int) -> Any:
        return self.node("DepthToSpace", [h], blocksize=factor, mode="CRD")
