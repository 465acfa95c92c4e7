"""What layers have a backend do: activations, nodes that copy and add, branches, and both directions of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from atled.errors import shortened
from atled.keyed import Description
from atled.neon.calls.checks import check_numbers, check_shapes, check_tensors
from atled.neon.calls.described import Described, DescribedCalls, layer_call
from atled.neon.calls.recurrent import RecurrentCalls
from atled.neon.calls.stepwise import Stepwise, Together
from atled.neon.calls.tracing import Formula, NoFormulaError
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled_contexts import Context


class LayerHooks(DescribedCalls):
    """Computes for layers."""

    if TYPE_CHECKING:
        context: Context
        maximum: Any  # calls that make op-trees
        minimum: Any
        greater: Any
        less: Any
        exp: Any
        max: Any
        sum: Any

    def fprop_relu(self, layer: Any, x: Any, slope: float) -> Any:
        """The op-tree `max(x, 0) + slope * min(x, 0)`.  x: a tensor or an op-tree.  layer: no effect."""
        y = self.maximum(x, 0)
        return y + slope * self.minimum(x, 0) if slope else y

    def bprop_relu(self, layer: Any, x: Any, error: Any, deltas: Any, slope: float) -> Any:
        """The op-tree of its derivative: 1 where x is positive, slope where it is negative, else 0.

        x: what `fprop_relu` gave.  layer, error, deltas: no effect.
        """
        derivative = self.greater(x, 0)
        return derivative + slope * self.less(x, 0) if slope else derivative

    def fprop_softmax(self, x: Any, axis: int) -> Any:
        """The op-tree `exp(x - max(x)) / sum(exp(x - max(x)))` along an axis.  x: a tensor or an op-tree."""
        powers = self.exp(x - self.max(x, axis=axis))
        return powers / self.sum(powers, axis=axis)

    @layer_call
    def fprop_transform(
        self, ngLayer: Any, transform: Any, inputs: Tensor, outputs: Tensor, relu: bool = False
    ) -> Described:
        """`outputs = transform(inputs)`.

        transform: a function that gives an op-tree, such as a Transform.
        inputs, outputs: tensors of one shape; outputs may be inputs.  ngLayer, relu: no effect.
        ValueError: other shapes, or tensors of another backend.  TypeError: no tensor.
        """
        check_tensors(self, "fprop_transform", inputs=inputs, outputs=outputs)
        check_shapes("fprop_transform", {"outputs": inputs.shape}, inputs=inputs, outputs=outputs)
        try:
            formula, d = (
                Formula(self, transform, inputs.shape, inputs.dtype, broadcasts=True),
                Description(self.context),
            )
            d.assign(outputs.view, formula.of(d, d.leaf(inputs.view)))
            return Described(d)
        except NoFormulaError as error:
            return self._by_itself(transform, error, [outputs, inputs], lambda: transform(inputs))

    @layer_call
    def bprop_transform(
        self, ngLayer: Any, transform: Any, outputs: Tensor, error: Tensor, deltas: Tensor, relu: bool = False
    ) -> Described:
        """`deltas = transform.bprop(outputs) * error`.

        transform: has a method `bprop` that gives the derivative in terms of the outputs.
        outputs, error, deltas: tensors of one shape; deltas may be error.  ngLayer, relu: no effect.
        ValueError: other shapes, or tensors of another backend.  TypeError: no tensor.
        """
        given = {"outputs": outputs, "error": error, "deltas": deltas}
        check_tensors(self, "bprop_transform", **given)
        check_shapes("bprop_transform", dict.fromkeys(("error", "deltas"), outputs.shape), **given)
        try:
            formula, d = (
                Formula(self, getattr(transform, "bprop", None), outputs.shape, outputs.dtype, broadcasts=True),
                Description(self.context),
            )
            d.assign(deltas.view, formula.times(d, d.leaf(outputs.view), d.leaf(error.view)))
            return Described(d)
        except NoFormulaError as refused:
            return self._by_itself(transform, refused, [deltas], lambda: transform.bprop(outputs) * error)

    @layer_call
    def fprop_skipnode(self, x: Tensor, y: Tensor, beta: float = 0.0) -> Described:
        """`y = x + beta * y`.  ValueError: other shapes, or tensors of another backend.  TypeError: no tensor."""
        return self._added("fprop_skipnode", x, y, 1.0, beta)

    @layer_call
    def bprop_skipnode(self, error: Tensor, deltas: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Described:
        """`deltas = alpha * error + beta * deltas`.  Raises as `fprop_skipnode`."""
        return self._added("bprop_skipnode", error, deltas, alpha, beta)

    def fprop_mergesum(
        self, ngLayer: Any, inputs: Any, inference: bool, layers: Sequence[Any], outputs: Any, out_shape: Any
    ) -> None:
        """Have branches compute from the same inputs; the first one writes the outputs that all share, others add.

        layers: the branches, with `fprop(inputs, inference, beta=...)`.  ngLayer, outputs, out_shape: no effect.
        """
        for number, each in enumerate(layers):
            each.fprop(inputs, inference, beta=1.0 if number else 0.0)

    def bprop_mergesum(
        self, ngLayer: Any, alpha: float, beta: float, layers: Sequence[Any], error: Any, deltas: Any
    ) -> None:
        """Have branches give one error back, the last one first: deltas are `alpha * their errors + beta * deltas`.

        layers: the branches, with `bprop(error, alpha=..., beta=...)`, and deltas that they share.
        ngLayer, deltas: no effect.
        """
        for number, each in enumerate(reversed(layers)):
            each.bprop(error, alpha=alpha, beta=1.0 if number else beta)

    def fprop_mergebroadcast(
        self, ngLayer: Any, inputs: Any, inference: bool, outputs: Any, layers: Sequence[Any], out_shape: Any
    ) -> None:
        """Have branches compute from the same inputs, each its part of the outputs.

        layers: the branches, with `fprop(inputs, inference)`.  ngLayer, outputs, out_shape: no effect.
        """
        for each in layers:
            each.fprop(inputs, inference)

    def bprop_mergebroadcast(
        self,
        ngLayer: Any,
        layers: Sequence[Any],
        error_views: Sequence[Any],
        error: Any,
        delta: Any,
        out_shape: Any,
        alpha: float,
        beta: float,
        alphas: Sequence[float],
    ) -> None:
        """Have branches, the last one first, give back their parts of the error.

        The sum of `alpha * alphas[i]` times their errors, and `beta * delta`, is in the delta that they share.
        layers: the branches, with `bprop(error, alpha=..., beta=...)`.  error_views: their parts.
        alphas: a factor for each.  ngLayer, error, delta, out_shape: no effect.
        """
        branches = list(zip(layers, error_views, alphas, strict=True))
        for number, (each, part, factor) in enumerate(reversed(branches)):
            each.bprop(part, alpha=alpha * factor, beta=1.0 if number else beta)

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

    def _added(self, call: str, x: Tensor, y: Tensor, alpha: float, beta: float) -> Described:
        check_tensors(self, call, x=x, y=y)
        check_numbers(call, alpha=alpha, beta=beta)
        check_shapes(call, {"y": x.shape}, x=x, y=y)
        d = Description(self.context)
        value = d.leaf(x.view)
        if alpha != 1:
            value = d.call("Mul2", value, d.number(alpha))
        if beta:
            value = d.call("Add2", value, d.call("Mul2", d.leaf(y.view), d.number(beta)))
        d.assign(y.view, value)
        return Described(d)

    def _together(self, one: Described, other: Described, written: Sequence[Tensor]) -> Described:
        """Two calls as one.  written: their targets."""
        is_kept = one.is_kept and other.is_kept
        # What is kept is compiled; an activation that is called at each step may fail at any of them.
        targets = [] if is_kept else [each.view for each in written if isinstance(each, Tensor)]
        return Described(Together(self.context, (one.program, other.program), targets), is_kept=is_kept)

    def _by_itself(self, transform: Any, error: NoFormulaError, written: Sequence[Tensor], compute: Any) -> Described:
        """What to do with a transform that is no formula: have it compute, and assign what it gives to the first."""

        def step() -> None:
            written[0][:] = compute()

        reason = f"{shortened(transform)}: {error}"
        return Described(Stepwise(self.context, reason, [each.view for each in written], [step]), is_kept=False)
