"""Initializers: each fills a tensor with first values, drawn in float64 and cast to its dtype."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.neon.calls.checks import check_numbers
from atled.neon.nervana_object import NervanaObject
from atled.neon.trees.filling import refuse_target
from atled.neon.trees.tensor import Tensor


class Initializer(NervanaObject):
    """Fills tensors; a subclass says with which `values`, or has a `fill` of its own.

    Draws come from `be.rng`, so that one seed gives one sequence of weights over all layers.
    """

    def fill(self, param: Any) -> None:
        """Assign first values to a tensor.

        TypeError: no tensor.  ValueError: one that nothing can be assigned to, or of a shape that does not fit; then
        nothing was drawn. RuntimeError: there is no backend.
        """
        if not isinstance(param, Tensor):
            wrong = f"param is of type {type(param).__name__}, no tensor"
            raise TypeError(four_parts(f"{self.classnm}.fill", wrong, "", "pass a tensor, such as be.empty(shape)"))
        if param.backend.closed or param.view.read_only:
            refuse_target(param)
        param[:] = self.values(param.shape)

    def values(self, shape: Any) -> Any:
        """A number, an array or a tensor for a tensor of a shape.  NotImplementedError: the class has none."""
        wrong, remedy = "the class has no such method", f"define values, or fill, in {self.classnm}"
        raise NotImplementedError(four_parts(f"values of {self.classnm}", wrong, "", remedy))

    def _refuse(self, shape: Sequence[int], wrong: str, remedy: str) -> ValueError:
        return ValueError(four_parts(f"{self.classnm}.fill of a tensor of shape {list(shape)}", wrong, "", remedy))

    def _fan(self, shape: Sequence[int], *, local: bool) -> int:
        """Sizes that spreads are in terms of: that of axis 0 if local, else of axis 1."""
        # Without elements nothing is drawn, and any spread will do.
        return max(1, shape[0] if local else shape[1])


class Constant(Initializer):
    """The same number everywhere, or the values of a tensor or array of equal shape.

    val: that.  ValueError, of `fill`: it has another shape.
    """

    def __init__(self, val: Any = 0.0, name: str | None = None) -> None:
        super().__init__(name)
        if not isinstance(val, Tensor | np.ndarray):
            check_numbers(self.classnm, val=val)
        self.val = val

    def values(self, shape: Any) -> Any:
        """The number, array or tensor."""
        given = getattr(self.val, "shape", ())
        if given not in ((), shape):
            raise self._refuse(shape, f"val has shape {list(given)}", "give a val of the shape of the tensor")
        return self.val


class Array(Constant):
    """As Constant; its description has an array in the place of a tensor."""

    def __init__(self, val: Any, name: str | None = None) -> None:
        super().__init__(val, name)

    def get_description(self, skip: Sequence[str] = (), **kwargs: Any) -> dict[str, Any]:
        """As of NervanaObject, with an array."""
        described = super().get_description(skip, **kwargs)
        if isinstance(self.val, Tensor) and "val" not in skip:
            described["config"]["val"] = self.val.get()
        return described


class Uniform(Initializer):
    """`be.rng.uniform(low, high, shape)`."""

    def __init__(self, low: float = 0.0, high: float = 1.0, name: str | None = None) -> None:
        """low, high: finite numbers."""
        super().__init__(name)
        _check_finite(self.classnm, low=low, high=high)
        self.low = low
        self.high = high

    def values(self, shape: Any) -> Any:
        """The draws."""
        return self._present.rng.uniform(self.low, self.high, shape)


class Gaussian(Initializer):
    """`be.rng.normal(loc, scale, shape)`."""

    def __init__(self, loc: float = 0.0, scale: float = 1.0, name: str | None = None) -> None:
        """loc: the mean, finite.  scale: the standard deviation, finite and not negative."""
        super().__init__(name)
        _check_finite(self.classnm, loc=loc, scale=scale)
        if scale < 0:
            wrong = f"scale is {scale}"
            raise ValueError(four_parts(self.classnm, wrong, "", "give a standard deviation that is not negative"))
        self.loc = loc
        self.scale = scale

    def values(self, shape: Any) -> Any:
        """The draws."""
        return self._present.rng.normal(self.loc, self.scale, shape)


class GlorotUniform(Initializer):
    """`be.rng.uniform(-k, k, shape)` with `k = sqrt(6 / (shape[0] + shape[1]))` (Glorot and Bengio 2010)."""

    def values(self, shape: Any) -> Any:
        """The draws."""
        k = math.sqrt(6.0 / max(1, shape[0] + shape[1]))
        return self._present.rng.uniform(-k, k, shape)


class Xavier(Initializer):
    """`be.rng.uniform(-k, k, shape)` with `k = sqrt(3 / fan)`.

    local: whether fan is shape[0], else it is shape[1].
    """

    def __init__(self, local: bool = True, name: str | None = None) -> None:
        super().__init__(name)
        self.local = local

    def values(self, shape: Any) -> Any:
        """The draws."""
        k = math.sqrt(3.0 / self._fan(shape, local=self.local))
        return self._present.rng.uniform(-k, k, shape)


class Kaiming(Initializer):
    """`be.rng.normal(0, sqrt(2 / fan), shape)` (He et al. 2015).

    local: whether fan is shape[0], else it is shape[1].
    """

    def __init__(self, local: bool = True, name: str | None = None) -> None:
        super().__init__(name)
        self.local = local

    def values(self, shape: Any) -> Any:
        """The draws."""
        return self._present.rng.normal(0, math.sqrt(2.0 / self._fan(shape, local=self.local)), shape)


class IdentityInit(Initializer):
    """For (n, m): the identity in the first n columns, 0 in the rest.

    local: for programs that read it; no effect.  ValueError, of `fill`: fewer columns than rows, more than two axes.
    """

    def __init__(self, local: bool = True, name: str | None = None) -> None:
        super().__init__(name)
        self.local = local

    def values(self, shape: Any) -> Any:
        """The matrix."""
        if len(shape) != 2 or shape[0] > shape[1]:
            wrong = "an identity has two axes, and here as many columns as rows at least"
            raise self._refuse(shape, wrong, "give a tensor of such a shape, or another initializer")
        return np.eye(*shape)


class Orthonormal(Initializer):
    """Rows or columns that are orthogonal: `scale * U`, or V, of the SVD of a matrix of normally distributed numbers.

    Of the two that which has the shape. The matrix comes from `numpy.random`, as in neon, so that only
    `numpy.random.seed` makes it the same again.

    scale: norms of the rows or columns.  ValueError, of `fill`: other than two axes.
    """

    def __init__(self, scale: float = 1.1, name: str | None = None) -> None:
        super().__init__(name)
        _check_finite(self.classnm, scale=scale)
        self.scale = scale

    def values(self, shape: Any) -> Any:
        """The matrix."""
        if len(shape) != 2:
            raise self._refuse(shape, "a matrix has two axes", "give a tensor of two axes, or another initializer")
        u, _, v = np.linalg.svd(np.random.normal(0.0, 1.0, shape), full_matrices=False)
        return self.scale * (u if u.shape == shape else v)


def _check_finite(of: str, **given: Any) -> None:
    """TypeError: no number.  ValueError: NaN, or infinite."""
    check_numbers(of, **given)
    for name, each in given.items():
        if not math.isfinite(each):
            raise ValueError(four_parts(of, f"{name} is {each}", "", f"give a finite number as {name}"))
