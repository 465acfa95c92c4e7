"""Networks that branch: errors and outputs of several branches added up, or written side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from atled.keyed import Description
from atled.neon.calls.checks import check_numbers, check_shapes, check_tensors
from atled.neon.calls.described import Described, DescribedCalls, layer_call
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled_contexts import Context


class BranchCalls(DescribedCalls):
    """Joins what branches compute."""

    if TYPE_CHECKING:
        context: Context

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
