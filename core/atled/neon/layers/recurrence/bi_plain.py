"""BiRNN: both directions of a plain recurrent layer."""

from __future__ import annotations

from typing import Any

from atled.neon.backends.backend import Tensor
from atled.neon.layers.parameter_layer import ParameterLayer
from atled.neon.layers.recurrence.two_ways import TwoWays


class _OfZeros(float):
    """A default of beta that tells that deltas count as zeros."""


OF_ZEROS = _OfZeros(1.0)
"""neon's default of beta: both directions add to deltas that were set to 0 before. What is given counts as it is."""


class BiRNN(TwoWays):
    """A recurrent layer of two directions, whose outputs lie one above the other.

        h_t = activation(W_input_f x_t + W_recur_f h_(t-1) + b_f)
        g_t = activation(W_input_b x_t + W_recur_b g_(t+1) + b_b)

    The last h of a call and its first g are those with which the next call starts, while inputs of one shape come.

    output_size: units per direction.  init: an initializer, for W_input.  init_inner: for W_recur; default init.
    activation: a function that gives op-trees, with a method bprop.
    reset_cells: whether each call starts with zeros.
    split_inputs: whether the upper half of the inputs goes to the forward direction, and the lower to the backward one.
    W: (2 * (nin + nout + 1), nout), whose rows are W_input_f, W_input_b (nout, nin each), W_recur_f, W_recur_b
        (nout, nout), b_f and b_b (nout, 1), one behind the other; dW the same, with dW_input_f and so on.
    """

    def __init__(
        self,
        output_size: int,
        init: Any,
        init_inner: Any = None,
        activation: Any = None,
        reset_cells: bool = False,
        split_inputs: bool = False,
        name: str | None = None,
        parallelism: str = "Data",
    ) -> None:
        super().__init__(output_size, init, init_inner, activation, reset_cells, split_inputs, name, parallelism)

    def _make_states(self) -> list[Tensor]:
        be = self._present
        self._ends = [be.zeros((self.nout, be.bsz), dtype=self.h_buffer.dtype) for _ in range(2)]
        self._transposed = self.W_recur_f.T, self.W_recur_b.T
        return [*self._padding]

    def _steps(self) -> tuple[Any, ...]:
        """Of each direction the states before the steps, and those of the steps."""
        views: tuple[Any, ...] = self._of("states", self.h_buffer, self._columns)
        return views

    def _columns(self, buffer: Tensor) -> tuple[Any, ...]:
        batch, nout, used = self._present.bsz, self.nout, self._used
        columns = [
            [half[:, number * batch : (number + 1) * batch] for number in range(self.nsteps + 2)]
            for half in (buffer[:nout], buffer[nout:])
        ]
        forward, backward = columns
        # Of a sequence that is shorter the backward direction starts from the padding, too.
        after = [*backward[2 : used + 1], backward[-1]]
        return forward[:used], forward[1 : used + 1], after, backward[1 : used + 1]

    def _unroll(self, used: int) -> None:
        be = self._present
        before, forward, after, backward = self._steps()
        about = (self.nout, used, None, self.activation)
        be.compound_rnn_unroll_fprop(self.W_recur_f, before, forward, forward, self.b_f, *about)
        be.compound_rnn_unroll_fprop(self.W_recur_b, after, backward, backward, self.b_b, *about, reverse=True)

    @ParameterLayer.accumulates
    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = OF_ZEROS) -> Any:
        """`alpha * errors of the inputs + beta * deltas`, and the gradients of the parameters.

        The gradients of W_recur_f and W_recur_b have no part of the states from which the directions start.

        error: (2 * nout, steps * batch); of the outputs. Those before the activation are written into it.
        beta: 0 where it is left out.

        TypeError, ValueError: as for `fprop`.  RuntimeError: there was no `fprop`.
        """
        self._begin_bprop(error)
        return self._gradients_of(self._backward(error), alpha, 0.0 if beta is OF_ZEROS else beta)

    def _backward(self, error: Tensor) -> Tensor:
        be, used = self._present, self._used
        for end in self._ends:
            self._copy(self._zero_state, end)
        forward, backward = self._of("error", error, self._errors)
        _, states_f, _, states_b = self._steps()
        about = (self.nout, used, None, self.activation)
        before = [self._ends[0], *forward[:-1]]
        after = [*backward[1:], self._ends[1]]
        be.compound_rnn_unroll_bprop(self._transposed[0], before, forward, states_f, *about)
        be.compound_rnn_unroll_bprop(self._transposed[1], after, backward, states_b, *about, reverse=False)
        return error

    def _errors(self, error: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The steps of an error, of each direction."""
        batch, nout = self._present.bsz, self.nout
        forward, backward = (
            [half[:, number * batch : (number + 1) * batch] for number in range(self._used)]
            for half in (error[:nout], error[nout:])
        )
        return forward, backward
