"""numba intrinsics for Winograd's convolutions: the transformations of one tile, a vector of channels wide.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Addresses are int64 in bytes, strides and counts are int64 in elements.

With d a tile of 6 x 6 elements and g the kernel, the results are A' ((G g G') * (B' d B)) A: Lavin and Gray, "Fast
Algorithms for Convolutional Neural Networks", 2016, section 4.3. The points of interpolation are 0, 1, -1, 2, -2 and
infinity, for F(4x4, 3x3) and F(2x2, 5x5): so B is the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from atled.plugin import NamedTuple
from atled_cpu_numba.kernels.shared.cache_lines import LINE_BYTES
from atled_cpu_numba.kernels.shared.lanes import lanes_of
from atled_cpu_numba.kernels.shared.vectors import Writer, terms_at_once, transpose_registers, vector_intrinsic

# Weights that were packed in an earlier run come from memory: the processor by itself stops at the end of each page.
_ROWS_AHEAD = 24
# Of a panel's sums: what else a loop does takes a tenth of the time of its products beside a busy hyperthread.
_TERMS_AT_ONCE = 8

SIDE = 6  # of a tile that is read
STEP = 4  # of the results of a tile, for kernels of 3 x 3


class Sums:
    """Sums of vectors with constant factors."""

    def __init__(self, w: Writer) -> None:
        self.w = w

    def add(self, a: Any, b: Any) -> Any:
        return self.w.builder.fadd(a, b)

    def subtract(self, a: Any, b: Any) -> Any:
        return self.w.builder.fsub(a, b)

    def scale(self, factor: float, a: Any) -> Any:
        return self.w.builder.fmul(self.w.constant(factor), a)

    def scale_add(self, factor: float, a: Any, b: Any) -> Any:
        """factor * a + b."""
        return self.w.multiply_add(self.w.constant(factor), a, b)


def input_line(s: Sums, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> list[Any]:
    """B' times a column of a tile."""
    even, odd = s.scale_add(-4, c, e), s.scale_add(-4, b, d)
    difference, twice = s.subtract(e, c), s.subtract(d, b)
    return [
        s.scale_add(4, a, s.scale_add(-5, c, e)),
        s.add(even, odd),
        s.subtract(even, odd),
        s.scale_add(2, twice, difference),
        s.scale_add(-2, twice, difference),
        s.scale_add(4, b, s.scale_add(-5, d, f)),
    ]


def weight_line(s: Sums, a: Any, b: Any, c: Any) -> list[Any]:
    """G times a column of the kernel."""
    outer = s.scale(-1 / 6, s.add(a, c))
    skewed = s.scale_add(1 / 24, a, s.scale(1 / 6, c))
    return [
        s.scale(1 / 4, a),
        s.scale_add(-1 / 6, b, outer),
        s.scale_add(1 / 6, b, outer),
        s.scale_add(1 / 12, b, skewed),
        s.scale_add(-1 / 12, b, skewed),
        c,
    ]


def _weight_line_5(s: Sums, a: Any, b: Any, c: Any, d: Any, e: Any) -> list[Any]:
    """G times a column of a kernel of 5 x 5."""
    even, odd = s.scale(-1 / 6, s.add(s.add(a, c), e)), s.scale(1 / 6, s.add(b, d))
    even_2 = s.scale_add(2 / 3, e, s.scale_add(1 / 6, c, s.scale(1 / 24, a)))
    odd_2 = s.scale_add(1 / 3, d, s.scale(1 / 12, b))
    return [
        s.scale(1 / 4, a),
        s.subtract(even, odd),
        s.add(even, odd),
        s.add(even_2, odd_2),
        s.subtract(even_2, odd_2),
        e,
    ]


