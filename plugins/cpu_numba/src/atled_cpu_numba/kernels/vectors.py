"""numba intrinsics that work on whole float32 vectors: the register tiles, block transposition, copies with masks.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Addresses are int64 in bytes, strides and counts are int64 in elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from atled_cpu_numba.kernels.lanes import host_lanes

_LANES = host_lanes()
_WIDTH = _LANES.vector

_FLOAT = ir.FloatType()
_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)
_BIT = ir.IntType(1)
_VECTOR = ir.VectorType(_FLOAT, _WIDTH)
_MASK = ir.VectorType(_BIT, _WIDTH)
_ZEROS = ir.Constant(_VECTOR, [0.0] * _WIDTH)
_LANE_NUMBERS = ir.VectorType(_INT32, _WIDTH)

# Reductions at the end of a tile may add in any order.
_REASSOCIATE = ("reassoc", "nsz", "contract")


class Writer:
    """The few vector instructions that the intrinsics are made of; `builder` is llvmlite's."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def number(self, value: int) -> Any:
        return ir.Constant(_INT64, value)

    def pointer(self, address: Any) -> Any:
        return self.builder.inttoptr(address, _FLOAT.as_pointer())

    def at(self, pointer: Any, offset: Any) -> Any:
        """`pointer` moved by `offset` elements."""
        if isinstance(offset, int):
            offset = self.number(offset)
        return self.builder.gep(pointer, [offset])

    def load(self, pointer: Any) -> Any:
        return self.builder.load(self.builder.bitcast(pointer, _VECTOR.as_pointer()), align=4, typ=_VECTOR)

    def store(self, value: Any, pointer: Any) -> None:
        self.builder.store(value, self.builder.bitcast(pointer, _VECTOR.as_pointer()), align=4)

    def splat(self, value: Any, vector: Any = _VECTOR) -> Any:
        """A vector of equal elements."""
        undefined = ir.Constant(vector, ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(_INT32, 0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(_LANE_NUMBERS, [0] * _WIDTH))

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        """a * b + c, rounded once."""
        return self.builder.call(self.declare(f"llvm.fma.v{_WIDTH}f32", _VECTOR, [_VECTOR] * 3), [a, b, c])

    def first_lanes(self, count: Any) -> Any:
        """The mask of the lanes below `count`, an int64 of any sign."""
        limit = self.splat(self.builder.trunc(count, _INT32), _LANE_NUMBERS)
        lanes = ir.Constant(_LANE_NUMBERS, list(range(_WIDTH)))
        return self.builder.icmp_signed("<", lanes, limit)

    def load_masked(self, pointer: Any, mask: Any, otherwise: Any = _ZEROS) -> Any:
        """The lanes of `mask`, those of `otherwise` elsewhere; nothing is read there."""
        place = self.builder.bitcast(pointer, _VECTOR.as_pointer())
        kind = [_VECTOR.as_pointer(), _INT32, _MASK, _VECTOR]
        function = self.declare(f"llvm.masked.load.v{_WIDTH}f32.p0", _VECTOR, kind)
        return self.builder.call(function, [place, ir.Constant(_INT32, 4), mask, otherwise])

    def store_masked(self, value: Any, pointer: Any, mask: Any) -> None:
        place = self.builder.bitcast(pointer, _VECTOR.as_pointer())
        kind = [_VECTOR, _VECTOR.as_pointer(), _INT32, _MASK]
        function = self.declare(f"llvm.masked.store.v{_WIDTH}f32.p0", ir.VoidType(), kind)
        self.builder.call(function, [value, place, ir.Constant(_INT32, 4), mask])

    def total(self, value: Any) -> Any:
        """Sum of the lanes."""
        function = self.declare(f"llvm.vector.reduce.fadd.v{_WIDTH}f32", _FLOAT, [_FLOAT, _VECTOR])
        return self.builder.call(function, [ir.Constant(_FLOAT, 0.0), value], fastmath=_REASSOCIATE)

    def declare(self, name: str, result: Any, arguments: list[Any]) -> Any:
        module = self.builder.module
        return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, arguments), name)

    @contextmanager
    def counted(self, count: Any, carried: list[Any]) -> Iterator[tuple[Any, list[Any], list[Any]]]:
        """A loop of `count` >= 0 rounds: yields the round, the carried values, and a list to fill with their next ones.

        After the loop that list holds the final values. `carried` has the values before the first round.
        """
        builder = self.builder
        before = builder.basic_block
        head = builder.append_basic_block("head")
        body = builder.append_basic_block("body")
        after = builder.append_basic_block("after")
        builder.branch(head)
        builder.position_at_end(head)
        i = builder.phi(_INT64)
        i.add_incoming(self.number(0), before)
        phis = [builder.phi(value.type) for value in carried]
        for phi, value in zip(phis, carried, strict=True):
            phi.add_incoming(value, before)
        builder.cbranch(builder.icmp_signed("<", i, count), body, after)
        builder.position_at_end(body)
        following: list[Any] = []
        yield i, phis, following
        end = builder.basic_block
        i.add_incoming(builder.add(i, self.number(1)), end)
        for phi, value in zip(phis, following, strict=True):
            phi.add_incoming(value, end)
        builder.branch(head)
        builder.position_at_end(after)
        following[:] = phis


