"""Sums and products of neighbouring numbers in the order that docs/accuracy.md states: the same on every processor.

Terms are taken in groups of LANES. Lane k adds up the terms k of 16 groups one after the other, starting from 0, and
each such sum is added to the lane's total. Then the lanes are halved: lane k gets lane k + h added, for h = 16, 8, 4,
2, 1; after each halving the next h of the terms that fill no group are added to the h lanes, if that many are left.
Products are made likewise.

LLVM must not choose the order: how many lanes it would take depends on its cost model. So the vectors are written out,
as wide as all lanes; LLVM splits them into the registers there are, which changes no sum.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from atled.plugin import NamedTuple
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.exponentials import make_write_exponentials
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.narrow_vectors import STORED, pair_to_floats, widened
from atled_cpu_numba.kernels.shared.options import Real, inlined
from atled_cpu_numba.kernels.shared.scalars import write_exp
from atled_cpu_numba.kernels.shared.vectors import Writer

LANES = 32
GROUPS = 16  # of which one running sum is made
_REGISTERS = 16  # for lanes, which all processors have at least

_INT32 = ir.IntType(32)
_IR = {"float32": ir.FloatType(), "float64": ir.DoubleType(), **STORED}

# terms(builder, values, numbers) -> what is to be added up, from one element of each array and the numbers given. All
# are of one type: numbers, or vectors of some elements.
Terms = Callable[[Any, list[Any], list[Any]], list[Any]]


@functools.cache
def plain_sum(dtype: str) -> Any:
    """numba's function sum(x, count) -> the sum of `count` >= 0 numbers from the address x on."""
    add_up = _make_sums(dtype, real_of(dtype), 1, lambda builder, values, numbers: values)

    @inlined
    def sum_up(x, count):
        return add_up((x,), (), count)[0]

    return sum_up


