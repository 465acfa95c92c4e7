"""What layer calls ask of the tensors that they are given, and the words in which they refuse them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from atled.errors import four_parts, shortened
from atled.neon.trees.tensor import Tensor


class MayBeClosed(Protocol):
    """A backend, as far as tensors are concerned.

    closed: whether it was cleaned up.
    """

    closed: bool


def asked(call: str, **given: Any) -> str:
    """A call as messages name it: arguments with their shapes and dtypes."""
    return f"{call}({', '.join(f'{name}={_shown(each)}' for name, each in given.items() if each is not None)})"


def _shown(given: Any) -> str:
    if isinstance(given, Tensor):
        return f"{given.dtype.name}{list(given.shape)}"
    return shortened(given)


def check_tensors(backend: MayBeClosed, call: str, optional: Sequence[str] = (), /, **given: Any) -> None:
    """Refuse what is no tensor of this backend, and everything once that was cleaned up.

    optional: names of those that may be None.

    TypeError: no tensor.  ValueError: a tensor of another backend, or of one that was cleaned up.
    """
    for name, each in given.items():
        if each is None and name in optional:
            continue
        if not isinstance(each, Tensor):
            wrong = f"{name} is of type {type(each).__name__}, no tensor"
            raise TypeError(four_parts(asked(call, **given), wrong, "", "make one of it, by be.array"))
        if each.backend is not backend:
            wrong = f"{name} is a tensor of another backend"
            remedy = f"make one of its values, by be.array({name}.get())"
            raise ValueError(four_parts(asked(call, **given), wrong, "", remedy))
    if backend.closed:
        remedy = "call gen_backend, and make the tensors anew"
        raise ValueError(four_parts(asked(call, **given), "the backend was cleaned up", "", remedy))


def check_shapes(call: str, shapes: Mapping[str, Sequence[int]], **given: Any) -> None:
    """Refuse tensors of other shapes than these.  shapes: by name; tensors that are None are left out."""
    for name, shape in shapes.items():
        tensor = given[name]
        if tensor is not None and tensor.shape != tuple(shape):
            wrong = f"{name} has shape {list(tensor.shape)}, where {list(shape)} is needed"
            raise ValueError(four_parts(asked(call, **given), wrong, "", f"give a {name} of shape {list(shape)}"))


def check_dtypes(call: str, **given: Any) -> None:
    """Refuse tensors of several dtypes; TypeError."""
    kinds = {each.dtype for each in given.values() if each is not None}
    if len(kinds) > 1:
        wrong = "their dtypes are not one"
        remedy = "make all of the same dtype, such as be.default_dtype"
        raise TypeError(four_parts(asked(call, **given), wrong, "", remedy))


def check_numbers(call: str, **given: Any) -> None:
    """Refuse what is no real number; TypeError."""
    for name, each in given.items():
        if not isinstance(each, int | float | np.number):
            wrong = f"{name} is of type {type(each).__name__}"
            raise TypeError(four_parts(asked(call, **given), wrong, "", f"give a number as {name}"))
