"""LSTM and GRU: one direction, with gates."""

from __future__ import annotations

from typing import Any

from atled.neon.backends.backend import Tensor
from atled.neon.layers.recurrence.plain import Recurrent


class _Gated(Recurrent):
    """A recurrent layer with gates, whose values and errors have buffers.

    gate_activation: a function that gives op-trees, with a method bprop.  Others as of Recurrent; W is
    (nin + nout + 1, gates * nout).
    """

    def __init__(
        self,
        output_size: int,
        init: Any,
        init_inner: Any = None,
        activation: Any = None,
        gate_activation: Any = None,
        reset_cells: bool = False,
        name: str | None = None,
        parallelism: str = "Data",
    ) -> None:
        super().__init__(output_size, init, init_inner, activation, reset_cells, name, parallelism)
        self.gate_activation = gate_activation
        self._gates: Any = None
        self._gate_deltas: Any = None

    def _activations(self) -> tuple[str, ...]:
        return "activation", "gate_activation"

    def _make_states(self) -> list[Tensor]:
        starts, be = super()._make_states(), self._present
        self._gates, self._gate_deltas = (be.iobuf((self.gates * self.nout, self.nsteps)) for _ in range(2))
        return starts

    @property
    def _fed(self) -> Tensor:
        fed: Tensor = self._gates
        return fed

    def _columns(self, used: int, *buffers: Any) -> list[Tensor]:
        """The first steps of buffers."""
        if used == self.nsteps:
            return list(buffers)
        return [each[:, : used * self._present.bsz] for each in buffers]


class LSTM(_Gated):
    """`c = f c_before + i g; h = o activation(c)`, with gates i, f, o and g of `W_input x + W_recur h_before + b`.

    Arguments as of Recurrent, and gate_activation, that of i, f and o. W_input (4 nout, nin), W_recur (4 nout, nout)
    and b (4 nout, 1) have the gates in the order i, f, o, g. The gradient of W_recur never has a part of the state
    before the first step.
    """

    gates = 4

    def _make_states(self) -> list[Tensor]:
        starts, be = super()._make_states(), self._present
        self.c_init, self._c_error = (be.zeros_like(self.h_init) for _ in range(2))
        self._c, self._c_act = (be.zeros(self.outputs.shape, dtype=self.outputs.dtype) for _ in range(2))
        return [*starts, self.c_init]

    def _take_state(self, init_state: Tensor) -> None:
        super()._take_state(init_state)
        self._copy(self._zero, self.c_init)

    def _last_states(self, _: Tensor) -> list[Tensor]:
        end = self._used * self._present.bsz
        return [*super()._last_states(_), self._c[:, end - self._present.bsz : end]]

    def _unroll(self, used: int) -> None:
        be, activations = self._present, (self.activation, self.gate_activation)
        written = self._columns(used, self._gates, self._c, self._c_act, self.outputs)
        be.compound_lstm_unroll_fprop(self.W_recur, self.b, self.h_init, self.c_init, *written, *activations)

    def _backward(self, error: Tensor) -> Tensor:
        be, used = self._present, self._used
        self._copy(self._zero, self._c_error)
        if used < self.nsteps:
            self._gate_deltas.fill(0)
        buffers = self._columns(used, self._gates, self._c, self._c_act, error, self._gate_deltas)
        ends = (self._h_error, self._c_error, self.activation, self.gate_activation)
        be.compound_lstm_unroll_bprop(self.W_recur, self.c_init, *buffers, *ends)
        deltas: Tensor = self._gate_deltas
        return deltas

    def _of_states(self, deltas: Tensor) -> None:
        self._is_given = False
        super()._of_states(deltas)


class GRU(_Gated):
    """`h = (1 - z) h_before + z n`, n being `activation(W_n x + U_n (r h_before) + b_n)`.

    Arguments as of Recurrent, and gate_activation, that of r and z. W_input (3 nout, nin), W_recur (3 nout, nout) and
    b (3 nout, 1) have the rows of r, z and n one behind the other.
    """

    gates = 3

    def _make_states(self) -> list[Tensor]:
        self._reset_h = self._present.zeros(self.outputs.shape, dtype=self.outputs.dtype)
        return super()._make_states()

    def _unroll(self, used: int) -> None:
        be, activations = self._present, (self.activation, self.gate_activation)
        written = self._columns(used, self._gates, self._reset_h, self.outputs)
        be.compound_gru_unroll_fprop(self.W_recur, self.b, self.h_init, *written, *activations)

    def _backward(self, error: Tensor) -> Tensor:
        be, used = self._present, self._used
        if used < self.nsteps:
            self._gate_deltas.fill(0)
        buffers = self._columns(used, self._gates, self.outputs, error, self._gate_deltas)
        about = (self._h_error, self.activation, self.gate_activation)
        be.compound_gru_unroll_bprop(self.W_recur, self.h_init, *buffers, *about)
        deltas: Tensor = self._gate_deltas
        return deltas

    def _neighbours(self, deltas: Tensor) -> tuple[Any, ...]:
        batch, both = self._present.bsz, 2 * self.nout
        of_rz, of_n, reset = deltas[:both], deltas[both:], self._reset_h
        before, start = self.outputs[:, :-batch].T, self.h_init.T
        return (
            (self.dW_recur[:both], of_rz[:, batch:], before, of_rz[:, :batch], start),
            # In the place of the state before it n has r times that, of the same step.
            (self.dW_recur[both:], of_n[:, batch:], reset[:, batch:].T, of_n[:, :batch], reset[:, :batch].T),
        )
