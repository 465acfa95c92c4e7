"""Names of dtypes as functions take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.dtypes import in_native_order
from atled.errors import did_you_mean, four_parts
from atled.keras_backend.expressions.expression import place

_KNOWN = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
)  # fmt: skip  # a table


def dtype_of(given: Any) -> np.dtype:
    """A dtype by its name, or as NumPy has it.  TypeError: arrays of it are not computed with."""
    try:
        found = np.dtype(given)
    except TypeError:
        found = None
    if found is None or given is None or found.name not in _KNOWN:
        raise TypeError(
            four_parts(
                f"{place()[1]} with dtype {given!r}",
                "there is no such dtype" if found is None or given is None else f"nothing computes with {found.name}",
                f"known: {', '.join(_KNOWN)}",
                did_you_mean(str(given), _KNOWN, "give one of these"),
            )
        )
    return in_native_order(found)
