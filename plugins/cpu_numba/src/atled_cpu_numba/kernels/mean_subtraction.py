"""MeanSubtraction: a mean over rows, two formulas that move the running mean and subtract it, and a count of calls."""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import ArrayDesc, Call, Prepared, Program, is_narrow, op_spec
from atled_cpu_numba import elementwise
from atled_cpu_numba.kernels.reduction import any_axes
from atled_cpu_numba.kernels.rows_of_kernels import Rows
from atled_cpu_numba.kernels.shared.launch import REALS, launch, narrow_dtypes, refuse_floats
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import Kernel


@layout
class Block:
    """What the kernel that counts calls reads."""

    t: int  # address


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.options import kernel

    @kernel
    def count_call(block, part, parts):
        ints64(words(block)[Block.t])[0] += 1
        return 0

    return count_call


_COUNT_CALL = Kernel("count_call", _build)

# t is what it was before the call, which is counted after all have read it.
_MOVED = Program(("m", "mean", "t"), (), (("mean", "mean + (m - mean) / (t + 1)"),))
_DIFFERENCE = Program(("x", "mean"), (), (("y", "x - mean"),))
_SCALE = Program(("t",), ("count",), (("scale", "1 - 1 / ((t + 1) * count)"),))
_ONE = Program((), (), (("scale", "1"),))


def accepts(call: Call) -> bool | str:
    """Whether floats are float32 or float64, t is int64, and there are elements."""
    refused = refuse_floats(call, REALS, floats=(0, 1), outputs=2, empty=False)
    t = call.inputs[2]
    assert t is not None
    return refused or t.dtype.name == "int64" or f"takes t as int64, not {t.dtype.name}"


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: all but the mean, which is not."""
    x = call.inputs[0]
    assert x is not None
    return (0, 3, 4) if x.dtype.name in narrow_dtypes() else ()


def prepare(call: Call) -> Prepared:
    """MeanSubtraction: x, mean, t -> y, scale; mean and t are changed in place."""
    x, mean = call.inputs[:2]
    assert x is not None
    assert mean is not None
    axis, compute = call.attributes["base_axis"], "float32" if is_narrow(x.dtype) else None
    count, columns = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
    flat, row = ArrayDesc((count, columns), x.dtype), ArrayDesc((columns,), mean.dtype)
    one, number = ArrayDesc((1,), "int64"), ArrayDesc((1,), x.dtype)
    rows = Rows(call)
    source, running, t, y, scale = rows.arguments
    if call.attributes["update_running_mean"]:
        made = rows.between(row)
        average = Call(op_spec("Mean"), (flat,), (row,), {"axes": (0,), "keep_dims": False})
        rows.add(any_axes.prepare(average), source, made)
        moved = elementwise.prepare_program(_MOVED, (row, row, one), (row,))
        rows.add(moved, made, running, t, running)
        rows.add(elementwise.prepare_program(_SCALE, (one,), (number,), compute), t, scale, count=count)
        rows.add(launch(_COUNT_CALL, filled(Block), (Block.t,), parts=1), t)
    else:
        rows.add(elementwise.prepare_program(_ONE, (), (number,), compute), scale)
    rows.add(elementwise.prepare_program(_DIFFERENCE, (flat, row), (flat,), compute), source, running, y)
    return rows.finished("mean of rows; formulas" if call.attributes["update_running_mean"] else "formulas")
