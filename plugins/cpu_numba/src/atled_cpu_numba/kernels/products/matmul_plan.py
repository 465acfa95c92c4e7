"""The ways to compute a matrix product in tiles, and which one pays: by its shape, whatever the number of shares."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from functools import partial

from atled.plugin import NamedTuple
from atled_cpu_numba.kernels.products.panels import MULTIPLY_NARROW, NARROW_ROWS, PACK_SLACK
from atled_cpu_numba.kernels.products.row_products import (
    AVX2_BYTES,
    FEW_ROWS,
    MULTIPLY_ACROSS,
    MULTIPLY_ROWS,
    MULTIPLY_STREAM,
    NEAR_BYTES,
    packed_bytes,
)
from atled_cpu_numba.kernels.products.wide_products import MULTIPLY_WIDE, WIDE_ROWS, are_wide, wide_columns
from atled_cpu_numba.kernels.shared.cache_lines import LINE_BYTES
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.store import Kernel

# The ways: see `matmul`.
ROWS, PACKED_ROWS, ACROSS, NARROW = 0, 1, 2, 3

DOT_ROWS = 4  # of A, by B transposed, as dot products: more of them would read B too often

# Measured on Zen 5, with 1 MiB of level-2 cache.
_K_STEP = 1024  # both in place: a panel of B beside the rows of A that are in use
_FEW_ROWS = 64  # of A: reading B sets the pace, and fewer of its rows at a time are prefetched better
_FEW_ROWS_K_STEP = 128
_AVX2_FEW_ROWS_K_STEP = 256  # measured on Zen 3: of 128, the rows of y are read and written too often
_PACKED_K_STEP = 512
_PACKED_ROWS = 192  # of A, if it is transposed, or too large to be read again for each panel of B
_MOST_ROWS = 1024
_PACKED_COLUMNS = 384  # of B, if it is packed
_AVX2_PACKED_COLUMNS = 192  # if A is in place, measured on Zen 3: they stay in the level-2 cache beside rows of A
_ACROSS_ROWS = 256  # with more of them, packing B costs less than writing y in transposed tiles
_AVX2_ACROSS_ROWS = 48  # the same of tiles that read B in panels in .7 of the time, measured on Zen 3
_STREAM_BYTES = 16 << 20  # of y: more than stays in the cache until it is read
_SHORT_K = 64  # writing y sets the pace
_SHORTEST_K = 10  # so much that y is written row by row, or rows far apart evict each other from the cache
_STRIDED_ELEMENTS = 1 << 18  # of A stored by columns: they stay in the level-2 cache, where rows need not be contiguous
_STRIDED_COLUMNS = 128  # of B: transposing A would take longer than reading it in place for each panel
_ACROSS_ELEMENTS = 1 << 17  # of A, packed at a time
_MOST_ACROSS_ROWS = 1024  # where ways are measured: with more of them it has lost everywhere

# Measured on Zen 3, with 512 KiB of level-2 cache. Rows of B about as long as a page of memory: a panel in place is in
# as many pages as it has rows. Below these sizes packing takes as long as it spares.
_FAR_ROW_BYTES = 3072  # of B
_FAR_BYTES = 1 << 20  # of A, stored by rows
_FAR_STRIDED_BYTES = 1 << 18  # of A, stored by columns
_FAR_COLUMN_STEP = 1024  # of B, packed at a time: so often is A packed
_FAR_PACKED_BYTES = 200 << 10  # of A, packed at a time: it stays in half of the cache, beside two panels of B

_AVX2_SLIM_VECTORS = 3  # of columns, for an A stored by columns: tiles by rows compute whole panels
_AVX2_DOT_TERMS = 64  # of a dot product, for each row of A

# Of the shortest sums, rows of a large y are written one after the other. Else A is read in pieces that stay in a
# cache, and panels of B are copied once for each: row by row, that took 1.1 to 1.4 times as long.
_AVX2_FEWEST_TERMS = 4
_LARGE_BYTES = 8 << 20  # of y

# A stored by columns. A tile that adds up several terms at a time needs an address for each term of each row, which are
# more than there are registers; transposed, one for each row. Measured on Zen 3: the sums take .05 less, and
# transposing A as long as this spares for so many panels of B.
_STRIDED_PANELS = 8
# Where every term is half a page behind the one before, or more, they are in few sets of the level-1 cache, besides:
# the sums take .05 to .4 less.
_FAR_STRIDE_BYTES = 2048
_FAR_STRIDED_PANELS = 4
# Where every term is in a page of its own, and in the same set, a tile asks for more pages than the processor keeps the
# places of, and no two tiles find a line that they share: on all processors, whose first tables hold 64 to 96 pages.
_PAGE_BYTES = 4096
_MOST_PAGES = 96

# Rows of A whole pages apart are in one set of a level-1 cache, which keeps 8 lines or 12: tiles of more rows than that
# evict their own. By a model of such caches, a tile of 12 rows of float32 in place reads 14 lines of the level-2 cache
# for each term (8 to a set), or 3.1 to 4.4 (12), of packed ones 2.75; its sums take as long as 6 or 7. Packing takes a
# third of the time of a panel, up to half on Zen 3.
_SET_LINES = 8
_CONFLICTING_PANELS = 8
# An A that does not stay in the level-2 cache is read from the one behind it for each panel of B. Where that gives
# 28 GB/s (Emerald Rapids), of which double of 512 asks for 21, a part of A at a time is multiplied by so many panels.
_REREAD_PANELS = 4

# What a piece of y packs for itself, in the time of so many rows or columns more: of B while it is multiplied, or
# before; of A. Measured on Zen 3.
_COPYING_ROWS, _PACKING_ROWS, _PACKING_COLUMNS = 2.5, 6.0, 8.0
_EVEN_ITEMS = 4  # for each share: with more of them, shares of whole items are even enough


class Product(NamedTuple):
    """y (batch, m, n) = a (batch, m, k) b (batch, k, n); strides in elements, between the elements of a row of y 1.

    Matrix i of a is at (i // inner) * a_outer + (i % inner) * a_batch, and so are those of b and y. inner is `batch`
    where one stride says it.
    """

    batch: int
    m: int
    k: int
    n: int
    a_row: int
    a_column: int
    b_row: int
    b_column: int
    a_batch: int
    b_batch: int
    y_batch: int
    y_row: int
    inner: int
    a_outer: int = 0
    b_outer: int = 0
    y_outer: int = 0

    def transposed(self) -> Product:
        """The product of the transposed matrices, for one column of y whose elements lie side by side."""
        items, outer = (self.b_batch, self.a_batch, self.y_batch), (self.b_outer, self.a_outer, self.y_outer)
        of_a, of_b = (self.b_column, self.b_row), (self.a_column, self.a_row)
        return Product(self.batch, self.n, self.k, self.m, *of_a, *of_b, *items, self.m, self.inner, *outer)

    @property
    def is_in_groups(self) -> bool:
        """Whether matrices have two strides."""
        return self.inner != self.batch

    @property
    def is_dense(self) -> bool:
        """Whether rows of A and y, and the matrices, lie one behind the other."""
        rows, items = (
            self.m == 1 or (self.a_row, self.y_row) == (self.k, self.n),
            (self.a_batch, self.b_batch, self.y_batch),
        )
        sizes = self.m * self.k, self.k * self.n, self.m * self.n
        return rows and not self.is_in_groups and (self.batch == 1 or items == sizes)


class Plan(NamedTuple):
    """How a product is computed: what of the block is decided by its shape, and what a share packs."""

    way: int
    multiply: Kernel
    width: int  # of the panels of B
    k_step: int
    row_step: int
    column_step: int
    least_rows: int
    least_columns: int
    packed_bytes: int
    note: str
    packs_b: bool = False
    tile_rows: int = 0  # by rows


class _Packing(NamedTuple):
    """What is packed of a product by rows; is_far: in the sizes for rows of B that are about as long as a page."""

    a: bool
    b: bool
    is_far: bool = False


_PACKINGS = {
    "rows in place": _Packing(a=False, b=False),
    "rows, a packed": _Packing(a=True, b=False),
    "rows, b packed": _Packing(a=False, b=True),
    "rows, both packed": _Packing(a=True, b=True),
    "rows, both packed by pages": _Packing(a=True, b=True, is_far=True),
}


class PlanWay(NamedTuple):
    """One of the ways to compute a product in tiles; fields as those of `Way`, but that it is planned first."""

    name: str
    pays: bool
    plan: Callable[[], Plan]


def plan_ways(p: Product, dtype: str = "float32") -> Iterator[PlanWay]:
    """All ways by the shape alone, in the order in which they are asked: narrow, across, then by rows."""
    a_by_columns, b_by_columns = p.a_column != 1, p.b_column != 1
    if not a_by_columns and 0 < p.n <= lanes_of(dtype).vector and p.m >= NARROW_ROWS:
        yield PlanWay("narrow", True, lambda: _narrow_plan(p, dtype))
    is_across = _is_across(p, dtype)
    if is_across or p.m <= _MOST_ACROSS_ROWS:
        yield PlanWay("across", is_across, lambda: _across_plan(p, dtype))
    by_rules = _packing(p, dtype)
    can_be_wide = p.m > FEW_ROWS and (by_rules.b or not _is_streamed(p, dtype))
    are_rows_wide = can_be_wide and are_wide(p.m, p.n, lanes_of(dtype))
    for name, packing in _PACKINGS.items():
        if packing.b or not b_by_columns:
            for is_wide in (False, True) if is_avx2(dtype) else (False,):
                pays = packing == by_rules and is_wide == are_rows_wide
                yield PlanWay(name + ", wide" * is_wide, pays, partial(_rows_plan, p, dtype, packing, is_wide))


def reads_panels_abreast(p: Product, plan: Plan, dtype: str) -> bool:
    """Whether few rows of A are multiplied by panels of B that an earlier run packed, several of them at once.

    A single panel is one stream of memory, and a core reads no more than about half of what it could.
    """
    is_plain = plan.multiply is MULTIPLY_ROWS[dtype] and plan.way == ROWS and p.a_column == 1
    return is_plain and p.m <= FEW_ROWS


def has_short_dots(p: Product, dtype: str) -> bool:
    """Whether sums are so short that adding up the lanes of dot products takes longer than packing B: under AVX2."""
    return is_avx2(dtype) and p.k < _AVX2_DOT_TERMS * p.m


def _is_across(p: Product, dtype: str) -> bool:
    """Whether there are few columns of B for an A stored by columns, or few rows of A for a B stored by columns."""
    vector = lanes_of(dtype).vector
    most_columns = (_AVX2_SLIM_VECTORS if is_avx2(dtype) else 1) * vector
    if p.a_column != 1 and p.m >= NARROW_ROWS and 0 < p.n <= most_columns:
        return p.n != 2 * vector  # those fill a tile by rows
    if p.b_column == 1:
        return False
    if is_avx2(dtype):
        is_short = p.m <= DOT_ROWS and has_short_dots(p, dtype)
        return not is_short and p.m <= _AVX2_ACROSS_ROWS and (p.m <= vector or p.k >= 2 * p.m)
    return p.m <= _ACROSS_ROWS and (p.m <= vector or p.k >= 2 * p.m)


def _narrow_plan(p: Product, dtype: str) -> Plan:
    vector = lanes_of(dtype).vector
    packed = SIZES[dtype] * (vector * p.k + PACK_SLACK)
    note = f"a in place, {NARROW_ROWS}x{vector} tiles"
    return Plan(NARROW, MULTIPLY_NARROW[dtype], vector, p.k, p.m, p.n, NARROW_ROWS, p.n, packed, note)


def _across_plan(p: Product, dtype: str) -> Plan:
    lanes = lanes_of(dtype)
    tiles = f"{lanes.rows}x{lanes.columns} tiles written transposed"
    if p.a_row == 1:
        k_step = even_step(p.k, _K_STEP, lanes.vector)
        note = f"a in place, b in place, {tiles}"
        return Plan(
            ACROSS, MULTIPLY_ACROSS[dtype], lanes.columns, k_step, p.m, p.n, 2 * lanes.columns, 2 * lanes.rows, 0, note
        )
    rows = round_up(p.m, lanes.columns)
    k_step = even_step(p.k, _ACROSS_ELEMENTS // rows, lanes.vector)
    packed = SIZES[dtype] * (rows * k_step + PACK_SLACK)
    note = f"a packed, b in place, {tiles}"
    return Plan(
        ACROSS, MULTIPLY_ACROSS[dtype], lanes.columns, k_step, p.m, p.n, max(1, p.m), 2 * lanes.rows, packed, note
    )


def _packing(p: Product, dtype: str) -> _Packing:
    """What is packed by rows, by the rules."""
    if _is_far(p, dtype):
        return _Packing(a=True, b=True, is_far=True)
    strided_is_fine = p.m * p.k <= _STRIDED_ELEMENTS or p.k <= _SHORT_K or p.n <= _STRIDED_COLUMNS
    in_place = not _rows_conflict(p, dtype) if p.a_column == 1 else strided_is_fine and not _is_transposed(p, dtype)
    # Of less than a panel, copying the columns while they are multiplied takes two passes.
    is_slim = is_avx2(dtype) and p.n < lanes_of(dtype).columns and p.k > _SHORT_K
    return _Packing(a=not in_place, b=p.b_column != 1 or is_slim)


def _rows_plan(p: Product, dtype: str, packing: _Packing, is_wide: bool) -> Plan:
    lanes = lanes_of(dtype)
    width = wide_columns(lanes) if is_wide else lanes.columns
    a_in_place, b_in_place, is_far = not packing.a, not packing.b, packing.is_far
    y_bytes, tile_rows = SIZES[dtype] * p.m * p.n, WIDE_ROWS if is_wide else lanes.rows
    few_rows_k = _AVX2_FEW_ROWS_K_STEP if is_avx2(dtype) else _FEW_ROWS_K_STEP
    most_k = few_rows_k if p.m <= _FEW_ROWS else _K_STEP
    k_step = even_step(p.k, most_k if a_in_place and b_in_place else _PACKED_K_STEP, lanes.vector)
    is_streamed = not is_wide and b_in_place and _is_streamed(p, dtype)
    if p.k <= _SHORTEST_K and b_in_place:
        in_rows = is_streamed or not is_avx2(dtype) or (p.k <= _AVX2_FEWEST_TERMS and y_bytes >= _LARGE_BYTES)
        row_step = tile_rows if in_rows else min(_PACKED_ROWS, round_up(p.m, lanes.vector))
    elif a_in_place and not is_avx2(dtype):
        near_rows, few_panels = NEAR_BYTES // (SIZES[dtype] * k_step), p.n < _REREAD_PANELS * width
        most_rows = _MOST_ROWS if few_panels and p.m <= _MOST_ROWS else min(_MOST_ROWS, near_rows)
        row_step = even_step(p.m, most_rows, tile_rows)
    elif a_in_place and p.m <= _MOST_ROWS and b_in_place:
        row_step = max(1, p.m)
    elif is_far:
        tile = tile_rows * SIZES[dtype] * padded_row(k_step, dtype)
        row_step = min(tile_rows * (_FAR_PACKED_BYTES // tile), round_up(p.m, tile_rows))
    else:
        row_step = min(_PACKED_ROWS, round_up(p.m, lanes.vector))
    if b_in_place:
        column_step = max(1, p.n)
    elif is_far:
        column_step = even_step(p.n, _FAR_COLUMN_STEP, width)
    else:
        most_columns = _AVX2_PACKED_COLUMNS if a_in_place and is_avx2(dtype) else _PACKED_COLUMNS
        column_step = min(most_columns, round_up(p.n, width))
    packed = 0 if a_in_place else SIZES[dtype] * (row_step * padded_row(k_step, dtype) + PACK_SLACK)
    packed += packed_bytes(k_step, width if b_in_place else column_step, dtype, width)
    way = ROWS if a_in_place else PACKED_ROWS
    a_packed = "packed" if p.a_column == 1 else "transposed"
    note = f"a {'in place' if a_in_place else a_packed}, b {'in place' if b_in_place else 'packed'}"
    note += f", {tile_rows}x{width} tiles"
    multiply = (MULTIPLY_WIDE if is_wide else MULTIPLY_ROWS)[dtype]
    if is_streamed:
        note, multiply = note + " written past the caches", MULTIPLY_STREAM[dtype]
    least = 4 * lanes.rows, 2 * width
    return Plan(way, multiply, width, k_step, row_step, column_step, *least, packed, note, packing.b, tile_rows)


def _is_streamed(p: Product, dtype: str) -> bool:
    """Whether y is written past the caches, if B is in place."""
    is_large = SIZES[dtype] * p.m * p.n >= _STREAM_BYTES
    return is_large and p.k <= _SHORT_K and p.n % lanes_of(dtype).columns == 0


def _is_far(p: Product, dtype: str) -> bool:
    """Whether B's rows are far apart and A is large, so that both are packed: under AVX2, where it was measured."""
    if not is_avx2(dtype) or p.b_column != 1:
        return False
    element = SIZES[dtype]
    least = _FAR_BYTES if p.a_column == 1 else _FAR_STRIDED_BYTES
    return element * p.n >= _FAR_ROW_BYTES and p.k > _SHORT_K and element * p.m * p.k >= least


def _is_transposed(p: Product, dtype: str) -> bool:
    """Whether A's columns are so far apart, and there is so much of B, that A is transposed first."""
    stride, panels = SIZES[dtype] * abs(p.a_column), p.n // lanes_of(dtype).columns
    if stride >= _PAGE_BYTES and p.k > _MOST_PAGES and panels >= _FAR_STRIDED_PANELS:
        return True
    least = _FAR_STRIDED_PANELS if stride >= _FAR_STRIDE_BYTES else _STRIDED_PANELS
    return is_avx2(dtype) and p.k > _SHORTEST_K and panels >= least


def _rows_conflict(p: Product, dtype: str) -> bool:
    """Whether an A stored by rows is packed, as the rows of a tile evict each other from the level-1 cache."""
    if p.m <= _FEW_ROWS or p.k <= _SHORT_K or p.n < _CONFLICTING_PANELS * lanes_of(dtype).columns:
        return False
    return do_rows_conflict(p.a_row, dtype)


def do_rows_conflict(pitch: int, dtype: str) -> bool:
    """Whether rows of A so many elements apart are in one set of the level-1 cache, and a tile has more of them."""
    return lanes_of(dtype).rows > _SET_LINES and pitch != 0 and SIZES[dtype] * pitch % _PAGE_BYTES == 0


def is_avx2(dtype: str) -> bool:
    """Whether vectors are those of AVX2, of which there are sixteen: tiles have six rows, which stay in registers."""
    return SIZES[dtype] * lanes_of(dtype).vector == AVX2_BYTES


def unit_sizes(p: Product, plan: Plan, parts: int) -> tuple[int, int]:
    """Rows and columns of a piece of y, such that there are about as many pieces as shares, if y is large enough."""
    if plan.way in (ROWS, PACKED_ROWS):
        return _even_sizes(p, plan, parts)
    rows, columns = max(1, p.m), max(1, p.n)
    while p.batch * -(-p.m // rows) * -(-p.n // columns) < parts:
        # What is packed is packed for each piece: rather divide the matrix that is packed itself.
        can_rows, can_columns = rows > plan.least_rows, columns > plan.least_columns
        if can_columns and (columns >= rows or not can_rows) and (p.a_column == 1 or not can_rows):
            columns = round_up(-(-columns // 2), plan.least_columns)
        elif can_rows:
            rows = round_up(-(-rows // 2), plan.least_rows)
        else:
            break
    return rows, columns


def _even_sizes(p: Product, plan: Plan, parts: int) -> tuple[int, int]:
    """Whole tiles and panels, such that the thread that ends last ends soonest.

    Panels of B may be wide: of 256 columns, which are 10.7 panels, one of two threads would get 6.7. Rows are finer.
    """
    whole = round_up(p.m, plan.tile_rows), round_up(p.n, plan.width)
    if parts == 1 or p.batch >= _EVEN_ITEMS * parts:
        return whole
    # Imported here, as in `share_count`.
    from atled_cpu_numba.pool import thread_count

    threads = min(parts, thread_count())

    def sizes(row_pieces: int) -> tuple[int, int]:
        column_pieces = -(-parts // (p.batch * row_pieces))
        return round_up(-(-p.m // row_pieces), plan.tile_rows), round_up(-(-p.n // column_pieces), plan.width)

    halvings = (1 << number for number in range((parts - 1).bit_length()))
    return min((sizes(row_pieces) for row_pieces in (*halvings, parts)), key=partial(_end, p, plan, parts, threads))


def _end(p: Product, plan: Plan, parts: int, threads: int, sizes: tuple[int, int]) -> float:
    """When the last share ends, if y is divided into pieces of these sizes, with what each piece packs."""
    rows, columns = sizes
    copied = _PACKING_ROWS if plan.packs_b else _COPYING_ROWS
    packed = _PACKING_COLUMNS if plan.way == PACKED_ROWS else 0
    heights = [copied + round_up(min(rows, p.m - i), plan.tile_rows) for i in range(0, p.m, rows)]
    widths = [packed + min(columns, p.n - j) for j in range(0, p.n, columns)]
    pieces = [height * width for width in widths for height in heights] * p.batch
    # As threads of the pool take shares: the caller from the first one on, the others from the last one back.
    ends = [(0.0, thread) for thread in range(threads)]
    first, after = 0, parts
    while first < after:
        end, thread = ends[0]
        part = first if thread == 0 else after - 1
        first, after = (first + 1, after) if thread == 0 else (first, part)
        share = pieces[len(pieces) * part // parts : len(pieces) * (part + 1) // parts]
        heapq.heapreplace(ends, (end + sum(share), thread))
    return max(end for end, _ in ends)


def padded_row(k: int, dtype: str) -> int:
    """Elements from row to row of A packed for sums of k: an odd number of lines, so that rows use all of a cache."""
    line = LINE_BYTES // SIZES[dtype]
    return (k // line + 1 | 1) * line


def even_step(size: int, most: int, multiple: int) -> int:
    """A step of at most about `most`, a multiple of `multiple`, that divides `size` into about equal steps."""
    steps = -(-size // most)
    return round_up(-(-size // steps), multiple) if steps else multiple


def round_up(size: int, multiple: int) -> int:
    """`size` rounded up to a multiple, at least one."""
    return max(1, -(-size // multiple)) * multiple
