"""Calls that make tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.dtypes import float_dtype, in_native_order, is_number
from atled.errors import four_parts, shortened
from atled.keyed import NdArray, View
from atled.neon.trees.shapes import sizes_of, two_axes
from atled.neon.trees.tensor import Tensor

Shape = int | tuple[int, ...] | list[int]


class AllocationCalls:
    """Makes tensors.

    Common arguments:
        shape: sizes per axis. One size n gives (n, 1), none at all (1, 1): a tensor has two axes or more.
        dtype: floating-point or integer; None for `default_dtype`.
        name: shown where op-trees are printed.
        persist_values, parallel, distributed, parallelism: no effect on one device.

    TypeError: a shape or dtype that is none.  ValueError: a negative size.
    """

    if TYPE_CHECKING:
        default_dtype: np.dtype
        bsz: int

    def array(
        self,
        ary: Any,
        dtype: Any = None,
        name: str | None = None,
        persist_values: bool = True,
        parallel: bool = False,
        distributed: bool = False,
    ) -> Tensor:
        """A tensor with a copy of an array, a list of numbers, a number or a tensor, cast as NumPy casts.

        n values on one axis give (n, 1), a number (1, 1).

        TypeError: what is no array of numbers.  ValueError: a ragged list.
        """
        wanted = self._dtype(dtype)
        values = ary.get() if isinstance(ary, Tensor) else _numbers(ary, wanted)
        values = values.reshape(values.size, 1) if values.ndim < 2 else values
        array = NdArray.from_numpy_array(values.astype(wanted, copy=False))
        return self._tensor(array, name, persist_values)

    def zeros(
        self,
        shape: Shape,
        dtype: Any = None,
        name: str | None = None,
        persist_values: bool = True,
        parallel: bool = False,
        distributed: bool = False,
    ) -> Tensor:
        """A tensor of zeros."""
        return self._tensor(NdArray.full(two_axes(shape), 0, self._dtype(dtype)), name, persist_values)

    def ones(
        self,
        shape: Shape,
        dtype: Any = None,
        name: str | None = None,
        persist_values: bool = True,
        parallel: bool = False,
        distributed: bool = False,
    ) -> Tensor:
        """A tensor of ones."""
        return self._tensor(NdArray.full(two_axes(shape), 1, self._dtype(dtype)), name, persist_values)

    def empty(
        self,
        shape: Shape,
        dtype: Any = None,
        name: str | None = None,
        persist_values: bool = True,
        parallel: bool = False,
        distributed: bool = False,
    ) -> Tensor:
        """A tensor that is to be written; until then it has zeros."""
        return self.zeros(shape, dtype, name, persist_values)

    def zeros_like(
        self,
        other_ary: Any = None,
        dtype: Any = None,
        name: Any = None,
        persist_values: bool = True,
        *,
        ary: Any = None,
    ) -> Tensor:
        """Zeros in the shape of a tensor or array, of `default_dtype` unless another dtype is given.

        Both orders of neon are taken: (ary, dtype, name, persist_values) and (other_ary, name, persist_values).
        """
        like = other_ary if ary is None else ary
        if not hasattr(like, "shape"):
            asked = f"a tensor like {shortened(like)}"
            raise TypeError(four_parts(asked, "it has no shape", "", "give a tensor or an array"))
        if isinstance(dtype, str) and not _is_dtype_name(dtype):
            # The order without a dtype.
            persist_values, name, dtype = (name if isinstance(name, bool) else persist_values), dtype, None
        elif isinstance(name, bool):
            persist_values, name = name, None
        return self.zeros(like.shape, dtype, name, persist_values)

    empty_like = zeros_like

    def iobuf(
        self,
        dim0: Shape,
        x: Tensor | None = None,
        dtype: Any = None,
        name: str | None = None,
        persist_values: bool = True,
        shared: Tensor | None = None,
        parallelism: str | None = None,
    ) -> Tensor:
        """A buffer of zeros for the inputs or outputs of a layer, with the batch on its last axis.

        dim0: n for (n, bsz); (features, steps) for (features, steps * bsz); of other lengths, such as (C, H, W), for
        (product, bsz).
        x: given back as it is.  shared: a tensor to give a view of in that shape; ValueError where it is too small.
        """
        if x is not None:
            return x
        sizes = sizes_of(dim0)
        shape = (sizes[0], sizes[1] * self.bsz) if len(sizes) == 2 else (math.prod(sizes), self.bsz)
        if shared is None:
            return self.zeros(shape, dtype, name, persist_values)
        return shared if shared.shape == shape else shared.share(shape)

    def shared_iobuf_size(self, shape: Shape, parallelism: Any = None) -> int:
        """Count of elements of a buffer of a shape."""
        return math.prod(sizes_of(shape))

    def _tensor(self, array: NdArray, name: str | None, persist_values: bool) -> Tensor:
        made = Tensor(self, View(array), name)  # type: ignore[arg-type]  # it is mixed into Backend
        if not persist_values:
            made.persist_values = False
        return made

    def _dtype(self, dtype: Any) -> np.dtype:
        """The dtype that is asked for."""
        if dtype is None:
            return self.default_dtype
        try:
            found = np.dtype(dtype)
        except TypeError:
            found = np.dtype(object)
            if isinstance(dtype, str) and dtype == "bfloat16":
                found = float_dtype(dtype)
        if not is_number(found):
            raise TypeError(
                four_parts(
                    f"a tensor of dtype {shortened(dtype)}", "it is no dtype of numbers", "", "use a float or int dtype"
                )
            )
        return in_native_order(found)


def _numbers(given: Any, dtype: np.dtype) -> np.ndarray:
    """What a program gives, as an array of numbers."""
    try:
        values = np.asarray(given)
        if is_number(values.dtype) and values is not given:
            values = np.asarray(given, dtype)  # numbers that the dtype does not hold are refused
    except (TypeError, ValueError, OverflowError) as error:
        asked = f"array({shortened(given)})"
        raise type(error)(four_parts(asked, f"NumPy: {error}", "", "give an array of numbers")) from error
    if not is_number(values.dtype):
        raise TypeError(
            four_parts(
                f"array({shortened(given)})", f"it is an array of {values.dtype}", "", "give an array of numbers"
            )
        )
    return values


def _is_dtype_name(text: str) -> bool:
    """Whether a string is the whole name of a dtype: a short one, such as "b", is rather the name of a tensor."""
    try:
        return np.dtype(text).name == text
    except TypeError:
        return False
