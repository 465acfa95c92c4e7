"""Costs: op-trees of how far outputs are from targets, column by column, and their derivatives by the outputs."""

from __future__ import annotations

import math
from typing import Any

from atled.errors import four_parts
from atled.neon.calls.checks import check_numbers
from atled.neon.nervana_object import NervanaObject
from atled.neon.trees.building import shape_of


class Cost(NervanaObject):
    """A function of outputs y and targets t, tensors or op-trees of shape (features, batch).

    ValueError, of calls: y and t have different shapes.
    """

    def __call__(self, y: Any, t: Any) -> Any:
        """The cost per column, as an op-tree (1, batch).  NotImplementedError: the class has none."""
        raise NotImplementedError(self._missing("__call__", "the cost"))

    def bprop(self, y: Any, t: Any) -> Any:
        """The derivative of the sum of all costs, of the shape of y, as an op-tree; optimizers divide by the batch.

        NotImplementedError: the class has none.
        """
        raise NotImplementedError(self._missing("bprop", "its derivative"))

    def _missing(self, method: str, what: str) -> str:
        name = self.classnm
        return four_parts(f"{method} of {name}", "the class has no such method", "", f"define {what} in {name}")

    def _check(self, y: Any, t: Any) -> None:
        """Refuse shapes that differ, as far as they are known: a onehot has the count of its surroundings."""
        shapes = shape_of(y), shape_of(t)
        if shapes[0] == shapes[1] or None in shapes:
            return
        first, second = ((*each,) if each is not None else () for each in shapes)
        if len(first) != len(second) or any(m != n and None not in (m, n) for m, n in zip(first, second, strict=True)):
            asked = f"{self.classnm} {self.name} of outputs of shape {list(first)} and targets of shape {list(second)}"
            raise ValueError(four_parts(asked, "the shapes differ", "", f"give targets of shape {list(first)}"))


class CrossEntropyBinary(Cost):
    """`sum over rows of (t - 1) * safelog(1 - y) - t * safelog(y)`.

    scale: of the derivative `scale * (y - t)`, which is that by x for `y = Logistic(shortcut=True)(x)`.
    """

    def __init__(self, scale: float = 1, name: str | None = None) -> None:
        super().__init__(name)
        check_numbers(self.classnm, scale=scale)
        self.scale = scale

    def __call__(self, y: Any, t: Any) -> Any:
        """The op-tree (1, batch)."""
        self._check(y, t)
        be = self._present
        return be.sum((t - 1.0) * be.safelog(1.0 - y) - t * be.safelog(y), axis=0)

    def bprop(self, y: Any, t: Any) -> Any:
        """The op-tree of the derivative by what a Logistic with shortcut was given."""
        self._check(y, t)
        return _times(self.scale, y - t)


class CrossEntropyMulti(Cost):
    """`sum over rows of -t * safelog(y)`; with usebits in bits, which is by log(2) more.

    scale: of the derivative `scale * (y - t)`, in the same unit, which is that by x for `y = Softmax()(x)`.
    """

    def __init__(self, scale: float = 1, usebits: bool = False, name: str | None = None) -> None:
        super().__init__(name)
        check_numbers(self.classnm, scale=scale)
        self.scale = scale
        self.usebits = usebits

    @property
    def _unit(self) -> float:
        return 1.0 / math.log(2.0) if self.usebits else 1.0

    def __call__(self, y: Any, t: Any) -> Any:
        """The op-tree (1, batch)."""
        self._check(y, t)
        return self._present.sum(-self._unit * t * self._present.safelog(y), axis=0)

    def bprop(self, y: Any, t: Any) -> Any:
        """The op-tree of the derivative by what a Softmax was given."""
        self._check(y, t)
        return _times(self._unit * self.scale, y - t)


class SumSquared(Cost):
    """`sum over rows of (y - t) ** 2 / 2`."""

    def __call__(self, y: Any, t: Any) -> Any:
        """The op-tree (1, batch)."""
        self._check(y, t)
        return self._present.sum(self._present.square(y - t), axis=0) / 2.0

    def bprop(self, y: Any, t: Any) -> Any:
        """`y - t`."""
        self._check(y, t)
        return y - t


class MeanSquared(Cost):
    """`mean over rows of (y - t) ** 2 / 2`."""

    def __call__(self, y: Any, t: Any) -> Any:
        """The op-tree (1, batch)."""
        self._check(y, t)
        return self._present.mean(self._present.square(y - t), axis=0) / 2.0

    def bprop(self, y: Any, t: Any) -> Any:
        """`(y - t) / rows`."""
        self._check(y, t)
        return (y - t) / float(y.shape[0])


class SmoothL1Loss(Cost):
    """Sum over rows of `s * d ** 2 / 2` where `abs(d) < 1 / s`, else `abs(d) - 0.5 / s`; d = y - t, s = sigma ** 2.

    sigma: not 0; the larger it is, the closer to absolute values (Girshick 2015).  ValueError: it is 0, or NaN.
    """

    def __init__(self, sigma: float = 1.0, name: str | None = None) -> None:
        super().__init__(name)
        check_numbers(self.classnm, sigma=sigma)
        if not sigma * sigma > 0:
            raise ValueError(four_parts(self.classnm, f"sigma is {sigma}", "", "give a number other than 0"))
        self.sigma = sigma

    @property
    def _s(self) -> float:
        return self.sigma * self.sigma

    def __call__(self, y: Any, t: Any) -> Any:
        """The op-tree (1, batch)."""
        self._check(y, t)
        be, distance = self._present, abs(y - t)
        # Both sides in one formula, without a mask, whose product with an infinite distance would be NaN.
        within = be.minimum(distance, 1.0 / self._s)
        return be.sum(self._s * within * (distance - 0.5 * within), axis=0)

    def bprop(self, y: Any, t: Any) -> Any:
        """`s * d` where `abs(d) < 1 / s`, else the sign of d."""
        self._check(y, t)
        return self._present.clip(self._s * (y - t), -1.0, 1.0)


class SquareHingeLoss(Cost):
    """`mean over rows of max(margin - u * y, 0) ** 2` with `u = 2 * t - 1`, for targets 0 or 1.

    margin: how far on the right side y costs nothing.
    """

    def __init__(self, margin: float = 1, name: str | None = None) -> None:
        super().__init__(name)
        check_numbers(self.classnm, margin=margin)
        self.margin = margin

    def __call__(self, y: Any, t: Any) -> Any:
        """The op-tree (1, batch)."""
        self._check(y, t)
        return self._present.mean(self._present.square(self._missing_margin(y, 2.0 * t - 1.0)), axis=0)

    def bprop(self, y: Any, t: Any) -> Any:
        """`-2 * u * max(margin - u * y, 0) / rows`."""
        self._check(y, t)
        u = 2.0 * t - 1.0
        return -2.0 * u * self._missing_margin(y, u) / float(y.shape[0])

    def _missing_margin(self, y: Any, u: Any) -> Any:
        return self._present.maximum(self.margin - u * y, 0.0)


def _times(factor: float, tree: Any) -> Any:
    """A multiple of an op-tree; for a factor of 1, which is that of most costs, without a node of its own."""
    return tree if factor == 1 else factor * tree
