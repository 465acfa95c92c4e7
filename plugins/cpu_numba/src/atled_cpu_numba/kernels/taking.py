"""Take, slices by index along an axis, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.indices import make_are_within
from atled_cpu_numba.kernels.shared.launch import REALS, kernels_by_dtype, launch, refuse_floats, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import Kernel


@layout
class Block:
    """What both kernels read."""

    index: int  # address of the indices, int64
    whole: int  # address of x, or of gx
    chosen: int  # address of y, or of gy
    outer: int  # elements of the axes before the one that is indexed
    count: int  # of indices
    rows: int  # of the axis that is indexed
    length: int  # elements behind it


_OUT_OF_RANGE = 1
_ERRORS = {_OUT_OF_RANGE: "index out of range"}
_ELEMENTS_PER_US = 1000.0  # a cautious rate of one core, for the number of shares


def _build_take(itemsize: int) -> Callable[..., int]:
    from atled_cpu_numba.codegen import bytes8, ints32, ints64, words
    from atled_cpu_numba.kernels.shared.options import kernel

    items, are_within = {1: bytes8, 4: ints32, 8: ints64}[itemsize], make_are_within()

    @kernel
    def take(block, part, parts):
        w = words(block)
        index, count, rows, length = ints64(w[Block.index]), w[Block.count], w[Block.rows], w[Block.length]
        if not are_within(index, 0, count, -rows, rows):
            return _OUT_OF_RANGE  # in each share: nothing is written where one is out of range
        first, after = w[Block.outer] * count * part // parts, w[Block.outer] * count * (part + 1) // parts
        if first == after:
            return 0
        x, y = items(w[Block.whole]), items(w[Block.chosen])
        base = first // count * rows
        i = first % count
        for at in range(first, after):
            row = index[i]
            source = base + (row if row >= 0 else row + rows)
            if length == 1:
                y[at] = x[source]
            else:
                for j in range(length):
                    y[at * length + j] = x[source * length + j]
            i += 1
            if i == count:
                i = 0
                base += rows
        return 0

    return take


def _build_grad(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    number, floats, are_within = real.kind, real.pointer, make_are_within()

    @kernel
    def take_grad(block, part, parts):
        w = words(block)
        index, count, rows, length = ints64(w[Block.index]), w[Block.count], w[Block.rows], w[Block.length]
        if not are_within(index, 0, count, -rows, rows):
            return _OUT_OF_RANGE
        # A share is a range of rows: equal indices meet in one share.
        first, after = w[Block.outer] * rows * part // parts, w[Block.outer] * rows * (part + 1) // parts
        gx, gy = floats(w[Block.whole]), floats(w[Block.chosen])
        for j in range(first * length, after * length):
            gx[j] = number(0)
        if first == after:
            return 0
        for o in range(first // rows, (after - 1) // rows + 1):
            for i in range(count):
                row = index[i]
                target = o * rows + (row if row >= 0 else row + rows)
                if first <= target < after:
                    at = o * count + i
                    if length == 1:
                        gx[target] += gy[at]
                    else:
                        for j in range(length):
                            gx[target * length + j] += gy[at * length + j]
        return 0

    return take_grad


_TAKE = {size: Kernel(f"take_{size}", partial(_build_take, size), parameters=(size,)) for size in (1, 4, 8)}
_GRAD = kernels_by_dtype("take_grad", _build_grad)


def accepts(call: Call) -> bool | str:
    """Whether indices are int64, elements of 1, 4 or 8 bytes are moved, and float32 or float64 are summed."""
    first, index = call.inputs
    assert first is not None
    assert index is not None
    if index.dtype != np.int64:
        return f"takes int64 indices, not {index.dtype}"
    if call.spec.name == "TakeGrad":
        return refuse_floats(call, REALS, floats=(0,)) or True
    return first.dtype.itemsize in _TAKE or f"moves elements of 1, 4 or 8 bytes, not {first.dtype}"


def prepare(call: Call) -> Prepared:
    """Take: x, index -> y.  TakeGrad: gy, index -> gx."""
    forward = call.spec.name == "Take"
    whole, index = call.inputs[0] if forward else call.outputs[0], call.inputs[1]
    assert whole is not None
    assert index is not None
    axis = call.attributes["axis"]
    outer, rows, length = math.prod(whole.shape[:axis]), whole.shape[axis], math.prod(whole.shape[axis + 1 :])
    words = filled(Block, outer=outer, count=index.size, rows=rows, length=length)
    moved = outer * index.size * length
    if forward:
        parts = share_count(moved / _ELEMENTS_PER_US, outer * index.size)
        arguments = Block.whole, Block.index, Block.chosen
        return launch(_TAKE[whole.dtype.itemsize], words, arguments, parts=parts, errors=_ERRORS)
    # Each share reads all indices of its rows, which short rows would not be worth.
    parts = share_count((moved + whole.size) / _ELEMENTS_PER_US, max(outer, min(rows, length)))
    arguments = Block.chosen, Block.index, Block.whole
    return launch(_GRAD[whole.dtype.name], words, arguments, parts=parts, errors=_ERRORS)
