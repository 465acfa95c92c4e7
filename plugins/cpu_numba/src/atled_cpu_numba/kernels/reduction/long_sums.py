"""Sum and Mean of few long rows, so that threads share the stretches of a row.

The stretches are the same ones for any count of shares, and whoever is done last adds them up in their order: so a sum
does not depend on the threads.
"""

from __future__ import annotations

from collections.abc import Callable

from atled.plugin import Prepared
from atled_cpu_numba.kernels.reduction.groups import Groups, Reduction
from atled_cpu_numba.kernels.shared import carrying
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.launch import ANY, float_bits, kernels_by_dtype, launch, most_shares, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of

STRETCH = 4096
_FEWEST_STRETCHES = 8  # of a row that is worth it
_MOST_ROWS = 64  # more of them are enough shares by themselves


@layout
class Block(Reduction):
    """What the kernel reads. x may be narrow, y is of the dtype that is computed in."""

    scale: int  # bits of a float64
    sums: int  # workspace: address of the sum of each stretch, as a float64
    done: int  # shares that are; 0 before and after each run
    unread: int  # any_axes has a word more before what is carried
    carried: int = size_of(carrying.Carried)  # an elementwise step that is computed before x is read


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import add_atomically, float64_of_bits, floats64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.sums import plain_sum

    real, sum_up = Real(real_of(dtype)), plain_sum(dtype)
    number, floats = real.kind, real.pointer
    open_share, range_at = carrying.ranges_of(item_bytes(dtype), Block.carried)

    @kernel
    def sum_stretches(block, part, parts):
        w = words(block)
        reduced_outer, kept_inner, length = w[Block.reduced_outer], w[Block.kept_inner], w[Block.reduced_inner]
        per_row = (length + STRETCH - 1) // STRETCH
        units = w[Block.kept_outer] * reduced_outer * kept_inner * per_row
        totals, own = floats64(w[Block.sums]), open_share(w, w[Block.x], part)
        for unit in range(units * part // parts, units * (part + 1) // parts):
            row = unit // per_row
            start = row * length + (unit - row * per_row) * STRETCH
            stop = min(start + STRETCH, (row + 1) * length)
            totals[unit] = sum_up(range_at(w, w[Block.x], own, start, stop, 0), stop - start)
        if add_atomically(block + 8 * Block.done, 1) + 1 < parts:
            return 0
        w[Block.done] = 0
        y, scale = floats(w[Block.y]), float64_of_bits(w[Block.scale])
        for i in range(w[Block.kept_outer] * kept_inner):
            outer = i // kept_inner
            total = 0.0
            for r in range(reduced_outer):
                row = (outer * reduced_outer + r) * kept_inner + i - outer * kept_inner
                for unit in range(row * per_row, (row + 1) * per_row):
                    total += totals[unit]
            y[i] = number(total * scale)
        return 0

    return sum_stretches


_KERNELS = kernels_by_dtype("sum_stretches", _build, dtypes=ANY, depends=carrying.PARAMETERS)


def are_long(groups: Groups) -> bool:
    """Whether sums are so few and so long that their rows are to be divided."""
    return groups.kept_outer * groups.kept_inner < _MOST_ROWS and groups.reduced_inner >= _FEWEST_STRETCHES * STRETCH


def prepare(groups: Groups, dtype: str, scale: float, work_us: float) -> Prepared:
    """x of `dtype` -> y, sums along the rows times `scale`."""
    units = groups.kept_outer * groups.reduced_outer * groups.kept_inner * -(-groups.reduced_inner // STRETCH)
    carried_bytes = carrying.share_bytes(item_bytes(dtype) * STRETCH)
    words = filled(Block, scale=float_bits(scale), **groups._asdict())
    words[Block.carried + carrying.Carried.share_bytes] = carried_bytes
    return launch(
        _KERNELS[dtype],
        words,
        (Block.x, Block.y, Block.sums),
        parts=share_count(work_us, units),
        most_parts=most_shares(units),
        workspace=8 * max(1, units),  # the kernel wants one, be it for no rows
        before={0: Block.carried},
        range_bytes={0: carried_bytes},
        note="sums of stretches",
    )
