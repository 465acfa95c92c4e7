"""numba intrinsics that work on whole vectors of floats, and what they are made of: transposition and copies here.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Addresses are int64 in bytes, strides and counts are int64 in elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of

_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)
_BIT = ir.IntType(1)
_WORD_BYTES = 8
_BYTES = ir.IntType(8).as_pointer()
_FLOATS = {"float32": ir.FloatType(), "float64": ir.DoubleType()}
_CODES = {"float32": "f32", "float64": "f64"}  # in names of LLVM's functions
_SUMS_OF_SEVERAL_TERMS = 16  # half of the registers that AVX-512 has
_QUARTERED_BYTES, _QUARTERS = 64, 4  # of vectors under AVX-512

# Reductions at the end of a tile may add in any order.
_REASSOCIATE = ("reassoc", "nsz", "contract")


class Writer:
    """The few vector instructions that the intrinsics are made of; `builder` is llvmlite's.

    width: lanes of a vector.  size: bytes of a float.  float, vector: LLVM's types.  code: of a vector, in the names of
    LLVM's functions.  zeros: a vector of them.
    """

    def __init__(self, builder: Any, dtype: str = "float32") -> None:
        self.builder = builder
        self.width, self.size, self.float = lanes_of(dtype).vector, SIZES[dtype], _FLOATS[dtype]
        self.vector = ir.VectorType(self.float, self.width)
        self.code = f"v{self.width}{_CODES[dtype]}"
        self.zeros = self.constant(0.0)
        self._mask = ir.VectorType(_BIT, self.width)
        self._lane_numbers = ir.VectorType(_INT32, self.width)

    def constant(self, value: float) -> Any:
        """A vector of equal numbers."""
        return ir.Constant(self.vector, [value] * self.width)

    def load_one(self, pointer: Any) -> Any:
        """The number at `pointer`."""
        return self.builder.load(pointer, typ=self.float)

    def number(self, value: int) -> Any:
        return ir.Constant(_INT64, value)

    def pointer(self, address: Any) -> Any:
        return self.builder.inttoptr(address, self.float.as_pointer())

    def at(self, pointer: Any, offset: Any) -> Any:
        """`pointer` moved by `offset` elements."""
        if isinstance(offset, int):
            offset = self.number(offset)
        return self.builder.gep(pointer, [offset])

    def load(self, pointer: Any) -> Any:
        return self.builder.load(
            self.builder.bitcast(pointer, self.vector.as_pointer()), align=self.size, typ=self.vector
        )

    def store(self, value: Any, pointer: Any) -> None:
        self.builder.store(value, self.builder.bitcast(pointer, self.vector.as_pointer()), align=self.size)

    def load_lanes(self, pointer: Any, lanes: int) -> Any:
        """A vector of some lanes, at most those of a register."""
        kind = ir.VectorType(self.float, lanes)
        return self.builder.load(self.builder.bitcast(pointer, kind.as_pointer()), align=self.size, typ=kind)

    def store_lanes(self, value: Any, pointer: Any, lanes: int) -> None:
        kind = ir.VectorType(self.float, lanes)
        self.builder.store(value, self.builder.bitcast(pointer, kind.as_pointer()), align=self.size)

    def stream(self, value: Any, pointer: Any) -> None:
        """Store past the caches; `pointer` must be a multiple of the vector's bytes."""
        place = self.builder.bitcast(pointer, self.vector.as_pointer())
        instruction = self.builder.store(value, place, align=self.size * self.width)
        instruction.set_metadata("nontemporal", self.builder.module.add_metadata([ir.Constant(_INT32, 1)]))

    def splat(self, value: Any, vector: Any = None) -> Any:
        """A vector of equal elements."""
        vector = vector or self.vector
        undefined, lanes = ir.Constant(vector, ir.Undefined), vector.count
        first = self.builder.insert_element(undefined, value, ir.Constant(_INT32, 0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INT32, lanes), [0] * lanes))

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        """a * b + c, rounded once where the processor has an instruction for it; elsewhere that would be calls."""
        return self.builder.call(self.declare(f"llvm.fmuladd.{self.code}", self.vector, [self.vector] * 3), [a, b, c])

    def bounds_at(self, address: Any) -> tuple[Any, Any]:
        """The numbers in the first bytes of the two words at `address`, each in all lanes."""
        low = self.pointer(address)
        high = self.at(low, _WORD_BYTES // self.size)
        return self.splat(self.load_one(low)), self.splat(self.load_one(high))

    def bounds_if_at(self, address: Any) -> tuple[Any, Any]:
        """The same; infinite ones where the address is 0."""
        builder, nothing = self.builder, (self.constant(-math.inf), self.constant(math.inf))
        before = builder.basic_block
        with builder.if_then(builder.icmp_signed("!=", address, self.number(0))):
            found, there = self.bounds_at(address), builder.basic_block
        made = []
        for bound, infinite in zip(found, nothing, strict=True):
            phi = builder.phi(self.vector)
            phi.add_incoming(infinite, before)
            phi.add_incoming(bound, there)
            made.append(phi)
        return made[0], made[1]

    def bounded(self, value: Any, bounds: tuple[Any, Any]) -> Any:
        """`value`, no less and no more than the bounds; a NaN stays one.

        In this order of the operands x86 has one instruction for each of the two.
        """
        low, high = bounds
        value = self.builder.select(self.builder.fcmp_ordered(">", low, value), low, value)
        return self.builder.select(self.builder.fcmp_ordered("<", high, value), high, value)

    def first_lanes(self, count: Any) -> Any:
        """The mask of the lanes below `count`, an int64 of any sign."""
        limit = self.splat(self.builder.trunc(count, _INT32), self._lane_numbers)
        lanes = ir.Constant(self._lane_numbers, list(range(self.width)))
        return self.builder.icmp_signed("<", lanes, limit)

    def load_masked(self, pointer: Any, mask: Any, otherwise: Any = None) -> Any:
        """The lanes of `mask`, those of `otherwise`, or 0, elsewhere; nothing is read there."""
        place = self.builder.bitcast(pointer, self.vector.as_pointer())
        kind = [self.vector.as_pointer(), _INT32, self._mask, self.vector]
        function = self.declare(f"llvm.masked.load.{self.code}.p0", self.vector, kind)
        return self.builder.call(
            function, [place, ir.Constant(_INT32, self.size), mask, self.zeros if otherwise is None else otherwise]
        )

    def store_masked(self, value: Any, pointer: Any, mask: Any) -> None:
        place = self.builder.bitcast(pointer, self.vector.as_pointer())
        kind = [self.vector, self.vector.as_pointer(), _INT32, self._mask]
        function = self.declare(f"llvm.masked.store.{self.code}.p0", ir.VoidType(), kind)
        self.builder.call(function, [value, place, ir.Constant(_INT32, self.size), mask])

    def prefetch(self, pointer: Any) -> None:
        """Ask for the line at `pointer`, which may lie outside of any array, in the level-2 cache."""
        place = self.builder.bitcast(pointer, _BYTES)
        function = self.declare("llvm.prefetch.p0", ir.VoidType(), [_BYTES, _INT32, _INT32, _INT32])
        read, level_2, data = (ir.Constant(_INT32, value) for value in (0, 2, 1))
        self.builder.call(function, [place, read, level_2, data])

    def opaque(self, pointer: Any) -> Any:
        """`pointer`, of which LLVM knows nothing any more; it does not unroll a loop with this inside."""
        kind = ir.FunctionType(pointer.type, [pointer.type])
        value = self.builder.asm(kind, "", "=r,0", [pointer], side_effect=False)
        value.attributes.add("convergent")
        return value

    def keep_order(self) -> None:
        """Loads and stores before this point stay before those after it: LLVM would rather have all loads first."""
        self.builder.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)

    def add_parts(self, value: Any, added: Any, target: Any, count: int) -> None:
        """target[i] = value[i] + added[i] for the first `count` lanes, in parts that are powers of two.

        Masked stores would be several times slower.
        """
        for part, kind, start in self._parts(value, count):
            x = self.builder.bitcast(self.at(added, start), kind.as_pointer())
            y = self.builder.bitcast(self.at(target, start), kind.as_pointer())
            self.builder.store(
                self.builder.fadd(part, self.builder.load(x, align=self.size, typ=kind)), y, align=self.size
            )

    def store_parts(self, value: Any, target: Any, count: int) -> None:
        """target[i] = value[i] for the first `count` lanes, as in `add_parts`."""
        for part, kind, start in self._parts(value, count):
            self.builder.store(part, self.builder.bitcast(self.at(target, start), kind.as_pointer()), align=self.size)

    def _parts(self, value: Any, count: int) -> Iterator[tuple[Any, Any, int]]:
        """The first `count` lanes as parts that are powers of two, their types, where they start."""
        start = 0
        while start < count:
            width = 1 << (count - start).bit_length() - 1
            kind = ir.VectorType(self.float, width)
            lanes = ir.Constant(ir.VectorType(_INT32, width), list(range(start, start + width)))
            yield self.builder.shuffle_vector(value, ir.Constant(self.vector, ir.Undefined), lanes), kind, start
            start += width

    def total(self, value: Any) -> Any:
        """Sum of the lanes."""
        function = self.declare(f"llvm.vector.reduce.fadd.{self.code}", self.float, [self.float, self.vector])
        return self.builder.call(function, [ir.Constant(self.float, 0.0), value], fastmath=_REASSOCIATE)

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

    def in_rounds(
        self, count: Any, at_once: int, carried: list[Any], emit: Callable[[list[Any], int], list[Any]]
    ) -> list[Any]:
        """Loops over `count` >= 0 steps, `at_once` of them, a power of two, in a round; the carried values behind them.

        emit: emits some steps; from the carried values to their next ones. Steps that make no round are the first.
        """
        builder = self.builder
        with self.counted(builder.and_(count, self.number(at_once - 1)), carried) as (_, phis, following):
            following += emit(phis, 1)
        with self.counted(builder.sdiv(count, self.number(at_once)), following) as (_, phis, last):
            last += emit(phis, at_once)
        return last


