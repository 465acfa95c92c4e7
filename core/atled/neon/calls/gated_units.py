"""All steps of a GRU, and their errors back: one loop of the core each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atled.keyed import Description
from atled.neon.calls.described import Described, DescribedCalls, layer_call
from atled.neon.calls.step_rows import check_steps, formula, part, rows_before, sizes_of_state, step_rows
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled_contexts import Context


class GatedUnitCalls(DescribedCalls):
    """Computes the steps of GRU layers; their gates are r and z, and n is the new content."""

    if TYPE_CHECKING:
        context: Context

    @layer_call
    def compound_gru_unroll_fprop(
        self,
        W_recur: Tensor,
        b: Tensor,
        h_init: Tensor,
        gates: Tensor,
        reset_h: Tensor,
        h: Tensor,
        activation: Any,  # functions of tensors
        gate_activation: Any,
        reverse: bool = False,
    ) -> Described:
        """`h = (1 - z) h_before + z n`, with r and z of `gates + W_recur h_before + b`, and n with `r h_before` there.

        Args:
            W_recur: (3 H, H) float.
            b: (3 H, 1).
            h_init: (H, B); the state before the first step.
            gates: (3 H, T * B); what is fed, and behind the call r, z and n.
            reset_h, h: (H, T * B); targets: `r h_before`, and the states.
            activation, gate_activation: functions that give op-trees: of n, and of r and z.
            reverse: whether the last step comes first.

        Raises:
            ValueError: shapes that do not fit, tensors of another backend, an activation that gives no op-tree.
            TypeError: several dtypes, or what is no tensor or activation.
        """
        call, (units, batch) = "compound_gru_unroll_fprop", sizes_of_state(h_init)
        heights = {"W_recur": 3, "b": 3, "gates": 3, "reset_h": 1, "h": 1}
        check_steps(self, call, h_init, heights, W_recur=W_recur, b=b, gates=gates, reset_h=reset_h, h=h)
        act = formula(self, call, activation, h_init, units)
        gate_act = formula(self, call, gate_activation, h_init, 2 * units)
        d = Description(self.context)
        inner = [d.leaf(each) for each in (W_recur.view[: 2 * units], W_recur.view[2 * units :])]
        bias = [d.leaf(each) for each in (b.view[: 2 * units], b.view[2 * units :])]

        def added(fed: int, number: int, state: int) -> int:
            total = d.call("Add2", fed, d.call("BatchMatmul", inner[number], state))
            return d.call("Add2", total, bias[number])

        def step(fed_rz: int, fed_n: int, state: int) -> tuple[list[int], list[int]]:
            rz = gate_act.of(d, added(fed_rz, 0, state))
            r, z = (part(d, rz, units, batch, number) for number in range(2))
            reset = d.call("Mul2", r, state)
            n = act.of(d, added(fed_n, 1, reset))
            state = d.call("Add2", state, d.call("Mul2", z, d.call("Sub2", n, state)))
            return [state], [rz, n, reset, state]

        views = [gates.view[: 2 * units], gates.view[2 * units :], reset_h.view, h.view]
        rows = [step_rows(each, batch, reverse) for each in views]
        loop = d.loop(step, [d.leaf(each) for each in rows[:2]], [d.leaf(h_init.view)])
        for target, value in zip(rows, loop.rows, strict=True):
            d.assign(target, value)
        return Described(d)

    @layer_call
    def compound_gru_unroll_bprop(
        self,
        W_recur: Tensor,
        h_init: Tensor,
        gates: Tensor,
        h: Tensor,
        error: Tensor,
        deltas: Tensor,
        h_error: Tensor,
        activation: Any,
        gate_activation: Any,
        reverse: bool = False,
    ) -> Described:
        """The errors of r, z and n before their activations, from those of the states.

        Args:
            W_recur, h_init, gates, h: as `compound_gru_unroll_fprop` had and left them.
            error: (H, T * B); of the states.
            deltas: (3 H, T * B); the target.
            h_error: (H, B); what comes from behind the last step, and behind the call the error of h_init.
            activation, gate_activation: have a method `bprop` that gives the derivative in terms of what they gave.
            reverse: as in `compound_gru_unroll_fprop`.

        Raises: as `compound_gru_unroll_fprop`.
        """
        call, (units, batch) = "compound_gru_unroll_bprop", sizes_of_state(h_init)
        heights = {"W_recur": 3, "gates": 3, "h": 1, "error": 1, "deltas": 3, "h_error": 1}
        given = {"W_recur": W_recur, "gates": gates, "h": h, "error": error, "deltas": deltas, "h_error": h_error}
        check_steps(self, call, h_init, heights, **given)
        of_act = formula(self, call, getattr(activation, "bprop", None), h_init, units)
        of_gate = formula(self, call, getattr(gate_activation, "bprop", None), h_init, 2 * units)
        d = Description(self.context)
        of_rz, of_n = (d.leaf(each.T) for each in (W_recur.view[: 2 * units], W_recur.view[2 * units :]))

        def step(came: int, rz: int, n: int, before: int, h_error: int) -> tuple[list[int], list[int]]:
            r, z = (part(d, rz, units, batch, number) for number in range(2))
            of_h = d.call("Add2", came, h_error)
            through_z = d.call("Mul2", z, of_h)
            delta_n = of_act.times(d, n, through_z)
            of_reset = d.call("BatchMatmul", of_n, delta_n)
            of_z = d.call("Mul2", d.call("Sub2", n, before), of_h)
            both = d.call("Concatenate", d.call("Mul2", before, of_reset), of_z, axis=0)
            delta_rz = of_gate.times(d, rz, both)
            kept = d.call("Add2", d.call("Sub2", of_h, through_z), d.call("Mul2", r, of_reset))
            new = d.call("Add2", kept, d.call("BatchMatmul", of_rz, delta_rz))
            return [new], [delta_rz, delta_n]

        views = [error.view, gates.view[: 2 * units], gates.view[2 * units :]]
        came, rz, n = (d.leaf(step_rows(each, batch, not reverse)) for each in views)
        before = rows_before(d, h.view, h_init.view, reverse)
        loop = d.loop(step, [came, rz, n, before], [d.leaf(h_error.view)])
        for target, value in zip((deltas.view[: 2 * units], deltas.view[2 * units :]), loop.rows, strict=True):
            d.assign(step_rows(target, batch, not reverse), value)
        d.assign(h_error.view, loop.states[0])
        return Described(d)
