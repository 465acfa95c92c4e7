"""numba intrinsics for images with the batch innermost: register tiles of direct sums, and prefetching.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Addresses are int64 in bytes, strides and counts are int64 in elements.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.vectors import vector_intrinsic

_WIDTH = host_lanes().vector
_FLOAT = ir.FloatType()
_INT64 = ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, _WIDTH)
_ZEROS = ir.Constant(_VECTOR, [0.0] * _WIDTH)


def make_tap_tile(rows: int, vectors: int, *, packed_rows: int) -> Any:
    """An intrinsic that adds what some vectors of images see through the taps of a kernel, for `rows` maps.

    tile((entries, table, x_channel, x0, x1, a, bias, y0, y1, y_map, m)):
    table: for each entry three int64, where its elements begin behind x0 and x1, its weights behind a, and how many
    elements there are, `x_channel` apart.
    a: per element of an entry `packed_rows` weights, `rows` of which are taken.  bias: one number per map.
    y0, y1: maps are `y_map` apart, of which m <= rows are written.
    With one vector, x1 and y1 are ignored.
    """

    def generate(w, entries, table, x_channel, x0, x1, a, bias, y0, y1, y_map, m):
        builder = w.builder
        sources, targets = [w.pointer(x) for x in (x0, x1)[:vectors]], [w.pointer(y) for y in (y0, y1)[:vectors]]
        a, bias = w.pointer(a), w.pointer(bias)
        table = builder.inttoptr(table, _INT64.as_pointer())
        biases = [w.splat(builder.load(w.at(bias, r), typ=_FLOAT)) for r in range(rows)]
        with w.counted(entries, [value for value in biases for _ in range(vectors)]) as (number, sums, after_entry):
            entry = builder.gep(table, [builder.mul(number, w.number(3))])
            seen, first, count = (builder.load(builder.gep(entry, [w.number(i)]), typ=_INT64) for i in range(3))
            weights, starts = w.at(a, first), [w.at(x, seen) for x in sources]
            with w.counted(count, [*sums, weights, *starts]) as (_, phis, following):
                a_now, x_now = phis[rows * vectors], phis[rows * vectors + 1 :]
                elements = [w.load(x) for x in x_now]
                for r in range(rows):
                    value = w.splat(builder.load(w.at(a_now, r), typ=_FLOAT))
                    following += [w.multiply_add(value, elements[j], phis[r * vectors + j]) for j in range(vectors)]
                following += [w.at(a_now, packed_rows), *(w.at(x, x_channel) for x in x_now)]
            after_entry += following[: rows * vectors]
        for r in range(rows):
            with builder.if_then(builder.icmp_signed("<", w.number(r), m)):
                for j, y in enumerate(targets):
                    w.store(after_entry[r * vectors + j], w.at(y, builder.mul(y_map, w.number(r))))

    return vector_intrinsic("tap_tile", 11, generate, "One tile of direct sums; see make_tap_tile.")


def make_sum_tile(rows: int, vectors: int, columns: int) -> Any:
    """An intrinsic that adds one tile of A B to C, the rows of A found through a table, all sums over k in order.

    tile((k, a, offsets, b, c, m)):
    a: A[r, i] at a[offsets[r] + i], offsets: address of int64 in elements, m of them, 1 <= m.
    b: B[i, j] at b[i * columns + j].  c: C[r, j] at c[r * columns + j], for r < min(m, rows).
    """

    def generate(w, k, a, offsets, b, c, m):
        builder = w.builder
        a, b, c = (w.pointer(address) for address in (a, b, c))
        offsets = builder.inttoptr(offsets, _INT64.as_pointer())
        last = builder.sub(m, w.number(1))
        starts = []
        for r in range(rows):
            row = builder.select(builder.icmp_signed("<", w.number(r), m), w.number(r), last)
            # Else LLVM computes one row's place from the one before it, in every round.
            starts.append(w.opaque(w.at(a, builder.load(builder.gep(offsets, [row]), typ=_INT64))))
        with w.counted(k, [_ZEROS] * (rows * vectors) + [b]) as (i, phis, following):
            b_now = w.opaque(phis[-1])
            b_vectors = [w.load(w.at(b_now, j * _WIDTH)) for j in range(vectors)]
            for r in range(rows):
                value = w.splat(builder.load(w.at(starts[r], i), typ=_FLOAT))
                following += [w.multiply_add(value, b_vectors[j], phis[r * vectors + j]) for j in range(vectors)]
            following.append(w.at(b_now, columns))
        for r in range(rows):
            with builder.if_then(builder.icmp_signed("<", w.number(r), m)):
                for j in range(vectors):
                    place = w.at(c, r * columns + j * _WIDTH)
                    w.store(builder.fadd(following[r * vectors + j], w.load(place)), place)

    return vector_intrinsic("sum_tile", 6, generate, "One tile of a product that is added; see make_sum_tile.")


def make_prefetch(rows: int, columns: int) -> Any:
    """An intrinsic prefetch((source, row, column)): ask for elements, `row` and `column` apart, and for their lines.

    The processor follows rows of memory by itself; elements of other rows, pages apart, it does not foresee.
    """

    def generate(w, source, row, column):
        source = w.pointer(source)
        for i in range(rows):
            start = w.at(source, w.builder.mul(row, w.number(i)))
            for j in range(columns):
                w.prefetch(w.at(start, w.builder.mul(column, w.number(j))))

    return vector_intrinsic("prefetch", 3, generate, "Ask for elements; see make_prefetch.")