def terms_at_once(sums: int, most: int) -> int:
    """Terms of so many sums, in as many registers, between two steps of a loop: a power of two, up to `most`.

    In a loop of several, LLVM reads for the next one before the first is done: a tile of 24 registers then lacks some,
    and moves or stores sums in each step. With AVX-512 these are 14 to 20 of 100 instructions, and a sixth to a quarter
    of the cycles by llvm-mca.
    """
    return most if sums <= _SUMS_OF_SEVERAL_TERMS else 1


def vector_intrinsic(
    name: str, argument_count: int, generate: Callable[..., None], doc: str, dtype: str = "float32"
) -> Any:
    """A numba intrinsic of `argument_count` int64 that returns nothing; generate(writer, *arguments) writes it.

    dtype: of the floats that the writer knows, "float32" or "float64".
    """

    def typing(typing_context, arguments):
        signature = types.void(types.Tuple([types.int64] * argument_count))

        def code(context, builder, signature, values):
            generate(Writer(builder, dtype), *(builder.extract_value(values[0], i) for i in range(argument_count)))
            return context.get_dummy_value()

        return signature, code

    typing.__name__ = typing.__qualname__ = name
    typing.__doc__ = doc
    return intrinsic(typing)


def transpose_registers(w: Writer, rows: list[Any]) -> None:
    """Transpose, in place, a square of as many vectors as they have lanes, whatever their type."""
    _exchange(w, rows, 0, len(rows))


