"""Functions of recurrent networks over whole sequences, composed of ops for one layer and one direction each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from atled.arrays.array import NdArray
from atled.arrays.operators import Calls
from atled.errors import RefusedError, four_parts
from atled.variable import Variable

__all__ = ["gru", "lstm", "rnn"]

Array = Variable | NdArray


def lstm(
    x: Array,
    h: Array,
    c: Array,
    weight_l0: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    num_layers: int = 1,
    dropout: float = 0.0,
    bidirectional: bool = False,
    training: bool = True,
) -> Any:
    """Long short-term memory over sequences: L layers, in D directions (2 if bidirectional, else 1).

    In each step `c' = f c + i g` and `h' = o tanh(c')`, where `i, f, o = sigmoid(W [x h] + b)` and
    `g = tanh(W [x h] + b)`, with a W and b for each of them, each layer and direction. The next layer's x is the h' of
    all directions, one beside the other; the second direction goes from the last step to the first.

    Source: Hochreiter, Schmidhuber, Long Short-Term Memory, 1997; with the forget gate of Gers et al., 1999.

    Args:
        x: (T, B, I) float; T of 1 or more steps, B sequences.
        h, c: (L, D, B, H) float; the states to begin with.
        weight_l0: (D, 4, H, I + H) float; of the first layer: the gates in the order i, f, g, o, the columns for x
            before those for h.
        weight: (L - 1, D, 4, H, D H + H) float; of the other layers.
        bias: (L, D, 4, H) float; default none is added.
        num_layers: L.
        dropout: probability with which a number that one layer hands to the next becomes 0; 0 up to 1, without 1.
        bidirectional: whether a second direction is computed.
        training: whether dropout is in force.

    Returns:
        y: (T, B, D H) float; h' of each step in the last layer.
        h_n, c_n: (L, D, B, H) float; the states after the last step of each layer and direction.

    Raises:
        ValueError: a shape that does not match, a weight missing, a dropout out of range.
    """
    call = _Call("lstm", x, (h, c), weight_l0, weight, bias, num_layers, bidirectional, gates=((4,), (4,)))
    return call.run("LSTMSequence", dropout if training else 0.0)


def gru(
    x: Array,
    h: Array,
    weight_l0: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    num_layers: int = 1,
    dropout: float = 0.0,
    bidirectional: bool = False,
    training: bool = True,
) -> Any:
    """Gated recurrent units over sequences: L layers, in D directions (2 if bidirectional, else 1).

    In each step `h' = (1 - z) n + z h`, where `r, z = sigmoid(W [x h] + b)` and `n = tanh(W x + b + r (U h + b_h))`,
    with a W and b for each of them, each layer and direction. Layers and directions as in `lstm`.

    Source: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, 2014, with the reset gate behind the
    product, as cuDNN has it.

    Args:
        x: (T, B, I) float; T of 1 or more steps, B sequences.
        h: (L, D, B, H) float; the states to begin with.
        weight_l0: (D, 3, H, I + H) float; of the first layer: r, z, n, the columns for x before those for h.
        weight: (L - 1, D, 3, H, D H + H) float; of the other layers.
        bias: (L, D, 4, H) float; for r, z, n, and n's part of h; default none is added.
        num_layers: L.
        dropout: probability with which a number that one layer hands to the next becomes 0; 0 up to 1, without 1.
        bidirectional: whether a second direction is computed.
        training: whether dropout is in force.

    Returns:
        y: (T, B, D H) float; h' of each step in the last layer.
        h_n: (L, D, B, H) float; the states after the last step of each layer and direction.

    Raises:
        ValueError: a shape that does not match, a weight missing, a dropout out of range.
    """
    call = _Call("gru", x, (h,), weight_l0, weight, bias, num_layers, bidirectional, gates=((3,), (4,)))
    return call.run("GRUSequence", dropout if training else 0.0)


def rnn(
    x: Array,
    h: Array,
    weight_l0: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    num_layers: int = 1,
    nonlinearity: str = "tanh",
    dropout: float = 0.0,
    bidirectional: bool = False,
    training: bool = True,
) -> Any:
    """Plain recurrent layers, Elman networks, over sequences: L layers, in D directions (2 if bidirectional, else 1).

    In each step `h' = f(W [x h] + b)`, with a W and b for each layer and direction. Layers and directions as in `lstm`.

    Source: Elman, Finding Structure in Time, 1990.

    Args:
        x: (T, B, I) float; T of 1 or more steps, B sequences.
        h: (L, D, B, H) float; the states to begin with.
        weight_l0: (D, H, I + H) float; of the first layer, the columns for x before those for h.
        weight: (L - 1, D, H, D H + H) float; of the other layers.
        bias: (L, D, H) float; default none is added.
        num_layers: L.
        nonlinearity: f, "tanh" or "relu".
        dropout: probability with which a number that one layer hands to the next becomes 0; 0 up to 1, without 1.
        bidirectional: whether a second direction is computed.
        training: whether dropout is in force.

    Returns:
        y: (T, B, D H) float; h' of each step in the last layer.
        h_n: (L, D, B, H) float; the states after the last step of each layer and direction.

    Raises:
        ValueError: a shape that does not match, a weight missing, a dropout out of range, another nonlinearity.
    """
    call = _Call("rnn", x, (h,), weight_l0, weight, bias, num_layers, bidirectional, gates=((), ()))
    return call.run("RNNSequence", dropout if training else 0.0, nonlinearity=nonlinearity)


class _Call:
    """One call: its arguments checked, and cut into what each layer and direction takes."""

    def __init__(
        self,
        name: str,
        x: Array,
        states: Sequence[Array],
        weight_l0: Array,
        weight: Array | None,
        bias: Array | None,
        num_layers: int,
        bidirectional: bool,
        gates: tuple[tuple[int, ...], tuple[int, ...]],
    ) -> None:
        """gates: the axis of affine maps that weights have, and biases."""
        self.name = name
        self.directions = 2 if bidirectional else 1
        self.layers = num_layers
        named = {
            "x": x,
            "h": states[0],
            "c": states[1] if len(states) > 1 else None,
            "weight_l0": weight_l0,
            "weight": weight,
            "bias": bias,
        }
        self.given: dict[str, Array] = {key: value for key, value in named.items() if value is not None}
        self._check(*gates)
        if any(isinstance(array, NdArray) for array in self.given.values()):
            # Computed at once, the parts of parameters included.
            self.given = {k: array.data if isinstance(array, Variable) else array for k, array in self.given.items()}
        size = states[0].shape[3]
        self.states = [self.given[key] for key in ("h", "c")[: len(states)]]
        self.weights = _parts(self.given["weight_l0"], 1, (*(gates[0] or (1,)), size, -1))
        self.biases: list[Array | None] = [None] * (self.directions * num_layers)
        if num_layers > 1:
            self.weights += _parts(self.given["weight"], 2, (*(gates[0] or (1,)), size, -1))
        if bias is not None:
            self.biases = [*_parts(self.given["bias"], 2, (*(gates[1] or (1,)), size))]

    def _check(self, of_weight: tuple[int, ...], of_bias: tuple[int, ...]) -> None:
        for key, value in self.given.items():
            if not isinstance(value, Variable | NdArray):
                raise TypeError(
                    four_parts(
                        f"{self.name}, input {key}",
                        f"got {type(value).__name__}",
                        "",
                        "pass a Variable or an NdArray; NdArray.from_numpy_array makes one of a NumPy array",
                    )
                )
        x, h = self.given["x"], self.given["h"]
        if x.ndim != 3 or h.ndim != 4:
            raise self._error(f"x has {x.ndim} axes and h {h.ndim}", "use x (T, B, I) and h (L, D, B, H)")
        layers, directions, (depth, size) = self.layers, self.directions, (x.shape[2], h.shape[3])
        if layers < 1:
            raise self._error(f"num_layers is {layers}", "use 1 or more")
        state = (layers, directions, x.shape[1], size)
        wanted: dict[str, tuple[int, ...]] = {
            "h": state,
            "c": state,
            "weight_l0": (directions, *of_weight, size, depth + size),
            "bias": (layers, directions, *of_bias, size),
        }
        if layers > 1:
            wanted["weight"] = (layers - 1, directions, *of_weight, size, directions * size + size)
            if "weight" not in self.given:
                raise self._error(f"{layers} layers need a weight", f"give one of shape {list(wanted['weight'])}")
        for key, shape in wanted.items():
            if key in self.given and tuple(self.given[key].shape) != shape:
                raise self._error(f"{key} has shape {list(self.given[key].shape)}", f"use {list(shape)}")

    def _error(self, wrong: str, remedy: str) -> RefusedError:
        shapes = ", ".join(f"{key}: {list(value.shape)}" for key, value in self.given.items())
        asked = f"{self.name}({shapes}, num_layers={self.layers}, bidirectional={self.directions == 2})"
        return RefusedError(four_parts(asked, wrong, "", remedy))

    def run(self, op: str, dropout: float | None, **attributes: Any) -> Any:
        """y and the last states. A dropout of None is 0."""
        starts = [_parts(state, 2, state.shape[2:]) for state in self.states]
        ends: list[list[Array]] = [[] for _ in self.states]
        x = self.given["x"]
        for layer in range(self.layers):
            outputs = []
            for direction in range(self.directions):
                at = layer * self.directions + direction
                inputs = (x, *(start[at] for start in starts), self.weights[at], self.biases[at])
                y, *last = Calls.functions[op](*inputs, reverse=direction == 1, **attributes)
                outputs.append(y)
                for end, state in zip(ends, last, strict=True):
                    end.append(state)
            x = outputs[0] if len(outputs) == 1 else Calls.functions["Concatenate"](*outputs, axis=2)
            if dropout and layer < self.layers - 1:
                x = Calls.functions["Dropout"](x, p=dropout)
        return x, *(_together(end, state.shape) for end, state in zip(ends, self.states, strict=True))


def _parts(value: Array, leading: int, shape: tuple[int, ...]) -> list[Array]:
    """The parts of an array along its `leading` first axes, each with the given shape."""
    count = math.prod(value.shape[:leading])
    if count == 1:
        return [_reshaped(value, shape)]
    return list(Calls.functions["Split"](_reshaped(value, (count, *shape)), axis=0))


def _together(parts: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """An array of the given shape made of parts: `_parts` undone."""
    return _reshaped(parts[0] if len(parts) == 1 else Calls.functions["Stack"](*parts, axis=0), shape)


def _reshaped(value: Array, shape: tuple[int, ...]) -> Any:
    return Calls.functions["Reshape"](value, shape)