@functools.cache
def sums_of_four(dtype: str) -> Any:
    """numba's function sums(x, step, count) -> four sums as of `plain_sum`, each `step` bytes after the one before.

    Where there are few numbers, deciding what there is to add takes longer than adding.
    """
    # The lanes of four sums of float64 are twice as many registers as AVX2 has: whole groups are added up one or two
    # sums at a time.
    registers = LANES // lanes_of(real_of(dtype)).vector
    # What is narrow is in registers, too, once it has been widened.
    left = _REGISTERS // 2 if dtype in STORED else _REGISTERS
    together = min(4, max(1, left // registers))
    add_up = _make_sums(dtype, real_of(dtype), 4, lambda builder, values, numbers: values, together=together)

    @inlined
    def sum_up(x, step, count):
        return add_up((x, x + step, x + 2 * step, x + 3 * step), (), count)

    return sum_up


@functools.cache
def plain_product(dtype: str, *, paired: bool = False) -> Any:
    """numba's function product(x, count) -> the product in float64 of `count` >= 0 numbers from the address x on.

    paired: whether two narrow numbers are multiplied in float32 first, of each two groups; that has to be exact.
    """
    multiply_all = _make_sums(
        dtype, "float64", 1, lambda builder, values, numbers: values, multiplies=True, paired=paired
    )

    @inlined
    def multiply(x, count):
        return multiply_all((x,), (), count)[0]

    return multiply


@functools.cache
def products_of_four(dtype: str, *, paired: bool = False) -> Any:
    """numba's function products(x, step, count) -> four products as of `plain_product`, laid out as `sums_of_four`."""
    # Beside the lanes there are the elements that have been widened, in registers, too.
    registers = LANES // lanes_of("float64").vector
    together = min(4, max(1, _REGISTERS // 2 // registers))
    multiply_all = _make_sums(
        dtype, "float64", 4, lambda builder, values, numbers: values, together=together, multiplies=True, paired=paired
    )

    @inlined
    def multiply(x, step, count):
        return multiply_all((x, x + step, x + 2 * step, x + 3 * step), (), count)

    return multiply


@functools.cache
def sum_of_exponentials(dtype: str) -> Any:
    """numba's function sum(x, p, count, top) -> the sum of p[i] = exp(x[i] - top), which it writes.

    p is float32 where x is narrow.
    top: of the x[i]; should it be less than one of them, which a NaN among them may bring about, the results are any.
    """

    if dtype in SIZES and LANES // lanes_of(dtype).vector >= _REGISTERS // 2:
        # Where the lanes fill half of the registers, exponentials leave none to keep them: they are added up behind.
        write_all, sum_all = make_write_exponentials(dtype), plain_sum(dtype)

        @inlined
        def write_then_sum(x, p, count, top):
            write_all(x, top, p, count)
            return sum_all(p, count)

        return write_then_sum

    # Four registers at a time: what is between for all of the lanes would not fit into the registers.
    most = 4 * lanes_of(real_of(dtype)).vector

    def terms(builder: Any, values: list[Any], numbers: list[Any]) -> list[Any]:
        return [write_exp(builder, builder.fsub(values[0], numbers[0]), falls=True)]

    add_up = _make_sums(dtype, real_of(dtype), 1, terms, stored_at_once=most)

    @inlined
    def write_in_vectors(x, p, count, top):
        return add_up((x, p), (top,), count)[0]

    return write_in_vectors


@functools.cache
def moments(dtype: str) -> Any:
    """numba's function moments(x, count, middle) -> the sums of d and of d * d, with d = x[i] - middle."""

    def terms(builder: Any, values: list[Any], numbers: list[Any]) -> list[Any]:
        d = builder.fsub(values[0], numbers[0])
        return [d, builder.fmul(d, d, flags=("contract",))]

    add_up = _make_sums(dtype, real_of(dtype), 2, terms)

    @inlined
    def sum_up(x, count, middle):
        return add_up((x,), (middle,), count)

    return sum_up


@functools.cache
def plain_and_mixed(dtype: str) -> Any:
    """numba's function sums(g, x, count, middle) -> the sums of g[i] and of g[i] * (x[i] - middle)."""

    def terms(builder: Any, values: list[Any], numbers: list[Any]) -> list[Any]:
        g, x = values
        return [g, builder.fmul(g, builder.fsub(x, numbers[0]), flags=("contract",))]

    add_up = _make_sums(dtype, real_of(dtype), 2, terms)

    @inlined
    def sum_up(g, x, count, middle):
        return add_up((g, x), (middle,), count)

    return sum_up


@functools.cache
def dot(dtype: str, sum_dtype: str) -> Any:
    """numba's function dot(a, b, count) -> the sum of a[i] * b[i], both of `dtype`, computed in `sum_dtype`."""

    def terms(builder: Any, values: list[Any], numbers: list[Any]) -> list[Any]:
        return [builder.fmul(*values, flags=("contract",))]

    add_up = _make_sums(dtype, sum_dtype, 1, terms)

    @inlined
    def sum_up(a, b, count):
        return add_up((a, b), (), count)[0]

    return sum_up


def _make_sums(
    dtype: str,
    sum_dtype: str,
    sums: int,
    terms: Terms,
    *,
    stored_at_once: int = 0,
    together: int | None = None,
    multiplies: bool = False,
    paired: bool = False,
) -> Any:
    """An intrinsic sums(addresses, numbers, count) -> a tuple of as many sums as there are terms.

    dtype: of the arrays at the addresses.  sum_dtype: of the numbers, the terms and the sums; float32 for narrow ones.
    stored_at_once: if not 0, the array at the last address is not read: the terms, of sum_dtype, are written to it, of
        so many elements at a time.
    together: of terms that are the elements themselves, how many sums of whole groups are made at a time; if not given,
        all.
    multiplies: whether terms are multiplied instead.  paired: of two groups of narrow ones in float32 first.
    """
    kind = Real(sum_dtype).kind

    def typing(typing_context: Any, addresses: Any, numbers: Any, count: Any) -> Any:
        given = types.UniTuple(kind, len(numbers)) if len(numbers) else numbers

        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            bases = [builder.extract_value(values[0], i) for i in range(len(addresses))]
            scalars = [builder.extract_value(values[1], i) for i in range(len(numbers))]
            given = bases, scalars, stored_at_once, together, multiplies, paired
            writer = _Sums(builder, dtype, sum_dtype, sums, terms, *given)
            return context.make_tuple(builder, signature.return_type, writer.write(values[2]))

        result = types.UniTuple(kind, sums)
        return result(types.UniTuple(types.int64, len(addresses)), given, types.int64), code

    typing.__name__ = typing.__qualname__ = "sums"
    typing.__doc__ = "Sums of terms."
    return intrinsic(typing)


class _Way(NamedTuple):
    """A block from where the code goes on to the next halving: with these lanes, the next term at this place."""

    block: Any
    lanes: list[Any]
    place: Any


class _Sums:
    """Writes the code of sums; the arguments are those of `_make_sums` and their values."""

    def __init__(
        self,
        builder: Any,
        dtype: str,
        sum_dtype: str,
        sums: int,
        terms: Terms,
        bases: list[Any],
        numbers: list[Any],
        stored_at_once: int,
        together: int | None,
        multiplies: bool,
        paired: bool,
    ) -> None:
        self._builder, self._w, self._count, self._terms, self._numbers = builder, Writer(builder), sums, terms, numbers
        self._together, self._multiplies, self._neutral = together, multiplies, float(multiplies)
        self._is_paired = paired
        self._dtype, self._read, self._summed = dtype, _IR[dtype], _IR[sum_dtype]
        self._alignment, self._stored_alignment = item_bytes(dtype), item_bytes(sum_dtype)
        self._stored_at_once = stored_at_once
        self._target = builder.inttoptr(bases.pop(), self._summed.as_pointer()) if stored_at_once else None
        self._bases = [builder.inttoptr(base, self._read.as_pointer()) for base in bases]

    def write(self, count: Any) -> list[Any]:
        """The sums of the first `count` elements."""
        builder, number = self._builder, self._w.number
        groups = builder.ashr(count, number(LANES.bit_length() - 1))
        whole, fewer = builder.append_basic_block("groups"), builder.append_basic_block("no_group")
        builder.cbranch(builder.icmp_signed(">", groups, number(0)), whole, fewer)
        builder.position_at_end(whole)
        lanes = []
        for bases, sums in self._sets():
            lanes += self._add_groups(groups, bases, sums)
        ways = [_Way(builder.basic_block, lanes, builder.mul(groups, number(LANES)))]
        # Few terms begin with as many lanes as there are terms for: lanes of nothing but zeros are not halved.
        width = LANES
        while width > 1:
            width //= 2
            halved = self._halve(ways, width, count)
            first, fewer = self._begin(fewer, width, count)
            ways = [halved, first]
        zeros = [self._zero(1)] * self._count
        return self._join([*ways, _Way(fewer, zeros, number(0))], "summed").lanes

    def _sets(self) -> list[tuple[list[Any], int]]:
        """The arrays whose sums of whole groups are made at a time, and how many sums these are."""
        bases = self._bases
        if self._together is None:
            return [(bases, self._count)]
        sets = [bases[first:][: self._together] for first in range(0, len(bases), self._together)]
        return [(some, len(some)) for some in sets]

    def _add_groups(self, groups: Any, bases: list[Any], sums: int) -> list[Any]:
        """Lanes with the terms of whole groups, at least one."""
        builder, w = self._builder, self._w
        totals = self._add_run(w.number(0), groups, bases, sums)
        more = builder.ashr(builder.sub(groups, w.number(1)), w.number(GROUPS.bit_length() - 1))
        with w.counted(more, totals) as (block, before, following):
            first = builder.mul(builder.add(block, w.number(1)), w.number(GROUPS))
            run = self._add_run(first, builder.sub(groups, first), bases, sums)
            following += [self._sum(total, lane) for total, lane in zip(before, run, strict=True)]
        return following

    def _add_run(self, first: Any, left: Any, bases: list[Any], sums: int) -> list[Any]:
        """Lanes with the terms of the next groups, `left` of them or as many as make one running sum."""
        builder, w = self._builder, self._w
        few = builder.select(builder.icmp_signed("<", left, w.number(GROUPS)), left, w.number(GROUPS))
        begun = [self._zero(LANES)] * sums
        if self._is_paired:
            with w.counted(builder.ashr(few, w.number(1)), begun) as (pair, lanes, following):
                # Opaque: LLVM would write out all rounds of so few, for each of the callers.
                group = w.opaque(builder.add(first, builder.add(pair, pair)))
                following += self._multiplied(lanes, builder.mul(group, w.number(LANES)), bases)
            begun = following
            first, few = builder.add(first, builder.and_(few, w.number(-2))), builder.and_(few, w.number(1))
        with w.counted(few, begun) as (i, lanes, following):
            following += self._added(lanes, builder.mul(builder.add(first, i), w.number(LANES)), LANES, bases)
        return following

    def _multiplied(self, lanes: list[Any], place: Any, bases: list[Any]) -> list[Any]:
        """All lanes, multiplied by the elements of two groups from `place` on in each of the arrays."""
        builder, wide = self._builder, _kind(self._summed, LANES)
        places = place, builder.add(place, self._w.number(LANES))
        pairs = [builder.fmul(*(self._elements(base, at, LANES) for at in places)) for base in bases]
        return [self._sum(lane, builder.fpext(pair, wide)) for lane, pair in zip(lanes, pairs, strict=True)]

    def _halve(self, ways: list[_Way], width: int, count: Any) -> _Way:
        """To `width` lanes, and `width` terms more if there are so many."""
        builder = self._builder
        before = self._join(ways, f"halve_{width}")
        half = self._half_of_pairs if self._are_pairs(2 * width) else self._half
        lanes = [half(lane, width) for lane in before.lanes]
        more = builder.append_basic_block(f"add_{width}")
        without = _Way(builder.basic_block, lanes, before.place)
        done = builder.append_basic_block(f"added_{width}")
        builder.cbranch(self._has(count, width), more, done)
        builder.position_at_end(more)
        added = self._added(lanes, before.place, width, self._bases)
        with_them = _Way(more, added, builder.add(before.place, self._w.number(width)))
        builder.branch(done)
        builder.position_at_end(done)
        return self._merged([without, with_them])

    def _begin(self, block: Any, width: int, count: Any) -> tuple[_Way, Any]:
        """From `block`, where nothing is added up yet: with `width` terms, and the block for fewer of them."""
        builder = self._builder
        first, fewer = builder.append_basic_block(f"first_{width}"), builder.append_basic_block(f"below_{width}")
        builder.position_at_end(block)
        builder.cbranch(self._has(count, width), first, fewer)
        builder.position_at_end(first)
        lanes = self._added([self._zero(width)] * self._count, self._w.number(0), width, self._bases)
        return _Way(first, lanes, self._w.number(width)), fewer

    def _has(self, count: Any, width: int) -> Any:
        """Whether `width` of the terms that fill no group belong together."""
        builder, number = self._builder, self._w.number
        return builder.icmp_signed("!=", builder.and_(count, number(width)), number(0))

    def _added(self, lanes: list[Any], place: Any, width: int, bases: list[Any]) -> list[Any]:
        """`width` lanes and the terms of the elements from `place` on in the arrays at `bases`."""
        builder, summed = self._builder, _kind(self._summed, width)
        if self._target is not None:
            return [self._stored(lanes[0], place)]
        values = [self._elements(base, place, width) for base in bases]
        values = [value if value.type == summed else builder.fpext(value, summed) for value in values]
        terms = self._terms(builder, values, [self._splat(number, width) for number in self._numbers])
        # A product is added in one step where the processor has one for that.
        return [self._sum(lane, term, "contract") for lane, term in zip(lanes, terms, strict=True)]

    def _elements(self, base: Any, place: Any, width: int) -> Any:
        """`width` elements from `place` on; narrow ones as float32."""
        builder, read = self._builder, _kind(self._read, width)
        pointer = builder.bitcast(self._w.at(base, place), read.as_pointer())
        value = builder.load(pointer, align=self._alignment, typ=read)
        if self._are_pairs(width):
            words = builder.bitcast(value, ir.VectorType(_INT32, width // 2))
            return _joined(builder, list(pair_to_floats(builder, words)))
        return widened(self._w, value, self._dtype, width) if self._dtype in STORED else value

    def _are_pairs(self, width: int) -> bool:
        """Whether so many lanes are those of pairs: the even ones first, then the odd ones."""
        return self._dtype == "bfloat16" and width == LANES and self._target is None

    def _half_of_pairs(self, lanes: Any, width: int) -> Any:
        """As `_half`, of lanes of pairs; then all are in their order."""
        even, odd = range(width), range(width, 2 * width)
        lower, upper = ([*even[part], *odd[part]] for part in (slice(width // 2), slice(width // 2, None)))
        halved = self._sum(self._picked(lanes, lower), self._picked(lanes, upper))
        return self._picked(halved, [first + i for i in range(width // 2) for first in (0, width // 2)])

    def _sum(self, a: Any, b: Any, *flags: str) -> Any:
        return (self._builder.fmul if self._multiplies else self._builder.fadd)(a, b, flags=flags)

    def _stored(self, lanes: Any, place: Any) -> Any:
        """The same of a term that is written, part by part: LLVM would rather begin with all of them."""
        builder, sums = self._builder, []
        for number, lane in enumerate(_parts(builder, lanes, self._stored_at_once)):
            at = builder.add(place, self._w.number(number * self._stored_at_once))
            width = lane.type.count if isinstance(lane.type, ir.VectorType) else 1
            value = self._elements(self._bases[0], at, width)
            (term,) = self._terms(builder, [value], [self._splat(number, width) for number in self._numbers])
            target = builder.bitcast(self._w.at(self._target, at), lane.type.as_pointer())
            builder.store(term, target, align=self._stored_alignment)
            self._w.keep_order()
            sums.append(self._sum(lane, term))
        return _joined(builder, sums)

    def _half(self, lanes: Any, width: int) -> Any:
        builder = self._builder
        if width == 1:
            return self._sum(*(builder.extract_element(lanes, ir.Constant(_INT32, i)) for i in range(2)))
        return self._sum(*(self._picked(lanes, range(i, i + width)) for i in (0, width)))

    def _picked(self, lanes: Any, places: Sequence[int]) -> Any:
        order = ir.Constant(ir.VectorType(_INT32, len(places)), list(places))
        return self._builder.shuffle_vector(lanes, ir.Constant(lanes.type, ir.Undefined), order)

    def _splat(self, number: Any, width: int) -> Any:
        if width == 1:
            return number
        undefined = ir.Constant(ir.VectorType(self._summed, width), ir.Undefined)
        first = self._builder.insert_element(undefined, number, ir.Constant(_INT32, 0))
        return self._builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INT32, width), None))

    def _zero(self, width: int) -> Any:
        """What is added up begins with it: 0, or 1 of products."""
        return ir.Constant(_kind(self._summed, width), self._neutral if width == 1 else [self._neutral] * width)

    def _join(self, ways: list[_Way], name: str) -> _Way:
        """A new block that all of them lead to."""
        block = self._builder.append_basic_block(name)
        for way in ways:
            self._builder.position_at_end(way.block)
            self._builder.branch(block)
        self._builder.position_at_end(block)
        return self._merged(ways)

    def _merged(self, ways: list[_Way]) -> _Way:
        """In the block at hand, to which all of them lead."""

        def choose(values: list[Any]) -> Any:
            phi = self._builder.phi(values[0].type)
            for value, way in zip(values, ways, strict=True):
                phi.add_incoming(value, way.block)
            return phi

        lanes = [choose([way.lanes[i] for way in ways]) for i in range(self._count)]
        return _Way(self._builder.basic_block, lanes, choose([way.place for way in ways]))


def _parts(builder: Any, value: Any, most: int) -> list[Any]:
    """A number, or a vector in parts of at most so many elements, a power of two."""
    width = value.type.count if isinstance(value.type, ir.VectorType) else 1
    if width <= most:
        return [value]
    undefined = ir.Constant(value.type, ir.Undefined)
    places = [ir.Constant(ir.VectorType(_INT32, most), list(range(i, i + most))) for i in range(0, width, most)]
    return [builder.shuffle_vector(value, undefined, place) for place in places]


def _joined(builder: Any, parts: list[Any]) -> Any:
    """The other way."""
    while len(parts) > 1:
        width = 2 * parts[0].type.count
        places = ir.Constant(ir.VectorType(_INT32, width), list(range(width)))
        parts = [builder.shuffle_vector(a, b, places) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _kind(kind: Any, width: int) -> Any:
    return kind if width == 1 else ir.VectorType(kind, width)
