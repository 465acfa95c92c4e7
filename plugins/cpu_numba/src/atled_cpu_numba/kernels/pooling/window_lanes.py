"""numba intrinsics for one window, or one element, of many images at once: those lie side by side, in vectors.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Images of float16 and bfloat16 are computed in float32, and what is stored is rounded: a sum of several (`adds`) must
not be of these.
A table has int64 offsets in elements: of a window's elements in their C order, or of the windows that see an element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.narrow_writer import memory_intrinsic
from atled_cpu_numba.kernels.shared.vectors import Writer

_AT_ONCE = 4  # vectors: so many hide the latency of what is computed on one
_INT8, _INT32, _INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)


def _pieces(w: Writer, inner: Any, write: Callable[[list[Any], Any], None]) -> None:
    """Have `write` emit code for the vectors at given elements: together all of `inner`, and none behind them.

    The last vector may overlap the one before; so what is written must not be read. Of less than a vector a mask tells
    the lanes; else that is None, since masks cost more.
    """
    builder = w.builder
    with builder.if_else(builder.icmp_signed(">=", inner, w.number(w.width))) as (many, few):
        with many:
            begun = _several(w, inner, write)
            left = builder.add(builder.sub(inner, begun), w.number(w.width - 1))
            last = builder.sub(inner, w.number(w.width))
            with w.counted(builder.sdiv(left, w.number(w.width)), []) as (i, _, _following):
                at = builder.add(begun, builder.mul(i, w.number(w.width)))
                write([builder.select(builder.icmp_signed("<", at, last), at, last)], None)
        with few:
            write([w.number(0)], w.first_lanes(inner))


def _pieces_apart(w: Writer, inner: Any, write: Callable[[list[Any], Any], None]) -> None:
    """The same without overlaps, so that what is written may be read; the last vector has a mask where it is none."""
    builder = w.builder
    begun = _several(w, inner, write)
    whole = builder.sdiv(builder.sub(inner, begun), w.number(w.width))
    with w.counted(whole, []) as (i, _, _following):
        write([builder.add(begun, builder.mul(i, w.number(w.width)))], None)
    at = builder.add(begun, builder.mul(whole, w.number(w.width)))
    left = builder.sub(inner, at)
    with builder.if_then(builder.icmp_signed(">", left, w.number(0))):
        write([at], w.first_lanes(left))


def _several(w: Writer, inner: Any, write: Callable[[list[Any], Any], None]) -> Any:
    """The elements of which there are several vectors at once: so many of `inner`."""
    builder = w.builder
    step = w.width * _AT_ONCE
    rounds = builder.sdiv(inner, w.number(step))
    with w.counted(rounds, []) as (i, _, _following):
        start = builder.mul(i, w.number(step))
        write([builder.add(start, w.number(w.width * j)) for j in range(_AT_ONCE)], None)
    return builder.mul(rounds, w.number(step))


def _load(w: Writer, pointer: Any, mask: Any) -> Any:
    return w.load(pointer) if mask is None else w.load_masked(pointer, mask)


def _store(w: Writer, value: Any, pointer: Any, mask: Any) -> None:
    if mask is None:
        w.store(value, pointer)
    else:
        w.store_masked(value, pointer, mask)


def _entry(w: Writer, table: Any, number: Any) -> Any:
    """An entry of a table."""
    return w.builder.load(w.builder.gep(table, [number]), typ=_INT64)


def _table(w: Writer, address: Any) -> Any:
    return w.builder.inttoptr(address, _INT64.as_pointer())


def _lanes_of(w: Writer, number: Any) -> Any:
    """An int64 as a vector of int32."""
    return w.splat(w.builder.trunc(number, _INT32), ir.VectorType(_INT32, w.width))


def _load_places(w: Writer, place: Any, at: Any, mask: Any) -> Any:
    """Places as int32."""
    kinds, lanes = ir.VectorType(_INT8, w.width), ir.VectorType(_INT32, w.width)
    address = w.builder.inttoptr(w.builder.add(place, at), kinds.as_pointer())
    if mask is None:
        return w.builder.zext(w.builder.load(address, align=1, typ=kinds), lanes)
    none = ir.Constant(kinds, [0] * w.width)
    kind = [address.type, _INT32, mask.type, kinds]
    function = w.declare(f"llvm.masked.load.v{w.width}i8.p0", kinds, kind)
    return w.builder.zext(w.builder.call(function, [address, ir.Constant(_INT32, 1), mask, none]), lanes)


def _store_places(w: Writer, values: Any, place: Any, at: Any, mask: Any) -> None:
    """Store int32 places as bytes."""
    kinds = ir.VectorType(_INT8, w.width)
    address = w.builder.inttoptr(w.builder.add(place, at), kinds.as_pointer())
    narrow = w.builder.trunc(values, kinds)
    if mask is None:
        w.builder.store(narrow, address, align=1)
        return
    kind = [kinds, address.type, _INT32, mask.type]
    function = w.declare(f"llvm.masked.store.v{w.width}i8.p0", ir.VoidType(), kind)
    w.builder.call(function, [narrow, address, ir.Constant(_INT32, 1), mask])


def make_max_of_window(dtype: str, *, numbered: bool = False) -> Any:
    """An intrinsic max((table, numbers, count, x, y, place, inner)): y the maxima of `count` >= 1 elements.

    place: address of uint8, which of them they are. The first of equal ones, the first NaN if there is one.
    numbers: with `numbered` a table of what the elements are called; else they are counted, and it is not read.
    """

    def generate(w, table, numbers, count, x, y, place, inner):
        builder = w.builder
        table, numbers, x, y = _table(w, table), _table(w, numbers), w.pointer(x), w.pointer(y)

        def called(number):
            return _lanes_of(w, _entry(w, numbers, number) if numbered else number)

        def write(places, mask):
            begin = w.at(x, _entry(w, table, w.number(0)))
            first = [_load(w, w.at(begin, at), mask) for at in places]
            with w.counted(builder.sub(count, w.number(1)), [*first, *[called(w.number(0))] * len(places)]) as round_:
                i, phis, following = round_
                number = builder.add(i, w.number(1))
                begin, own = w.at(x, _entry(w, table, number)), called(number)
                best, found = phis[: len(places)], phis[len(places) :]
                values = [_load(w, w.at(begin, at), mask) for at in places]
                # Greater, or the first NaN.
                wins = [
                    builder.and_(builder.fcmp_unordered(">", value, one), builder.fcmp_ordered("ord", one, one))
                    for value, one in zip(values, best, strict=True)
                ]
                following += [builder.select(*each) for each in zip(wins, values, best, strict=True)]
                following += [builder.select(win, own, one) for win, one in zip(wins, found, strict=True)]
            for at, best, found in zip(places, following, following[len(places) :], strict=False):
                _store(w, best, w.at(y, at), mask)
                _store_places(w, found, place, at, mask)

        _pieces(w, inner, write)

    doc = "Maxima of windows; see make_max_of_window."
    return memory_intrinsic("max_of_window", 7, generate, doc, dtype, moves=True, compared=True)


def make_sum_of_window(dtype: str, *, squares: bool) -> Any:
    """An intrinsic sum((table, count, x, y, divisor, inner)): y the sums of `count` elements, divided.

    squares: of the squares, and y the root of that, which is not divided.
    """

    def generate(w, table, count, x, y, divisor, inner):
        builder = w.builder
        table, x, y = _table(w, table), w.pointer(x), w.pointer(y)
        divisors = w.splat(builder.sitofp(divisor, w.float))

        def write(places, mask):
            with w.counted(count, [w.zeros] * len(places)) as (i, sums, following):
                begin = w.at(x, _entry(w, table, i))
                values = [_load(w, w.at(begin, at), mask) for at in places]
                for value, total in zip(values, sums, strict=True):
                    following.append(w.multiply_add(value, value, total) if squares else builder.fadd(total, value))
            root = w.declare(f"llvm.sqrt.{w.code}", w.vector, [w.vector]) if squares else None
            for at, total in zip(places, following, strict=True):
                made = builder.fdiv(total, divisors) if root is None else builder.call(root, [total])
                _store(w, made, w.at(y, at), mask)

        _pieces(w, inner, write)

    return memory_intrinsic("sum_of_window", 6, generate, "Sums of windows; see make_sum_of_window.", dtype)


def make_to_elements(dtype: str, *, placed: bool, adds: bool, numbered: bool = False) -> Any:
    """An intrinsic give((table, numbers, count, gy, number, gx, inner)) of gx of the elements of a window.

    number: with `placed` the address of the places, and gy counts for the element that is there, 0 for the others; else
    the divisor of gy, which counts for all.
    adds: to what is in gx; else it is overwritten.
    numbers: with `numbered` a table of what places call the elements; else they are counted, and it is not read.
    """

    def generate(w, table, numbers, count, gy, number, gx, inner):
        builder = w.builder
        table, numbers, gy, gx = _table(w, table), _table(w, numbers), w.pointer(gy), w.pointer(gx)

        def write(places, mask):
            values = [_load(w, w.at(gy, at), mask) for at in places]
            found = [_load_places(w, number, at, mask) for at in places] if placed else [None] * len(places)
            if not placed:
                factors = w.splat(_reciprocal(w, number))
                values = [builder.fmul(value, factors) for value in values]
            with w.counted(count, []) as (i, _, _following):
                begin = w.at(gx, _entry(w, table, i))
                own = _lanes_of(w, _entry(w, numbers, i) if numbered else i)
                for at, value, one in zip(places, values, found, strict=True):
                    given = builder.select(builder.icmp_signed("==", one, own), value, w.zeros) if placed else value
                    if adds:
                        given = builder.fadd(_load(w, w.at(begin, at), mask), given)
                    _store(w, given, w.at(begin, at), mask)

        (_pieces_apart if adds else _pieces)(w, inner, write)

    doc = "What windows give elements; see make_to_elements."
    return memory_intrinsic("to_elements", 7, generate, doc, dtype, moves=placed and not adds)


def _reciprocal(w: Writer, divisor: Any) -> Any:
    """One division, not one per element; for a power of two it is exact."""
    return w.builder.fdiv(ir.Constant(w.float, 1.0), w.builder.sitofp(divisor, w.float))


def make_element_sum(dtype: str, *, placed: bool) -> Any:
    """An intrinsic sum((table, numbers, count, gy, place, gx, inner)): gx of an element, the sums over some windows.

    numbers: per window an int64: with `placed` the element's own place, elsewhere gy counts as 0; else the divisor.
    """

    def generate(w, table, numbers, count, gy, place, gx, inner):
        builder = w.builder
        table, numbers, gy, gx = _table(w, table), _table(w, numbers), w.pointer(gy), w.pointer(gx)

        def write(places, mask):
            with w.counted(count, [w.zeros] * len(places)) as (i, sums, following):
                window, number = _entry(w, table, i), _entry(w, numbers, i)
                begin = w.at(gy, window)
                values = [_load(w, w.at(begin, at), mask) for at in places]
                if placed:
                    own = _lanes_of(w, number)
                    found = [_load_places(w, builder.add(place, window), at, mask) for at in places]
                    are_own = [builder.icmp_signed("==", one, own) for one in found]
                    values = [builder.select(is_own, v, w.zeros) for is_own, v in zip(are_own, values, strict=True)]
                else:
                    factors = w.splat(_reciprocal(w, number))
                    values = [builder.fmul(value, factors) for value in values]
                following += [builder.fadd(total, value) for total, value in zip(sums, values, strict=True)]
            for at, total in zip(places, following, strict=True):
                _store(w, total, w.at(gx, at), mask)

        _pieces(w, inner, write)

    return memory_intrinsic("element_sum", 7, generate, "Sums over windows; see make_element_sum.", dtype)
