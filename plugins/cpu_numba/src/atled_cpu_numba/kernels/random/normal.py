"""Randn as uniform numbers and a formula: pairs by Box and Muller, apart while they are computed.

The numbers are those of `atled.ops.philox`, in float64 until they are stored.
"""

from __future__ import annotations

import math

from atled.plugin import ArrayDesc, Call, Prepared, Program, op_spec
from atled_cpu_numba import elementwise
from atled_cpu_numba.kernels import transposition
from atled_cpu_numba.kernels.random import random_state
from atled_cpu_numba.kernels.rows_of_kernels import Rows
from atled_cpu_numba.kernels.shared.launch import REALS, refuse_floats

_MOST = 1 << 24  # numbers; more would need too much workspace, which is two times theirs
_RADIUS, _ANGLE = "sqrt(-2 * log(1 - u))", f"({2 * math.pi!r} * v)"
_NORMAL = Program(
    ("u", "v"),
    ("mu", "sigma"),
    (
        ("y", f"mu + sigma * ({_RADIUS} * cos{_ANGLE})"),
        ("z", f"mu + sigma * ({_RADIUS} * sin{_ANGLE})"),
    ),
)


def accepts(call: Call) -> bool | str:
    """Whether the result is float32 or float64 and has an even count of elements, some but not too many."""
    size = call.outputs[0].size
    if size % 2 or not 0 < size <= _MOST:
        return f"draws pairs, {_MOST} numbers at most"
    return refuse_floats(call, REALS, floats=()) or True


def prepare(call: Call) -> Prepared:
    """Randn: random_state -> y."""
    y = call.outputs[0]
    count = y.size // 2
    flat, pairs, halves = (ArrayDesc(shape, y.dtype) for shape in ((y.size,), (count, 2), (2, count)))
    half, second = ArrayDesc((count,), y.dtype), count * y.dtype.itemsize
    rows = Rows(call)
    state, drawn = rows.arguments
    uniform, normal = rows.between(halves), rows.between(halves)
    draw = Call(op_spec("Rand"), call.inputs, (flat,), {"shape": flat.shape})
    rows.add(random_state.prepare(draw), state, drawn, low=0.0, high=1.0)
    rows.add(_transposed(pairs, halves), drawn, uniform)
    parts = [array._replace(offset=offset) for array in (uniform, normal) for offset in (0, second)]
    rows.add(elementwise.prepare_program(_NORMAL, (half, half), (half, half), "float64"), *parts)
    rows.add(_transposed(halves, pairs), normal, drawn)
    return rows.finished("philox; formula")


def _transposed(x: ArrayDesc, y: ArrayDesc) -> Prepared:
    return transposition.prepare(Call(op_spec("Transpose"), (x,), (y,), {"axes": (1, 0)}))
