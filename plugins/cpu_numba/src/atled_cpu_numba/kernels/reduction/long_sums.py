"""Sum and Mean of few long rows, so that threads share the stretches of a row.

Block (64-bit words), with the sizes of `groups.Groups`:
    0 x, 1 y, 2 kept_outer, 3 reduced_outer, 4 kept_inner, 5 reduced_inner
    6 scale, as the bits of a float64
    7 workspace: the sum of each stretch, as a float64
    8 shares that are done; 0 before and after each run
    10 ... 14 an elementwise step that is computed before x is read, as `carrying` says

The stretches are the same ones for any count of shares, and whoever is done last adds them up in their order: so a sum
does not depend on the threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from atled.plugin import Prepared
from atled_cpu_numba.kernels.reduction.groups import Groups
from atled_cpu_numba.kernels.shared import carrying
from atled_cpu_numba.kernels.shared.launch import float_bits, launch, most_shares, share_count
from atled_cpu_numba.store import Kernel

_STRETCH = 4096
_FEWEST_STRETCHES = 8  # of a row that is worth it
_MOST_ROWS = 64  # more of them are enough shares by themselves


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import add_atomically, float64_of_bits, floats64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.sums import plain_sum

    real, sum_up = Real(dtype), plain_sum(dtype)
    number, floats = real.kind, real.pointer
    open_share, range_at = carrying.ranges_of(real)

    @kernel
    def sum_stretches(block, part, parts):
        w = words(block)
        reduced_outer, kept_inner, length = w[3], w[4], w[5]
        per_row = (length + _STRETCH - 1) // _STRETCH
        units = w[2] * reduced_outer * kept_inner * per_row
        totals, own = floats64(w[7]), open_share(w, w[0], part)
        for unit in range(units * part // parts, units * (part + 1) // parts):
            row = unit // per_row
            start = row * length + (unit - row * per_row) * _STRETCH
            stop = min(start + _STRETCH, (row + 1) * length)
            totals[unit] = sum_up(range_at(w, w[0], own, start, stop, 0), stop - start)
        if add_atomically(block + 8 * 8, 1) + 1 < parts:
            return 0
        w[8] = 0
        y, scale = floats(w[1]), float64_of_bits(w[6])
        for i in range(w[2] * kept_inner):
            outer = i // kept_inner
            total = 0.0
            for r in range(reduced_outer):
                row = (outer * reduced_outer + r) * kept_inner + i - outer * kept_inner
                for unit in range(row * per_row, (row + 1) * per_row):
                    total += totals[unit]
            y[i] = number(total * scale)
        return 0

    return sum_stretches


_KERNELS = {
    dtype: Kernel(f"sum_stretches_{dtype}", partial(_build, dtype), parameters=(dtype, *carrying.PARAMETERS))
    for dtype in ("float32", "float64")
}


def are_long(groups: Groups) -> bool:
    """Whether sums are so few and so long that their rows are to be divided."""
    return groups.kept_outer * groups.kept_inner < _MOST_ROWS and groups.reduced_inner >= _FEWEST_STRETCHES * _STRETCH


def prepare(groups: Groups, dtype: str, scale: float, work_us: float) -> Prepared:
    """x -> y, sums along the rows times `scale`."""
    units = groups.kept_outer * groups.reduced_outer * groups.kept_inner * -(-groups.reduced_inner // _STRETCH)
    scratch = carrying.share_bytes((8 if dtype == "float64" else 4) * _STRETCH)
    return launch(
        _KERNELS[dtype],
        [0, 0, *groups, float_bits(scale), 0, 0, 0, 0, 0, 0, 0, scratch],
        (0, 1, 7),
        parts=share_count(work_us, units),
        most_parts=most_shares(units),
        workspace=8 * max(1, units),  # the kernel wants one, be it for no rows
        before={0: carrying.FIRST},
        range_bytes={0: scratch},
        note="sums of stretches",
    )
