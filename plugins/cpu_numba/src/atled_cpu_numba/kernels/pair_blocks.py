"""numba intrinsics for pooling by windows of 2 x 2 that tile the planes: a vector of windows at a time.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
Without gaps and margins, the planes of a share are one long sequence of rows. A vector of windows may reach beyond its
row: what it writes there the following row replaces, as long as rows are written in order.

Where a row has a power of two of windows, fewer than a vector, `columns` is that number and a block is whole rows;
else `columns` is 0 and a block lies in one row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.lanes import host_lanes
from atled_cpu_numba.kernels.vectors import Writer, vector_intrinsic

_WIDTH = host_lanes().vector
_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_INTS32, _INTS64 = ir.VectorType(_INT32, _WIDTH), ir.VectorType(_INT64, _WIDTH)
_MASK = ir.VectorType(ir.IntType(1), _WIDTH)
_QUARTER = ir.Constant(ir.VectorType(ir.FloatType(), _WIDTH), [0.25] * _WIDTH)


def _order(places: Any) -> Any:
    return ir.Constant(_INTS32, list(places))


def _whole_or_masked(w: Writer, count: Any, write: Callable[[Callable[[int, int], Any]], None]) -> None:
    """Write the block twice: for `count` >= a vector of windows, and for fewer.

    write(mask): mask(factor, half) gives None, or the lanes of vector `half` of `factor` elements for each window.
    """
    builder = w.builder
    with builder.if_else(builder.icmp_signed(">=", count, w.number(_WIDTH))) as (then, otherwise):
        with then:
            write(lambda factor, half: None)
        with otherwise:
            write(
                lambda factor, half: w.first_lanes(
                    builder.sub(builder.mul(count, w.number(factor)), w.number(half * _WIDTH))
                )
            )


def _load(w: Writer, place: Any, mask: Any) -> Any:
    return w.load(place) if mask is None else w.load_masked(place, mask)


def _store(w: Writer, value: Any, place: Any, mask: Any) -> None:
    if mask is None:
        w.store(value, place)
    else:
        w.store_masked(value, place, mask)


def _load_windows(w: Writer, columns: int, top: Any, bottom: Any, mask: Callable[[int, int], Any]) -> list[Any]:
    """The four elements of each window, in order, as four vectors."""
    builder = w.builder
    even, odd = _order(range(0, 2 * _WIDTH, 2)), _order(range(1, 2 * _WIDTH, 2))

    def pair(start: Any, first_half: int, factor: int) -> tuple[Any, Any]:
        halves = [_load(w, w.at(start, i * _WIDTH), mask(factor, first_half + i)) for i in (0, 1)]
        return builder.shuffle_vector(*halves, even), builder.shuffle_vector(*halves, odd)

    if columns == 0:
        return [*pair(top, 0, 2), *pair(bottom, 0, 2)]
    (left_0, right_0), (left_1, right_1) = pair(top, 0, 4), pair(w.at(top, 2 * _WIDTH), 2, 4)
    rows = [[2 * (i // columns) * columns + shift * columns + i % columns for i in range(_WIDTH)] for shift in (0, 1)]
    return [
        builder.shuffle_vector(*sides, _order(row)) for row in rows for sides in ((left_0, left_1), (right_0, right_1))
    ]


def _places(w: Writer, columns: int, place: Any, windows: Any) -> Any:
    """Place in its plane of each window's first element; `place` of the first window, or its number."""
    builder = w.builder

    def splat(value: Any) -> Any:
        return w.splat(builder.trunc(value, _INT32), _INTS32)

    if columns == 0:
        return builder.add(splat(place), _order(range(0, 2 * _WIDTH, 2)))
    numbers = builder.add(splat(place), _order(range(_WIDTH)))
    # The next plane begins inside the vector; of planes with fewer windows than that, a power of two, many do.
    beyond = builder.icmp_signed(">=", numbers, splat(windows))
    numbers = builder.select(beyond, builder.sub(numbers, splat(windows)), numbers)
    few = builder.icmp_signed("<", windows, w.number(_WIDTH))
    last = builder.select(few, builder.sub(windows, w.number(1)), w.number(-1))
    numbers = builder.and_(numbers, splat(last))
    # Window i of row r starts at 2 r * 2 columns + 2 i, and its number is r columns + i.
    return builder.sub(builder.shl(numbers, _order([2] * _WIDTH)), _order(2 * (i % columns) for i in range(_WIDTH)))


