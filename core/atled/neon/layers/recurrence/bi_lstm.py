"""BiLSTM: both directions of an LSTM."""

from __future__ import annotations

from typing import Any

from atled.neon.backends.backend import Tensor
from atled.neon.layers.parameter_layer import ParameterLayer
from atled.neon.layers.recurrence.bi_plain import OF_ZEROS
from atled.neon.layers.recurrence.two_ways import TwoWays


class BiLSTM(TwoWays):
    """An LSTM of two directions, whose outputs lie one above the other.

    Arguments as of BiRNN, and gate_activation, that of the gates i, f and o. W is (2 * (nin + nout + 1), 4 * nout);
    W_input_f (4 * nout, nin) and so on have the gates in the order i, f, o, g.
    """

    gates = 4

    def __init__(
        self,
        output_size: int,
        init: Any,
        init_inner: Any = None,
        activation: Any = None,
        gate_activation: Any = None,
        reset_cells: bool = False,
        split_inputs: bool = False,
        name: str | None = None,
        parallelism: str = "Data",
    ) -> None:
        super().__init__(output_size, init, init_inner, activation, reset_cells, split_inputs, name, parallelism)
        self.gate_activation = gate_activation

    def _activations(self) -> tuple[str, ...]:
        return "activation", "gate_activation"

    def _make_states(self) -> list[Tensor]:
        be, (rows, steps) = self._present, self.out_shape
        self._gates, self._gate_deltas = (be.iobuf((self.gates * rows, steps)) for _ in range(2))
        self._c, self._c_act = (be.iobuf((rows, steps)) for _ in range(2))
        self._c_init, self._h_error, self._c_error = (be.iobuf((rows, 1)) for _ in range(3))
        return [*self._padding, self._c_init[: self.nout], self._c_init[self.nout :]]

    @property
    def _fed(self) -> Tensor:
        fed: Tensor = self._gates
        return fed

    def _last_states(self, _: Tensor) -> list[Tensor]:
        return [*super()._last_states(_), *self._ends_of(self._c)]

    def _halves_of(self, used: int, *buffers: Any) -> list[list[Tensor]]:
        """The first steps of buffers, of each direction."""
        end = used * self._present.bsz
        of_both = [(each[: each.shape[0] // 2, :end], each[each.shape[0] // 2 :, :end]) for each in buffers]
        return [list(each) for each in zip(*of_both, strict=True)]

    def _parts(self, _: Tensor) -> tuple[Any, ...]:
        """Of each direction: first h; first c and errors of both; gates, c, activated c, states and deltas."""
        halves = self._halves_of(self._used, self._gates, self._c, self._c_act, self._inner, self._gate_deltas)
        starts = self._halves_of(1, self._c_init, self._h_error, self._c_error)
        return tuple(zip(self._padding, starts, halves, strict=True))

    def _unroll(self, used: int) -> None:
        be, activations = self._present, (self.activation, self.gate_activation)
        weights = (self.W_recur_f, self.b_f), (self.W_recur_b, self.b_b)
        views = self._of("states", self.h_buffer, self._parts)
        for number, (h_init, (c_init, *_), (*written, _)) in enumerate(views):
            be.compound_lstm_unroll_fprop(*weights[number], h_init, c_init, *written, *activations, reverse=number == 1)

    @ParameterLayer.accumulates
    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = OF_ZEROS) -> Any:
        """As of BiRNN; the error is left as it is."""
        self._begin_bprop(error)
        return self._gradients_of(self._backward(error), alpha, 0.0 if beta is OF_ZEROS else beta)

    def _backward(self, error: Tensor) -> Tensor:
        be, activations = self._present, (self.activation, self.gate_activation)
        for each in (self._h_error, self._c_error):
            self._copy(self._zero, each)
        if self._used < self.nsteps:
            self._gate_deltas.fill(0)
        of_error = self._of("error", error, lambda each: self._halves_of(self._used, each))
        views = self._of("states", self.h_buffer, self._parts)
        for number, (_, (c_init, *ends), (gates, c, c_act, _, deltas)) in enumerate(views):
            weight = self.W_recur_b if number else self.W_recur_f
            read, (came,) = (c_init, gates, c, c_act), of_error[number]
            be.compound_lstm_unroll_bprop(weight, *read, came, deltas, *ends, *activations, reverse=number == 1)
        deltas = self._gate_deltas
        return deltas
