"""Recurrent layers, one step at a time."""

from __future__ import annotations

from typing import Any

from atled import functions
from atled.array import NdArray
from atled.parameter import Initializer, parameter_scope
from atled.parametric.affine import affine
from atled.parametric.api import parametric_function_api
from atled.parametric.layer import Array, Layer
from atled.variable import Variable


@parametric_function_api("lstm")
def lstm(
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

    Parameters: `lstm/affine/W` of shape (I + state_size, 4, state_size), the four in the order i, o, f, g;
    `lstm/affine/b` of shape (4, state_size).

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
    layer = Layer("lstm", x, state_size=state_size)
    size = layer.size("state_size", state_size)
    for name, state in (("h", h), ("c", c)):
        if not isinstance(state, Variable | NdArray) or x.ndim != 2 or state.shape != (x.shape[0], size):
            found = list(state.shape) if isinstance(state, Variable | NdArray) else type(state).__name__
            raise layer.error(f"{name} is {found}", "give x of shape (N, I), h and c of shape (N, state_size)")
    gates = affine(functions.concatenate(x, h, axis=1), (4, size), 1, w_init, b_init, fix_parameters)
    i, o, f, g = functions.split(gates, axis=1)
    c = functions.sigmoid(f) * c + functions.sigmoid(i) * functions.tanh(g)
    return functions.sigmoid(o) * functions.tanh(c), c


class LSTMCell:
    """A long short-term memory that keeps its state from one step to the next; see `lstm`.

        cell = LSTMCell(batch_size, 32)
        for x in steps:
            h = cell(x)

    Its parameters are made in the scope in force when it is first called, and are the same at each step.

    Args:
        batch_size: N.
        state_size: how many numbers the state has.
        h, c: (batch_size, state_size); the state to begin with, zeros if None.
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
        """One step: takes x (batch_size, I), moves the state, returns h. Arguments and errors as `lstm`."""
        with parameter_scope(self.name or ""):
            self.h, self.c = lstm(x, self.h, self.c, self.state_size, w_init, b_init, fix_parameters)
        return self.h
