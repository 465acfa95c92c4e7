"""Recurrent layers over whole sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled import functions
from atled.arrays.array import NdArray
from atled.initializer import ConstantInitializer, UniformInitializer, calc_uniform_lim_glorot
from atled.parameter import Initializer, get_parameter_or_create
from atled.parametric.api import parametric_function_api
from atled.parametric.layer import Array, Layer
from atled.variable import Variable


@parametric_function_api("rnn")
def rnn(
    x: Array,
    h: Array,
    w0_init: Initializer | None = None,
    w_init: Initializer | None = None,
    b_init: Initializer | None = None,
    num_layers: int = 1,
    nonlinearity: str = "tanh",
    dropout: float = 0.0,
    bidirectional: bool = False,
    training: bool = True,
    rng: Any = None,
    with_bias: bool = True,
    fix_parameters: bool = False,
) -> Any:
    """Plain recurrent layers over sequences; the formula is that of `functions.rnn`.

    Parameters, in scope `rnn`:
        weight_l0: (D, H, I + H) float; of the first layer.
        weight: (L - 1, D, H, D H + H) float; of the others, if there are any.
        bias: (L, D, H) float.

    Args:
        x: (T, B, I) float; T steps, B sequences.
        h: (L, D, B, H) float; the states to begin with. It says how many layers there are.
        w0_init, w_init: first values of weight_l0 and weight, arrays or initializers; default uniform with Glorot's
            limits, those of the columns for x and those for h each by itself.
        b_init: first value of bias; default 0.
        num_layers: L; may be left out.
        nonlinearity: "tanh" or "relu".
        dropout: probability with which a number that one layer hands to the next becomes 0; 0 up to 1, without 1.
        bidirectional: whether D is 2, the second direction going from the last step to the first.
        training: whether dropout is in force.
        rng: numpy.random.RandomState or Generator of the default first values; None: the numpy.random module.
        with_bias: whether there is a bias.
        fix_parameters: whether the parameters get no gradient.
        name: scope above `rnn`.

    Returns:
        y: (T, B, D H) float; h_n: (L, D, B, H) float.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = _SequenceLayer("rnn", x, h, num_layers, bidirectional, gates=(), bias_gates=())
    parameters = layer.parameters(w0_init, w_init, b_init, rng, with_bias, not fix_parameters)
    return functions.rnn(x, h, *parameters, layer.layers, nonlinearity, dropout, bidirectional, training)


