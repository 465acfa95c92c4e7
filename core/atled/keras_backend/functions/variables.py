"""Functions that make variables and placeholders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.expressions.leaves import Placeholder, Variable
from atled.keras_backend.settings import floatx


def variable(value: Any, dtype: str | None = None, name: str | None = None) -> Variable:
    """A variable with a first value.

    value: a list, number or array.  dtype: None for `floatx()`.
    """
    return Variable(np.asarray(value, dtype=dtype or floatx()), name)


def placeholder(
    shape: Sequence[int | None] | None = None,
    ndim: int | None = None,
    dtype: str | None = None,
    sparse: bool = False,
    name: str | None = None,
) -> Placeholder:
    """An input of functions, of which only the count of axes is known.

    shape: only its length counts.  dtype: None for `floatx()`.  sparse: ignored.
    ValueError: neither shape nor ndim.
    """
    if shape is None and ndim is None:
        raise ValueError(four_parts("a placeholder", "neither shape nor ndim is given", "", "give one of them"))
    return Placeholder(len(shape) if shape is not None else int(ndim or 0), dtype or floatx(), name)
