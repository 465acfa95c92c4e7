"""numba intrinsics for pooling by windows of 2 x 2 that tile the planes: a vector of windows at a time.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Without gaps and margins, the planes of a share are one long sequence of rows. A vector of windows may reach beyond its
row: what it writes there the following row replaces, as long as rows are written in order.

Where a row has a power of two of windows, fewer than a vector, `columns` is that number and a block is whole rows;
else `columns` is 0 and a block lies in one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from llvmlite import ir

from atled_cpu_numba.kernels.shared.narrow_writer import NarrowWriter, memory_intrinsic
from atled_cpu_numba.kernels.shared.vectors import Writer, vector_intrinsic
from atled_cpu_numba.kernels.shared.window_rows import store_whole_numbers

_INT32 = ir.IntType(32)
_LANE_BYTES = 16  # within which shuffles are quickest


def _order(places: Sequence[int]) -> Any:
    return ir.Constant(ir.VectorType(_INT32, len(places)), list(places))


def _whole_or_masked(w: Writer, count: Any, write: Callable[[Callable[[int, int], Any]], None]) -> None:
    """Write the block twice: for `count` >= a vector of windows, and for fewer.

    write(mask): mask(factor, half) gives None, or the lanes of vector `half` of `factor` elements for each window.
    """
    builder = w.builder
    with builder.if_else(builder.icmp_signed(">=", count, w.number(w.width))) as (then, otherwise):
        with then:
            write(lambda factor, half: None)
        with otherwise:
            write(
                lambda factor, half: w.first_lanes(
                    builder.sub(builder.mul(count, w.number(factor)), w.number(half * w.width))
                )
            )


def _load(w: Writer, place: Any, mask: Any) -> Any:
    return w.load(place) if mask is None else w.load_masked(place, mask)


def _store(w: Writer, value: Any, place: Any, mask: Any) -> None:
    if mask is None:
        w.store(value, place)
    else:
        w.store_masked(value, place, mask)


def _has_pairs(w: Writer) -> TypeGuard[NarrowWriter]:
    """Whether a window's neighbours are the two halves of a word."""
    return isinstance(w, NarrowWriter) and w.has_pairs


