"""numba intrinsics that widen rows of float16 or bfloat16 to float32, and round them back.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Addresses are int64 in bytes, strides and counts are int64 in elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from atled_cpu_numba.kernels.shared.options import Real, inlined
from atled_cpu_numba.kernels.shared.vectors import Writer, vector_intrinsic

_INT16, _INT32 = ir.IntType(16), ir.IntType(32)
_FLOAT = ir.FloatType()
STORED = {"float16": ir.HalfType(), "bfloat16": _INT16}
"""Types of numbers in memory, by dtype."""
_UPPER = 0xFFFF0000  # the mask of an upper half
_ROUND_DOWN = 0x7FFF  # added to the bits that are cut off: just less than half of the last one that stays
_ONE = 0x3F800000  # the bits of 1
_QUIET = 64  # in a NaN: its other digits may all be cut off


def _kind(element: Any, lanes: int) -> Any:
    return element if lanes == 1 else ir.VectorType(element, lanes)


def _number(value: int, lanes: int) -> Any:
    kind = _kind(_INT32, lanes)
    return ir.Constant(kind, value if lanes == 1 else [value] * lanes)


def widened(w: Writer, value: Any, dtype: str, lanes: int) -> Any:
    """Floats of a number, or a vector of `lanes`, of STORED[dtype]."""
    builder = w.builder
    if dtype == "float16":
        return builder.fpext(value, _kind(_FLOAT, lanes))
    bits = builder.shl(builder.zext(value, _kind(_INT32, lanes)), _number(16, lanes))
    return builder.bitcast(bits, _kind(_FLOAT, lanes))


def pair_to_floats(builder: Any, words: Any) -> tuple[Any, Any]:
    """Of a vector of words of two bfloat16 the even and the odd elements as floats, by a shift and a mask."""
    lanes = words.type.count
    even, odd = builder.shl(words, _number(16, lanes)), builder.and_(words, _number(_UPPER, lanes))
    floats = ir.VectorType(_FLOAT, lanes)
    return builder.bitcast(even, floats), builder.bitcast(odd, floats)


def rounded(w: Writer, value: Any, dtype: str, lanes: int, *, from_narrow: bool = False) -> Any:
    """To nearest and even; bfloat16 by integer arithmetic, as the instruction for it takes denormals for zeros.

    from_narrow: whether the value comes of nothing but numbers of `dtype`, by arithmetic.
    """
    builder = w.builder
    if dtype == "float16":
        return builder.fptrunc(value, _kind(ir.HalfType(), lanes))
    rounded = builder.lshr(rounded_bits(w, value, lanes), _number(16, lanes))
    if from_narrow:
        # The digits that are cut off are 0 in every NaN of bfloat16, so in those that processors make of them and of
        # numbers, too: nothing is carried into the sign, and the bit that tells a NaN from infinity stays.
        return builder.trunc(rounded, _kind(_INT16, lanes))
    upper = builder.lshr(builder.bitcast(value, _kind(_INT32, lanes)), _number(16, lanes))
    quiet = builder.or_(upper, _number(_QUIET, lanes))
    chosen = builder.select(builder.fcmp_unordered("uno", value, value), quiet, rounded)
    return builder.trunc(chosen, _kind(_INT16, lanes))


def rounded_bits(w: Writer, value: Any, lanes: int) -> Any:
    """The bits of floats, the upper halves of which are rounded to bfloat16; what is below them is any."""
    builder = w.builder
    bits = builder.bitcast(value, _kind(_INT32, lanes))
    upper = builder.lshr(bits, _number(16, lanes))
    added = builder.add(builder.and_(upper, _number(1, lanes)), _number(_ROUND_DOWN, lanes))
    return builder.add(bits, added)


def _make_rows(name: str, source: Any, target: Any, sizes: tuple[int, int], whole: int, convert: Any) -> Any:
    """An intrinsic that converts rows; sizes: bytes of an element.  whole: the count that is quickest."""

    def generate(w, source_at, source_row, target_at, target_row, rows, count):
        builder = w.builder

        def place(address, number, size):
            return builder.add(address, builder.mul(number, w.number(size)))

        def convert_part(x, y, at, lanes):
            origin = builder.inttoptr(place(x, at, sizes[0]), _kind(source, lanes).as_pointer())
            goal = builder.inttoptr(place(y, at, sizes[1]), _kind(target, lanes).as_pointer())
            value = builder.load(origin, align=sizes[0], typ=_kind(source, lanes))
            builder.store(convert(w, value, lanes), goal, align=sizes[1])

        def over_rows(convert_row: Callable[[Any, Any], None]) -> None:
            with w.counted(rows, [source_at, target_at]) as (_, (x, y), following):
                convert_row(x, y)
                following += [place(x, source_row, sizes[0]), place(y, target_row, sizes[1])]

        def whole_row(x, y):
            for at in range(0, whole, w.width):
                convert_part(x, y, w.number(at), w.width)

        def any_row(x, y):
            vectors = builder.sdiv(count, w.number(w.width))
            with w.counted(vectors, []) as (i, _, _following):
                convert_part(x, y, builder.mul(i, w.number(w.width)), w.width)
            done, lanes = builder.mul(vectors, w.number(w.width)), w.width
            # One by one, each would wait for the one before, into whose register x86 puts what it reads of 16 bits.
            while lanes > 1:
                lanes //= 2
                part = builder.and_(count, w.number(lanes))
                with builder.if_then(builder.icmp_signed("!=", part, w.number(0))):
                    convert_part(x, y, done, lanes)
                done = builder.add(done, part)

        with builder.if_else(builder.icmp_signed("==", count, w.number(whole))) as (then, otherwise):
            with then:
                over_rows(whole_row)
            with otherwise:
                over_rows(any_row)

    return vector_intrinsic(name, 6, generate, "Convert rows of floats; see make_widen_rows.")


def make_widen_rows(dtype: str, whole: int) -> Any:
    """An intrinsic widen_rows((source, source_row, target, target_row, rows, count)): float32 of narrow floats.

    target[r * target_row + i] = source[r * source_row + i], r < rows, i < count.
    dtype: "float16" or "bfloat16".  whole: the count for which it is quickest, a multiple of the vector width.
    """
    return _make_rows("widen_rows", STORED[dtype], _FLOAT, (2, 4), whole, lambda w, v, n: widened(w, v, dtype, n))


def make_narrow_rows(dtype: str, whole: int) -> Any:
    """The same from float32 to narrow floats, rounded to nearest and even."""
    return _make_rows("narrow_rows", _FLOAT, STORED[dtype], (4, 2), whole, lambda w, v, n: rounded(w, v, dtype, n))


def opaque_one(builder: Any) -> Any:
    """A float32 of 1 that LLVM takes for any number.

    It compares numbers that it knows to be widened float16 as they were before, for which most processors have no
    instruction: element by element, thirty times as long. Of products it does not know that.
    """
    # No instruction, of which LLVM is told that it changes a register: llvmlite writes no volatile loads.
    kind = ir.FunctionType(_INT32, [_INT32])
    return builder.bitcast(builder.asm(kind, "", "=r,0", [ir.Constant(_INT32, _ONE)], False), _FLOAT)


def make_reading(dtype: str, *, compared: bool = False) -> tuple[Any, Any]:
    """numba's functions elements(address) and read(elements, i) -> element i from the address on.

    For loops that LLVM vectorizes.
    dtype: any; narrow ones are read as float32.  compared: whether what is read is compared with each other.
    """

    @inlined
    def itself(address):
        return address

    @inlined
    def element(pointer, i):
        return pointer[i]

    if dtype not in STORED:
        return Real(dtype).pointer, element
    load = make_element_access(dtype)[0]
    if dtype != "float16" or not compared:
        return itself, load

    @intrinsic
    def one(typing_context):
        return types.float32(), lambda context, builder, signature, values: opaque_one(builder)

    @inlined
    def with_one(address):
        return address, one()

    @inlined
    def opaque(pointer, i):
        return load(pointer[0], i) * pointer[1]

    return with_one, opaque


def make_writing(dtype: str, *, alone: bool = False) -> Any:
    """numba's function write(elements, i, value), elements as `make_reading` has them: narrow ones are rounded.

    For loops that LLVM vectorizes.
    alone: as of `make_element_access`.
    """
    if dtype in STORED:
        return make_element_access(dtype, alone=alone)[1]

    @inlined
    def write(pointer, i, value):
        pointer[i] = value

    return write


def make_element_access(dtype: str, *, alone: bool = False) -> tuple[Any, Any]:
    """Intrinsics load_element(address, i) -> the float32 of element i there, and store_element(address, i, value).

    For loops that LLVM vectorizes.
    alone: whether what is stored comes of nothing but what was loaded, and constants: `from_narrow` of `rounded`.
    """
    stored = STORED[dtype]

    def place(builder: Any, address: Any, i: Any) -> Any:
        return builder.gep(builder.inttoptr(address, stored.as_pointer()), [i])

    def load_element(typing_context, address, i):
        def code(context, builder, signature, values):
            value = builder.load(place(builder, *values), align=2, typ=stored)
            return widened(Writer(builder), value, dtype, 1)

        return types.float32(types.int64, types.int64), code

    def store_element(typing_context, address, i, value):
        def code(context, builder, signature, values):
            result = rounded(Writer(builder), values[2], dtype, 1, from_narrow=alone)
            builder.store(result, place(builder, *values[:2]), align=2)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.float32), code

    return intrinsic(load_element), intrinsic(store_element)