def vector_intrinsic(name: str, argument_count: int, generate: Callable[..., None], doc: str) -> Any:
    """A numba intrinsic of `argument_count` int64 that returns nothing; generate(writer, *arguments) writes it."""

    def typing(typing_context, arguments):
        signature = types.void(types.Tuple([types.int64] * argument_count))

        def code(context, builder, signature, values):
            generate(Writer(builder), *(builder.extract_value(values[0], i) for i in range(argument_count)))
            return context.get_dummy_value()

        return signature, code

    typing.__name__ = typing.__qualname__ = name
    typing.__doc__ = doc
    return intrinsic(typing)


def make_tile(rows: int, vectors: int, *, packed_rows: int = 0) -> Any:
    """An intrinsic that computes one tile of C in registers: C = A B + S, all sums over k in order.

    tile((k, a, a_row, a_column, b, b_step, c, c_row, s, s_row, m, n)):
    k: length of the sums, 0 or more.
    a: A[r, i] at a[i * packed_rows + r], ignoring a_row and a_column; or, if packed_rows is 0, at a[r * a_row + i * a_column].
    b: B[i, j] at b[i * b_step + j] for all `vectors` vectors of columns: reads whole vectors.
    c: C[r, j] at c[r * c_row + j].  s: S[r, j] at s[r * s_row + j]: C itself to accumulate, a bias (s_row 0), zeros.
    m, n: rows and columns of the tile that are written, and read from S: 1 <= m <= rows, 1 <= n.
    All `rows` rows of A are read.
    """

    def generate(w, k, a, a_row, a_column, b, b_step, c, c_row, s, s_row, m, n):
        builder = w.builder
        a, b, c, s = (w.pointer(address) for address in (a, b, c, s))
        starts = [] if packed_rows else [w.at(a, builder.mul(a_row, w.number(r))) for r in range(rows)]
        carried = [_ZEROS] * (rows * vectors) + [b] + ([a] if packed_rows else starts)
        with w.counted(k, carried) as (_, phis, following):
            b_now, a_now = phis[rows * vectors], phis[rows * vectors + 1 :]
            b_vectors = [w.load(w.at(b_now, j * _WIDTH)) for j in range(vectors)]
            for r in range(rows):
                value = w.splat(builder.load(w.at(a_now[0], r) if packed_rows else a_now[r], typ=_FLOAT))
                following += [w.multiply_add(value, b_vectors[j], phis[r * vectors + j]) for j in range(vectors)]
            following.append(w.at(b_now, b_step))
            following += [w.at(a_now[0], packed_rows)] if packed_rows else [w.at(p, a_column) for p in a_now]
        sums = following
        whole = builder.and_(
            builder.icmp_signed("==", m, w.number(rows)), builder.icmp_signed(">=", n, w.number(vectors * _WIDTH))
        )
        with builder.if_else(whole) as (then, otherwise):
            with then:
                for r in range(rows):
                    for j in range(vectors):
                        c_at = w.at(w.at(c, builder.mul(c_row, w.number(r))), j * _WIDTH)
                        s_at = w.at(w.at(s, builder.mul(s_row, w.number(r))), j * _WIDTH)
                        w.store(builder.fadd(sums[r * vectors + j], w.load(s_at)), c_at)
            with otherwise:
                masks = [w.first_lanes(builder.sub(n, w.number(j * _WIDTH))) for j in range(vectors)]
                for r in range(rows):
                    with builder.if_then(builder.icmp_signed("<", w.number(r), m)):
                        for j in range(vectors):
                            c_at = w.at(w.at(c, builder.mul(c_row, w.number(r))), j * _WIDTH)
                            s_at = w.at(w.at(s, builder.mul(s_row, w.number(r))), j * _WIDTH)
                            value = builder.fadd(sums[r * vectors + j], w.load_masked(s_at, masks[j]))
                            w.store_masked(value, c_at, masks[j])

    return vector_intrinsic("tile", 12, generate, "One tile of a matrix product; see make_tile.")


def make_offset_tile(rows: int, vectors: int, *, packed_rows: int) -> Any:
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
        with w.counted(k, [_ZEROS] * (rows * vectors) + [a]) as (i, phis, following):
            b_now = w.at(b, builder.load(builder.gep(offsets, [i]), typ=_INT64))
            b_vectors = [w.load(w.at(b_now, j * _WIDTH)) for j in range(vectors)]
            for r in range(rows):
                value = w.splat(builder.load(w.at(phis[-1], r), typ=_FLOAT))
                following += [w.multiply_add(value, b_vectors[j], phis[r * vectors + j]) for j in range(vectors)]
            following.append(w.at(phis[-1], packed_rows))
        for r in range(rows):
            row = w.at(c, builder.mul(c_row, w.number(r)))
            for j in range(vectors):
                w.store(following[r * vectors + j], w.at(row, j * _WIDTH))

    return vector_intrinsic(
        "offset_tile", 6, generate, "One tile of a product with B in a table; see make_offset_tile."
    )