def make_max_block(columns: int) -> Any:
    """An intrinsic for the maxima of a vector of windows and their places in the plane.

    max_block((top, bottom, place, windows, y, index, count)):
    top, bottom: address of the first window's two rows (bottom: only if columns is 0).
    place: of the first window's first element in the plane; or, if columns is not 0, the window's number there.
    windows: of a plane (only if columns is not 0): at least a vector of them, or a power of two.
    y, index: addresses of the results.  count: how many windows there are from here on.

    The first maximum counts; the first NaN is one.
    """

    def generate(w, top, bottom, place, windows, y, index, count):
        builder = w.builder
        top, bottom, y = w.pointer(top), w.pointer(bottom), w.pointer(y)
        to = builder.inttoptr(index, _INTS64.as_pointer())
        first_place = _places(w, columns, place, windows)
        # From a window's element to the one below: a row of it.
        down = _order([2 * columns] * _WIDTH)
        if columns == 0:
            row = builder.sdiv(
                builder.sub(builder.ptrtoint(bottom, _INT64), builder.ptrtoint(top, _INT64)), w.number(4)
            )
            down = w.splat(builder.trunc(row, _INT32), _INTS32)
        right = builder.add(first_place, _order([1] * _WIDTH))
        places = [first_place, right, builder.add(first_place, down), builder.add(right, down)]

        def write(mask):
            values = _load_windows(w, columns, top, bottom, mask)
            best, found = values[0], places[0]
            for value, here in zip(values[1:], places[1:], strict=True):
                # A NaN wins once: nothing is greater than it, or equal.
                wins = builder.and_(builder.fcmp_unordered(">", value, best), builder.fcmp_ordered("ord", best, best))
                best, found = builder.select(wins, value, best), builder.select(wins, here, found)
            _store(w, best, y, mask(1, 0))
            wide = builder.sext(found, _INTS64)
            if mask(1, 0) is None:
                builder.store(wide, to, align=8)
            else:
                kind = [_INTS64, _INTS64.as_pointer(), _INT32, _MASK]
                store = w.declare(f"llvm.masked.store.v{_WIDTH}i64.p0", ir.VoidType(), kind)
                builder.call(store, [wide, to, ir.Constant(_INT32, 8), mask(1, 0)])

        _whole_or_masked(w, count, write)

    return vector_intrinsic("max_block", 7, generate, "Maxima of windows of 2 x 2; see make_max_block.")


def make_average_block(columns: int) -> Any:
    """An intrinsic average_block((top, bottom, y, count)) for the averages; arguments as in `make_max_block`."""

    def generate(w, top, bottom, y, count):
        builder = w.builder
        top, bottom, y = w.pointer(top), w.pointer(bottom), w.pointer(y)

        def write(mask):
            a, b, c, d = _load_windows(w, columns, top, bottom, mask)
            total = builder.fadd(builder.fadd(a, b), builder.fadd(c, d))
            _store(w, builder.fmul(total, _QUARTER), y, mask(1, 0))

        _whole_or_masked(w, count, write)

    return vector_intrinsic("average_block", 4, generate, "Averages of windows of 2 x 2; see make_average_block.")


def make_spread_block(columns: int) -> Any:
    """An intrinsic spread_block((gy, gx, count)): a quarter of each window's gy goes to its elements.

    With `columns`, to all four elements; else to the two elements of one row, the one at `gx`.
    """

    def generate(w, gy, gx, count):
        builder = w.builder
        gy, gx = w.pointer(gy), w.pointer(gx)

        def write(mask):
            values = builder.fmul(_load(w, gy, mask(1, 0)), _QUARTER)
            per_window = 4 if columns else 2
            for part in range(per_window):
                elements = range(part * _WIDTH, (part + 1) * _WIDTH)
                if columns:
                    order = [q // (4 * columns) * columns + q % (2 * columns) // 2 for q in elements]
                else:
                    order = [q // 2 for q in elements]
                value = builder.shuffle_vector(values, values, _order(order))
                _store(w, value, w.at(gx, part * _WIDTH), mask(per_window, part))

        _whole_or_masked(w, count, write)

    return vector_intrinsic("spread_block", 3, generate, "The gradient of averages; see make_spread_block.")


def _generate_sum_plane(w: Writer, x: Any, count: Any, total: Any) -> None:
    builder = w.builder
    x = w.pointer(x)
    zeros = ir.Constant(ir.VectorType(ir.FloatType(), _WIDTH), [0.0] * _WIDTH)
    whole = builder.sdiv(count, w.number(_WIDTH))
    with w.counted(whole, [zeros]) as (i, (before,), following):
        following.append(builder.fadd(before, w.load(w.at(x, builder.mul(i, w.number(_WIDTH))))))
    done = builder.mul(whole, w.number(_WIDTH))
    rest = w.load_masked(w.at(x, done), w.first_lanes(builder.sub(count, done)))
    builder.store(w.total(builder.fadd(following[0], rest)), w.pointer(total), align=4)


sum_plane = vector_intrinsic(
    "sum_plane", 3, _generate_sum_plane, "sum_plane((x, count, total)): total[0] = sum of `count` contiguous elements."
)
