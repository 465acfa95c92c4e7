"""Activations: elementwise functions and softmax, with derivatives in terms of their results."""

from __future__ import annotations

import math
from typing import Any

from atled.errors import four_parts
from atled.neon.transforms.transform import Transform
from atled.neon.trees.nodes import OpTreeNode
from atled.neon.trees.tensor import Tensor


class Identity(Transform):
    """`y = x`."""

    def __call__(self, x: Any) -> Any:
        """x itself."""
        return x

    def bprop(self, x: Any) -> Any:
        """1."""
        return 1


class Rectlin(Transform):
    """`y = max(x, 0) + slope * min(x, 0)`.  slope: of the negative side."""

    def __init__(self, slope: float = 0, name: str | None = None) -> None:
        super().__init__(name=name)
        self.slope = slope

    def __call__(self, x: Any) -> Any:
        """The op-tree of y."""
        return self._present.fprop_relu(self, x, self.slope)

    def bprop(self, x: Any) -> Any:
        """1 where y is positive, slope where it is negative, else 0."""
        return self._present.bprop_relu(self, x, None, None, self.slope)


class Rectlinclip(Transform):
    """`y = min(max(x, 0) + slope * min(x, 0), xcut)`.  slope: of the negative side.  xcut: the largest y."""

    def __init__(self, slope: float = 0, xcut: float = 20.0, name: str | None = None) -> None:
        super().__init__(name=name)
        self.slope = slope
        self.xcut = xcut

    def __call__(self, x: Any) -> Any:
        """The op-tree of y."""
        return self._present.minimum(self._present.fprop_relu(self, x, self.slope), self.xcut)

    def bprop(self, x: Any) -> Any:
        """1 where y is positive, slope where it is negative, and 0 where it is 0 or xcut."""
        return self._present.less(x, self.xcut) * self._present.bprop_relu(self, x, None, None, self.slope)


class Explin(Transform):
    """`y = max(x, 0) + alpha * (exp(min(x, 0)) - 1)`.  alpha: y is larger than -alpha."""

    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None:
        super().__init__(name=name)
        self.alpha = alpha

    def __call__(self, x: Any) -> Any:
        """The op-tree of y."""
        return self._present.maximum(x, 0) + self.alpha * (self._present.exp(self._present.minimum(x, 0)) - 1)

    def bprop(self, x: Any) -> Any:
        """1 where y is positive, `y + alpha` where it is negative, else 0."""
        return self._present.greater(x, 0) + self._present.minimum(x, 0) + self.alpha * self._present.less(x, 0)


class Normalizer(Transform):
    """`y = x / divisor`."""

    def __init__(self, divisor: float = 128.0, name: str | None = None) -> None:
        super().__init__(name=name)
        self.divisor = divisor

    def __call__(self, x: Any) -> Any:
        """The op-tree of y."""
        return x / self.divisor

    def bprop(self, x: Any) -> Any:
        """`1 / divisor`."""
        return 1.0 / self.divisor


class Softmax(Transform):
    """`y = exp(x - max(x)) / sum(exp(x - max(x)))` along an axis.

    axis: that along which y adds up to 1.  epsilon: for programs that read it; no effect.
    """

    def __init__(self, axis: int = 0, epsilon: float = 2**-23, name: str | None = None) -> None:
        super().__init__(name=name)
        self.axis = axis
        self.epsilon = epsilon

    def __call__(self, x: Any) -> Any:
        """The op-tree of y."""
        return self._present.fprop_softmax(x, self.axis)

    def bprop(self, x: Any) -> Any:
        """1: the derivative is that of the cost, such as cross entropy, with respect to x."""
        return 1


class PixelwiseSoftmax(Transform):
    """Softmax over maps, at each of their places: x is seen as (c, rest), and y written into it.

    c: how many maps.  epsilon: for programs that read it; no effect.
    """

    def __init__(self, c: int, name: str | None = None, epsilon: float = 2**-23) -> None:
        super().__init__(name=name)
        self.c = c
        self.epsilon = epsilon

    def __call__(self, x: Any) -> Any:
        """x itself, which holds y then; an op-tree gets a tensor.  ValueError: c does not divide its size."""
        x = _held(self._present, x)
        size = math.prod(x.shape)
        if self.c < 1 or size % self.c:
            asked = f"softmax over c={self.c} maps of {list(x.shape)}"
            raise ValueError(four_parts(asked, f"{size} elements are not so many maps", "", "make c a divisor of that"))
        maps = x.reshape((self.c, size // self.c))
        maps[:] = self._present.fprop_softmax(maps, 0)
        return x

    def bprop(self, x: Any) -> Any:
        """1: the derivative is that of the cost with respect to x."""
        return 1


class Tanh(Transform):
    """`y = tanh(x)`."""

    def __call__(self, x: Any) -> Any:
        """The op-tree of y."""
        return self._present.tanh(x)

    def bprop(self, x: Any) -> Any:
        """`1 - y ** 2`."""
        return 1.0 - x * x


class Logistic(Transform):
    """`y = 1 / (1 + exp(-x))`.

    shortcut: whether the derivative is left to the cost: cross entropy, whose derivative with respect to x is `y - t`.
    """

    def __init__(self, shortcut: bool = False, name: str | None = None) -> None:
        super().__init__(name=name)
        self.shortcut = shortcut

    def __call__(self, x: Any) -> Any:
        """The op-tree of y."""
        return self._present.sig(x)

    def bprop(self, x: Any) -> Any:
        """`y * (1 - y)`, or 1 with shortcut."""
        return 1 if self.shortcut else x * (1.0 - x)


class Sign(Transform):
    """1 from 0 on, else -1, written into x.

    inputs: x as it was before, once it was called.
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name=name)
        self.inputs: Tensor | None = None

    def __call__(self, x: Any) -> Any:
        """x itself, which holds y then; an op-tree gets a tensor."""
        x = _held(self._present, x)
        self.inputs = self._present.empty(x.shape, dtype=x.dtype)
        self.inputs[:] = x
        return self._present.binarize(x, stochastic=False, out=x)

    def bprop(self, x: Any) -> Any:
        """1 where x was from -1 to 1, else 0.  RuntimeError: it was not called before."""
        if self.inputs is None:
            remedy = "call it on the inputs first: the derivative is in terms of these"
            raise RuntimeError(four_parts("bprop of Sign", "it was not called before", "", remedy))
        return self._present.less_equal(self._present.absolute(self.inputs), 1)


def _held(be: Any, x: Any) -> Any:
    """x, or a tensor that holds an op-tree."""
    if not isinstance(x, OpTreeNode):
        return x
    tensor = be.empty(x.shape)
    tensor[:] = x
    return tensor
