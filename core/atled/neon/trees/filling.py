"""How tensors come to hold numbers, arrays and each other."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from atled.dtypes import is_number
from atled.errors import four_parts, shortened
from atled.keyed import Description, NdArray
from atled.neon.trees.operand import Operand
from atled.sequences import RECORDERS, by_hand

if TYPE_CHECKING:
    from atled.neon.trees.tensor import Tensor

_SMALL = 1 << 13
_SMALL_CONTIGUOUS = 1 << 18
"""Elements up to which a tensor in host memory is copied at once: up to there a program costs more than the copy, and
behind it is quicker, with its threads. Casts are quicker as programs from some thousand on."""


def put(target: Tensor, value: Any) -> None:  # Any: what a program assigns, maybe wrongly
    """Have a tensor hold a number, an array or what another tensor holds, cast as NumPy casts where it assigns.

    A number is for all elements. An array has as many elements as the tensor, and its shape or fewer axes. A tensor has
    its shape, or broadcasts to it; it may be another view of the same memory.

    TypeError: what is none of these.  ValueError: another count of elements or shape, a tensor of another backend, a
    target that is a copy or whose backend was cleaned up, NaN for integers.  OverflowError: a number that the dtype
    does not hold. Nothing is written then.
    """
    if target.backend.closed or target.view.read_only:
        refuse_target(target)
    kind = type(value)
    if kind is float or kind is int:
        _put_number(target, value)
    elif isinstance(value, Operand):
        _put_tensor(target, value)
    elif isinstance(value, np.ndarray) and value.ndim:
        _put_array(target, value)
    elif isinstance(value, Real | np.generic | np.ndarray) and is_number(np.asarray(value).dtype):
        _put_number(target, value)
    else:
        _refuse_type(target, value)


def refuse_target(target: Tensor) -> NoReturn:
    """Raise ValueError for a tensor to which nothing may be assigned: it is a copy, or its backend was cleaned up."""
    if target.view.read_only:
        wrong = f"{target.view.read_only}, so that the values would not reach the tensor it was made of"
        remedy = "assign to that tensor, or reshape one that is contiguous"
    else:
        wrong = "its backend was cleaned up"
        remedy = "make tensors by the present backend, NervanaObject.be; `get` still gives the values"
    raise ValueError(four_parts(f"assignment to {target!r}", wrong, "", remedy))


def _put_number(target: Tensor, value: Any) -> None:
    view = target.view
    try:
        if view.is_on_host and not RECORDERS:
            view.write(value)
            return
        # Cast by NumPy, which refuses what the dtype does not hold.
        number = np.empty((), target.dtype)
        number[...] = value
    except (OverflowError, ValueError) as error:
        asked, remedy = f"assigning {shortened(value)} to {target!r}", "assign a number that the dtype holds"
        raise type(error)(four_parts(asked, str(error), "", remedy)) from error
    d = Description(target.backend.context)
    d.assign(view, d.number(number.item()))
    d.run()


def _put_array(target: Tensor, values: np.ndarray) -> None:
    if not is_number(values.dtype):
        _refuse_type(target, values)
    if values.shape != target.shape:
        values = _fitted(target, values)
    if RECORDERS:
        by_hand("an array of the host is written to a tensor")
    if target.view.is_on_host:
        target.view.write(values)
        return
    # What the device has stays there: the new values travel, cast to what is narrower.
    d = Description(target.backend.context)
    d.assign(target.view, d.leaf(NdArray.from_numpy_array(values.astype(target.dtype, copy=False))))
    d.run()


def _fitted(target: Tensor, values: np.ndarray) -> np.ndarray:
    """An array of as many elements in the shape of the target."""
    extra = values.ndim - len(target.shape)
    has_ones = extra > 0 and values.shape[:extra] == (1,) * extra and values.shape[extra:] == target.shape
    if values.size != target.size or (extra >= 0 and not has_ones):
        raise ValueError(
            four_parts(
                f"assigning an array of shape {values.shape} to {target!r}",
                f"it has {values.size} elements, of {target.size}"
                if values.size != target.size
                else "as many axes, but other sizes",
                "",
                f"give an array of shape {target.shape}, or of fewer axes and {target.size} elements; a tensor "
                "broadcasts, be.array makes one",
            )
        )
    return values.reshape(target.shape)


def _put_tensor(target: Tensor, value: Any) -> None:
    if value.backend is not target.backend:
        raise ValueError(
            four_parts(
                f"assigning {value!r} to {target!r}",
                "they are of different backends",
                f"{value.backend!r} and {target.backend!r}",
                "assign its values: value.get()",
            )
        )
    if value.shape != target.shape:
        _check_broadcast(target, value)
    view, source = target.view, value.view
    is_contiguous = view.desc.strides is None and source.desc.strides is None
    is_small = view.desc.size <= (_SMALL_CONTIGUOUS if is_contiguous else _SMALL)
    if is_small and not RECORDERS and value.dtype == target.dtype and view.is_on_host and source.is_on_host:
        view.copy_from(source)
        return
    d = Description(target.backend.context)
    d.assign(view, d.leaf(source))
    d.run()


def _check_broadcast(target: Tensor, value: Tensor) -> None:
    extra = len(target.shape) - len(value.shape)
    if extra < 0 or any(a not in (1, b) for a, b in zip(value.shape, target.shape[extra:], strict=True)):
        raise ValueError(
            four_parts(
                f"assigning {value!r} to {target!r}",
                f"shape {value.shape} does not broadcast to {target.shape}",
                "",
                "give a tensor of that shape, or with size 1 in axes to repeat; `reshape` and `T` make views",
            )
        )


def _refuse_type(target: Tensor, value: Any) -> NoReturn:
    kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    raise TypeError(
        four_parts(
            f"assigning {shortened(value)} to {target!r}",
            f"{kind} is no number, array of numbers, tensor or op-tree",
            "",
            "make an array of it first: numpy.asarray(value)",
        )
    )
