"""ClipGradByNorm: a copy, whose gradient is another op; see `test_touched_files.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.launch import launch, refuse_floats, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import Kernel


@layout
class Block:
    """What the kernel reads."""

    x: int  # address
    y: int
    count: int  # of elements


_ELEMENTS_PER_US = 4000.0  # a cautious rate of one core, for the number of shares


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    floats = Real(dtype).pointer

    @kernel
    def copy_elements(block, part, parts):
        w = words(block)
        x, y, count = floats(w[Block.x]), floats(w[Block.y]), w[Block.count]
        for i in range(count * part // parts, count * (part + 1) // parts):
            y[i] = x[i]
        return 0

    return copy_elements


_DTYPE = "float32"  # double is left to the reference
_KERNEL = Kernel(f"copy_elements_{_DTYPE}", partial(_build, _DTYPE), parameters=(_DTYPE,))


def accepts(call: Call) -> bool | str:
    """Whether x is float32."""
    return refuse_floats(call, (_DTYPE,), floats=(0,)) or True


def prepare(call: Call) -> Prepared:
    """ClipGradByNorm: x -> y."""
    (x,) = call.inputs
    assert x is not None
    words, parts = filled(Block, count=x.size), share_count(x.size / _ELEMENTS_PER_US, x.size)
    return launch(_KERNEL, words, (Block.x, Block.y), parts=parts)
