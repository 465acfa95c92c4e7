"""Activations of layers: rectifiers and softmax as op-trees, and any transform computed into a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from atled.errors import shortened
from atled.keyed import Description
from atled.neon.calls.checks import check_shapes, check_tensors
from atled.neon.calls.described import Described, DescribedCalls, layer_call
from atled.neon.calls.stepwise import Stepwise
from atled.neon.calls.tracing import Formula, NoFormulaError
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled_contexts import Context


class ActivationCalls(DescribedCalls):
    """Computes activations, and their derivatives times an error."""

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

    def _by_itself(self, transform: Any, error: NoFormulaError, written: Sequence[Tensor], compute: Any) -> Described:
        """What to do with a transform that is no formula: have it compute, and assign what it gives to the first."""

        def step() -> None:
            written[0][:] = compute()

        reason = f"{shortened(transform)}: {error}"
        return Described(Stepwise(self.context, reason, [each.view for each in written], [step]), is_kept=False)
