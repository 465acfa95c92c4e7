"""numba intrinsics for maxima of windows, with or without places: along the rows of a plane, then across them.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
All vectors are whole: rows in the workspace have room for them. Of equal maxima the first counts, and so does the first
NaN. What is outside of the plane is -inf: it is no window's maximum, unless the window's first element is that, too,
whose place the search begins with.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.vectors import Writer, vector_intrinsic
from atled_cpu_numba.kernels.shared.window_rows import load_pairs, store_whole_numbers

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


def _numbers(w: Writer) -> Any:
    """The type of a vector of places."""
    return ir.VectorType(_INT32, w.width)


def _splat(w: Writer, value: Any) -> Any:
    """An int64 as a vector of int32."""
    return w.splat(w.builder.trunc(value, _INT32), _numbers(w))


def _places_at(w: Writer, address: Any, j: Any) -> Any:
    """A pointer to the vector of places behind `j` of them."""
    address = w.builder.add(address, w.builder.mul(j, w.number(4)))
    return w.builder.inttoptr(address, _numbers(w).as_pointer())


def _load_places(w: Writer, address: Any, j: Any) -> Any:
    return w.builder.load(_places_at(w, address, j), align=4, typ=_numbers(w))


def _choose(w: Writer, seen: list[Any], best: list[Any]) -> list[Any]:
    """What is greater, or the first NaN, each with its place or without."""
    value, found = seen[0], best[0]
    wins = w.builder.and_(w.builder.fcmp_unordered(">", value, found), w.builder.fcmp_ordered("ord", found, found))
    return [w.builder.select(wins, *each) for each in zip(seen, best, strict=True)]


def make_maxima_along(dtype: str, *, places: bool) -> Any:
    """An intrinsic for the maxima along one row and, with `places`, their taps.

    maxima_along((source, taps, tap_count, starts, best, place, vectors)):
    taps: address of `tap_count` >= 1 int64: how many elements behind `source` what the first window sees by a tap is;
        for the window beside it that is the next one.
    starts: address of int32: the first tap of each window that sees an element of the plane.
    best, place: addresses of the results, floats and int32, for so many vectors of windows.
    """

    def generate(w, source, taps, tap_count, starts, best_at, place_at, vectors):
        builder = w.builder
        source, best_at = w.pointer(source), w.pointer(best_at)
        taps = builder.inttoptr(taps, _INT64.as_pointer())

        def seen(number: Any, j: Any) -> Any:
            return w.load(w.at(w.at(source, builder.load(builder.gep(taps, [number]), typ=_INT64)), j))

        with w.counted(vectors, []) as (i, _, _following):
            j = builder.mul(i, w.number(w.width))
            first = [seen(w.number(0), j), *([_load_places(w, starts, j)] if places else [])]
            with w.counted(builder.sub(tap_count, w.number(1)), first) as (s, best, following):
                number = builder.add(s, w.number(1))
                following += _choose(w, [seen(number, j), *([_splat(w, number)] if places else [])], best)
            w.store(following[0], w.at(best_at, j))
            if places:
                builder.store(following[1], _places_at(w, place_at, j), align=4)

    return vector_intrinsic("maxima_along", 7, generate, "See make_maxima_along.", dtype)


def make_maxima_across(dtype: str, *, places: bool) -> Any:
    """An intrinsic for the maxima across rows of `maxima_along` and, with `places`, their places in the windows.

    maxima_across((best, place, pitch, slot, slots, rows, begin, taps, left, y, place, wide)):
    best, place: addresses of the results of `slots` rows, `pitch` apart, whole vectors.
    slot, rows: the first row that the windows see, and of how many in a circle, at least one.
    begin: the place of its first tap.  taps: of a row.
    y, place: addresses of what is written; left: elements from there that may be.
    wide: 1 if places are int32, 0 if they are bytes.
    """

    def generate(w, best_at, place_at, pitch, slot, slots, rows, begin, taps, left, y, place, wide):
        builder = w.builder
        best_at, y = w.pointer(best_at), w.pointer(y)

        def row(slot: Any, number: Any, j: Any) -> list[Any]:
            at = builder.add(builder.mul(slot, pitch), j)
            found = [builder.add(_load_places(w, place_at, at), _splat(w, number))] if places else []
            return [w.load(w.at(best_at, at)), *found]

        def store(made: list[Any], j: Any, mask: Any) -> None:
            if mask is None:
                w.store(made[0], w.at(y, j))
            else:
                w.store_masked(made[0], w.at(y, j), mask)
            if not places:
                return
            with builder.if_else(builder.icmp_signed("!=", wide, w.number(0))) as (then, otherwise):
                with then:
                    store_whole_numbers(w, made[1], builder.add(place, builder.mul(j, w.number(4))), 32, mask)
                with otherwise:
                    store_whole_numbers(w, made[1], builder.add(place, j), 8, mask)

        with w.counted(builder.sdiv(pitch, w.number(w.width)), []) as (i, _, _following):
            j = builder.mul(i, w.number(w.width))
            carried = [slot, begin, *row(slot, begin, j)]
            with w.counted(builder.sub(rows, w.number(1)), carried) as (_, (before, number, *best), following):
                behind, number = builder.add(before, w.number(1)), builder.add(number, taps)
                behind = builder.select(builder.icmp_signed("==", behind, slots), w.number(0), behind)
                following += [behind, number, *_choose(w, row(behind, number, j), best)]
            made, rest = following[2:], builder.sub(left, j)
            with builder.if_else(builder.icmp_signed(">=", rest, w.number(w.width))) as (whole, cut):
                with whole:
                    store(made, j, None)
                with cut:
                    store(made, j, w.first_lanes(rest))

    return vector_intrinsic("maxima_across", 12, generate, "See make_maxima_across.", dtype)


def _generate_apart(w, row, width, first, even, ahead, vectors):
    builder = w.builder
    row, even = w.pointer(row), w.pointer(even)
    widths = _splat(w, width)
    with w.counted(vectors, []) as (i, _, _following):
        j = builder.mul(i, w.number(w.width))
        start = builder.add(first, builder.mul(j, w.number(2)))
        pair = load_pairs(w, row, start, widths, w.constant(float("-inf")))
        w.store(pair[0], w.at(even, j))
        w.store(pair[1], w.at(w.at(even, ahead), j))


def make_row_apart(dtype: str) -> Any:
    """An intrinsic row_apart((row, width, first, even, ahead, vectors)): every second element of a row, and the others.

    first: the first column to take, may be negative: -inf stands for what is outside of the `width` columns.
    even, ahead: address of the first elements, from there to the others.
    """
    return vector_intrinsic("row_apart", 6, _generate_apart, "See make_row_apart.", dtype)
