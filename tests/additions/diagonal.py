"""MatrixDiag: vectors on the diagonals of matrices; see `test_touched_files.py`."""

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

    x: int  # address of the vectors
    y: int  # address of the matrices
    rows: int  # of all matrices together
    length: int  # of a row


_ELEMENTS_PER_US = 1000.0  # a cautious rate of one core, for the number of shares


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def matrix_diag(block, part, parts):
        w = words(block)
        rows, length = w[Block.rows], w[Block.length]
        x = floats(w[Block.x])
        for i in range(rows * part // parts, rows * (part + 1) // parts):
            y = floats(w[Block.y] + size * i * length)
            for j in range(length):
                y[j] = number(0)
            y[i % length] = x[i]
        return 0

    return matrix_diag


_KERNELS = {
    dtype: Kernel(f"matrix_diag_{dtype}", partial(_build, dtype), parameters=(dtype,))
    for dtype in ("float32", "float64")
}


def accepts(call: Call) -> bool | str:
    """Whether x is float32 or float64."""
    return refuse_floats(call, tuple(_KERNELS), floats=(0,)) or True


def prepare(call: Call) -> Prepared:
    """MatrixDiag: x -> y."""
    (x,), (y,) = call.inputs, call.outputs
    assert x is not None
    words = filled(Block, rows=x.size, length=x.shape[-1])
    parts = share_count(y.size / _ELEMENTS_PER_US, x.size)
    return launch(_KERNELS[x.dtype.name], words, (Block.x, Block.y), parts=parts)
