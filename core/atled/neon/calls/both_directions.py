"""Both directions of a bidirectional recurrent layer by one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from atled.neon.calls.described import Described, DescribedCalls, layer_call
from atled.neon.calls.recurrent import RecurrentCalls
from atled.neon.calls.stepwise import Together
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled_contexts import Context


class BothDirectionCalls(DescribedCalls):
    """Computes the steps of recurrent layers forwards and backwards in time."""

    if TYPE_CHECKING:
        context: Context

    @layer_call
    def compound_rnn_unroll_fprop_bibnrnn(
        self,
        ngLayer: Any,
        h_buffer_all: Any,
        h_ff_buffer: Any,
        W_recur_f: Tensor,
        h_prev: Sequence[Tensor],
        h_ff_f: Sequence[Tensor],
        h_f: Sequence[Tensor],
        b_f: Tensor | None,
        W_recur_b: Tensor,
        h_next: Sequence[Tensor],
        h_ff_b: Sequence[Tensor],
        h_b: Sequence[Tensor],
        b_b: Tensor | None,
        nout: int,
        nsteps: int,
        used_nsteps: int | None,
        activation: Any,
    ) -> Described:
        """`compound_rnn_unroll_fprop` of the forward direction, and of the backward one, from the last step on.

        Raises as that, with nothing written.  ngLayer, h_buffer_all, h_ff_buffer: no effect.
        """
        unroll = RecurrentCalls.compound_rnn_unroll_fprop.describe
        about = (nout, nsteps, used_nsteps, activation)
        forward = unroll(self, W_recur_f, h_prev, h_ff_f, h_f, b_f, *about, False)
        backward = unroll(self, W_recur_b, h_next, h_ff_b, h_b, b_b, *about, True)
        return self._together(forward, backward, [*h_f, *h_b])

    @layer_call
    def compound_rnn_unroll_bprop_bibnrnn(
        self,
        ngLayer: Any,
        error: Any,
        in_deltas_f: Sequence[Tensor],
        prev_in_deltas: Sequence[Tensor],
        in_deltas_b: Sequence[Tensor],
        next_in_deltas: Sequence[Tensor],
        W_recur_f: Tensor,
        W_recur_b: Tensor,
        h_f: Sequence[Tensor],
        h_b: Sequence[Tensor],
        nout: int,
        nsteps: int,
        used_nsteps: int | None,
        activation: Any,
        h_buffer_all: Any = None,
    ) -> Described:
        """`compound_rnn_unroll_bprop` of the forward direction, from the last step on, and of the backward one.

        Raises as that, with nothing written.  ngLayer, error, h_buffer_all: no effect.
        """
        unroll = RecurrentCalls.compound_rnn_unroll_bprop.describe
        about = (nout, nsteps, used_nsteps, activation)
        forward = unroll(self, W_recur_f, prev_in_deltas, in_deltas_f, h_f, *about, True)
        backward = unroll(self, W_recur_b, next_in_deltas, in_deltas_b, h_b, *about, False)
        return self._together(forward, backward, [*prev_in_deltas, *in_deltas_f, *next_in_deltas, *in_deltas_b])

    def _together(self, one: Described, other: Described, written: Sequence[Tensor]) -> Described:
        """Two calls as one.  written: their targets."""
        is_kept = one.is_kept and other.is_kept
        # What is kept is compiled; an activation that is called at each step may fail at any of them.
        targets = [] if is_kept else [each.view for each in written if isinstance(each, Tensor)]
        return Described(Together(self.context, (one.program, other.program), targets), is_kept=is_kept)
