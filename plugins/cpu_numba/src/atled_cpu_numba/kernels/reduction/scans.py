"""CumSum and CumProd along one axis; x is seen as (outer, n, inner). Accumulated in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.launch import REALS, kernels_by_dtype, launch, refuse_floats, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout

_ELEMENTS_PER_US = 500.0  # a cautious rate of one core, for the number of shares
_COLUMNS = 256


@layout
class Block:
    """What the kernel reads."""

    x: int  # address
    y: int  # address
    outer: int
    n: int
    inner: int
    exclusive: int
    reverse: int
    workspace: int  # address; of each share _COLUMNS float64


def _build(dtype: str, product: bool) -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size
    start = 1.0 if product else 0.0

    @kernel
    def scan(block, part, parts):
        w = words(block)
        n, inner, exclusive = w[Block.n], w[Block.inner], w[Block.exclusive]
        step = inner if w[Block.reverse] == 0 else -inner
        totals = floats64(w[Block.workspace] + 8 * _COLUMNS * part)
        blocks = (inner + _COLUMNS - 1) // _COLUMNS
        for unit in range(w[Block.outer] * blocks * part // parts, w[Block.outer] * blocks * (part + 1) // parts):
            outer = unit // blocks
            first = (unit - outer * blocks) * _COLUMNS
            count = min(_COLUMNS, inner - first)
            at = outer * n * inner + first + (0 if w[Block.reverse] == 0 else (n - 1) * inner)
            for j in range(count):
                totals[j] = start
            for _ in range(n):
                x, y = floats(w[Block.x] + size * at), floats(w[Block.y] + size * at)
                if exclusive == 0:
                    for j in range(count):
                        totals[j] = totals[j] * x[j] if product else totals[j] + x[j]
                        y[j] = number(totals[j])
                else:
                    for j in range(count):
                        before = totals[j]
                        totals[j] = before * x[j] if product else before + x[j]
                        y[j] = number(before)
                at += step
        return 0

    return scan


_KERNELS = {
    "CumSum": kernels_by_dtype("running_sum", _build, False),
    "CumProd": kernels_by_dtype("running_product", _build, True),
}


def accepts(call: Call) -> bool | str:
    """Whether the floats are float32 or float64."""
    return refuse_floats(call, REALS, floats=(0,)) or True


def prepare(call: Call) -> Prepared:
    """x -> y."""
    y, attributes = call.outputs[0], call.attributes
    axis = attributes["axis"]
    outer, inner = math.prod(y.shape[:axis]), math.prod(y.shape[axis + 1 :])
    units = outer * -(-inner // _COLUMNS)
    parts = share_count(y.size / _ELEMENTS_PER_US, max(1, units))
    words = filled(
        Block,
        outer=outer,
        n=y.shape[axis],
        inner=inner,
        exclusive=int(attributes["exclusive"]),
        reverse=int(attributes["reverse"]),
    )
    arguments = (Block.x, Block.y, Block.workspace)
    kernel = _KERNELS[call.spec.name][y.dtype.name]
    return launch(kernel, words, arguments, parts=parts, workspace=parts * 8 * _COLUMNS)