def output_line(s: Sums, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> list[Any]:
    """A' times a column of products."""
    sum_1, difference_1, sum_2, difference_2 = s.add(b, c), s.subtract(b, c), s.add(d, e), s.subtract(d, e)
    return [
        s.add(s.add(a, sum_1), sum_2),
        s.scale_add(2, difference_2, difference_1),
        s.scale_add(4, sum_2, sum_1),
        s.add(s.scale_add(8, difference_2, difference_1), f),
    ]


def _output_line_5(s: Sums, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> list[Any]:
    """A' times a column of products, for a kernel of 5 x 5."""
    difference_1, difference_2 = s.subtract(b, c), s.subtract(d, e)
    return [
        s.add(s.add(a, s.add(b, c)), s.add(d, e)),
        s.add(s.scale_add(2, difference_2, difference_1), f),
    ]


_WEIGHT_LINES = {3: weight_line, 5: _weight_line_5}
_OUTPUT_LINES = {3: output_line, 5: _output_line_5}


def _gradient_line(s: Sums, a: Any, b: Any, c: Any, d: Any) -> list[Any]:
    """A times a column of the results' gradient."""
    even, odd = s.add(a, c), s.add(b, d)
    even_2, odd_2 = s.scale_add(4, c, a), s.scale_add(8, d, s.add(b, b))
    return [a, s.add(even, odd), s.subtract(even, odd), s.add(even_2, odd_2), s.subtract(even_2, odd_2), d]


def _weight_gradient_line(s: Sums, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> list[Any]:
    """G' times a column of products."""
    sum_1, difference_1, sum_2, difference_2 = s.add(b, c), s.subtract(c, b), s.add(d, e), s.subtract(d, e)
    outer = s.scale(-1 / 6, sum_1)
    return [
        s.scale_add(1 / 4, a, s.scale_add(1 / 24, sum_2, outer)),
        s.scale_add(1 / 6, difference_1, s.scale(1 / 12, difference_2)),
        s.add(s.scale_add(1 / 6, sum_2, outer), f),
    ]


def _both_ways(s: Sums, line: Callable[..., list[Any]], square: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """`line` for the columns of a square of vectors, then for the rows of what that gives."""
    columns = [line(s, *(row[j] for row in square)) for j in range(len(square))]
    return [line(s, *(column[i] for column in columns)) for i in range(len(columns[0]))]


def _load_square(w, side, source, row, column):
    """Rows of vectors that begin `row` and `column` apart."""
    starts = [w.at(source, w.builder.mul(row, w.number(i))) for i in range(side)]
    return [[w.load(w.at(start, w.builder.mul(column, w.number(j)))) for j in range(side)] for start in starts]


def _generate_input_tile(w, source, row, column, target, step):
    """B' d B of a vector of channels or images.

    source: 6 rows, `row` apart, of 6 vectors, `column` apart.  target: 36 vectors, `step` apart.
    """
    builder = w.builder
    source, target = w.pointer(source), w.pointer(target)
    square = _load_square(w, SIDE, source, row, column)
    for i, line in enumerate(_both_ways(Sums(w), input_line, square)):
        for j, value in enumerate(line):
            w.store(value, w.at(target, builder.mul(step, w.number(i * SIDE + j))))


def _generate_input_column(w, source, row, target, target_row):
    """B' times a column of six vectors, of which tiles that overlap have as many as they share.

    source: 6 vectors, `row` apart.  target: 6 vectors, `target_row` apart.
    """
    builder = w.builder
    source, target = w.pointer(source), w.pointer(target)
    column = [w.load(w.at(source, builder.mul(row, w.number(i)))) for i in range(SIDE)]
    for i, value in enumerate(input_line(Sums(w), *column)):
        w.store(value, w.at(target, builder.mul(target_row, w.number(i))))


def _generate_input_rows(w, source, row, target, step):
    """B' d B of a vector of channels, of B' d.

    source: 6 rows, `row` apart, of 6 vectors side by side.  target: 36 vectors, `step` apart.
    """
    builder = w.builder
    source, target = w.pointer(source), w.pointer(target)
    for i in range(SIDE):
        start = w.at(source, builder.mul(row, w.number(i)))
        line = [w.load(w.at(start, j * w.width)) for j in range(SIDE)]
        for j, value in enumerate(input_line(Sums(w), *line)):
            w.store(value, w.at(target, builder.mul(step, w.number(i * SIDE + j))))


def _generate_weight_tile(w, source, tap, target, step, kernel=3):
    """G g G' of a vector of maps, for `kernel` x `kernel` taps.

    source: a vector for each tap, `tap` apart, which may be negative.  target: 36 vectors, `step` apart.
    """
    builder = w.builder
    source, target = w.pointer(source), w.pointer(target)
    taps = [w.load(w.at(source, builder.mul(tap, w.number(t)))) for t in range(kernel * kernel)]
    square = [taps[kernel * i : kernel * (i + 1)] for i in range(kernel)]
    for i, line in enumerate(_both_ways(Sums(w), _WEIGHT_LINES[kernel], square)):
        for j, value in enumerate(line):
            w.store(value, w.at(target, builder.mul(step, w.number(i * SIDE + j))))


def _generate_output_tile(w, source, step, target, row, column, bias, kernel=3):
    """A' m A + bias of a vector of maps or images, for kernels of `kernel` x `kernel`.

    source: 36 vectors, `step` apart.  target: 4 rows (of 5 x 5: 2), `row` apart, of as many vectors, `column` apart;
    stores ascend by row, so that rows may overlap.  bias: a vector.
    """
    builder = w.builder
    source, target = w.pointer(source), w.pointer(target)
    values = [w.load(w.at(source, builder.mul(step, w.number(i)))) for i in range(SIDE * SIDE)]
    square = [values[i * SIDE : (i + 1) * SIDE] for i in range(SIDE)]
    increment = w.load(w.pointer(bias))
    for i, line in enumerate(_both_ways(Sums(w), _OUTPUT_LINES[kernel], square)):
        start = w.at(target, builder.mul(row, w.number(i)))
        for j, value in enumerate(line):
            w.store(builder.fadd(value, increment), w.at(start, builder.mul(column, w.number(j))))


def _generate_gradient_tile(w, source, row, target, step):
    """A gy A' of a vector of maps.

    source: 4 rows, `row` apart, of 4 vectors.  target: 36 vectors, `step` apart.
    """
    builder = w.builder
    source, target = w.pointer(source), w.pointer(target)
    square = _load_square(w, STEP, source, row, w.number(w.width))
    for i, line in enumerate(_both_ways(Sums(w), _gradient_line, square)):
        for j, value in enumerate(line):
            w.store(value, w.at(target, builder.mul(step, w.number(i * SIDE + j))))


def _generate_weight_gradient_tile(w, source, step, target):
    """G' m G of a vector of maps.

    source: 36 vectors, `step` apart.  target: 9 vectors.
    """
    builder = w.builder
    source, target = w.pointer(source), w.pointer(target)
    values = [w.load(w.at(source, builder.mul(step, w.number(i)))) for i in range(SIDE * SIDE)]
    square = [values[i * SIDE : (i + 1) * SIDE] for i in range(SIDE)]
    for i, line in enumerate(_both_ways(Sums(w), _weight_gradient_line, square)):
        for j, value in enumerate(line):
            w.store(value, w.at(target, (3 * i + j) * w.width))


def _generate_store_transposed(w, source, count, target, target_row, maps):
    """From vectors of maps to rows of positions.

    source: a vector for each position; as many as a vector has lanes are read.  target: `maps` rows, `target_row`
    apart, of `count` elements; both at least 1, and no more of them than lanes.
    """
    builder = w.builder
    source, target = w.pointer(source), w.pointer(target)
    rows = [w.load(w.at(source, i * w.width)) for i in range(w.width)]
    transpose_registers(w, rows)
    whole = builder.and_(
        builder.icmp_signed(">=", count, w.number(w.width)), builder.icmp_signed(">=", maps, w.number(w.width))
    )
    with builder.if_else(whole) as (then, otherwise):
        with then:
            for c in range(w.width):
                w.store(rows[c], w.at(target, builder.mul(target_row, w.number(c))))
        with otherwise:
            mask = w.first_lanes(count)
            for c in range(w.width):
                with builder.if_then(builder.icmp_signed("<", w.number(c), maps)):
                    w.store_masked(rows[c], w.at(target, builder.mul(target_row, w.number(c))), mask)


class Tiles(NamedTuple):
    """The intrinsics for one dtype; what they do and take, the functions say that write them."""

    apart_input: Any  # ((source, row, column, target, step))
    input: Any  # ((source, row, target, step)): of rows of vectors side by side
    input_column: Any  # ((source, row, target, target_row))
    input_rows: Any  # ((source, row, target, step))
    weight: Any  # ((source, tap, target, step))
    apart_output: Any  # ((source, step, target, row, column, bias))
    output: Any  # ((source, step, target, row, bias)): of rows of vectors side by side
    gradient: Any  # ((source, row, target, step))
    weight_gradient: Any  # ((source, step, target))
    store_transposed: Any  # ((source, count, target, target_row, maps))


@functools.cache
def tiles_of(dtype: str, kernel: int = 3) -> Tiles:
    """Those of "float32" or "float64", for kernels of 3 x 3 or 5 x 5; gradients are of 3 alone."""

    def intrinsic(name: str, count: int, generate: Callable[..., None]) -> Any:
        return vector_intrinsic(name, count, generate, "See the function that writes it.", dtype)

    def input_tile(w, source, row, target, step):
        _generate_input_tile(w, source, row, w.number(w.width), target, step)

    def weight_tile(w, source, tap, target, step):
        _generate_weight_tile(w, source, tap, target, step, kernel)

    def apart_output_tile(w, source, step, target, row, column, bias):
        _generate_output_tile(w, source, step, target, row, column, bias, kernel)

    def output_tile(w, source, step, target, row, bias):
        apart_output_tile(w, source, step, target, row, w.number(w.width), bias)

    return Tiles(
        intrinsic("apart_input_tile", 5, _generate_input_tile),
        intrinsic("input_tile", 4, input_tile),
        intrinsic("input_column", 4, _generate_input_column),
        intrinsic("input_rows", 4, _generate_input_rows),
        intrinsic("weight_tile", 4, weight_tile),
        intrinsic("apart_output_tile", 6, apart_output_tile),
        intrinsic("output_tile", 5, output_tile),
        intrinsic("gradient_tile", 4, _generate_gradient_tile),
        intrinsic("weight_gradient_tile", 3, _generate_weight_gradient_tile),
        intrinsic("store_transposed", 5, _generate_store_transposed),
    )


def make_panel_tile(rows: int, vectors: int, columns: int, dtype: str = "float32") -> Any:
    """An intrinsic that computes one whole tile of C = A B in registers, all sums over k in order.

    tile((k, a, a_panel, b, c, c_row)):
    a: A[r, i] at a[i // vector * a_panel + r * vector + i % vector]: with the rows at fixed places, one pointer does.
    b: B[i, j] at b[i * columns + j].  c: C[r, j] at c[r * c_row + j].
    """
    at_once = terms_at_once(rows * vectors, min(lanes_of(dtype).vector, _TERMS_AT_ONCE))

    def generate(w, k, a, a_panel, b, c, c_row):
        builder = w.builder
        a, b, c = (w.pointer(address) for address in (a, b, c))

        def with_terms(sums, a_now, b_now, count):
            for term in range(count):
                w.keep_order()
                b_vectors = [w.load(w.at(b_now, term * columns + j * w.width)) for j in range(vectors)]
                for j in range(0, vectors * w.width, LINE_BYTES // w.size):
                    w.prefetch(w.at(b_now, (_ROWS_AHEAD + term) * columns + j))
                values = [w.splat(w.load_one(w.at(a_now, r * w.width + term))) for r in range(rows)]
                pairs = [(value, b_vector) for value in values for b_vector in b_vectors]
                sums = [w.multiply_add(*pair, total) for pair, total in zip(pairs, sums, strict=True)]
            return sums

        panels = builder.sdiv(k, w.number(w.width))
        with w.counted(panels, [w.zeros] * (rows * vectors) + [b, a]) as (_, outer, outer_next):
            with w.counted(w.number(w.width // at_once), outer) as (_, phis, following):
                b_now, a_now = w.opaque(phis[-2]), w.opaque(phis[-1])
                following += with_terms(phis[:-2], a_now, b_now, at_once)
                following += [w.at(b_now, at_once * columns), w.at(a_now, at_once)]
            outer_next += [*following[:-1], w.at(outer[-1], a_panel)]
        left = builder.sub(k, builder.mul(panels, w.number(w.width)))
        with w.counted(left, outer_next) as (_, phis, last):
            b_now, a_now = w.opaque(phis[-2]), phis[-1]
            last += with_terms(phis[:-2], a_now, b_now, 1)
            last += [w.at(b_now, columns), w.at(a_now, 1)]
        for r in range(rows):
            place = w.at(c, builder.mul(c_row, w.number(r)))
            for j in range(vectors):
                w.store(last[r * vectors + j], w.at(place, j * w.width))

    return vector_intrinsic("panel_tile", 6, generate, "One tile of a product; see make_panel_tile.", dtype)


def make_outer_tile(rows: int, vectors: int, columns: int, dtype: str = "float32") -> Any:
    """An intrinsic that computes one whole tile of C = A' B, or adds it to C, all sums over k in order.

    tile((k, a, a_row, b, c, accumulate)):
    a: A[i, r] at a[i * a_row + r].  b: B[i, j] at b[i * columns + j].  c: C[r, j] at c[r * columns + j].
    accumulate: 1 to add to C, 0 to set it.
    """

    def generate(w, k, a, a_row, b, c, accumulate):
        builder = w.builder
        a, b, c = (w.pointer(address) for address in (a, b, c))
        with w.counted(k, [w.zeros] * (rows * vectors) + [a, b]) as (_, phis, following):
            b_vectors = [w.load(w.at(phis[-1], j * w.width)) for j in range(vectors)]
            for r in range(rows):
                value = w.splat(w.load_one(w.at(phis[-2], r)))
                following += [w.multiply_add(value, b_vectors[j], phis[r * vectors + j]) for j in range(vectors)]
            following += [w.at(phis[-2], a_row), w.at(phis[-1], columns)]
        with builder.if_else(builder.icmp_signed("!=", accumulate, w.number(0))) as (then, otherwise):
            with then:
                for i in range(rows * vectors):
                    place = w.at(c, i // vectors * columns + i % vectors * w.width)
                    w.store(builder.fadd(following[i], w.load(place)), place)
            with otherwise:
                for i in range(rows * vectors):
                    w.store(following[i], w.at(c, i // vectors * columns + i % vectors * w.width))

    return vector_intrinsic("outer_tile", 6, generate, "One tile of a product; see make_outer_tile.", dtype)
