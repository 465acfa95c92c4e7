"""Concatenate, Stack and Split: several arrays beside one that holds them all, row by row.

With the axes before the joining one merged, each array is rows, and a row of the whole is one row of each array.

Block (64-bit words; lengths in float32, of which a float64 is two):
    0 whole, 1 rows, 2 length of a row of the whole, 3 number of arrays, 4 whether the whole is written
    5 ...: per array its address and the length of its rows
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.launch import has_empty, launch, refuse_floats, share_count
from atled_cpu_numba.store import Kernel

_BYTES_PER_US = 6000.0  # a cautious rate of one core, for the number of shares


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.options import kernel
    from atled_cpu_numba.kernels.shared.vectors import copy_rows

    @kernel
    def join(block, part, parts):
        w = words(block)
        rows, whole_length, joins = w[1], w[2], w[4] != 0
        first, after = rows * part // parts, rows * (part + 1) // parts
        whole = w[0] + 4 * first * whole_length
        for i in range(w[3]):
            length = w[6 + 2 * i]
            piece = w[5 + 2 * i] + 4 * first * length
            source, source_row = (piece, length) if joins else (whole, whole_length)
            target, target_row = (whole, whole_length) if joins else (piece, length)
            copy_rows((source, source_row, target, target_row, after - first, length))
            whole += 4 * length
        return 0

    return join


_KERNEL = Kernel("join", _build)


def accepts(call: Call) -> bool | str:
    """Whether all arrays are float32, or all float64, and none is empty."""
    refused = refuse_floats(call, ("float32", "float64"), floats=range(len(call.inputs)), outputs=len(call.outputs))
    if refused:
        return refused
    return "an array is empty" if has_empty(call) else True


def prepare(call: Call) -> Prepared:
    """Concatenate, Stack: x... -> y.  Split: x -> y..."""
    joins = call.spec.name != "Split"
    descs = call.inputs if joins else call.outputs
    whole = call.outputs[0] if joins else call.inputs[0]
    assert whole is not None
    rows = math.prod(whole.shape[: call.attributes["axis"]])
    floats = whole.dtype.itemsize // 4
    pieces = [floats * desc.size // rows for desc in descs if desc is not None]
    words = [0, rows, floats * whole.size // rows, len(pieces), int(joins)]
    for length in pieces:
        words += [0, length]
    places = tuple(5 + 2 * i for i in range(len(pieces)))
    arguments = (*places, 0) if joins else (0, *places)
    return launch(_KERNEL, words, arguments, parts=share_count(2 * whole.nbytes / _BYTES_PER_US, rows))
