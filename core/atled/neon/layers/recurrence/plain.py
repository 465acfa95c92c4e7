"""Recurrent: one direction, `h = activation(W_input x + W_recur h_before + b)`."""

from __future__ import annotations

from typing import Any

from atled.errors import four_parts
from atled.neon.backends.backend import Tensor
from atled.neon.layers.parameter_layer import ParameterLayer
from atled.neon.layers.recurrence.recurrent_layer import RecurrentLayer
from atled.neon.layers.recurrence.steps import get_steps


class Recurrent(RecurrentLayer):
    """`h = activation(W_input x + W_recur h_before + b)`, step by step.

    output_size: units.  init: an initializer, for W_input.  init_inner: for W_recur; default init.
    activation: a function that gives op-trees, with a method bprop.
    reset_cells: whether each call starts with zeros, and not with the last state of the call before.
    W: (nin + nout + 1, nout), whose parts are W_input (nout, nin), W_recur (nout, nout) and b (nout, 1); dW the same.
    """

    def __init__(
        self,
        output_size: int,
        init: Any,
        init_inner: Any = None,
        activation: Any = None,
        reset_cells: bool = False,
        name: str | None = None,
        parallelism: str = "Data",
    ) -> None:
        super().__init__(output_size, init, init_inner, activation, reset_cells, name, parallelism)
        self.W_input: Any = None
        self.W_recur: Any = None
        self.b: Any = None
        self.dW_input: Any = None
        self.dW_recur: Any = None
        self.db: Any = None
        self.h_init: Any = None
        self._h_error: Any = None
        self._h: list[Tensor] = []
        self._is_given = False

    def _show(self, of: Tensor, prefix: str) -> None:
        units = self.gates * self.nout
        setattr(self, f"{prefix}W_input", self._block(of, 0, units, self.nin))
        setattr(self, f"{prefix}W_recur", self._block(of, self.nin, units, self.nout))
        setattr(self, f"{prefix}b", self._block(of, self.nin + self.nout, units, 1))

    def _blocks(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        return [self.W_input], [self.W_recur], [self.b]

    def _make_states(self) -> list[Tensor]:
        be, shape = self._present, (self.nout, self._present.bsz)
        self.h_init, self._h_error = (be.zeros(shape, dtype=self.outputs.dtype) for _ in range(2))
        self._h = get_steps(self.outputs, self.out_shape)
        self._h_before = [self.h_init, *self._h[:-1]]
        self._transposed = self.W_input.T, self.W_recur.T
        return [self.h_init]

    def fprop(self, inputs: Tensor, inference: bool = False, init_state: Tensor | None = None) -> Any:
        """The states of all steps, (nout, steps * batch).

        inputs: (nin, steps * batch), step by step.  init_state: (nout, batch); the state before the first step, in
        place of that of the call before.

        TypeError: no tensor.  ValueError: other sizes.  RuntimeError: `allocate` was not called.
        """
        self._check_allocated("fprop")
        self.init_buffers(inputs)
        if init_state is not None and not (isinstance(init_state, Tensor) and init_state.shape == self.h_init.shape):
            self._check_size("fprop", "init_state", init_state, self.h_init.shape)
        self._is_given = init_state is not None
        self._begin()
        if init_state is not None:
            self._take_state(init_state)
        self._present.compound_dot(self.W_input, self.x, self._fed)
        self._unroll(self._used)
        self._end()
        return self.outputs

    @property
    def _fed(self) -> Tensor:
        """Where the products of the inputs go."""
        fed: Tensor = self.outputs
        return fed

    def _take_state(self, init_state: Tensor) -> None:
        """Start with a state that was given."""
        self._copy(init_state, self.h_init)

    def _last_states(self, _: Tensor) -> list[Tensor]:
        return [self._h[self._used - 1]]

    def _unroll(self, used: int) -> None:
        self._present.compound_rnn_unroll_fprop(
            self.W_recur, self._h_before, self._h, self._h, self.b, self.nout, self.nsteps, used, self.activation
        )

    @ParameterLayer.accumulates
    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """`alpha * errors of the inputs + beta * deltas`, and the gradients of the parameters.

        The gradient of W_recur has no part of the state before the first step, unless it was given to `fprop`.

        error: (nout, steps * batch); of the outputs. Recurrent writes those before the activation into it.
        TypeError, ValueError: as for `fprop`.  RuntimeError: there was no `fprop`.
        """
        self._begin_bprop(error)
        be = self._present
        self._copy(self._zero, self._h_error)
        deltas = self._backward(error)
        be.compound_dot(deltas, self._seen("x", self.x, lambda x: x.T), self.dW_input)
        be.update_fc_bias(deltas, self.db)
        self._of_states(deltas)
        into = self._deltas_columns
        if into is not None:
            be.compound_dot(self._transposed[0], deltas, into, alpha=alpha, beta=beta)
        return self.deltas

    def _backward(self, error: Tensor) -> Tensor:
        """Errors before the activations; _h_error gets that of the state before the first step."""
        steps = self._seen("error", error, lambda each: get_steps(each, self.out_shape))
        before = [self._h_error, *steps[:-1]]
        about = (self.nout, self.nsteps, self._used, self.activation)
        self._present.compound_rnn_unroll_bprop(self._transposed[1], before, steps, self._h, *about)
        return error

    def _of_states(self, deltas: Tensor) -> None:
        """The gradient of W_recur: deltas of steps times what was before them, at the start only where it was given."""
        be = self._present
        for target, later, before, first, start in self._seen("deltas", deltas, self._neighbours):
            if later.shape[1]:
                be.compound_dot(later, before, target)
            else:
                target.fill(0)
            if self._is_given:
                be.compound_dot(first, start, target, beta=1.0)

    def _neighbours(self, deltas: Tensor) -> tuple[Any, ...]:
        """Of each part of W_recur: its gradient; deltas from the second step on, and what was before them; the first.

        What was before is transposed.
        """
        batch = self._present.bsz
        return ((self.dW_recur, deltas[:, batch:], self.outputs[:, :-batch].T, deltas[:, :batch], self.h_init.T),)

    def final_state(self) -> Tensor:
        """The last state, (nout, batch): a view of the outputs.  RuntimeError: there was no `fprop`."""
        if not self._last:
            raise RuntimeError(four_parts(f"{self._told}.final_state", "there was no fprop", "", "call fprop first"))
        return self._h[self._last - 1]

    def get_final_hidden_error(self) -> Tensor:
        """The error of the state before the first step, (nout, batch), as `bprop` left it.

        RuntimeError: the layer was not allocated.
        """
        self._check_allocated("get_final_hidden_error")
        error: Tensor = self._h_error
        return error
