"""Elements of arrays that kernels take as they are, float16 and bfloat16 among them, which are computed in float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import NARROW, REALS
from atled_cpu_numba.store import Kernel


def real_of(dtype: str) -> str:
    """The dtype that elements of `dtype` are computed in."""
    return dtype if dtype in SIZES else "float32"


def item_bytes(dtype: str) -> int:
    """Bytes of an element in memory."""
    return SIZES.get(dtype, 2)


def kernels_of_any(name: str, build: Callable[..., Callable[..., int]], *parameters: Any) -> dict[str, Kernel]:
    """As `kernels_by_dtype`, and one for float16 and one for bfloat16."""
    return {
        dtype: Kernel(f"{name}_{dtype}", partial(build, dtype, *parameters), parameters=(dtype, *parameters))
        for dtype in (*REALS, *NARROW)
    }