def _exchange(w: Writer, rows: list[Any], begin: int, count: int) -> None:
    """Transpose the squares of `count` lanes that some rows, a power of two, consist of."""
    builder, width = w.builder, len(rows)
    numbers = ir.VectorType(_INT32, width)
    step = count // 2
    while step:  # exchange halves, then quarters, ...: the transposition of a matrix of 2 x 2 blocks, recursively
        low = ir.Constant(numbers, [i if not i & step else width + i - step for i in range(width)])
        high = ir.Constant(numbers, [i + step if not i & step else width + i for i in range(width)])
        for r in range(begin, begin + count):
            if not r & step:
                a, b = rows[r], rows[r + step]
                rows[r] = builder.shuffle_vector(a, b, low)
                rows[r + step] = builder.shuffle_vector(a, b, high)
        step //= 2


def generate_transpose(w, source, source_row, row_count, target, target_row, *, reader=None):
    """See make_transpose_block.  reader: of the source; None if that is of the same floats as the target."""
    builder, reader = w.builder, reader or w
    source, target = reader.pointer(source), w.pointer(target)
    last = builder.sub(row_count, w.number(1))
    in_quarters = reader is w and w.width * w.size == _QUARTERED_BYTES
    rows = []
    for r in range(w.width):
        inside = builder.select(builder.icmp_signed("<", w.number(r), row_count), w.number(r), last)
        place = reader.at(source, builder.mul(source_row, inside))
        rows.append(place if in_quarters else reader.load(place))
    if in_quarters:
        rows = _load_in_quarters(w, rows)
    else:
        transpose_registers(w, rows)
    for c in range(w.width):
        w.store(rows[c], w.at(target, builder.mul(target_row, w.number(c))))


