"""TopKData: the k largest elements of each row, of equal ones the first, NaN after all numbers.

A sorted list of the best so far; an element that is not above its last one, as most are not, costs one comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.launch import REALS, kernels_by_dtype, launch, refuse_floats, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout


@layout
class Block:
    """What the kernel reads."""

    x: int  # address
    y: int  # address
    index: int  # address
    rows: int
    length: int  # of a row
    k: int
    by_magnitude: int  # whether it decides
    alone: int  # whether y holds the k alone


_MOST = 128  # a longer list moves more than sorting the row does
_ELEMENTS_PER_US = 500.0  # a cautious rate of one core, for the number of shares


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def largest(block, part, parts):
        w = words(block)
        length, k, by_magnitude, alone = w[Block.length], w[Block.k], w[Block.by_magnitude] != 0, w[Block.alone] != 0
        for row in range(w[Block.rows] * part // parts, w[Block.rows] * (part + 1) // parts):
            x, index = floats(w[Block.x] + size * row * length), ints64(w[Block.index] + 8 * row * k)
            for i in range(length):
                value = abs(x[i]) if by_magnitude else x[i]
                if i >= k:
                    last = abs(x[index[k - 1]]) if by_magnitude else x[index[k - 1]]
                    # Not above the last one: false for a last one that is NaN, which every number replaces.
                    if value <= last or value != value:
                        continue
                place = min(i, k - 1)
                while place > 0:
                    other = abs(x[index[place - 1]]) if by_magnitude else x[index[place - 1]]
                    if not (value > other or (other != other and value == value)):
                        break
                    index[place] = index[place - 1]
                    place -= 1
                index[place] = i
            if alone:
                y = floats(w[Block.y] + size * row * k)
                for i in range(k):
                    y[i] = x[index[i]]
            else:
                y = floats(w[Block.y] + size * row * length)
                for i in range(length):
                    y[i] = number(0)
                for i in range(k):
                    y[index[i]] = x[index[i]]
            for i in range(k):
                index[i] += row * length
        return 0

    return largest


_KERNELS = kernels_by_dtype("largest", _build)


def accepts(call: Call) -> bool | str:
    """Whether x is float32 or float64, not empty, and k at most 128."""
    refused = refuse_floats(call, REALS, floats=(0,), empty=False)
    if refused:
        return refused
    k = call.attributes["k"]
    return k <= _MOST or f"finds up to {_MOST} elements, not {k}; sorting is quicker then"


def prepare(call: Call) -> Prepared:
    """TopKData: x -> y, index."""
    x, attributes = call.inputs[0], call.attributes
    assert x is not None
    rows = math.prod(x.shape[: attributes["base_axis"]])
    words = filled(
        Block,
        rows=rows,
        length=x.size // rows,
        k=attributes["k"],
        by_magnitude=int(attributes["abs"]),
        alone=int(attributes["reduce"]),
    )
    parts = share_count(x.size / _ELEMENTS_PER_US, rows)
    arguments = (Block.x, Block.y, Block.index)
    return launch(_KERNELS[x.dtype.name], words, arguments, parts=parts, note="sorted list")
