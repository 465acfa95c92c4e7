"""Elements of arrays that kernels take as they are, float16 and bfloat16 among them, which are computed in float32."""

from __future__ import annotations

from atled_cpu_numba.kernels.shared.lanes import SIZES


def real_of(dtype: str) -> str:
    """The dtype that elements of `dtype` are computed in."""
    return dtype if dtype in SIZES else "float32"


def item_bytes(dtype: str) -> int:
    """Bytes of an element in memory."""
    return SIZES.get(dtype, 2)