def make_dots(rows: int, columns: int) -> Any:
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
        rounds = builder.sdiv(k, w.number(_WIDTH))
        with w.counted(rounds, [_ZEROS] * (rows * columns)) as (i, phis, following):
            at = builder.mul(i, w.number(_WIDTH))
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
                    value = builder.fadd(builder.load(place, typ=_FLOAT), w.total(following[r * columns + j]))
                    builder.store(value, place)

    return vector_intrinsic("dots", 9, generate, "A tile of dot products; see make_dots.")


def _generate_transpose(w, source, source_row, row_count, target, target_row):
    builder = w.builder
    source, target = w.pointer(source), w.pointer(target)
    last = builder.sub(row_count, w.number(1))
    rows = []
    for r in range(_WIDTH):
        inside = builder.select(builder.icmp_signed("<", w.number(r), row_count), w.number(r), last)
        rows.append(w.load(w.at(source, builder.mul(source_row, inside))))
    step = _WIDTH // 2
    while step:  # exchange halves, then quarters, ...: the transposition of a matrix of 2 x 2 blocks, recursively
        low = ir.Constant(_LANE_NUMBERS, [i if not i & step else _WIDTH + i - step for i in range(_WIDTH)])
        high = ir.Constant(_LANE_NUMBERS, [i + step if not i & step else _WIDTH + i for i in range(_WIDTH)])
        for r in range(_WIDTH):
            if not r & step:
                a, b = rows[r], rows[r + step]
                rows[r] = builder.shuffle_vector(a, b, low)
                rows[r + step] = builder.shuffle_vector(a, b, high)
        step //= 2
    for c in range(_WIDTH):
        w.store(rows[c], w.at(target, builder.mul(target_row, w.number(c))))


transpose_block = vector_intrinsic(
    "transpose_block",
    5,
    _generate_transpose,
    """transpose_block((source, source_row, row_count, target, target_row)): a square block, one vector wide.

    target[c * target_row + r] = source[r * source_row + c]. Rows from row_count >= 1 on are not read; the last one is
    repeated in their place. Stores ascend in c, so rows of the target may overlap: the later one stays.
    """,
)


def make_copy(count: int) -> Any:
    """An intrinsic copy((source, target)) that copies `count` float32."""

    def generate(w, source, target):
        kind = ir.VectorType(_FLOAT, count)  # LLVM splits it into registers
        values = w.builder.load(w.builder.inttoptr(source, kind.as_pointer()), align=4, typ=kind)
        w.builder.store(values, w.builder.inttoptr(target, kind.as_pointer()), align=4)

    return vector_intrinsic("copy", 2, generate, f"Copy {count} float32.")


def _generate_copy_rows(w, source, source_row, target, target_row, rows, count, increments=None):
    builder = w.builder
    source, target = w.pointer(source), w.pointer(target)
    blocks = builder.sdiv(builder.add(count, w.number(2 * _WIDTH - 1)), w.number(2 * _WIDTH))
    with w.counted(blocks, []) as (block, _, _following):
        first = builder.mul(block, w.number(2 * _WIDTH))
        left = builder.sub(count, first)
        masks = [w.first_lanes(left), w.first_lanes(builder.sub(left, w.number(_WIDTH)))]
        with builder.if_else(builder.icmp_signed(">", left, w.number(_WIDTH))) as (two_vectors, one_vector):
            for branch, used in ((two_vectors, masks), (one_vector, masks[:1])):
                with branch, w.counted(rows, [w.at(source, first), w.at(target, first)]) as (row, (x, y), following):
                    added = None
                    if increments is not None:
                        added = w.splat(builder.load(w.at(w.pointer(increments), row), typ=_FLOAT))
                    for half, mask in enumerate(used):
                        value = w.load_masked(w.at(x, half * _WIDTH), mask)
                        value = value if added is None else builder.fadd(value, added)
                        w.store_masked(value, w.at(y, half * _WIDTH), mask)
                    following += [w.at(x, source_row), w.at(y, target_row)]


copy_rows = vector_intrinsic(
    "copy_rows",
    6,
    _generate_copy_rows,
    """copy_rows((source, source_row, target, target_row, rows, count)): `rows` rows of `count` elements.

    Made for many short rows: their remainders are masked vectors. source_row, target_row: from row to row.
    """,
)

copy_rows_plus = vector_intrinsic(
    "copy_rows_plus",
    7,
    _generate_copy_rows,
    """copy_rows_plus((source, source_row, target, target_row, rows, count, increments)): see `copy_rows`.

    increments: address of what is added to the elements of each row.
    """,
)
