"""numba intrinsics for Winograd's convolutions along one axis: the transformations of one tile, a vector wide.

A tile is a column of vectors, of channels or of maps; it has 4 results, for kernels of 3 taps (the lines of `blocks`)
or of 7 (`seven_taps`). Importing this module imports numba. Addresses are int64 in bytes, strides int64 in elements.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from atled.plugin import NamedTuple
from atled_cpu_numba.kernels.shared.vectors import vector_intrinsic
from atled_cpu_numba.kernels.winograd import blocks, seven_taps

_LINES = {
    3: (blocks.input_line, blocks.weight_line, blocks.output_line),
    7: (seven_taps.input_line, seven_taps.weight_line, seven_taps.output_line),
}


class Columns(NamedTuple):
    """The intrinsics for one dtype and number of taps, with the strides of what they read and write.

    input: B' times the elements of a tile; target: a vector for each product.
    weight: G times the taps; their stride may be negative.
    output: A' times the products of a tile, plus a vector, the bias.
    """

    input: Any  # ((source, row, target, target_row))
    weight: Any  # ((source, tap, target, step))
    output: Any  # ((source, step, target, column, bias))


@functools.cache
def columns_of(dtype: str, taps: int) -> Columns:
    """Those of "float32" or "float64", for 3 or 7 taps."""
    products = blocks.STEP + taps - 1

    def transformed(w, line, count, source, row):
        """A line of `count` vectors at `source`, `row` apart."""
        source = w.pointer(source)
        vectors = [w.load(w.at(source, w.builder.mul(row, w.number(i)))) for i in range(count)]
        return line(blocks.Sums(w), *vectors)

    def stored(w, vectors, target, row):
        target = w.pointer(target)
        for i, vector in enumerate(vectors):
            w.store(vector, w.at(target, w.builder.mul(row, w.number(i))))

    input_line, weight_line, output_line = _LINES[taps]

    def input_column(w, source, row, target, target_row):
        stored(w, transformed(w, input_line, products, source, row), target, target_row)

    def weight_column(w, source, tap, target, step):
        stored(w, transformed(w, weight_line, taps, source, tap), target, step)

    def output_column(w, source, step, target, column, bias):
        increment = w.load(w.pointer(bias))
        results = transformed(w, output_line, products, source, step)
        stored(w, [w.builder.fadd(result, increment) for result in results], target, column)

    def intrinsic(name: str, count: int, generate: Callable[..., None]) -> Any:
        return vector_intrinsic(name, count, generate, f"One tile of {taps} taps; see Columns.", dtype)

    return Columns(
        intrinsic("input_column", 4, input_column),
        intrinsic("weight_column", 4, weight_column),
        intrinsic("output_column", 5, output_column),
    )
