"""numba intrinsics for convolutions and their gradients with a vector of maps in the lanes.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Addresses are int64 in bytes, strides and counts are int64 in elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from atled.plugin import NamedTuple
from atled_cpu_numba.kernels.shared.cache_lines import LINE_BYTES
from atled_cpu_numba.kernels.shared.lanes import lanes_of
from atled_cpu_numba.kernels.shared.vectors import terms_at_once, transpose_registers, vector_intrinsic

_INT64 = ir.IntType(64)
_QUARTET = 4
_TERMS_AT_ONCE = 4  # of sums, between two steps of a loop


def make_lane_tile(step: int, dtype: str) -> Any:
    """An intrinsic that computes one tile of Y = B' A + bias in registers, all sums over k in order.

    tile((k, offsets, a, quartets, b, bias, y, y_row, maps)):
    k: length of the sums, 0 or more.
    A[i, p] is at a[offsets[i] + quartets[p // 4] + step * (p % 4)]; both tables hold int64.
    b: B[i, m] at b[i * vector + m].  bias: a vector.
    y: Y[m, p] at y[m * y_row + p], written for m < maps, all positions.
    """

    def generate(w, k, offsets, a, quartets, b, bias, y, y_row, maps):
        builder = w.builder
        a, b, y = (w.pointer(address) for address in (a, b, y))
        offsets, quartets = (builder.inttoptr(table, _INT64.as_pointer()) for table in (offsets, quartets))
        starts = [
            w.at(a, builder.load(builder.gep(quartets, [w.number(g)]), typ=_INT64))
            for g in range(max(1, w.width // _QUARTET))
        ]
        begin = w.load(w.pointer(bias))
        with w.counted(k, [begin] * w.width + [b]) as (i, phis, following):
            offset = builder.load(builder.gep(offsets, [i]), typ=_INT64)
            weights = w.load(phis[-1])
            for p in range(w.width):
                place = w.at(w.at(starts[p // _QUARTET], offset), step * (p % _QUARTET))
                following.append(w.multiply_add(w.splat(w.load_one(place)), weights, phis[p]))
            following.append(w.at(phis[-1], w.width))
        rows = following[: w.width]
        transpose_registers(w, rows)
        with builder.if_else(builder.icmp_signed(">=", maps, w.number(w.width))) as (then, otherwise):
            with then:
                for m in range(w.width):
                    w.store(rows[m], w.at(y, builder.mul(y_row, w.number(m))))
            with otherwise:
                for m in range(w.width - 1):
                    with builder.if_then(builder.icmp_signed("<", w.number(m), maps)):
                        w.store(rows[m], w.at(y, builder.mul(y_row, w.number(m))))

    return vector_intrinsic("lane_tile", 9, generate, "One tile of a convolution; see make_lane_tile.", dtype)


def make_position_tile(positions: int, vectors: int, dtype: str) -> Any:
    """An intrinsic that computes one tile of Y = B' A + S in registers, all sums over k in order.

    tile((k, offsets, a, b, s, s_step, sums, y, y_row, ahead, ahead_step)):
    k: length of the sums, 0 or more.
    A[i, p] is at a[offsets[i] + p] for p < `positions`; the table holds int64.
    b: B[i, m] at b[i * width + m], width: `vectors` vectors.
    s: S[m, p] at s[p * s_step + m], a bias with s_step 0, or what an earlier part of the sums left in `sums`.
    sums: where they are left, (positions, width), for the next part or for whoever transposes them; 0: y is written.
    y: Y[m, p] at y[m * y_row + p].
    ahead, ahead_step: the line at ahead[i * ahead_step] is prefetched for each i < k that begins a round of terms.
    """
    # Tiles some places further on read the same row of the source, which processors do not foresee. With tiles so low
    # that each instruction counts, asking takes as long as waiting, or longer.
    looks_ahead = not lanes_of(dtype).has_short_tiles

    def generate(w, k, offsets, a, b, s, s_step, sums, y, y_row, ahead, ahead_step):
        builder = w.builder
        a, y = w.pointer(a), w.pointer(y)
        offsets = builder.inttoptr(offsets, _INT64.as_pointer())

        def place_of(entry, term):
            return w.at(a, builder.load(builder.gep(entry, [w.number(term)]), typ=_INT64))

        def next_entry(entry, count):
            return builder.gep(entry, [w.number(count)])

        of_a = _Terms(offsets, place_of, next_entry, looks_ahead)
        totals = _position_sums(w, positions, vectors, k, of_a, b, s, s_step, ahead, ahead_step)
        with builder.if_else(builder.icmp_signed("!=", sums, w.number(0))) as (then, otherwise):
            with then:
                _leave(w, totals, w.pointer(sums))
            with otherwise:
                for v in range(vectors):
                    for first in range(0, positions, w.width):
                        count = min(w.width, positions - first)
                        lines = [totals[(first + p) * vectors + v] for p in range(count)]
                        lines += [w.zeros] * (w.width - count)
                        transpose_registers(w, lines)
                        for m in range(w.width):
                            row = builder.mul(y_row, w.number(v * w.width + m))
                            w.store_parts(lines[m], w.at(w.at(y, row), first), count)

    return vector_intrinsic("position_tile", 11, generate, "One tile of few positions; see make_position_tile.", dtype)


def make_collected_tile(positions: int, vectors: int, dtype: str) -> Any:
    """An intrinsic that computes one tile as `make_position_tile` does, of what was collected for it.

    tile((k, a, b, s, s_step, sums, ahead, ahead_step)): as there, but for
    a: A[i, p] at a[i * positions + p].
    sums: where they are left, (positions, width), whether or not there is a next part.
    All places but the first are known when it is compiled: instructions are what multiplies, and what that reads.
    """

    def generate(w, k, a, b, s, s_step, sums, ahead, ahead_step):
        def place_of(a_now, term):
            return w.at(a_now, term * positions)

        def next_a(a_now, count):
            return w.at(a_now, count * positions)

        of_a = _Terms(w.pointer(a), place_of, next_a, is_opaque=True)
        _leave(
            w,
            _position_sums(w, positions, vectors, k, of_a, b, s, s_step, ahead, ahead_step),
            w.pointer(sums),
        )

    return vector_intrinsic("collected_tile", 8, generate, "One tile of few positions; see make_collected_tile.", dtype)


class _Terms(NamedTuple):
    """Where the terms of a tile's sums find A, of which all `positions` of a term lie side by side.

    first: pointer of the first round.  place_of(pointer, term): of a round's pointer, where its terms are.
    next_of(pointer, count): that of the next round.
    looks_ahead: whether the line behind each place is prefetched.  is_opaque: whether LLVM is to keep to one pointer.
    """

    first: Any
    place_of: Callable[[Any, int], Any]
    next_of: Callable[[Any, int], Any]
    looks_ahead: bool = False
    is_opaque: bool = False


def _position_sums(
    w: Any, positions: int, vectors: int, k: Any, of_a: _Terms, b: Any, s: Any, s_step: Any, ahead: Any, ahead_step: Any
) -> list[Any]:
    """The sums of a tile of `make_position_tile`, whose words those behind `of_a` are: a vector of maps by position."""
    at_once, width = terms_at_once(positions * vectors, _TERMS_AT_ONCE), vectors * w.width
    b, s, ahead = (w.pointer(address) for address in (b, s, ahead))
    rows = [w.at(s, w.builder.mul(s_step, w.number(p))) for p in range(positions)]
    begins = [w.load(w.at(row, v * w.width)) for row in rows for v in range(vectors)]
    round_step = w.builder.mul(ahead_step, w.number(at_once))

    def with_terms(carried, count):
        totals, wanted = carried[:-3], carried[-1]
        a_now = w.opaque(carried[-3]) if of_a.is_opaque else carried[-3]
        b_now = w.opaque(carried[-2])
        w.prefetch(wanted)
        for term in range(count):
            w.keep_order()
            place = of_a.place_of(a_now, term)
            weights = [w.load(w.at(b_now, term * width + v * w.width)) for v in range(vectors)]
            if of_a.looks_ahead:
                w.prefetch(w.at(place, LINE_BYTES // w.size))
            values = [w.splat(w.load_one(w.at(place, p))) for p in range(positions)]
            pairs = [(value, weight) for value in values for weight in weights]
            totals = [w.multiply_add(*pair, total) for pair, total in zip(pairs, totals, strict=True)]
        following = of_a.next_of(a_now, count), w.at(b_now, count * width)
        return [*totals, *following, w.at(wanted, ahead_step if count == 1 else round_step)]

    following: list[Any] = w.in_rounds(k, at_once, [*begins, of_a.first, b, ahead], with_terms)
    return following[: positions * vectors]


def _leave(w: Any, sums: list[Any], target: Any) -> None:
    """Write the sums of a tile for the next part of them."""
    for number, vector in enumerate(sums):
        w.store(vector, w.at(target, number * w.width))


def make_collect_tile(positions: int, dtype: str) -> Any:
    """An intrinsic that collects what `make_collected_tile` reads: collect_tile((k, x, x_row, a)).

    A[i, p] = x[i * x_row + p]. Whole vectors: it reads and writes some elements more than `positions` of each row, of
    which the next row replaces what was written.
    """

    def generate(w, k, x, x_row, a):
        x, a = w.pointer(x), w.pointer(a)

        def with_rows(carried, count):
            x_now, a_now = carried[0], w.opaque(carried[1])
            for row in range(count):
                for first in range(0, positions, w.width):
                    w.store(w.load(w.at(x_now, first)), w.at(a_now, row * positions + first))
                x_now = w.at(x_now, x_row)
            return [x_now, w.at(a_now, count * positions)]

        w.in_rounds(k, _TERMS_AT_ONCE, [x, a], with_rows)

    return vector_intrinsic("collect_tile", 4, generate, "Copies rows for a tile; see make_collect_tile.", dtype)


def make_run_tile(lines: int, elements: int, dtype: str) -> Any:
    """An intrinsic that adds to a tile of C += A' B in registers, the sums over positions in order.

    tile((a, starts, a_row, a_step, b, rows, columns, c)):
    A[(i, j), (q, e)] is at a[starts[q] + i * a_row + j * a_step + e], starts: address of `lines` int64, e < `elements`.
    B[(i, j), m] at b[(i * columns + j) * vector + m], for i < rows and j < columns.
    c: C[(q, e), m] at c[(q * elements + e) * vector + m].
    """

    def generate(w, a, starts, a_row, a_step, b, rows, columns, c):
        builder = w.builder
        a, b, c = (w.pointer(address) for address in (a, b, c))
        starts = builder.inttoptr(starts, _INT64.as_pointer())
        begins = [w.at(a, builder.load(builder.gep(starts, [w.number(q)]), typ=_INT64)) for q in range(lines)]
        count = lines * elements
        # From zero, and not from C: the longer a sum, the more it loses.
        sums = [w.zeros] * count
        with w.counted(rows, [*sums, b, w.number(0)]) as (_, outer, outer_next):
            with w.counted(columns, [*outer]) as (_, phis, following):
                values = w.load(phis[count])
                for i in range(count):
                    place = w.at(w.at(begins[i // elements], phis[count + 1]), i % elements)
                    following.append(w.multiply_add(w.splat(w.load_one(place)), values, phis[i]))
                following += [w.at(phis[count], w.width), builder.add(phis[count + 1], a_step)]
            outer_next += [*following[: count + 1], builder.add(outer[count + 1], a_row)]
        for i in range(count):
            place = w.at(c, i * w.width)
            w.store(builder.fadd(outer_next[i], w.load(place)), place)

    return vector_intrinsic("run_tile", 8, generate, "One tile of a weight's gradient; see make_run_tile.", dtype)


def make_window_tile(lines: int, columns: int, dtype: str) -> Any:
    """An intrinsic that adds the products of one position to a window, the sums over maps in order.

    tile((maps, gy, gy_map, weights, x, x_row)):
    gy: one element for each of `maps` >= 1 maps, gy_map apart.  weights: a vector for each map and place of the window.
    x: `lines` rows, x_row apart, of `columns` vectors, which are added to.
    """

    def generate(w, maps, gy, gy_map, weights, x, x_row):
        builder = w.builder
        gy, weights, x = (w.pointer(address) for address in (gy, weights, x))
        count = lines * columns
        with w.counted(maps, [w.zeros] * count + [gy, weights]) as (_, phis, following):
            value = w.splat(w.load_one(phis[count]))
            for t in range(count):
                following.append(w.multiply_add(value, w.load(w.at(phis[-1], t * w.width)), phis[t]))
            following += [w.at(phis[count], gy_map), w.at(phis[-1], count * w.width)]
        for t in range(count):
            place = w.at(w.at(x, builder.mul(x_row, w.number(t // columns))), t % columns * w.width)
            w.store(builder.fadd(following[t], w.load(place)), place)

    return vector_intrinsic("window_tile", 6, generate, "The products of one position; see make_window_tile.", dtype)


def _generate_interleave(w, even, odd, count, y, y_row, rows):
    builder = w.builder
    even, odd, y = (w.pointer(address) for address in (even, odd, y))

    def write(width):
        """`width` elements of each at once; the last ones overlap those before."""
        half = ir.VectorType(w.float, width)
        order = ir.Constant(
            ir.VectorType(ir.IntType(32), 2 * width), [i // 2 + i % 2 * width for i in range(2 * width)]
        )
        last = builder.sub(count, w.number(width))
        blocks = builder.sdiv(builder.add(count, w.number(width - 1)), w.number(width))
        with w.counted(rows, [even, odd, y]) as (_, (left, right, to), following):
            with w.counted(blocks, []) as (i, _, _following):
                j = builder.mul(i, w.number(width))
                j = builder.select(builder.icmp_signed("<", j, last), j, last)
                pair = [
                    builder.load(builder.bitcast(w.at(start, j), half.as_pointer()), align=w.size, typ=half)
                    for start in (left, right)
                ]
                both = builder.shuffle_vector(*pair, order)
                place = builder.bitcast(w.at(to, builder.add(j, j)), both.type.as_pointer())
                builder.store(both, place, align=w.size)
            following += [w.at(left, count), w.at(right, count), w.at(to, y_row)]

    with builder.if_else(builder.icmp_signed(">=", count, w.number(w.width))) as (wide, narrow):
        with wide:
            write(w.width)
        with narrow:
            write(_QUARTET)


def make_interleave_rows(dtype: str) -> Any:
    """An intrinsic interleave_rows((even, odd, count, y, y_row, rows)): y[2 j] = even[j], y[2 j + 1] = odd[j].

    For `rows` rows.  count: of each per row, at least 4; the rows of even and of odd are contiguous, those of y are
    y_row apart.
    """
    return vector_intrinsic("interleave_rows", 6, _generate_interleave, "See make_interleave_rows.", dtype)


_PLANES_AT_ONCE = 4  # for each entry that is read of a table


def make_collect_vectors(dtype: str) -> Any:
    """An intrinsic that copies the same vectors of some planes to rows: row i has those of plane i.

    collect_vectors((planes, source, offsets, vectors, table, target, pitch)):
    source: plane i is at source[offsets[i]]; offsets: address of int64.
    table: for each of `vectors` vectors two int64, where it is in a plane and where in a row, written in order.
    target: row i is at target[i * pitch], which no vector reaches beyond.
    """

    def generate(w, planes, source, offsets, vectors, table, target, pitch):
        builder = w.builder
        source, target = w.pointer(source), w.pointer(target)
        offsets, table = (builder.inttoptr(address, _INT64.as_pointer()) for address in (offsets, table))

        def copy(first, count):
            """`count` planes from `first` on."""
            numbers = [builder.add(first, w.number(i)) for i in range(count)]
            starts = [w.at(source, builder.load(builder.gep(offsets, [i]), typ=_INT64)) for i in numbers]
            rows = [w.at(target, builder.mul(i, pitch)) for i in numbers]
            with w.counted(vectors, [table]) as (_, (entry,), following):
                seen = builder.load(entry, typ=_INT64)
                place = builder.load(builder.gep(entry, [w.number(1)]), typ=_INT64)
                for start, row in zip(starts, rows, strict=True):
                    w.store(w.load(w.at(start, seen)), w.at(row, place))
                following.append(builder.gep(entry, [w.number(2)]))

        several = builder.sdiv(planes, w.number(_PLANES_AT_ONCE))
        with w.counted(several, []) as (i, _, _following):
            copy(builder.mul(i, w.number(_PLANES_AT_ONCE)), _PLANES_AT_ONCE)
        done = builder.mul(several, w.number(_PLANES_AT_ONCE))
        with w.counted(builder.sub(planes, done), []) as (i, _, _following):
            copy(builder.add(done, i), 1)

    return vector_intrinsic("collect_vectors", 7, generate, "See make_collect_vectors.", dtype)
