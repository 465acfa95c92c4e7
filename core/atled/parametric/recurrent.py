"""Long short-term memories, one step at a time or over whole sequences."""

from __future__ import annotations

import numbers
from typing import Any

from atled import functions
from atled.arrays.array import NdArray
from atled.parameter import Initializer, parameter_scope
from atled.parametric.api import parametric_function_api
from atled.parametric.layer import Array, Layer
from atled.parametric.sequences import lstm_sequence
from atled.parametric.weight_transform import LAYERS
from atled.variable import Variable


@parametric_function_api("lstm")
def lstm(
    x: Array,
    h: Array,
    c: Array,
    state_size: int | Initializer | None = None,
    w_init: Initializer | None = None,
    b_init: Initializer | None = None,
    fix_parameters: bool = False,
    *,
    w0_init: Initializer | None = None,
    num_layers: int = 1,
    dropout: float = 0.0,
    bidirectional: bool = False,
    training: bool = True,
    rng: Any = None,
    with_bias: bool = True,
) -> Any:
    """A long short-term memory: one step if a state_size is given, as in NNabla 1.0; else a whole sequence.

    With a state_size this is `lstm_cell`, and the arguments behind fix_parameters stay as they are. Without, the
    formula is that of `functions.lstm`, and what follows holds, as in later versions of NNabla.

    Parameters, in scope `lstm`:
        weight_l0: (D, 4, H, I + H) float; of the first layer.
        weight: (L - 1, D, 4, H, D H + H) float; of the others, if there are any.
        bias: (L, D, 4, H) float.

    Args:
        x: (T, B, I) float; T steps, B sequences.
        h, c: (L, D, B, H) float; the states to begin with. They say how many layers there are.
        state_size: nothing, or w0_init, which comes fourth in later versions of NNabla.
        w_init, b_init: first values of weight and bias, as for `rnn`.
        fix_parameters: whether the parameters get no gradient.
        w0_init: first value of weight_l0.
        num_layers, dropout, bidirectional, training, rng, with_bias: as for `rnn`.
        name: scope above `lstm`.

    Returns:
        y: (T, B, D H) float; h_n, c_n: (L, D, B, H) float.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    if isinstance(state_size, numbers.Number):
        given = {"w0_init": w0_init is not None, "num_layers": num_layers != 1, "dropout": dropout}
        given |= {"bidirectional": bidirectional, "training": not training, "rng": rng is not None}
        wrong = [name for name, changed in {**given, "with_bias": not with_bias}.items() if changed]
        if wrong:
            layer = Layer("lstm", x, state_size=state_size)
            raise layer.error(f"one step takes no {wrong[0]}", "leave state_size out for a sequence", TypeError)
        return _step(x, h, c, state_size, w_init, b_init, fix_parameters)
    if not isinstance(fix_parameters, bool):
        layer = Layer("lstm", x, fix_parameters=fix_parameters)
        raise layer.error("fix_parameters is no bool", "pass num_layers and what follows it by keyword", TypeError)
    assert not isinstance(state_size, int)
    return lstm_sequence(
        x,
        h,
        c,
        state_size if w0_init is None else w0_init,
        w_init,
        b_init,
        num_layers,
        dropout,
        bidirectional,
        training,
        rng,
        with_bias,
        fix_parameters,
    )


@parametric_function_api("lstm")
def lstm_cell(
    x: Array,
    h: Array,
    c: Array,
    state_size: int,
    w_init: Initializer | None = None,
    b_init: Initializer | None = None,
    fix_parameters: bool = False,
) -> Any:
    """One step of a long short-term memory.

    `c' = sigmoid(f) c + sigmoid(i) tanh(g)` and `h' = sigmoid(o) tanh(c')`, where i, o, f, g (input, output, forget
    gate and the new content) are one affine map of x and h.

    Parameters, in scope `lstm/affine`:
        W: (I + state_size, 4, state_size) float; the four in the order i, o, f, g.
        b: (4, state_size) float.

    Args:
        x: (N, I) float; the input of this step.
        h: (N, state_size) float; output of the step before.
        c: (N, state_size) float; memory of the step before.
        state_size: how many numbers the state has.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits.
        b_init: first value of b; default 0.
        fix_parameters: whether the parameters get no gradient.
        name: scope above `lstm`.

    Returns:
        h', c': (N, state_size) float each.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.

    Source: Hochreiter, Schmidhuber, Long Short-Term Memory, 1997; with the forget gate of Gers et al., 1999.
    """
    return _step(x, h, c, state_size, w_init, b_init, fix_parameters)


def _step(
    x: Array,
    h: Array,
    c: Array,
    state_size: Any,
    w_init: Initializer | None,
    b_init: Initializer | None,
    fix_parameters: bool,
) -> Any:
    layer = Layer("lstm", x, state_size=state_size)
    size = layer.size("state_size", state_size)
    for name, state in (("h", h), ("c", c)):
        if not isinstance(state, Variable | NdArray) or x.ndim != 2 or state.shape != (x.shape[0], size):
            found = list(state.shape) if isinstance(state, Variable | NdArray) else type(state).__name__
            raise layer.error(f"{name} is {found}", "give x of shape (N, I), h and c of shape (N, state_size)")
    gates = LAYERS["affine"](functions.concatenate(x, h, axis=1), (4, size), 1, w_init, b_init, fix_parameters)
    i, o, f, g = functions.split(gates, axis=1)
    c = functions.sigmoid(f) * c + functions.sigmoid(i) * functions.tanh(g)
    return functions.sigmoid(o) * functions.tanh(c), c


class LSTMCell:
    """A long short-term memory that keeps its state from one step to the next; see `lstm_cell`.

        cell = LSTMCell(batch_size, 32)
        for x in steps:
            h = cell(x)

    Its parameters are made in the scope in force when it is first called, and are the same at each step.

    Args:
        batch_size: N.
        state_size: how many numbers the state has.
        h, c: (batch_size, state_size) float; the state to begin with, zeros if None.
        name: scope above `lstm`.
    """

    def __init__(
        self, batch_size: int, state_size: int, h: Array | None = None, c: Array | None = None, name: str | None = None
    ) -> None:
        self.batch_size = batch_size
        self.state_size = state_size
        self.name = name
        self.h: Array = self._zeros() if h is None else h
        self.c: Array = self._zeros() if c is None else c

    def _zeros(self) -> Variable:
        state = Variable((self.batch_size, self.state_size))
        state.data.zero()
        return state

    def reset_state(self) -> None:
        """Set the state's values to zero; the recorded steps stay."""
        self.h.data.zero() if isinstance(self.h, Variable) else self.h.zero()
        self.c.data.zero() if isinstance(self.c, Variable) else self.c.zero()

    def __call__(
        self,
        x: Array,
        w_init: Initializer | None = None,
        b_init: Initializer | None = None,
        fix_parameters: bool = False,
    ) -> Array:
        """One step: moves the state.

        Args:
            x: (batch_size, I) float.
            w_init, b_init, fix_parameters: as for `lstm_cell`, as are the errors.

        Returns:
            h: (batch_size, state_size) float.
        """
        with parameter_scope(self.name or ""):
            self.h, self.c = lstm_cell(x, self.h, self.c, self.state_size, w_init, b_init, fix_parameters)
        return self.h
