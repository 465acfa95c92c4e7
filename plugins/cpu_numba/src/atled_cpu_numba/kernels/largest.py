"""TopKData: the k largest elements of each row, of equal ones the first, NaN after all numbers.

A sorted list of the best so far, with whose last one many elements are compared at a time: most are not above it.
Longer lists are `halved_largest`'s where rows are short, of float64 `halved_doubles`'; of long rows of float32
`chosen_largest`'s, which chooses among many.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels import chosen_largest, halved_doubles, halved_largest
from atled_cpu_numba.kernels.largest_words import Largest
from atled_cpu_numba.kernels.shared.launch import (
    REALS,
    fitting_shares,
    kernels_by_dtype,
    launch,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout


@layout
class Block(Largest):
    """What the kernel reads."""


_MOST = 128  # a longer list moves more than sorting the row does
# To insert one of more takes longer than its part in choosing and sorting many.
_MOST_ONE_BY_ONE = {"float32": 3, "float64": 8}
_AT_ONCE = 32  # elements that are compared with the last of the best before any of them is looked at
_ELEMENTS_PER_US = 500.0  # a cautious rate of one core, for the number of shares


def _build(dtype: str) -> Callable[..., int]:
    from numba import types

    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size
    count = types.int32 if dtype == "float32" else types.int64  # as wide as an element, for as many in a vector

    @kernel
    def largest(block, part, parts):
        w = words(block)
        length, k, by_magnitude, alone = w[Block.length], w[Block.k], w[Block.by_magnitude] != 0, w[Block.alone] != 0
        for row in range(w[Block.rows] * part // parts, w[Block.rows] * (part + 1) // parts):
            x, index = floats(w[Block.x] + size * row * length), ints64(w[Block.index] + 8 * row * k)
            for begin in range(0, length, _AT_ONCE):
                end = min(length, begin + _AT_ONCE)
                if begin >= k and end - begin == _AT_ONCE:
                    last = abs(x[index[k - 1]]) if by_magnitude else x[index[k - 1]]
                    above = count(0)
                    for i in range(begin, end):
                        value = abs(x[i]) if by_magnitude else x[i]
                        above += count(0) if value <= last else count(1)  # a NaN is looked at
                    if above == count(0):
                        continue
                for i in range(begin, end):
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
_CHOSEN = {"float32": chosen_largest.CHOSEN}
_HALVED = {"float32": halved_largest, "float64": halved_doubles}


def accepts(call: Call) -> bool | str:
    """Whether x is float32, or float64 and rows are short or k at most 128, and not empty."""
    refused = refuse_floats(call, REALS, floats=(0,), empty=False)
    if refused:
        return refused
    x, k = call.inputs[0], call.attributes["k"]
    assert x is not None
    if x.dtype.name in _CHOSEN:
        length = math.prod(x.shape[call.attributes["base_axis"] :])
        return length <= chosen_largest.MOST_LENGTH or f"takes rows of up to {chosen_largest.MOST_LENGTH} elements"
    if math.prod(x.shape[call.attributes["base_axis"] :]) <= halved_largest.MOST_LENGTH:
        return True
    return k <= _MOST or f"finds up to {_MOST} elements of {x.dtype}, not {k}; sorting is quicker then"


def prepare(call: Call) -> Prepared:
    """TopKData: x -> y, index."""
    x, attributes = call.inputs[0], call.attributes
    assert x is not None
    rows, k, dtype = math.prod(x.shape[: attributes["base_axis"]]), attributes["k"], x.dtype.name
    given = {
        "rows": rows,
        "length": x.size // rows,
        "k": k,
        "by_magnitude": int(attributes["abs"]),
        "alone": int(attributes["reduce"]),
    }
    parts = share_count(x.size / _ELEMENTS_PER_US, rows)
    arguments = (Block.x, Block.y, Block.index)
    is_short = given["length"] <= halved_largest.MOST_LENGTH
    if k <= _MOST_ONE_BY_ONE[dtype] or not (is_short or dtype in _CHOSEN):
        return launch(_KERNELS[dtype], filled(Block, **given), arguments, parts=parts, note="sorted list")
    if is_short:
        halved = _HALVED[dtype]
        share_bytes, sorted_bytes = halved.workspace_bytes(given["length"], k), halved.key_bytes(k)
        parts = fitting_shares(parts, share_bytes)
        return launch(
            halved.HALVED,
            filled(halved.Block, share_bytes=share_bytes, sorted_bytes=sorted_bytes, **given),
            (*arguments, halved.Block.workspace),
            parts=parts,
            workspace=share_bytes * parts,
            note="halved ranges",
        )
    share_bytes = chosen_largest.workspace_bytes(k)
    parts = fitting_shares(parts, share_bytes)
    words = filled(chosen_largest.Block, share_bytes=share_bytes, most=chosen_largest.candidates(k), **given)
    return launch(
        _CHOSEN[dtype],
        words,
        (*arguments, chosen_largest.Block.workspace),
        parts=parts,
        workspace=share_bytes * parts,
        note="candidates",
    )
