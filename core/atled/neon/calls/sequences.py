"""Sums over the steps of sequences, and errors spread over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atled.errors import four_parts
from atled.keyed import Description
from atled.neon.calls.checks import asked, check_numbers, check_shapes, check_tensors
from atled.neon.calls.described import Described, DescribedCalls, layer_call
from atled.neon.calls.step_rows import step_rows
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled_contexts import Context


class SequenceCalls(DescribedCalls):
    """Adds steps up."""

    if TYPE_CHECKING:
        context: Context

    @layer_call
    def sum_steps(self, x: Tensor, y: Tensor, alpha: float = 1.0) -> Described:
        """`y = alpha * sum of the steps of x`.

        x: (F, T * B) float.  y: (F, B); the target.  alpha: a number.
        ValueError: other shapes, or tensors of another backend.  TypeError: no tensor or number.
        """
        self._check_sequence("sum_steps", alpha, 0.0, x=x, y=y)
        d = Description(self.context)
        total = d.call("Sum", d.leaf(step_rows(x.view, y.shape[1])), axes=(0,), keep_dims=False)
        d.assign(y.view, total if alpha == 1 else d.call("Mul2", total, d.number(alpha)))
        return Described(d)

    @layer_call
    def spread_steps(self, error: Tensor, deltas: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Described:
        """`deltas = alpha * error + beta * deltas` at each step: the gradient of `sum_steps`.

        error: (F, B) float.  deltas: (F, T * B); the target.  alpha, beta: numbers. Raises as `sum_steps`.
        """
        self._check_sequence("spread_steps", alpha, beta, deltas=deltas, error=error)
        d, target = Description(self.context), step_rows(deltas.view, error.shape[1])
        value = d.leaf(error.view)
        if alpha != 1:
            value = d.call("Mul2", value, d.number(alpha))
        if beta:
            value = d.call("Add2", d.call("Mul2", d.leaf(target), d.number(beta)), value)
        d.assign(target, value)
        return Described(d)

    def _check_sequence(self, call: str, alpha: float, beta: float, **given: Tensor) -> None:
        """Refuse what are not a sequence and a step of it, in this order."""
        check_tensors(self, call, **given)
        check_numbers(call, alpha=alpha, beta=beta)
        (_, sequence), (name, one) = given.items()
        columns, batch = sequence.shape[-1], one.shape[-1]
        if not batch or columns % batch:
            wrong = f"{columns} columns are not steps of a batch of {batch}"
            raise ValueError(four_parts(asked(call, **given), wrong, "", f"give {name} one column per example"))
        check_shapes(call, {name: (sequence.shape[0], batch)}, **given)
