"""How far what was computed may be off."""

from __future__ import annotations

import numpy as np

# Values stay within some tens: a result may be off by what its dtype has for such, times a handful of ops.
ERROR = {"float16": 0.15, "float32": 3e-4, "float64": 1e-9}


def allowed(dtype: np.dtype) -> float:
    """How far a value of a dtype may be off; whole numbers are exact."""
    return ERROR[dtype.name] if dtype.kind == "f" else 0


def compare(words: str, found: np.ndarray, wanted: np.ndarray, error: float) -> None:
    """AssertionError unless shape and dtype are equal, and values but for an error."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), f"{words}: {found.dtype}{found.shape}"
    if error:
        np.testing.assert_allclose(found, wanted, rtol=0, atol=error, err_msg=words)
    else:
        np.testing.assert_array_equal(found, wanted, err_msg=words)
