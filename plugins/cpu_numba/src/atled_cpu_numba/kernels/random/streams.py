"""MRGUniform: the numbers of `atled.ops.mrg31k3p`, bit for bit, many streams at a time in the lanes of vectors.

A share is a range of blocks of streams. The states of a block lie one number after the other in the workspace, which
stays in the cache: six arrays, of which the newest values take the place of the oldest, so that nothing is moved.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.random.random_state import exact
from atled_cpu_numba.kernels.shared.launch import kernels_by_dtype, launch, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout

_STREAMS = 512  # of a block
_STATE_BYTES = 6 * 4 * _STREAMS
_ELEMENTS_PER_US = 500.0  # a cautious rate of one core, for the number of shares


@layout
class Block:
    """What the kernel reads."""

    rows: int  # address
    y: int  # address
    new_rows: int  # address
    workspace: int  # address
    streams: int
    count: int  # elements of y
    low: int  # bits of a float64
    high: int
    after: int  # range kernel to run on what is written of y, or 0
    after_block: int


def _build(dtype: str) -> Callable[..., int]:
    from numba import float64

    from atled_cpu_numba.codegen import call3, float64_of_bits, ints32, words
    from atled_cpu_numba.kernels.random.recurrence import advanced, beside
    from atled_cpu_numba.kernels.shared.options import Real, inlined
    from atled_cpu_numba.kernels.shared.scalars import choose

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size
    next_to = beside(dtype)
    scale = {"float32": np.float32(4.6566126e-10), "float64": np.float64(2.0**-31)}[dtype]

    @inlined
    def load(rows, first, count, a0, a1, a2, b0, b1, b2):
        x = ints32(rows + 24 * first)
        p0, p1, p2, q0, q1, q2 = ints32(a0), ints32(a1), ints32(a2), ints32(b0), ints32(b1), ints32(b2)
        for j in range(count):
            p0[j] = x[6 * j]
            p1[j] = x[6 * j + 1]
            p2[j] = x[6 * j + 2]
            q0[j] = x[6 * j + 3]
            q1[j] = x[6 * j + 4]
            q2[j] = x[6 * j + 5]

    @inlined
    def store(new_rows, first, begin, end, a0, a1, a2, b0, b1, b2):
        """Streams begin to end of a block, whose values lie at these addresses, the newest ones first."""
        to = ints32(new_rows + 24 * first)
        p0, p1, p2, q0, q1, q2 = ints32(a0), ints32(a1), ints32(a2), ints32(b0), ints32(b1), ints32(b2)
        for j in range(begin, end):
            to[6 * j] = p0[j]
            to[6 * j + 1] = p1[j]
            to[6 * j + 2] = p2[j]
            to[6 * j + 3] = q0[j]
            to[6 * j + 4] = q1[j]
            to[6 * j + 5] = q2[j]

    @exact
    def streams(block, part, parts):
        w = words(block)
        n, count = w[Block.streams], w[Block.count]
        low, high = number(float64_of_bits(w[Block.low])), number(float64_of_bits(w[Block.high]))
        is_unit = low == number(0) and high == number(1)
        begin, span = float64(low), float64(number(high - low))
        inside, other = next_to(low, high), next_to(high, low)
        least, most = min(inside, other), max(inside, other)
        state = w[Block.workspace] + part * _STATE_BYTES
        blocks = (n + _STREAMS - 1) // _STREAMS
        for number_of_block in range(blocks * part // parts, blocks * (part + 1) // parts):
            first = number_of_block * _STREAMS
            streams = min(_STREAMS, n - first)
            if first >= count:
                rows, new_rows = ints32(w[Block.rows] + 24 * first), ints32(w[Block.new_rows] + 24 * first)
                for i in range(6 * streams):
                    new_rows[i] = rows[i]
                continue
            a0, a1, a2 = state, state + 4 * _STREAMS, state + 8 * _STREAMS
            b0, b1, b2 = state + 12 * _STREAMS, state + 16 * _STREAMS, state + 20 * _STREAMS
            load(w[Block.rows], first, streams, a0, a1, a2, b0, b1, b2)
            drawing = streams
            at = first
            while at < count:
                last = min(streams, count - at)
                if last < drawing:
                    # The others have drawn their last number one round before.
                    store(w[Block.new_rows], first, last, drawing, a0, a1, a2, b0, b1, b2)
                    drawing = last
                x12, x13, x21, x23 = ints32(a1), ints32(a2), ints32(b0), ints32(b2)
                y = floats(w[Block.y] + size * at)
                for j in range(drawing):
                    x1, x2, z = advanced(x12[j], x13[j], x21[j], x23[j])
                    x13[j] = x1
                    x23[j] = x2
                    y[j] = number(z) * scale
                if not is_unit:
                    for j in range(drawing):
                        value = number(float64(y[j]) * span + begin)
                        value = choose(value < least, least, value)
                        y[j] = choose(value > most, most, value)
                if w[Block.after] != 0:
                    call3(w[Block.after], w[Block.after_block], at, at + drawing)
                a0, a1, a2 = a2, a0, a1
                b0, b1, b2 = b2, b0, b1
                at += n
            store(w[Block.new_rows], first, 0, drawing, a0, a1, a2, b0, b1, b2)
        return 0

    return streams


_KERNELS = kernels_by_dtype("streams", _build)


def accepts(call: Call) -> bool | str:
    """The dtypes are those of the op."""
    return True


def prepare(call: Call) -> Prepared:
    """MRGUniform: rows -> y, new_rows."""
    rows, y = call.inputs[0], call.outputs[0]
    assert rows is not None
    streams = rows.shape[0]
    parts = share_count(y.size / _ELEMENTS_PER_US, math.ceil(streams / _STREAMS))
    return launch(
        _KERNELS[y.dtype.name],
        filled(Block, streams=streams, count=y.size),
        (Block.rows, Block.y, Block.new_rows, Block.workspace),
        parts=parts,
        workspace=_STATE_BYTES * parts,
        attributes={"low": Block.low, "high": Block.high},
        after={0: Block.after},
        note="MRG31k3p",
    )