def _load_in_quarters(w: Writer, places: list[Any]) -> list[Any]:
    """The columns of a square, of as many rows at `places` as a vector has lanes, a vector each.

    Quarters of vectors are in their places once they are loaded, and half of them are put there as they are read.
    Intel's processors do that on each port that multiplies, but move lanes of vectors of 64 bytes on one port alone: by
    llvm-mca that takes 48 cycles for 16 x 16, in place of 64.
    """
    quarter = w.width // _QUARTERS
    rows = []
    for first in range(0, w.width, quarter):  # of the columns
        for number in range(quarter):
            parts = [w.load_lanes(w.at(place, first), quarter) for place in places[number::quarter]]
            while len(parts) > 1:
                parts = [_joined(w, *pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
            rows += parts
    for begin in range(0, w.width, quarter):
        _exchange(w, rows, begin, quarter)
    return rows


def _joined(w: Writer, a: Any, b: Any) -> Any:
    """The lanes of a, then those of b."""
    count = 2 * a.type.count
    return w.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_INT32, count), list(range(count))))


def make_transpose_block(dtype: str) -> Any:
    """An intrinsic that transposes a square block, one vector wide.

    transpose_block((source, source_row, row_count, target, target_row)):
    target[c * target_row + r] = source[r * source_row + c]. Rows from row_count >= 1 on are not read; the last one is
    repeated in their place. Stores ascend in c, so rows of the target may overlap: the later one stays.
    """
    return vector_intrinsic("transpose_block", 5, generate_transpose, "See make_transpose_block.", dtype)


def make_copy(count: int, dtype: str = "float32") -> Any:
    """An intrinsic copy((source, target)) that copies `count` floats."""

    def generate(w, source, target):
        kind = ir.VectorType(w.float, count)  # LLVM splits it into registers
        values = w.builder.load(w.builder.inttoptr(source, kind.as_pointer()), align=w.size, typ=kind)
        w.builder.store(values, w.builder.inttoptr(target, kind.as_pointer()), align=w.size)

    return vector_intrinsic("copy", 2, generate, f"Copy {count} floats.", dtype)


