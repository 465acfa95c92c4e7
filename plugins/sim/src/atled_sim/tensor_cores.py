"""What tensor cores do to the factors of products where the type config allows it: they round them to tf32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from atled.plugin import Call


def rounds(call: Call) -> bool:
    """Whether a call is one for tensor cores."""
    return call.spec.products and call.precision == "tf32"


def with_rounded_factors(call: Call, compute: Callable[..., None]) -> Callable[..., None]:
    """`compute`, which gets the call's arrays, on factors rounded; what is added, such as a bias, is none."""
    others = {"bias", *call.spec.mutates}
    factors = [i for i in range(len(call.inputs)) if call.spec.input_at(i).name not in others]

    def run(*arguments: Any) -> None:
        arrays = list(arguments)
        for position in factors:
            arrays[position] = to_tf32(arrays[position])
        compute(*arrays)

    return run


def to_tf32(values: np.ndarray | None) -> np.ndarray | None:
    """float32 numbers rounded to 10 bits of mantissa, to nearest, ties away from zero; other arrays as they are."""
    if values is None or values.dtype != np.float32:
        return values
    bits = values.view(np.uint32)
    return np.where(np.isfinite(values), (bits + 0x1000) & 0xFFFFE000, bits).astype(np.uint32).view(np.float32)