@parametric_function_api("gru")
def gru(
    x: Array,
    h: Array,
    w0_init: Initializer | None = None,
    w_init: Initializer | None = None,
    b_init: Initializer | None = None,
    num_layers: int = 1,
    dropout: float = 0.0,
    bidirectional: bool = False,
    training: bool = True,
    rng: Any = None,
    with_bias: bool = True,
    fix_parameters: bool = False,
) -> Any:
    """Gated recurrent units over sequences; the formula is that of `functions.gru`.

    Parameters, in scope `gru`:
        weight_l0: (D, 3, H, I + H) float; of the first layer.
        weight: (L - 1, D, 3, H, D H + H) float; of the others, if there are any.
        bias: (L, D, 4, H) float.

    Args:
        x: (T, B, I) float; T steps, B sequences.
        h: (L, D, B, H) float; the states to begin with. It says how many layers there are.
        w0_init, w_init, b_init: first values of weight_l0, weight and bias, as for `rnn`.
        num_layers, dropout, bidirectional, training, rng, with_bias, fix_parameters: as for `rnn`.
        name: scope above `gru`.

    Returns:
        y: (T, B, D H) float; h_n: (L, D, B, H) float.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = _SequenceLayer("gru", x, h, num_layers, bidirectional, gates=(3,), bias_gates=(4,))
    parameters = layer.parameters(w0_init, w_init, b_init, rng, with_bias, not fix_parameters)
    return functions.gru(x, h, *parameters, layer.layers, dropout, bidirectional, training)


def lstm_sequence(
    x: Array,
    h: Array,
    c: Array,
    w0_init: Initializer | None,
    w_init: Initializer | None,
    b_init: Initializer | None,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    training: bool,
    rng: Any,
    with_bias: bool,
    fix_parameters: bool,
) -> Any:
    """The form of `lstm` for sequences: arguments, shapes and dtypes as there, parameters in the present scope."""
    layer = _SequenceLayer("lstm", x, h, num_layers, bidirectional, gates=(4,), bias_gates=(4,))
    parameters = layer.parameters(w0_init, w_init, b_init, rng, with_bias, not fix_parameters)
    return functions.lstm(x, h, c, *parameters, layer.layers, dropout, bidirectional, training)


class _SequenceLayer(Layer):
    """One call of a layer over sequences.

    layers: L.  directions: D.  depth: I.  size: H.
    gates, bias_gates: the axis of affine maps that weights have, and biases.
    """

    __slots__ = ("bias_gates", "depth", "directions", "gates", "layers", "size_of_state")

    def __init__(
        self,
        name: str,
        x: Any,
        h: Any,
        num_layers: int,
        bidirectional: bool,
        *,
        gates: tuple[int, ...],
        bias_gates: tuple[int, ...],
    ) -> None:
        super().__init__(name, x, num_layers=num_layers, bidirectional=bidirectional)
        self.directions = 2 if bidirectional else 1
        if x.ndim != 3:
            raise self.error(f"x has {x.ndim} axes", "give x of shape (T, B, I)")
        if not isinstance(h, Variable | NdArray) or h.ndim != 4 or h.shape[1] != self.directions:
            found = list(h.shape) if isinstance(h, Variable | NdArray) else type(h).__name__
            raise self.error(f"h is {found}", f"give h of shape (L, {self.directions}, B, H)")
        self.layers, self.size_of_state, self.depth = int(h.shape[0]), int(h.shape[3]), int(x.shape[2])
        # NNabla counts the layers of h and looks at num_layers no further; its default is left out of the comparison.
        if self.size("num_layers", num_layers) not in (1, self.layers):
            raise self.error(f"h has {self.layers} layers", "give h of shape (num_layers, D, B, H)")
        self.gates = gates
        self.bias_gates = bias_gates

    def parameters(
        self,
        w0_init: Initializer | None,
        w_init: Initializer | None,
        b_init: Initializer | None,
        rng: Any,
        with_bias: bool,
        need_grad: bool,
    ) -> tuple[Variable, Variable | None, Variable | None]:
        """weight_l0, weight and bias, float, of the shapes that `rnn` and others tell; the latter may be None."""
        size, directions, gates = self.size_of_state, self.directions, self.gates
        first = (directions, *gates, size, self.depth + size)
        weight_l0 = get_parameter_or_create(
            "weight_l0", first, _drawn(self.depth, size, rng) if w0_init is None else w0_init, need_grad
        )
        weight = bias = None
        if self.layers > 1:
            others = (self.layers - 1, directions, *gates, size, directions * size + size)
            draw = _drawn(directions * size, size, rng) if w_init is None else w_init
            weight = get_parameter_or_create("weight", others, draw, need_grad)
        if with_bias:
            shape = (self.layers, directions, *self.bias_gates, size)
            bias = get_parameter_or_create(
                "bias", shape, ConstantInitializer(0) if b_init is None else b_init, need_grad
            )
        return weight_l0, weight, bias


def _drawn(depth: int, size: int, rng: Any) -> Callable[[Sequence[int]], np.ndarray]:
    """First values of a weight (..., H, depth + H), float64: the limits of the columns for x are not those for h."""

    def draw(shape: Sequence[int]) -> np.ndarray:
        parts = [
            UniformInitializer(calc_uniform_lim_glorot(columns, size), rng)((*shape[:-1], columns))
            for columns in (depth, size)
        ]
        return np.concatenate(parts, axis=-1)

    return draw