def _load_windows(w: Writer, columns: int, top: Any, bottom: Any, mask: Callable[[int, int], Any]) -> list[Any]:
    """The four elements of each window, in order, as four vectors."""
    builder = w.builder
    even, odd = _order(range(0, 2 * w.width, 2)), _order(range(1, 2 * w.width, 2))

    def pair(start: Any, first_half: int, factor: int) -> tuple[Any, Any]:
        if _has_pairs(w):
            return w.load_pairs(start, mask(factor // 2, first_half // 2))
        halves = [_load(w, w.at(start, i * w.width), mask(factor, first_half + i)) for i in (0, 1)]
        return builder.shuffle_vector(*halves, even), builder.shuffle_vector(*halves, odd)

    if columns == 0:
        return [*pair(top, 0, 2), *pair(bottom, 0, 2)]
    (left_0, right_0), (left_1, right_1) = pair(top, 0, 4), pair(w.at(top, 2 * w.width), 2, 4)
    rows = [[2 * (i // columns) * columns + shift * columns + i % columns for i in range(w.width)] for shift in (0, 1)]
    return [
        builder.shuffle_vector(*sides, _order(row)) for row in rows for sides in ((left_0, left_1), (right_0, right_1))
    ]


def _greater(w: Writer, value: Any, best: Any) -> Any:
    """The greater of each two numbers, `best` where they are equal; a NaN where one of them is."""
    builder = w.builder
    # As processors have it in one instruction, which gives `best` where one is a NaN.
    found = builder.select(builder.fcmp_ordered(">", value, best), value, best)
    return builder.select(builder.fcmp_unordered("uno", value, value), value, found)


def _alternate(w: Writer, halves: Sequence[Any]) -> tuple[Any, Any, Any]:
    """The even and the odd elements of two vectors, and the order in which both have them.

    Within lanes, where elements move quickly: a lane of the results has elements of both vectors.
    """
    lane = _LANE_BYTES // w.size
    lanes = [range(start, start + lane, 2) for start in range(0, w.width, lane)]
    even = [half * w.width + i for numbers in lanes for half in (0, 1) for i in numbers]
    order = sorted(range(w.width), key=lambda number: even[number])
    left, right = (w.builder.shuffle_vector(*halves, _order([i + odd for i in even])) for odd in (0, 1))
    return left, right, _order(order)


def make_max_alone_block(columns: int, dtype: str) -> Any:
    """As `make_max_block`, of the maxima alone; `place` is not read."""

    def generate(w, top, bottom, y, place, count):
        top, bottom, y = w.pointer(top), w.pointer(bottom), w.pointer(y)

        def write(mask):
            if columns or _has_pairs(w):
                best, *others = _load_windows(w, columns, top, bottom, mask)
                for value in others:
                    best = _greater(w, value, best)
            else:
                best = None
                for row in (top, bottom):
                    left, right, order = _alternate(w, [_load(w, w.at(row, i * w.width), mask(2, i)) for i in (0, 1)])
                    found = _greater(w, right, left)
                    best = found if best is None else _greater(w, found, best)
                # What is left changes its places, a quarter of what was read.
                best = w.builder.shuffle_vector(best, best, order)
            _store(w, best, y, mask(1, 0))

        _whole_or_masked(w, count, write)

    return memory_intrinsic(
        "max_alone_block", 5, generate, "Maxima alone; see make_max_alone_block.", dtype, moves=True, compared=True
    )


def make_max_block(columns: int, dtype: str) -> Any:
    """An intrinsic for the maxima of a vector of windows and their places in the windows, as bytes.

    max_block((top, bottom, y, place, count)):
    top, bottom: address of the first window's two rows (bottom: only if columns is 0).
    y, place: addresses of the results.  count: how many windows there are from here on.

    The first maximum counts; the first NaN is one.
    """

    def generate(w, top, bottom, y, place, count):
        builder = w.builder
        top, bottom, y = w.pointer(top), w.pointer(bottom), w.pointer(y)

        def write(mask):
            best, *others = _load_windows(w, columns, top, bottom, mask)
            found = _order([0] * w.width)
            for number, value in enumerate(others, 1):
                # A NaN wins once: nothing is greater than it, or equal.
                wins = builder.and_(builder.fcmp_unordered(">", value, best), builder.fcmp_ordered("ord", best, best))
                best = builder.select(wins, value, best)
                found = builder.select(wins, _order([number] * w.width), found)
            _store(w, best, y, mask(1, 0))
            store_whole_numbers(w, found, place, 8, mask(1, 0))

        _whole_or_masked(w, count, write)

    return memory_intrinsic(
        "max_block", 5, generate, "Maxima of windows of 2 x 2; see make_max_block.", dtype, moves=True, compared=True
    )


def _share(w: Writer, adds: Any) -> Any:
    """What the elements of a window are multiplied with, as a vector: a quarter, or 1 where `adds` is not 0."""
    builder, one = w.builder, ir.Constant(w.float, 1.0)
    return w.splat(builder.select(builder.icmp_signed("!=", adds, w.number(0)), one, ir.Constant(w.float, 0.25)))


def make_average_block(columns: int, dtype: str) -> Any:
    """An intrinsic average_block((top, bottom, y, adds, count)) for the averages; arguments as in `make_max_block`.

    adds: not 0 for sums instead.

    The columns of a window are added up first, whichever way its elements are read.
    """

    def generate(w, top, bottom, y, adds, count):
        builder = w.builder
        top, bottom, y = w.pointer(top), w.pointer(bottom), w.pointer(y)

        def sum_windows(mask):
            if columns or _has_pairs(w):
                a, b, c, d = _load_windows(w, columns, top, bottom, mask)
                return builder.fadd(builder.fadd(a, c), builder.fadd(b, d))
            upper, lower = ([_load(w, w.at(row, i * w.width), mask(2, i)) for i in (0, 1)] for row in (top, bottom))
            # So half as many elements change their places, and most of them within lanes.
            left, right, order = _alternate(w, [builder.fadd(a, c) for a, c in zip(upper, lower, strict=True)])
            total = builder.fadd(left, right)
            return builder.shuffle_vector(total, total, order)

        def write(mask):
            _store(w, builder.fmul(sum_windows(mask), _share(w, adds)), y, mask(1, 0))

        _whole_or_masked(w, count, write)

    return memory_intrinsic(
        "average_block", 5, generate, "Averages of windows of 2 x 2; see make_average_block.", dtype
    )


def _spread(w: Writer, columns: int, values: Any, part: int) -> Any:
    """What each element of vector `part` of the windows' elements gets of a vector of the windows' values."""
    elements = range(part * w.width, (part + 1) * w.width)
    if columns:
        order = [q // (4 * columns) * columns + q % (2 * columns) // 2 for q in elements]
    else:
        order = [q // 2 for q in elements]
    return w.builder.shuffle_vector(values, values, _order(order))


def make_spread_block(columns: int, dtype: str) -> Any:
    """An intrinsic spread_block((gy, adds, row, gx, count)): a quarter of each window's gy goes to its elements.

    With `columns`, to all four elements; else to the two elements of one row, the one at `gx`. row: not read.
    adds: not 0 for all of gy instead.
    """

    def generate(w, gy, adds, row, gx, count):
        builder = w.builder
        gy, gx = w.pointer(gy), w.pointer(gx)

        def write(mask):
            values = builder.fmul(_load(w, gy, mask(1, 0)), _share(w, adds))
            if not columns and _has_pairs(w):
                w.store_pairs(values, values, gx, mask(1, 0))
                return
            per_window = 4 if columns else 2
            for part in range(per_window):
                value = _spread(w, columns, values, part)
                _store(w, value, w.at(gx, part * w.width), mask(per_window, part))

        _whole_or_masked(w, count, write)

    return memory_intrinsic("spread_block", 5, generate, "The gradient of averages; see make_spread_block.", dtype)


def make_place_block(columns: int, dtype: str) -> Any:
    """An intrinsic place_block((gy, place, row, gx, count)): each window's gy goes to the element at its place.

    The others get 0. With `columns`, all four elements are written; else the two of row `row`, the one at `gx`.
    place: address of a byte for each window.
    """

    def generate(w, gy, place, row, gx, count):
        builder = w.builder
        bytes_, numbers = ir.VectorType(ir.IntType(8), w.width), ir.VectorType(_INT32, w.width)
        gy, gx, place = w.pointer(gy), w.pointer(gx), builder.inttoptr(place, bytes_.as_pointer())

        def load_places(mask):
            if mask is None:
                return builder.load(place, align=1, typ=bytes_)
            kind = [bytes_.as_pointer(), _INT32, mask.type, bytes_]
            load = w.declare(f"llvm.masked.load.v{w.width}i8.p0", bytes_, kind)
            return builder.call(load, [place, ir.Constant(_INT32, 1), mask, ir.Constant(bytes_, [0] * w.width)])

        def write(mask):
            values, places = _load(w, gy, mask(1, 0)), builder.zext(load_places(mask(1, 0)), numbers)
            if not columns and _has_pairs(w):
                first = w.splat(builder.trunc(builder.add(row, row), _INT32), numbers)
                left, right = (
                    builder.select(
                        builder.icmp_signed("==", places, builder.add(first, _order([side] * w.width))), values, w.zeros
                    )
                    for side in (0, 1)
                )
                w.store_pairs(left, right, gx, mask(1, 0))
                return
            per_window = 4 if columns else 2
            for part in range(per_window):
                elements = range(part * w.width, (part + 1) * w.width)
                mine = _order([q % (4 * columns) // (2 * columns) * 2 + q % 2 if columns else q % 2 for q in elements])
                if not columns:
                    mine = builder.add(mine, w.splat(builder.trunc(builder.add(row, row), _INT32), numbers))
                here = builder.icmp_signed("==", _spread(w, columns, places, part), mine)
                value = builder.select(here, _spread(w, columns, values, part), w.zeros)
                _store(w, value, w.at(gx, part * w.width), mask(per_window, part))

        _whole_or_masked(w, count, write)

    return memory_intrinsic(
        "place_block", 5, generate, "The gradient of maxima; see make_place_block.", dtype, moves=True
    )


def _generate_sum_plane(w: Writer, x: Any, count: Any, total: Any) -> None:
    builder = w.builder
    x = w.pointer(x)
    whole = builder.sdiv(count, w.number(w.width))
    with w.counted(whole, [w.zeros]) as (i, (before,), following):
        following.append(builder.fadd(before, w.load(w.at(x, builder.mul(i, w.number(w.width))))))
    done = builder.mul(whole, w.number(w.width))
    rest = w.load_masked(w.at(x, done), w.first_lanes(builder.sub(count, done)))
    builder.store(w.total(builder.fadd(following[0], rest)), w.pointer(total), align=w.size)


def make_sum_plane(dtype: str) -> Any:
    """An intrinsic sum_plane((x, count, total)): total[0] = sum of `count` contiguous elements."""
    return vector_intrinsic("sum_plane", 3, _generate_sum_plane, "See make_sum_plane.", dtype)
