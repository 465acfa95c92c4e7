"""Whole numbers as users give them: ints, NumPy's, and floats without a fraction, as a division leaves them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


def whole(value: Any) -> int:
    """A whole number as int; TypeError with the reason for anything else, a bool included."""
    if type(value) is int:
        return value  # the common case
    if isinstance(value, bool | np.bool_):
        raise TypeError("a bool is not a whole number here")
    if isinstance(value, float | np.floating):
        if not float(value).is_integer():
            raise TypeError("it has a fraction" if np.isfinite(value) else "it is not finite")
        return int(value)
    return operator.index(value)
