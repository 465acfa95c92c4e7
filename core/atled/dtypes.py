"""Dtypes of numbers, those of ml_dtypes included, of which NumPy itself does not say what they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.errors import four_parts

_SINGLE = np.dtype(np.float32)
_FLOAT_NAMES = "bfloat", "float"  # what names of floating-point dtypes begin with, those of ml_dtypes included


def in_native_order(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the same numbers in the byte order of this machine, the only one that kernels read."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether the numbers of a dtype are floating-point ones: NumPy's, bfloat16, the eight-bit ones of ml_dtypes."""
    # NumPy calls most dtypes that a library brings void; among the names of its own ones `float` is not void.
    return dtype.kind == "f" or (dtype.kind == "V" and dtype.name.startswith(_FLOAT_NAMES))


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether arrays may have a dtype: numbers or truth values."""
    return dtype.kind in "iub" or is_float(dtype)


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Whether a floating-point dtype is narrower than float32, so that it is computed in float32 and rounded once."""
    return dtype.itemsize < _SINGLE.itemsize and is_float(dtype)


def float_dtype(name: str) -> np.dtype[Any]:
    """The floating-point dtype of a name, NumPy's or one of ml_dtypes.

    ImportError: it may be one of ml_dtypes, which cannot be imported.  ValueError: there is none of that name.
    """
    try:
        found = np.dtype(name)
    except TypeError:
        found = _extended(name)
    if not is_float(found):
        raise ValueError(_no_float(name, found))
    return found


def _extended(name: str) -> np.dtype[Any]:
    """The dtype of ml_dtypes of a name, that of objects where it has none. Once imported NumPy finds them itself."""
    try:
        import ml_dtypes  # lazily: an extra, which few programs need
    except ImportError as error:
        if not name.startswith(_FLOAT_NAMES):
            return np.dtype(object)  # none that it would bring
        raise ImportError(
            four_parts(f"dtype {name!r}", f"ml_dtypes cannot be imported ({error})", "", 'pip install "atled[bf16]"')
        ) from error
    return np.dtype(getattr(ml_dtypes, name, object))


def _no_float(name: str, found: np.dtype[Any]) -> str:
    is_known = found.kind != "O"
    return four_parts(
        f"dtype {name!r}",
        "it is no floating-point dtype" if is_known else "neither NumPy nor ml_dtypes has a dtype of that name",
        "",
        "use the name of one that they have, such as 'float16' or 'bfloat16'",
    )


def epsilon(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next larger number of a floating-point dtype."""
    if dtype.kind == "f" and dtype.isbuiltin == 1:
        return float(np.finfo(dtype).eps)
    return float(_info(dtype).eps)


def largest(dtype: np.dtype[Any]) -> Any:  # Any: a scalar of that dtype, a type of ml_dtypes among them
    """The largest finite number of a floating-point dtype."""
    return np.finfo(dtype).max if dtype.kind == "f" and dtype.isbuiltin == 1 else _info(dtype).max


def _info(dtype: np.dtype[Any]) -> Any:  # Any: ml_dtypes has a class of its own for this
    import ml_dtypes  # there, since it made the dtype

    return ml_dtypes.finfo(dtype)
