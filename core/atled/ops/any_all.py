"""Whether any or all elements over axes are true."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atled.ops.reduction import Reduction
from atled.ops.samples import Exact, Grid, Sample


class _Truth(Reduction, abstract=True):
    """What Any and All share: 0 or 1 in the dtype of x."""

    no_gradient = "stops"
    integers = "exact"
    predicate = True

    def holds(self, x: np.ndarray, axes: tuple[int, ...], keep_dims: bool) -> np.ndarray:
        """NumPy's function of it."""
        raise NotImplementedError

    def reference(self, x: np.ndarray, *, axes: tuple[int, ...], keep_dims: bool) -> np.ndarray:
        return np.asarray(self.holds(x, axes, keep_dims)).astype(x.dtype)

    def samples(self) -> Sequence[Sample]:
        return (
            Sample(Grid((2, 3, 4)), axes=1),
            Sample(Grid((2, 3, 4, 5)), axes=(-1, 1), keep_dims=True),
            Sample((0, 3)),
            Sample(Exact([[0.0, 0.0, 0.0], [0.0, np.nan, 1.0], [-1.0, 2.0, 0.5]]), axes=1),
        )


class Any(_Truth):
    """Whether any element over axes is not 0: 1 if one is, NaN included, else 0. Of nothing it is 0. No gradient flows.

    Args:
        x: (...) float.
        axes: the axis or axes to look along, negative ones counted from the end; None: all of them, (): none.
        keep_dims: whether the reduced axes stay, with size 1.

    Returns:
        y: (...) float; shape of x without the reduced axes, or with 1 in their place; () for a full reduction.

    Raises:
        ValueError: an axis is out of range or named twice.
    """

    def holds(self, x: np.ndarray, axes: tuple[int, ...], keep_dims: bool) -> np.ndarray:
        return np.any(x != 0, axis=axes, keepdims=keep_dims)


class All(_Truth):
    """Whether no element over axes is 0: 1 if none is, else 0. NaN is not 0; of nothing it is 1. No gradient flows.

    Args:
        x: (...) float.
        axes: the axis or axes to look along, negative ones counted from the end; None: all of them, (): none.
        keep_dims: whether the reduced axes stay, with size 1.

    Returns:
        y: (...) float; shape of x without the reduced axes, or with 1 in their place; () for a full reduction.

    Raises:
        ValueError: an axis is out of range or named twice.
    """

    def holds(self, x: np.ndarray, axes: tuple[int, ...], keep_dims: bool) -> np.ndarray:
        return np.all(x != 0, axis=axes, keepdims=keep_dims)
