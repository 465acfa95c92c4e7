"""Copies of rows, columns or elements of a tensor by their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.errors import four_parts, shortened
from atled.keyed import Description, NdArray, View
from atled.neon.trees.tensor import Tensor


def taken(x: Tensor, indices: Any, axis: int | None) -> Tensor:
    """See Tensor.take."""
    d = Description(x.backend.context)
    value, shape = d.leaf(x.view), list(x.shape)
    if axis is None:
        value, shape, axis = d.call("Reshape", value, shape=(x.size,)), [x.size, 1], 0
    elif not -len(shape) <= axis < len(shape):
        raise ValueError(
            four_parts(f"{x!r}.take(axis={axis})", f"there are {len(shape)} axes", "", "name one of them, or None")
        )
    index, count = _index_leaf(d, x, indices)
    shape[axis] = count
    result = d.call("Take", value, index, axis=axis)
    d.result(d.call("Reshape", result, shape=tuple(shape), inplace=False))
    return Tensor(x.backend, View(d.run()[0]))


def _index_leaf(d: Description, x: Tensor, indices: Any) -> tuple[int, int]:
    """The indices as a value of one axis, and their count."""
    if isinstance(indices, Tensor):
        found: Any = indices
        value = d.leaf(indices.view)
    else:
        found = np.asarray(indices)
        # An empty list is an array of floats to NumPy.
        found = found.astype(np.int64) if found.size == 0 else found
        value = -1
    if found.dtype.kind not in "iu" or sum(size != 1 for size in found.shape) > 1:
        raise (ValueError if found.dtype.kind in "iu" else TypeError)(
            four_parts(
                f"{x!r}.take({shortened(indices)})",
                f"indices are integers along one axis, not {found.dtype}{list(found.shape)}",
                "",
                "give integers: be.array(..., dtype=numpy.int32), or a NumPy array of integers",
            )
        )
    if value < 0:
        value = d.leaf(NdArray.from_numpy_array(found))
    return d.call("Reshape", value, shape=(found.size,)), found.size
