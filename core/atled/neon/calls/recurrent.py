"""Recurrent layers step by step: states from states, and their errors back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts, shortened
from atled.keyed import Description
from atled.neon.calls.checks import check_dtypes, check_shapes, check_tensors
from atled.neon.calls.described import Described, DescribedCalls, layer_call
from atled.neon.calls.stepwise import Stepwise
from atled.neon.calls.tracing import Formula, NoFormulaError
from atled.neon.calls.unrolling import BackwardStep, ForwardStep, OverlapError, describe_backward, describe_forward
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled_contexts import Context

_OVERLAP = "views of the lists share some of their elements, not all, with views that are written"


class RecurrentCalls(DescribedCalls):
    """Computes the steps of recurrent layers."""

    if TYPE_CHECKING:
        context: Context

    @layer_call
    def compound_rnn_unroll_fprop(
        self,
        W_recur: Tensor,
        h_prev_s: Sequence[Tensor],
        h_ff_s: Sequence[Tensor],
        h_s: Sequence[Tensor],
        bias: Tensor | None,
        nout: int,
        num_steps: int,
        num_used_steps: int | None,
        activation: Any,  # a function of tensors
        reverse: bool = False,
    ) -> Described:
        """`h = activation(W_recur h_prev + h_ff + bias)`, step by step.

        Steps whose views lie at equal distances, as columns of one buffer do, run as one loop; others one by one in
        one program.

        Args:
            W_recur: (nout, nout) float.
            h_prev_s: (nout, B) for each step: the state before it; of all but the first one what the last one gave.
            h_ff_s: (nout, B) for each step: the feed-forward part. It may be h_s.
            h_s: (nout, B) for each step: the targets.
            bias: (nout, 1); None for none.
            nout, num_steps: how many units and steps there are.
            num_used_steps: so many of the steps are computed, None for all; the others stay as they are.
            activation: a function that gives an op-tree, such as a Transform, which becomes a part of the program. One
                that computes something by itself is called at each step.
            reverse: whether the last of these steps comes first.

        Raises:
            ValueError: shapes that do not fit, lists that are too short, or tensors of another backend.
            TypeError: several dtypes, or what is no tensor.
        """
        lists = {"h_prev_s": h_prev_s, "h_ff_s": h_ff_s, "h_s": h_s}
        steps = self._steps("compound_rnn_unroll_fprop", lists, W_recur, bias, nout, num_steps, num_used_steps, reverse)
        if not steps:
            return Described(Description(self.context))
        w, b = W_recur.view, None if bias is None else bias.view
        try:
            formula, d = Formula(self, activation, steps[0][-1].shape, W_recur.dtype), Description(self.context)
            views = [ForwardStep(*(each.view for each in step)) for step in steps]
            describe_forward(d, w, b, views, lambda value: formula.of(d, value))
            return Described(d)
        except (NoFormulaError, OverlapError) as error:
            reason = _why(error, activation)

        def computed(before: Tensor, fed: Tensor, h: Tensor) -> Callable[[], None]:
            def step() -> None:
                d = Description(self.context)
                plain = ForwardStep(before.view, fed.view, h.view)
                describe_forward(d, w, b, [plain], lambda value: value)
                d.run()
                found = activation(h)
                if found is not h:
                    h[:] = found

            return step

        targets = [h.view for *_, h in steps]
        return Described(Stepwise(self.context, reason, targets, [computed(*step) for step in steps]), is_kept=False)

    @layer_call
    def compound_rnn_unroll_bprop(
        self,
        W_recur: Tensor,
        delta_prev_s: Sequence[Tensor],
        delta_s: Sequence[Tensor],
        h_s: Sequence[Tensor],
        nout: int,
        num_steps: int,
        num_used_steps: int | None,
        activation: Any,  # a function of tensors, with a method bprop
        reverse: bool = True,
    ) -> Described:
        """`delta = activation.bprop(h) * delta; delta_prev = delta_prev + W_recur delta`, step by step.

        It runs as `compound_rnn_unroll_fprop` does.

        Args:
            W_recur: (nout, nout) float; of the weights of the layer the transposed ones.
            delta_prev_s: (nout, B) for each step: the error of the state before it, which is added to.
            delta_s: (nout, B) for each step: the error of the state; behind the call that before the activation.
            h_s: (nout, B) for each step: the states.
            nout, num_steps: how many units and steps there are.
            num_used_steps: so many of the steps are computed, None for all; the others stay as they are.
            activation: has a method `bprop` that gives the derivative in terms of the state.
            reverse: whether the last of these steps comes first.

        Raises: as `compound_rnn_unroll_fprop`.
        """
        lists = {"h_s": h_s, "delta_s": delta_s, "delta_prev_s": delta_prev_s}
        steps = self._steps("compound_rnn_unroll_bprop", lists, W_recur, None, nout, num_steps, num_used_steps, reverse)
        if not steps:
            return Described(Description(self.context))
        w = W_recur.view
        try:
            formula = Formula(
                self, getattr(activation, "bprop", None), steps[0][0].shape, W_recur.dtype, broadcasts=True
            )
            d = Description(self.context)
            views = [BackwardStep(*(each.view for each in step)) for step in steps]
            describe_backward(d, w, views, lambda h, delta: formula.times(d, h, delta))
            return Described(d)
        except (NoFormulaError, OverlapError) as error:
            reason = _why(error, activation)

        def computed(h: Tensor, delta: Tensor, before: Tensor) -> Callable[[], None]:
            def step() -> None:
                delta[:] = activation.bprop(h) * delta
                d = Description(self.context)
                plain = BackwardStep(h.view, delta.view, before.view)
                describe_backward(d, w, [plain], lambda _, value: value)
                d.run()

            return step

        targets = [each.view for step in steps for each in step[1:]]
        return Described(Stepwise(self.context, reason, targets, [computed(*step) for step in steps]), is_kept=False)

    def _steps(
        self,
        call: str,
        lists: dict[str, Sequence[Tensor]],
        w: Tensor,
        bias: Tensor | None,
        nout: int,
        num_steps: int,
        num_used_steps: int | None,
        reverse: bool,
    ) -> list[tuple[Tensor, ...]]:
        """The tensors of each step, in the order of computing, once they are known to fit."""
        used = _used(call, num_steps, num_used_steps)
        check_tensors(self, call, ["bias"], W_recur=w, bias=bias)
        check_shapes(call, {"W_recur": (nout, nout), "bias": (nout, 1)}, W_recur=w, bias=bias)
        if bias is not None:
            check_dtypes(call, W_recur=w, bias=bias)
        first = next(iter(lists.values()))
        one = first[0] if used and isinstance(first, list | tuple) and first else None
        batch = one.shape[-1] if isinstance(one, Tensor) else 0
        shape, dtype = (nout, batch), w.dtype
        for name, tensors in lists.items():
            count = len(tensors) if isinstance(tensors, list | tuple) else 0
            if count < used:
                asked = f"{call} of {used} steps"
                remedy = "give a list with a tensor for each step, or fewer steps"
                raise ValueError(four_parts(asked, f"{name} has {count} of them", "", remedy))
            for number, each in enumerate(tensors[:used]):
                if isinstance(each, Tensor) and each.backend is self and each.shape == shape and each.dtype == dtype:
                    continue
                told = {f"{name}[{number}]": each}
                check_tensors(self, call, **told)
                check_shapes(call, dict.fromkeys(told, shape), **told)
                check_dtypes(call, W_recur=w, **told)
        steps = list(zip(*(tensors[:used] for tensors in lists.values()), strict=True))
        return steps[::-1] if reverse else steps


def _used(call: str, num_steps: int, num_used_steps: int | None) -> int:
    """How many steps are computed; TypeError, ValueError for what is no count."""
    for name, count in (("num_steps", num_steps), ("num_used_steps", num_used_steps)):
        if count is None and name == "num_used_steps":
            continue
        wrong = (
            f"{call}({name}={shortened(count)})",
            "it is no count of steps",
            "",
            f"give a number from 0 on as {name}",
        )
        if not isinstance(count, int | np.integer):
            raise TypeError(four_parts(*wrong))
        if count < 0:
            raise ValueError(four_parts(*wrong))
    return int(num_steps if num_used_steps is None else min(num_used_steps, num_steps))


def _why(error: Exception, activation: Any) -> str:
    """Why steps are no single program."""
    return _OVERLAP if isinstance(error, OverlapError) else f"{shortened(activation)}: {error}"
