"""All steps of an LSTM, and their errors back: one loop of the core each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atled.keyed import Description
from atled.neon.calls.described import Described, DescribedCalls, layer_call
from atled.neon.calls.step_rows import check_steps, formula, part, rows_before, sizes_of_state, step_rows
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled_contexts import Context


class LongMemoryCalls(DescribedCalls):
    """Computes the steps of LSTM layers; their gates are i, f, o and g."""

    if TYPE_CHECKING:
        context: Context

    @layer_call
    def compound_lstm_unroll_fprop(
        self,
        W_recur: Tensor,
        b: Tensor,
        h_init: Tensor,
        c_init: Tensor,
        gates: Tensor,
        c: Tensor,
        c_act: Tensor,
        h: Tensor,
        activation: Any,  # functions of tensors
        gate_activation: Any,
        reverse: bool = False,
    ) -> Described:
        """`c = f c_before + i g; h = o activation(c)`, with the gates of `gates + W_recur h_before + b`.

        Args:
            W_recur: (4 H, H) float.
            b: (4 H, 1).
            h_init, c_init: (H, B); states before the first step.
            gates: (4 H, T * B); what is fed, and behind the call the activated gates.
            c, c_act, h: (H, T * B); targets: c, activation(c) and the states.
            activation, gate_activation: functions that give op-trees: of g and c, and of i, f and o.
            reverse: whether the last step comes first.

        Raises:
            ValueError: shapes that do not fit, tensors of another backend, an activation that gives no op-tree.
            TypeError: several dtypes, or what is no tensor or activation.
        """
        call, (units, batch) = "compound_lstm_unroll_fprop", sizes_of_state(h_init)
        heights = {"W_recur": 4, "b": 4, "c_init": 1, "gates": 4, "c": 1, "c_act": 1, "h": 1}
        given = {"W_recur": W_recur, "b": b, "c_init": c_init, "gates": gates, "c": c, "c_act": c_act, "h": h}
        check_steps(self, call, h_init, heights, **given)
        act = formula(self, call, activation, h_init, units)
        gate_act = formula(self, call, gate_activation, h_init, 3 * units)
        d = Description(self.context)
        weight, bias = d.leaf(W_recur.view), d.leaf(b.view)

        def step(fed: int, state: int, cell: int) -> tuple[list[int], list[int]]:
            total = d.call("Add2", d.call("Add2", fed, d.call("BatchMatmul", weight, state)), bias)
            ifo = gate_act.of(d, part(d, total, units, batch, 0, 3))
            i, f, o = (part(d, ifo, units, batch, number) for number in range(3))
            g = act.of(d, part(d, total, units, batch, 3))
            cell = d.call("Add2", d.call("Mul2", f, cell), d.call("Mul2", i, g))
            active = act.of(d, cell)
            state = d.call("Mul2", o, active)
            return [state, cell], [ifo, g, cell, active, state]

        fed = d.leaf(step_rows(gates.view, batch, reverse))
        loop = d.loop(step, [fed], [d.leaf(h_init.view), d.leaf(c_init.view)])
        targets = [gates.view[: 3 * units], gates.view[3 * units :], c.view, c_act.view, h.view]
        for target, value in zip(targets, loop.rows, strict=True):
            d.assign(step_rows(target, batch, reverse), value)
        return Described(d)

    @layer_call
    def compound_lstm_unroll_bprop(
        self,
        W_recur: Tensor,
        c_init: Tensor,
        gates: Tensor,
        c: Tensor,
        c_act: Tensor,
        error: Tensor,
        deltas: Tensor,
        h_error: Tensor,
        c_error: Tensor,
        activation: Any,
        gate_activation: Any,
        reverse: bool = False,
    ) -> Described:
        """The errors of the gates before their activations, from those of the states.

        Args:
            W_recur, c_init, gates, c, c_act: as `compound_lstm_unroll_fprop` had and left them.
            error: (H, T * B); of the states.
            deltas: (4 H, T * B); the target.
            h_error, c_error: (H, B); what comes from behind the last step, and behind the call the errors of h_init and
                c_init.
            activation, gate_activation: have a method `bprop` that gives the derivative in terms of what they gave.
            reverse: as in `compound_lstm_unroll_fprop`.

        Raises: as `compound_lstm_unroll_fprop`.
        """
        call, (units, batch) = "compound_lstm_unroll_bprop", sizes_of_state(h_error)
        heights = {"W_recur": 4, "c_init": 1, "gates": 4, "c": 1, "c_act": 1, "error": 1, "deltas": 4, "c_error": 1}
        given = {"W_recur": W_recur, "c_init": c_init, "gates": gates, "c": c, "c_act": c_act, "error": error}
        check_steps(self, call, h_error, heights, **given, deltas=deltas, c_error=c_error)
        of_act = formula(self, call, getattr(activation, "bprop", None), h_error, units)
        of_gate = formula(self, call, getattr(gate_activation, "bprop", None), h_error, 3 * units)
        d = Description(self.context)
        weight = d.leaf(W_recur.view.T)

        def step(
            came: int, ifo: int, g: int, before: int, active: int, h_error: int, c_error: int
        ) -> tuple[list[int], list[int]]:
            i, f, o = (part(d, ifo, units, batch, number) for number in range(3))
            of_h = d.call("Add2", came, h_error)
            of_c = d.call("Add2", c_error, of_act.times(d, active, d.call("Mul2", o, of_h)))
            of_ifo = [d.call("Mul2", g, of_c), d.call("Mul2", before, of_c), d.call("Mul2", active, of_h)]
            delta_ifo = of_gate.times(d, ifo, d.call("Concatenate", *of_ifo, axis=0))
            delta = d.call("Concatenate", delta_ifo, of_act.times(d, g, d.call("Mul2", i, of_c)), axis=0)
            return [d.call("BatchMatmul", weight, delta), d.call("Mul2", f, of_c)], [delta]

        of_gates = [gates.view[: 3 * units], gates.view[3 * units :]]
        came, ifo, g, active = (
            d.leaf(step_rows(each, batch, not reverse)) for each in (error.view, *of_gates, c_act.view)
        )
        before = rows_before(d, c.view, c_init.view, reverse)
        loop = d.loop(step, [came, ifo, g, before, active], [d.leaf(h_error.view), d.leaf(c_error.view)])
        d.assign(step_rows(deltas.view, batch, not reverse), loop.rows[0])
        for target, value in zip((h_error, c_error), loop.states, strict=True):
            d.assign(target.view, value)
        return Described(d)
