"""LogSumExp over any axes: the maximum first, then the sum of exp(x - maximum)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.reduction.groups import Reduction, groups_of, takes_copies
from atled_cpu_numba.kernels.reduction.groups import accepts as accepts
from atled_cpu_numba.kernels.shared.launch import kernels_by_dtype, launch, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout

_NS_PER_ELEMENT = 0.7  # of one core, for the number of shares; double takes ten times as long
_STRETCH = 1024  # elements of a row of which there are exponentials at a time
_COLUMNS = 256


@layout
class Block(Reduction):
    """What both kernels read."""

    workspace: int  # address
    share_bytes: int  # of the workspace, per share


def _build_rows(dtype: str) -> Callable[..., int]:
    from numba import types

    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.scalars import choose, higher
    from atled_cpu_numba.kernels.shared.sums import sum_of_exponentials

    real, sum_up = Real(dtype), sum_of_exponentials(dtype)
    number, floats, size = real.kind, real.pointer, real.size
    flag = types.int32 if dtype == "float32" else types.int64  # as wide as an element, for as many in a vector

    @kernel
    def log_sum_exp_rows(block, part, parts):
        w = words(block)
        reduced_outer, kept_inner, length = w[Block.reduced_outer], w[Block.kept_inner], w[Block.reduced_inner]
        y, own = floats(w[Block.y]), w[Block.workspace] + part * w[Block.share_bytes]
        count = w[Block.kept_outer] * kept_inner
        for i in range(count * part // parts, count * (part + 1) // parts):
            outer = i // kept_inner
            at = w[Block.x] + size * (outer * reduced_outer * kept_inner + i - outer * kept_inner) * length
            top, nans = number(-math.inf), flag(0)
            for r in range(reduced_outer):
                x = floats(at + size * r * kept_inner * length)
                for j in range(length):
                    top = higher(top, x[j])
                    nans = choose(x[j] != x[j], flag(1), nans)
            if nans != flag(0):
                y[i] = number(math.nan)
            elif top == number(math.inf) or top == number(-math.inf):
                y[i] = top  # of infinities there is no difference
            else:
                total = 0.0
                for r in range(reduced_outer):
                    row = at + size * r * kept_inner * length
                    for start in range(0, length, _STRETCH):
                        total += np.float64(sum_up(row + size * start, own, min(_STRETCH, length - start), top))
                y[i] = number(np.float64(top) + math.log(total))
        return 0

    return log_sum_exp_rows


def _build_columns(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.exponentials import make_add_exponentials
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.scalars import choose

    real, add_exponentials = Real(dtype), make_add_exponentials(dtype, stored=False)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def log_sum_exp_columns(block, part, parts):
        w = words(block)
        rows, columns = w[Block.reduced_outer], w[Block.kept_inner]
        top_at = w[Block.workspace] + part * w[Block.share_bytes]
        total_at = top_at + size * _COLUMNS
        top, total = floats(top_at), floats(total_at)
        blocks = (columns + _COLUMNS - 1) // _COLUMNS
        for unit in range(
            w[Block.kept_outer] * blocks * part // parts, w[Block.kept_outer] * blocks * (part + 1) // parts
        ):
            outer = unit // blocks
            first = (unit - outer * blocks) * _COLUMNS
            count = min(_COLUMNS, columns - first)
            y = floats(w[Block.y] + size * (outer * columns + first))
            for j in range(count):
                top[j] = number(-math.inf)
                total[j] = number(0)
            for row in range(rows):
                x = floats(w[Block.x] + size * ((outer * rows + row) * columns + first))
                for j in range(count):
                    top[j] = choose(x[j] > top[j], x[j], top[j])
            for row in range(rows):
                x_at = w[Block.x] + size * ((outer * rows + row) * columns + first)
                add_exponentials((x_at, top_at, total_at, 0, count))
            for j in range(count):
                y[j] = number(np.float64(top[j]) + math.log(np.float64(total[j])))
        return 0

    return log_sum_exp_columns


_KERNELS = {
    True: kernels_by_dtype("log_sum_exp_rows", _build_rows),
    False: kernels_by_dtype("log_sum_exp_columns", _build_columns),
}


@takes_copies
def prepare(call: Call) -> Prepared:
    """x -> y."""
    groups, dtype = groups_of(call), call.outputs[0].dtype
    by_rows = groups.reduced_inner != 1 or groups.kept_inner == 1
    units = groups.kept_outer * (groups.kept_inner if by_rows else -(-groups.kept_inner // _COLUMNS))
    elements = groups.kept_outer * groups.reduced_outer * groups.kept_inner * groups.reduced_inner
    parts = share_count(elements * _NS_PER_ELEMENT * (10 if dtype.itemsize == 8 else 1) / 1e3, units)
    share_bytes = dtype.itemsize * (_STRETCH if by_rows else 2 * _COLUMNS)
    return launch(
        _KERNELS[by_rows][dtype.name],
        filled(Block, **groups._asdict(), share_bytes=share_bytes),
        (Block.x, Block.y, Block.workspace),
        parts=parts,
        workspace=parts * share_bytes,
        note="rows" if by_rows else "columns",
    )