def _generate_copy_rows(w, source, source_row, target, target_row, rows, count, increments=None, chosen=None):
    """chosen: address of the row of the source that each row of the target is; they are in order without."""
    builder = w.builder
    source, target = w.pointer(source), w.pointer(target)

    def copy_part(x, y, at, width, added):
        """`width` elements from `at` on."""
        kind = w.float if width == 1 else ir.VectorType(w.float, width)
        value = builder.load(builder.bitcast(w.at(x, at), kind.as_pointer()), align=w.size, typ=kind)
        if added is not None:
            if width > 1:
                first_lanes = ir.Constant(ir.VectorType(_INT32, width), [0] * width)
                added = builder.insert_element(ir.Constant(kind, ir.Undefined), added, ir.Constant(_INT32, 0))
                added = builder.shuffle_vector(added, ir.Constant(kind, ir.Undefined), first_lanes)
            value = builder.fadd(value, added)
        builder.store(value, builder.bitcast(w.at(y, at), kind.as_pointer()), align=w.size)

    def copy_all(width):
        """All rows, whose `count` is at least `width` and, below a whole vector, less than twice that."""
        last = builder.sub(count, w.number(width))
        with w.counted(rows, [source, target]) as (row, (x, y), following):
            added = None
            if chosen is not None:
                place = builder.load(builder.gep(builder.inttoptr(chosen, _INT64.as_pointer()), [row]), typ=_INT64)
                x = w.at(source, builder.mul(place, source_row))
            if increments is not None:
                added = builder.load(w.at(w.pointer(increments), row), typ=w.float)
            if width == w.width:
                with w.counted(builder.sdiv(last, w.number(width)), []) as (i, _, _following):
                    copy_part(x, y, builder.mul(i, w.number(width)), width, added)
                copy_part(x, y, builder.mul(builder.sdiv(last, w.number(width)), w.number(width)), width, added)
            elif width > 1:
                copy_part(x, y, 0, width, added)
            # The last part overlaps the one before: masked stores would be several times slower.
            copy_part(x, y, last, width, added)
            following += [source if chosen is not None else w.at(x, source_row), w.at(y, target_row)]

    def choose_width(width):
        if width == 1:
            with builder.if_then(builder.icmp_signed(">", count, w.number(0))):
                copy_all(1)
            return
        with builder.if_else(builder.icmp_signed(">=", count, w.number(width))) as (wide, narrow):
            with wide:
                copy_all(width)
            with narrow:
                choose_width(width // 2)

    choose_width(w.width)


def make_copy_rows(dtype: str) -> Any:
    """An intrinsic copy_rows((source, source_row, target, target_row, rows, count)): `rows` rows of `count` elements.

    Made for many short rows. source_row, target_row: from row to row.
    """
    return vector_intrinsic("copy_rows", 6, _generate_copy_rows, "See make_copy_rows.", dtype)


def make_copy_rows_plus(dtype: str) -> Any:
    """An intrinsic copy_rows_plus((source, source_row, target, target_row, rows, count, increments)).

    As that of `make_copy_rows`; increments: address of what is added to the elements of each row.
    """
    return vector_intrinsic("copy_rows_plus", 7, _generate_copy_rows, "See make_copy_rows_plus.", dtype)


def make_copy_chosen_rows(dtype: str) -> Any:
    """An intrinsic copy_chosen_rows((source, source_row, target, target_row, rows, count, chosen)).

    As that of `make_copy_rows`; chosen: address of int64, which row of the source each row of the target is.
    """

    def generate(w, *arguments):
        *copied, chosen = arguments
        _generate_copy_rows(w, *copied, chosen=chosen)

    return vector_intrinsic("copy_chosen_rows", 7, generate, "See make_copy_chosen_rows.", dtype)


# Those of float32.
transpose_block, copy_rows, copy_rows_plus = (
    make("float32") for make in (make_transpose_block, make_copy_rows, make_copy_rows_plus)
)
