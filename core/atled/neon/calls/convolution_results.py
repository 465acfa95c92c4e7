"""What is done with the result of a convolution before it is written: factor, bias, rectifiers, sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atled.neon.calls.operands import Operand, added, as_number, give, scaled, taken
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled.keyed import Description


class Result:
    """The output of a convolution or of its adjoint, and what the call asks for, as `ConvolutionCalls` says it.

    operands: the tensors that it takes, with their sizes.
    """

    def __init__(
        self,
        call: str,
        target: Operand,
        X: Tensor | None,
        bias: Tensor | None,
        bsum: Tensor | None,
        alpha: Any,
        beta: Any,
        relu: bool,
        brelu: bool,
        slope: Any,
    ) -> None:
        self.target = target
        self.X = target.tensor if X is None else X
        self.bias, self.bsum = bias, bsum
        self.alpha = as_number(call, "alpha", alpha)
        self.beta = as_number(call, "beta", beta)
        self.slope = as_number(call, "slope", slope)
        self.relu, self.brelu = relu, brelu
        self._maps = target.dims[0]
        map_axis = target.axes.split()[0]
        optional = (
            Operand("X", X, target.axes, target.dims),
            Operand("bias", bias, map_axis, (self._maps,)),
            Operand("bsum", bsum, map_axis, (self._maps,)),
        )
        self.operands = (target, *(each for each in optional if each.tensor is not None))

    def early_bias(self, d: Description) -> int | None:
        """The bias for the op itself to add: where nothing comes between."""
        if self.bias is None or self.alpha != 1.0:
            return None
        return taken(d, self.bias, (self._maps,))

    def write(
        self, d: Description, value: int, dims: tuple[int, ...], axes: tuple[int, ...], *, biased: bool = False
    ) -> None:
        """Describe what follows, and the writing.

        value: (N, maps, S...).  dims, axes: how the output is seen in that order.  biased: whether it has the bias.
        """
        value = scaled(d, value, self.alpha)
        if self.bias is not None and not biased:
            value = d.call("Add2", value, taken(d, self.bias, (self._maps, *(1 for _ in dims[1:-1]))))
        if self.relu:
            leaky = self.slope != 0.0
            value = d.call("LeakyReLU", value, alpha=self.slope) if leaky else d.call("ReLU", value)
        if self.brelu:
            value = d.call("Mul2", value, self._slopes(d, taken(d, self.X, dims, axes)))
        value = added(d, value, self.beta, self.X, dims, axes)
        give(d, self.target.tensor, dims, value, axes)
        if self.bsum is not None:
            others = (0, *range(2, len(dims)))
            give(d, self.bsum, (self._maps,), d.call("Sum", value, axes=others))

    def _slopes(self, d: Description, x: int) -> int:
        """1 where x is positive, slope where it is negative, 0 where it is 0."""
        positive = d.call("IsGreater", x, d.number(0.0))
        if self.slope == 0.0:
            return positive
        negative = d.call("IsLess", x, d.number(0.0))
        return d.call("Add2", positive, scaled(d, negative, self.slope))
