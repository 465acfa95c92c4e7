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
    index, count = _index_leaf(d, x, indices, shape[axis])
    shape[axis] = count
    result = d.call("Take", value, index, axis=axis)
    d.result(d.call("Reshape", result, shape=tuple(shape), inplace=False))
    return Tensor(x.backend, View(d.run()[0]))


def _index_leaf(d: Description, x: Tensor, indices: Any, size: int) -> tuple[int, int]:
    """The indices as a value of one axis, and their count."""
    asked = f"{x!r}.take({shortened(indices)})"
    is_tensor = isinstance(indices, Tensor)
    found: Any = indices if is_tensor else np.asarray(indices)  # a tensor or an array
    if not is_tensor and found.size == 0:
        found = found.astype(np.int64)  # an empty list is one of floats to NumPy
    if found.dtype.kind not in "iu" or sum(size != 1 for size in found.shape) > 1:
        raise (ValueError if found.dtype.kind in "iu" else TypeError)(
            four_parts(
                asked,
                f"indices are integers along one axis, not {found.dtype}{list(found.shape)}",
                "",
                "give integers: be.array(..., dtype=numpy.int32), or a NumPy array of integers",
            )
        )
    if not is_tensor and found.size and not -size <= found.min() <= found.max() < size:
        # A device would tell of it later on.
        wrong = f"{found.min() if found.min() < -size else found.max()} is out of range for an index of {size} elements"
        raise IndexError(four_parts(asked, wrong, "", f"give indices from {-size} to {size - 1}"))
    leaf = d.leaf(found.view if is_tensor else NdArray.from_numpy_array(found))
    return d.call("Reshape", leaf, shape=(found.size,)), found.size
