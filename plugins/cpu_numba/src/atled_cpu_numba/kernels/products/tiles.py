"""numba intrinsics that compute one tile of a matrix product, or of dot products, in registers.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Addresses are int64 in bytes, strides and counts are int64 in elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.cache_lines import LINE_BYTES
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.vectors import Writer, terms_at_once, transpose_registers, vector_intrinsic

_INT64 = ir.IntType(64)
_MASKED_BYTES = 64  # of a vector under AVX-512
_TERMS_AT_ONCE = 2  # of sums, between two steps of a loop
_REGISTERS = 16  # of vectors, under AVX2


def make_tile(rows: int, vectors: int, dtype: str = "float32") -> Any:
    """An intrinsic that computes one tile of C in registers: C = A B + S, all sums over k in order.

    tile((k, a, a_row, a_column, b, b_step, c, c_row, s, s_row, m, n)):
    k: length of the sums, 0 or more.
    a: A[r, i] at a[r * a_row + i * a_column].
    b: B[i, j] at b[i * b_step + j] for all `vectors` vectors of columns: reads whole vectors.
    c: C[r, j] at c[r * c_row + j].  s: S[r, j] at s[r * s_row + j]: C itself to accumulate, a bias (s_row 0), zeros.
    m, n: rows and columns of the tile that are written, and read from S: 1 <= m <= rows, 1 <= n.
    All `rows` rows of A are read.
    """

    def generate(w, k, a, a_row, a_column, b, b_step, c, c_row, s, s_row, m, n):
        builder = w.builder
        a, b, c, s = (w.pointer(address) for address in (a, b, c, s))
        starts = [w.at(a, builder.mul(a_row, w.number(r))) for r in range(rows)]
        with w.counted(k, [w.zeros] * (rows * vectors) + [b, *starts]) as (_, phis, following):
            b_now, a_now = phis[rows * vectors], phis[rows * vectors + 1 :]
            b_vectors = [w.load(w.at(b_now, j * w.width)) for j in range(vectors)]
            for r in range(rows):
                value = w.splat(w.load_one(a_now[r]))
                following += [w.multiply_add(value, b_vectors[j], phis[r * vectors + j]) for j in range(vectors)]
            following += [w.at(b_now, b_step), *(w.at(start, a_column) for start in a_now)]
        _write_tile(w, following, rows, vectors, c, c_row, s, s_row, m, n, None)

    return vector_intrinsic("tile", 12, generate, "One tile of a matrix product; see make_tile.", dtype)


def make_row_tile(
    rows: int,
    vectors: int,
    dtype: str = "float32",
    *,
    copies: bool = False,
    streams: bool = False,
    panel_vectors: int = 0,
) -> Any:
    """An intrinsic that computes one tile of C in registers, A read in place by rows, all sums over k in order.

    tile((k, a, a_row, a_column, b, b_step, c, c_row, s, s_row, m, n, copy, ahead, a_ahead, bounds)):
    k: length of the sums, 0 or more.
    a: A[r, i] at a[r * a_row + i * a_column].
    b: B[i, j] at b[i * b_step + j]. Reads whole vectors; with `copies` n columns and no more.
    c: C[r, j] at c[r * c_row + j].  s: S[r, j] at s[r * s_row + j]: C itself to accumulate, a bias (s_row 0), zeros.
    m, n: rows and columns of the tile: 1 <= m <= rows, 1 <= n; more columns than `vectors` vectors are ignored.
    With `copies`, B is copied to `copy`, in rows of `panel_vectors` vectors, as many as `vectors` unless said; of more,
    the first ones are written.
    B is prefetched from b + ahead elements on, and of A k lines from a + a_ahead elements on; not with `streams`.
    With `streams`, the tile must be whole and the rows of C aligned to vectors; they are written past the caches.
    bounds: address of two words, the least and the greatest number that C is to hold, or 0.
    """
    vector = lanes_of(dtype).vector
    width, step = vectors * vector, (panel_vectors or vectors) * vector
    # Processors with AVX-512 have registers for masks; elsewhere these would take those of the sums.
    masked = copies and lanes_of(dtype).vector * SIZES[dtype] == _MASKED_BYTES
    line_places = _line_places(width, dtype)

    def generate(w, k, a, a_row, a_column, b, b_step, c, c_row, s, s_row, m, n, copy, ahead, a_ahead, bounds):
        builder = w.builder
        a, b, c, s, copy = (w.pointer(address) for address in (a, b, c, s, copy))
        starts = _row_starts(w, a, a_row, m, rows)
        first_lanes = _mask_register if masked else Writer.first_lanes
        masks = [first_lanes(w, builder.sub(n, w.number(j * w.width))) for j in range(vectors)]
        if copies and not masked:
            # The last columns first go to the copy, which then is copied to itself.
            whole = builder.icmp_signed(">=", n, w.number(width))
            _copy_first_columns(w, builder.select(whole, w.number(0), k), b, b_step, copy, masks, step)
            b, b_step = builder.select(whole, b, copy), builder.select(whole, b_step, w.number(step))
        places = [w.number(0), b, copy, w.at(a, a_ahead)]
        with w.counted(k, [w.zeros] * (rows * vectors) + places) as (_, phis, following):
            at, b_now, copy_now, a_next = phis[-4], w.opaque(phis[-3]), phis[-2], phis[-1]
            places = [w.at(b_now, j * w.width) for j in range(vectors)]
            b_vectors = [w.load_masked(place, masks[j]) if masked else w.load(place) for j, place in enumerate(places)]
            if copies:
                for j in range(vectors):
                    w.store(b_vectors[j], w.at(copy_now, j * w.width))
            if not streams:
                w.prefetch(a_next)
                for j in line_places:
                    w.prefetch(w.at(w.at(b_now, ahead), j))
            for r in range(rows):
                value = w.splat(w.load_one(w.at(starts[r], at)))
                following += [w.multiply_add(value, b_vectors[j], phis[r * vectors + j]) for j in range(vectors)]
            following += [builder.add(at, a_column), w.at(b_now, b_step)]
            following.append(w.at(copy_now, step) if copies else copy_now)
            following.append(w.at(a_next, LINE_BYTES // w.size))
        within = w.bounds_if_at(bounds)
        if streams:
            _write_whole_tile(w, following, rows, vectors, c, c_row, s, s_row, within, w.stream)
        else:
            _write_tile(w, following, rows, vectors, c, c_row, s, s_row, m, n, within)

    return vector_intrinsic("row_tile", 16, generate, "One tile of a matrix product; see make_row_tile.", dtype)


def make_near_tile(
    rows: int,
    vectors: int,
    dtype: str = "float32",
    *,
    asks: bool = False,
    by_columns: bool = False,
    terms: int = 0,
    panel_vectors: int = 0,
    asked_lines: int = 0,
) -> Any:
    """An intrinsic that computes one tile of C as `make_row_tile` does, from a panel of B that is near.

    tile((k, a, a_row, a_column, b, c, c_row, s, s_row, m, n, ahead, bounds)): as there, but for
    a: A[r, i] at a[r * a_row + i]: the terms of a row at a time are one address, which stays in a register; only with
    `by_columns` a_column apart.
    b: B[i, j] at b[i * `panel_vectors` vectors + j]; as many as `vectors` unless said.
    terms: of sums, between two steps of the loop: a power of two; 0: as many as the registers allow.
    asked_lines: at each step of the loop, of what begins `ahead` elements behind b, so many lines are prefetched.
    Nothing of A is prefetched, and of B nothing but with `asks`, from b + ahead elements on: both were read a moment
    ago, and instructions that find nothing to do take up to a tenth of the time (Zen 3, beside a busy core).
    """
    vector = lanes_of(dtype).vector
    width, step, line = vectors * vector, (panel_vectors or vectors) * vector, LINE_BYTES // SIZES[dtype]
    # Sums, vectors of B, and one number of A: of all registers, none is left for loads that LLVM would move up.
    is_full = (rows + 1) * vectors + 1 == _REGISTERS
    terms = terms or terms_at_once(rows * vectors, _TERMS_AT_ONCE)

    def generate(w, k, a, a_row, a_column, b, c, c_row, s, s_row, m, n, ahead, bounds):
        builder = w.builder
        a, b, c, s = (w.pointer(address) for address in (a, b, c, s))
        starts = _row_starts(w, a, a_row, m, rows)
        for r in range(rows):
            for j in _line_places(width, dtype):
                w.prefetch(w.at(w.at(c, builder.mul(c_row, w.number(r))), j))

        def add_term(sums, b_vectors, places):
            if not is_full:
                values = [w.splat(w.load_one(place)) for place in places]
                return [w.multiply_add(values[i // vectors], b_vectors[i % vectors], sums[i]) for i in range(len(sums))]
            added = []
            for r, place in enumerate(places):
                w.keep_order()
                value = w.splat(w.load_one(place))
                added += [w.multiply_add(value, b_vectors[j], sums[r * vectors + j]) for j in range(vectors)]
            return added

        def with_terms(carried, count):
            *sums, asked, at, b_now = carried
            b_now = w.opaque(b_now)
            for number in range(asked_lines if count == terms else 0):
                w.prefetch(w.at(asked, number * line))
            for term in range(count):
                begin, end = term * step, (term + 1) * step
                for j in range(-(-begin // line) * line, end, line) if asks else ():
                    w.prefetch(w.at(w.at(b_now, ahead), j))
                b_vectors = [w.load(w.at(b_now, begin + j * w.width)) for j in range(vectors)]
                sums = add_term(sums, b_vectors, [w.at(w.at(start, at), 0 if by_columns else term) for start in starts])
                at = builder.add(at, a_column) if by_columns else at
            at = at if by_columns else builder.add(at, w.number(count))
            following = w.at(asked, asked_lines * line) if asked_lines and count == terms else asked
            return [*sums, following, at, w.at(b_now, count * step)]

        asked = w.at(b, ahead) if asked_lines else b
        carried = [w.zeros] * (rows * vectors) + [asked, w.number(0), b]
        sums = w.in_rounds(k, terms, carried, with_terms)
        _write_tile(w, sums, rows, vectors, c, c_row, s, s_row, m, n, w.bounds_if_at(bounds))

    return vector_intrinsic("near_tile", 13, generate, "One tile of a matrix product; see make_near_tile.", dtype)


def _mask_register(w: Writer, count: Any) -> Any:
    """As `Writer.first_lanes`, made of bits: comparisons of vectors LLVM repeats in each step of a loop.

    It also sees that `count` is a vector or more, where a tile is only taken for so many columns.
    """
    builder, none, all_lanes = w.builder, w.number(0), w.number(w.width)
    count = builder.select(builder.icmp_signed(">", count, none), count, none)
    count = builder.select(builder.icmp_signed("<", count, all_lanes), count, all_lanes)
    bits = builder.lshr(w.number((1 << w.width) - 1), builder.sub(all_lanes, count))
    return builder.bitcast(builder.trunc(bits, ir.IntType(w.width)), ir.VectorType(ir.IntType(1), w.width))


def _copy_first_columns(w: Writer, k: Any, b: Any, b_step: Any, copy: Any, masks: list[Any], step: int) -> None:
    """Copy the columns of `masks` of k rows of B, `b_step` apart, to rows `step` apart; 0 in the others."""
    with w.counted(k, [b, copy]) as (_, phis, following):
        for j, mask in enumerate(masks):
            w.store(w.load_masked(w.at(phis[0], j * w.width), mask), w.at(phis[1], j * w.width))
        following += [w.at(phis[0], b_step), w.at(phis[1], step)]


def make_few_rows_tile(rows: int, panels: int, dtype: str = "float32") -> Any:
    """An intrinsic that computes `rows` rows of C = A B + S for some panels of B at once, sums over k in order.

    tile((k, a, a_row, b, b_panel, c, c_row, s, s_row, s_panel, m, bounds)):
    k: length of the sums, 0 or more.
    a: A[r, i] at a[r * a_row + i].
    b: B[i, j] of panel p at b[p * b_panel + i * `Lanes.columns` + j].
    c: C[r, j] at c[r * c_row + j], `panels` whole panels side by side.
    s: S[r, j] of panel p at s[r * s_row + p * s_panel + j].
    m: rows of the tile: 1 <= m <= rows.
    bounds: address of two words, the least and the greatest number that C is to hold, or 0.
    """
    lanes = lanes_of(dtype)
    vectors = lanes.columns // lanes.vector

    def generate(w, k, a, a_row, b, b_panel, c, c_row, s, s_row, s_panel, m, bounds):
        builder = w.builder
        a, b, c, s = (w.pointer(address) for address in (a, b, c, s))
        starts = _row_starts(w, a, a_row, m, rows)
        count = panels * vectors
        places = [w.at(b, builder.mul(b_panel, w.number(p))) for p in range(panels)]
        with w.counted(k, [w.zeros] * (rows * count) + places) as (i, phis, following):
            b_now = [w.opaque(place) for place in phis[-panels:]]
            # Nothing is asked for: processors follow panels by themselves, and each request takes the place of a load
            # (Zen 3: 5 % of a product out of the level-2 or level-3 cache, and no less from memory).
            values = [w.splat(w.load_one(w.at(start, i))) for start in starts]
            sums = {}
            for v in range(count):
                # One by one: all vectors of B at once, beside the sums, are more than there are registers.
                w.keep_order()
                loaded = w.load(w.at(b_now[v // vectors], v % vectors * w.width))
                for r in range(rows):
                    sums[r, v] = w.multiply_add(values[r], loaded, phis[r * count + v])
            following += [sums[r, v] for r in range(rows) for v in range(count)]
            following += [w.at(place, lanes.columns) for place in b_now]
        within = w.bounds_if_at(bounds)
        for r in range(rows):
            with builder.if_then(builder.icmp_signed("<", w.number(r), m)):
                c_at = w.at(c, builder.mul(c_row, w.number(r)))
                s_at = w.at(s, builder.mul(s_row, w.number(r)))
                for v in range(count):
                    panel = builder.mul(s_panel, w.number(v // vectors))
                    added = w.load(w.at(w.at(s_at, panel), v % vectors * w.width))
                    made = w.bounded(builder.fadd(following[r * count + v], added), within)
                    w.store(made, w.at(c_at, v * w.width))

    return vector_intrinsic(
        "few_rows_tile", 12, generate, "Few rows of a product by panels; see make_few_rows_tile.", dtype
    )


def make_across_tile(rows: int, vectors: int, dtype: str = "float32") -> Any:
    """An intrinsic that computes one tile of C = A B + S and writes it transposed, A read in place by rows.

    tile((k, a, a_row, a_column, b, b_step, c, c_row, s, s_row, m, n, ahead)):
    k: length of the sums, 0 or more.
    a: A[r, i] at a[r * a_row + i * a_column].
    b: B[i, j] at b[i * b_step + j].
    c: C[r, j] at c[j * c_row + r].  s: S[r, j] at s[j * s_row + r]: C itself to accumulate, a bias, zeros.
    m, n: rows and columns of the tile: 1 <= m <= rows <= `Lanes.vector`, 1 <= n <= `vectors` vectors.
    Prefetches k lines from a + ahead elements on.
    """

    def generate(w, k, a, a_row, a_column, b, b_step, c, c_row, s, s_row, m, n, ahead):
        builder = w.builder
        a, b, c, s = (w.pointer(address) for address in (a, b, c, s))
        starts = _row_starts(w, a, a_row, m, rows)
        masks = [w.first_lanes(builder.sub(n, w.number(j * w.width))) for j in range(vectors)]
        with w.counted(k, [w.zeros] * (rows * vectors) + [w.number(0), b, w.at(a, ahead)]) as (_, phis, following):
            at, b_now, wanted = phis[-3], w.opaque(phis[-2]), phis[-1]
            w.prefetch(wanted)
            b_vectors = [w.load_masked(w.at(b_now, j * w.width), masks[j]) for j in range(vectors)]
            for r in range(rows):
                value = w.splat(w.load_one(w.at(starts[r], at)))
                following += [w.multiply_add(value, b_vectors[j], phis[r * vectors + j]) for j in range(vectors)]
            following += [builder.add(at, a_column), w.at(b_now, b_step), w.at(wanted, LINE_BYTES // w.size)]
        whole = builder.icmp_signed("==", m, w.number(rows))
        mask = w.first_lanes(m)
        for v in range(vectors):
            lines = [following[r * vectors + v] for r in range(rows)] + [w.zeros] * (w.width - rows)
            transpose_registers(w, lines)
            for j in range(w.width):
                column = v * w.width + j
                with builder.if_then(builder.icmp_signed("<", w.number(column), n)):
                    c_at = w.at(c, builder.mul(c_row, w.number(column)))
                    s_at = w.at(s, builder.mul(s_row, w.number(column)))
                    with builder.if_else(whole) as (then, otherwise):
                        with then:
                            w.add_parts(lines[j], s_at, c_at, rows)
                        with otherwise:
                            w.store_masked(builder.fadd(lines[j], w.load_masked(s_at, mask)), c_at, mask)

    return vector_intrinsic(
        "across_tile", 13, generate, "One transposed tile of a product; see make_across_tile.", dtype
    )


def _line_places(count: int, dtype: str) -> list[int]:
    """Elements among `count` side by side, one in each line that they are in.

    Wherever the first one lies, if they are no more than a line; more of them are taken to begin with a line.
    """
    if SIZES[dtype] * count <= LINE_BYTES:
        return [0, count - 1]
    return list(range(0, count, LINE_BYTES // SIZES[dtype]))


def _row_starts(w: Writer, a: Any, a_row: Any, m: Any, rows: int) -> list[Any]:
    """Where `rows` rows of A begin, of which there are m: the last one again in place of those missing."""
    builder = w.builder
    last = builder.sub(m, w.number(1))
    numbers = [builder.select(builder.icmp_signed("<", w.number(r), m), w.number(r), last) for r in range(rows)]
    # Else LLVM computes one row's place from the one before it, in every round.
    return [w.opaque(w.at(a, builder.mul(a_row, number))) for number in numbers]


def _write_whole_tile(
    w: Writer,
    sums: list[Any],
    rows: int,
    vectors: int,
    c: Any,
    c_row: Any,
    s: Any,
    s_row: Any,
    within: tuple[Any, Any] | None,
    store: Callable[[Any, Any], None],
) -> None:
    """C = sums + S, for all rows and columns; within: the bounds of C, None for none."""
    for r in range(rows):
        for j in range(vectors):
            c_at = w.at(w.at(c, w.builder.mul(c_row, w.number(r))), j * w.width)
            s_at = w.at(w.at(s, w.builder.mul(s_row, w.number(r))), j * w.width)
            made = w.builder.fadd(sums[r * vectors + j], w.load(s_at))
            store(made if within is None else w.bounded(made, within), c_at)


def _write_tile(
    w: Writer,
    sums: list[Any],
    rows: int,
    vectors: int,
    c: Any,
    c_row: Any,
    s: Any,
    s_row: Any,
    m: Any,
    n: Any,
    within: tuple[Any, Any] | None,
) -> None:
    """The same for the first m rows and n columns."""
    builder = w.builder
    whole = builder.and_(
        builder.icmp_signed("==", m, w.number(rows)), builder.icmp_signed(">=", n, w.number(vectors * w.width))
    )
    with builder.if_else(whole) as (then, otherwise):
        with then:
            _write_whole_tile(w, sums, rows, vectors, c, c_row, s, s_row, within, w.store)
        with otherwise:
            masks = [w.first_lanes(builder.sub(n, w.number(j * w.width))) for j in range(vectors)]
            for r in range(rows):
                with builder.if_then(builder.icmp_signed("<", w.number(r), m)):
                    for j in range(vectors):
                        c_at = w.at(w.at(c, builder.mul(c_row, w.number(r))), j * w.width)
                        s_at = w.at(w.at(s, builder.mul(s_row, w.number(r))), j * w.width)
                        value = builder.fadd(sums[r * vectors + j], w.load_masked(s_at, masks[j]))
                        value = value if within is None else w.bounded(value, within)
                        w.store_masked(value, c_at, masks[j])


def make_row_sum(rows: int, dtype: str = "float32") -> Any:
    """An intrinsic that adds `rows` rows of B, each times a number, to a vector: one row of a matrix product.

    row_sum((n, a, b, b_row, c, s, s_count)):
    a: `rows` contiguous numbers.  b: B[i, j] at b[i * b_row + j].
    c: C[j] = S[j] + sum of a[i] * B[i, j], j < n.  s: S[j] at s[j] for j < s_count, 0 behind.
    """

    def generate(w, n, a, b, b_row, c, s, s_count):
        builder = w.builder
        a, b, c, s = (w.pointer(address) for address in (a, b, c, s))
        factors = [w.splat(w.load_one(w.at(a, r))) for r in range(rows)]
        starts = [w.opaque(w.at(b, builder.mul(b_row, w.number(r)))) for r in range(rows)]
        whole = builder.sdiv(builder.select(builder.icmp_signed("<", s_count, n), s_count, n), w.number(w.width))
        with w.counted(whole, []) as (i, _, _following):
            j = builder.mul(i, w.number(w.width))
            total = w.load(w.at(s, j))
            for factor, start in zip(factors, starts, strict=True):
                total = w.multiply_add(factor, w.load(w.at(start, j)), total)
            w.store(total, w.at(c, j))
        rounds = builder.sdiv(builder.add(n, w.number(w.width - 1)), w.number(w.width))
        with w.counted(builder.sub(rounds, whole), []) as (i, _, _following):
            j = builder.mul(builder.add(i, whole), w.number(w.width))
            mask = w.first_lanes(builder.sub(n, j))
            total = w.load_masked(w.at(s, j), w.first_lanes(builder.sub(s_count, j)))
            for factor, start in zip(factors, starts, strict=True):
                total = w.multiply_add(factor, w.load_masked(w.at(start, j), mask), total)
            w.store_masked(total, w.at(c, j), mask)

    return vector_intrinsic("row_sum", 7, generate, "One row of a matrix product; see make_row_sum.", dtype)


def make_row_strip(vectors: int, dtype: str = "float32") -> Any:
    """An intrinsic for one short row of a matrix product, in registers while all rows of B are added, in order.

    row_strip((n, k, a, b, b_row, c, s)):
    a: k contiguous numbers.  b: B[i, j] at b[i * b_row + j].  s: S[j] at s[j], or 0 for zeros.
    c: C[j] = S[j] + sum of a[i] * B[i, j], j < n. At least one vector of columns, at most `vectors`; the last one
    overlaps the one before it.
    """

    def generate(w, n, k, a, b, b_row, c, s):
        builder = w.builder
        has_start = builder.icmp_signed("!=", s, w.number(0))
        # What C holds is read in place of what is not there, and dropped.
        start = w.pointer(builder.select(has_start, s, c))
        a, b, c = (w.pointer(address) for address in (a, b, c))
        last = builder.sub(n, w.number(w.width))
        places = [w.number(0)]
        for v in range(1, vectors):
            fits = builder.icmp_signed("<", w.number(v * w.width), last)
            places.append(builder.select(fits, w.number(v * w.width), last))
        begins = [builder.select(has_start, w.load(w.at(start, place)), w.zeros) for place in places]
        starts = [w.at(b, place) for place in places]
        with w.counted(k, [*begins, w.number(0)]) as (i, phis, following):
            value = w.splat(w.load_one(w.at(a, i)))
            for v in range(vectors):
                following.append(w.multiply_add(value, w.load(w.at(starts[v], phis[-1])), phis[v]))
            following.append(builder.add(phis[-1], b_row))
        for v, place in enumerate(places):
            w.store(following[v], w.at(c, place))

    return vector_intrinsic("row_strip", 7, generate, "One short row of a product; see make_row_strip.", dtype)


# Weights that an earlier run packed come from memory, and the processor by itself stops at the end of each page (20 %
# of a convolution of 512 x 512 maps of 7 x 7).
_TERMS_AHEAD = 64


def make_offset_tile(rows: int, vectors: int, dtype: str = "float32", *, packed_rows: int) -> Any:
    """An intrinsic that computes one whole tile of C = A B, the rows of B found through a table.

    tile((k, a, offsets, b, c, c_row)):
    k: length of the sums, 0 or more.
    a: A[r, i] at a[i * packed_rows + r].
    b: B[i, j] at b[offsets[i] + j], offsets: address of int64 offsets in elements.
    c: C[r, j] at c[r * c_row + j], `rows` x `vectors` vectors of it.
    """

    def generate(w, k, a, offsets, b, c, c_row):
        builder = w.builder
        a, b, c = (w.pointer(address) for address in (a, b, c))
        offsets = builder.inttoptr(offsets, _INT64.as_pointer())
        with w.counted(k, [w.zeros] * (rows * vectors) + [a]) as (i, phis, following):
            b_now = w.at(b, builder.load(builder.gep(offsets, [i]), typ=_INT64))
            b_vectors = [w.load(w.at(b_now, j * w.width)) for j in range(vectors)]
            w.prefetch(w.at(phis[-1], _TERMS_AHEAD * packed_rows))
            for r in range(rows):
                value = w.splat(w.load_one(w.at(phis[-1], r)))
                following += [w.multiply_add(value, b_vectors[j], phis[r * vectors + j]) for j in range(vectors)]
            following.append(w.at(phis[-1], packed_rows))
        for r in range(rows):
            row = w.at(c, builder.mul(c_row, w.number(r)))
            for j in range(vectors):
                w.store(following[r * vectors + j], w.at(row, j * w.width))

    return vector_intrinsic(
        "offset_tile", 6, generate, "One tile of a product with B in a table; see make_offset_tile.", dtype
    )


def make_panel_tile(rows: int, vectors: int, dtype: str = "float32", *, packed_rows: int) -> Any:
    """An intrinsic that adds one whole tile of A B to C, both factors in panels.

    tile((k, a, b, b_step, c, c_row, ahead)):
    k: length of the sums, 0 or more.
    a: A[r, i] at a[i * packed_rows + r].
    b: B[i, j] at b[i * b_step + j], `vectors` vectors of it.
    c: C[r, j] at c[r * c_row + j], `rows` x `vectors` vectors of it.
    A is prefetched from a + ahead elements on.
    """
    terms = terms_at_once(rows * vectors, _TERMS_AT_ONCE)

    def generate(w, k, a, b, b_step, c, c_row, ahead):
        builder = w.builder
        a, b, c = (w.pointer(address) for address in (a, b, c))
        for r in range(rows):
            w.prefetch(w.at(c, builder.mul(c_row, w.number(r))))

        def with_terms(carried, count):
            sums, a_now, b_now = carried[:-2], w.opaque(carried[-2]), carried[-1]
            for at in range(0, count * packed_rows, LINE_BYTES // w.size):
                w.prefetch(w.at(w.at(a_now, ahead), at))
            for term in range(count):
                b_vectors = [w.load(w.at(b_now, j * w.width)) for j in range(vectors)]
                values = [w.splat(w.load_one(w.at(a_now, term * packed_rows + r))) for r in range(rows)]
                sums = [w.multiply_add(values[i // vectors], b_vectors[i % vectors], sums[i]) for i in range(len(sums))]
                b_now = w.at(b_now, b_step)
            return [*sums, w.at(a_now, count * packed_rows), b_now]

        following = w.in_rounds(k, terms, [w.zeros] * (rows * vectors) + [a, b], with_terms)
        for r in range(rows):
            row = w.at(c, builder.mul(c_row, w.number(r)))
            for j in range(vectors):
                place = w.at(row, j * w.width)
                w.store(builder.fadd(following[r * vectors + j], w.load(place)), place)

    return vector_intrinsic("panel_tile", 7, generate, "One tile of a product of panels; see make_panel_tile.", dtype)


def make_pair_tile(rows: int, dtype: str = "float32", *, packed_rows: int) -> Any:
    """An intrinsic that computes one tile of C = A B + bias, two vectors wide, the rows of B found through a table.

    tile((k, a, offsets, b0, b1, bias, c0, c1, c_row, m, bounds)):
    k: length of the sums, 0 or more.
    a: A[r, i] at a[i * packed_rows + r].  bias: one number per row.
    b0, b1: the vectors of B[i] are at b0[offsets[i]] and b1[offsets[i]], offsets: address of int64 offsets in elements.
    c0, c1: the vectors of C[r] are at c0[r * c_row] and c1[r * c_row], written for r < m.
    bounds: address of two words, the least and the greatest number that C is to hold.
    """

    def generate(w, k, a, offsets, b0, b1, bias, c0, c1, c_row, m, bounds):
        builder = w.builder
        a, b0, b1, bias, c0, c1 = (w.pointer(address) for address in (a, b0, b1, bias, c0, c1))
        offsets = builder.inttoptr(offsets, _INT64.as_pointer())
        starts = [w.splat(w.load_one(w.at(bias, r))) for r in range(rows)]
        with w.counted(k, [start for start in starts for _ in range(2)] + [a]) as (i, phis, following):
            offset = builder.load(builder.gep(offsets, [i]), typ=_INT64)
            b_vectors = [w.load(w.at(b0, offset)), w.load(w.at(b1, offset))]
            for r in range(rows):
                value = w.splat(w.load_one(w.at(phis[-1], r)))
                following += [w.multiply_add(value, b_vectors[j], phis[2 * r + j]) for j in range(2)]
            following.append(w.at(phis[-1], packed_rows))

        within = w.bounds_at(bounds)

        def write(r):
            row = builder.mul(c_row, w.number(r))
            w.store(w.bounded(following[2 * r], within), w.at(c0, row))
            w.store(w.bounded(following[2 * r + 1], within), w.at(c1, row))

        with builder.if_else(builder.icmp_signed(">=", m, w.number(rows))) as (then, otherwise):
            with then:
                for r in range(rows):
                    write(r)
            with otherwise:
                for r in range(rows - 1):
                    with builder.if_then(builder.icmp_signed("<", w.number(r), m)):
                        write(r)

    return vector_intrinsic(
        "pair_tile", 11, generate, "One tile of a product with B in a table; see make_pair_tile.", dtype
    )


def make_dots(rows: int, columns: int, dtype: str = "float32") -> Any:
    """An intrinsic that adds rows x columns dot products of contiguous vectors to sums in memory.

    dots((k, a, a_row, b_offsets, b, c, c_row, m, n)):
    k: length of the products, a multiple of the vector width.
    a: A[r, i] at a[r * a_row + i].
    b: B[j, i] at b[b_offsets[j] + i], b_offsets: address of int64 offsets in elements, `columns` of them.
    c: C[r, j] at c[r * c_row + j] is added to, for r < m and j < n; all rows and columns of A and B are read.
    """

    def generate(w, k, a, a_row, b_offsets, b, c, c_row, m, n):
        builder = w.builder
        a, b, c = (w.pointer(address) for address in (a, b, c))
        offsets = builder.inttoptr(b_offsets, _INT64.as_pointer())
        a_starts = [w.at(a, builder.mul(a_row, w.number(r))) for r in range(rows)]
        b_starts = [w.at(b, builder.load(builder.gep(offsets, [w.number(j)]), typ=_INT64)) for j in range(columns)]
        rounds = builder.sdiv(k, w.number(w.width))
        with w.counted(rounds, [w.zeros] * (rows * columns)) as (i, phis, following):
            at = builder.mul(i, w.number(w.width))
            b_vectors = [w.load(w.at(start, at)) for start in b_starts]
            for r in range(rows):
                value = w.load(w.at(a_starts[r], at))
                following += [w.multiply_add(value, b_vectors[j], phis[r * columns + j]) for j in range(columns)]
        for r in range(rows):
            for j in range(columns):
                wanted = builder.and_(
                    builder.icmp_signed("<", w.number(r), m), builder.icmp_signed("<", w.number(j), n)
                )
                with builder.if_then(wanted):
                    place = w.at(w.at(c, builder.mul(c_row, w.number(r))), j)
                    value = builder.fadd(w.load_one(place), w.total(following[r * columns + j]))
                    builder.store(value, place)

    return vector_intrinsic("dots", 9, generate, "A tile of dot products; see make_dots.", dtype)
