"""numba intrinsics for pooling and filters: one row of windows, a vector at a time, over one plane of floats.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.vectors import Writer, vector_intrinsic

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


def _numbers(w: Writer, values: Iterable[int], bits: int = 32) -> Any:
    """Whole numbers, one for each lane."""
    return ir.Constant(ir.VectorType(ir.IntType(bits), w.width), list(values))


def _lanes(w: Writer) -> Any:
    return _numbers(w, range(w.width))


def _splat(w: Writer, value: Any) -> Any:
    """An int64 as a vector of int32."""
    return w.splat(w.builder.trunc(value, _INT32), ir.VectorType(_INT32, w.width))


def _inside(w: Writer, places: Any, width: Any) -> Any:
    """The mask of the places in [0, width)."""
    # As unsigned numbers, negative ones are beyond every width.
    return w.builder.icmp_unsigned("<", places, width)


def _load_every(w: Writer, stride: int, row: Any, start: Any, step: Any, width: Any, missing: Any) -> Any:
    """Elements start, start + step, ... of a row of `width`; `missing` where there is none.

    stride: 1 or 2 if step is known to be that, else 0.
    """
    builder = w.builder
    first = _splat(w, start)
    if stride == 1:
        return w.load_masked(w.at(row, start), _inside(w, builder.add(first, _lanes(w)), width), missing)
    if stride == 2:
        return load_pairs(w, row, start, width, missing)[0]
    places = builder.add(first, builder.mul(_lanes(w), _splat(w, step)))
    pointers, long = ir.VectorType(w.float.as_pointer(), w.width), ir.VectorType(_INT64, w.width)
    gather = w.declare(
        f"llvm.masked.gather.{w.code}.v{w.width}p0",
        w.vector,
        [pointers, _INT32, ir.VectorType(ir.IntType(1), w.width), w.vector],
    )
    bytes_on = builder.mul(builder.sext(places, long), _numbers(w, [w.size] * w.width, 64))
    addresses = builder.add(bytes_on, w.splat(builder.ptrtoint(row, _INT64), long))
    addresses = builder.inttoptr(addresses, pointers)
    return builder.call(gather, [addresses, ir.Constant(_INT32, w.size), _inside(w, places, width), missing])


def load_pairs(w: Writer, row: Any, start: Any, width: Any, missing: Any) -> tuple[Any, Any]:
    """Elements start, start + 2, ... and start + 1, ... of a row of `width`; `missing` where there is none."""
    builder = w.builder
    halves = []
    for half in (0, w.width):
        offsets = _numbers(w, range(half, half + w.width))
        mask = _inside(w, builder.add(_splat(w, start), offsets), width)
        halves.append(w.load_masked(w.at(w.at(row, start), half), mask, missing))
    even, odd = ([2 * i + k for i in range(w.width)] for k in (0, 1))
    return (
        builder.shuffle_vector(*halves, _numbers(w, even)),
        builder.shuffle_vector(*halves, _numbers(w, odd)),
    )


def store_whole_numbers(w: Writer, values: Any, address: Any, bits: int, mask: Any) -> None:
    """A vector of int32 as whole numbers of `bits`; mask: the lanes to write, None for all."""
    kind = ir.VectorType(ir.IntType(bits), w.width)
    values = values if bits == 32 else w.builder.trunc(values, kind)
    to = w.builder.inttoptr(address, kind.as_pointer())
    if mask is None:
        w.builder.store(values, to, align=1)
        return
    function = w.declare(
        f"llvm.masked.store.v{w.width}i{bits}.p0", ir.VoidType(), [kind, kind.as_pointer(), _INT32, mask.type]
    )
    w.builder.call(function, [values, to, ir.Constant(_INT32, 1), mask])


@contextmanager
def _blocks(w: Writer, columns: Any) -> Iterator[tuple[Any, Callable[[Callable[[Any], None]], None]]]:
    """A loop over vectors of columns: yields the first column, and a function that writes the results.

    The last vector overlaps the one before; only a row shorter than a vector is written by mask, which is slow. The
    function calls what it is given with the mask, None for all lanes.
    """
    builder = w.builder
    blocks = builder.sdiv(builder.add(columns, w.number(w.width - 1)), w.number(w.width))
    whole = builder.icmp_signed(">=", columns, w.number(w.width))
    last = builder.select(whole, builder.sub(columns, w.number(w.width)), w.number(0))
    with w.counted(blocks, []) as (block, _, _following):
        j = builder.mul(block, w.number(w.width))
        j = builder.select(builder.icmp_signed("<", j, last), j, last)

        def write(store: Callable[[Any], None]) -> None:
            with builder.if_else(whole) as (then, otherwise):
                with then:
                    store(None)
                with otherwise:
                    store(w.first_lanes(columns))

        yield j, write


def make_sum_row(stride: int, dtype: str = "float32", *, pairs: bool = False) -> Any:
    """An intrinsic for the sums of one row of windows, times a factor for each column.

    sum_row((plane, width, top, row_count, kernel_w, step, pad_w, columns, y, factors, factor)):
    plane: address of rows of `width` floats.  top, row_count: the rows that the windows see, may be none.
    kernel_w, step, pad_w: width of a window, from one to the next, from the first one to the row's start.
    columns: number of windows, each of which may see nothing.
    y: address of the results, y[j] = sum * factors[j] * factor[0], floats at those addresses.
    stride: 1 or 2 if `step` will be that, else 0.  pairs: kernel_w will be 2 and step 2.
    """

    def generate(w, plane, width, top, row_count, kernel_w, step, pad_w, columns, y, factors, factor):
        builder = w.builder
        plane, y, factors = w.pointer(plane), w.pointer(y), w.pointer(factors)
        widths = _splat(w, width)
        common = w.splat(w.load_one(w.pointer(factor)))
        start_row = w.at(plane, builder.mul(top, width))
        with _blocks(w, columns) as (j, write):
            origin = builder.sub(builder.mul(j, step), pad_w)
            with w.counted(row_count, [w.zeros]) as (r, outer, outer_next):
                row = w.at(start_row, builder.mul(r, width))
                if pairs:
                    outer_next.append(
                        builder.fadd(outer[0], builder.fadd(*load_pairs(w, row, origin, widths, w.zeros)))
                    )
                else:
                    with w.counted(kernel_w, outer) as (s, (total,), following):
                        values = _load_every(w, stride, row, builder.add(origin, s), step, widths, w.zeros)
                        following.append(builder.fadd(total, values))
                    outer_next += following
            total = outer_next[0]

            def store(mask):
                if mask is None:
                    scale = builder.fmul(common, w.load(w.at(factors, j)))
                    w.store(builder.fmul(total, scale), w.at(y, j))
                else:
                    scale = builder.fmul(common, w.load_masked(w.at(factors, j), mask))
                    w.store_masked(builder.fmul(total, scale), w.at(y, j), mask)

            write(store)

    return vector_intrinsic("sum_row", 11, generate, "One row of average pooling; see make_sum_row.", dtype)


def make_filter_rows(stride: int, rows: int, dtype: str) -> Any:
    """An intrinsic for some rows of windows filtered by a kernel, plus a number.

    filter_rows((plane, width, top, row_step, row_count, next_row, left, tap_step, taps, step, columns, weight,
    weight_step, begin, y, y_row, beyond)):
    plane: address of rows of `width` floats.  top, row_step, row_count: the rows that the first row of windows sees,
        may be none; next_row: elements from there to those of the next row of windows, of which there are `rows`.
    left, tap_step, taps: columns that the first window sees, also outside; step: from one window to the next.
    weight, weight_step: address of the first tap and from each to the next, also from row to row.
    begin: address of what is added.  columns: windows in a row.  y, y_row: address of the results, from row to row.
    beyond: 1 if a vector may be written beyond the last column.
    stride: 1 or 2 if `step` will be that, else 0.
    """

    def generate(w, plane, width, top, row_step, row_count, next_row, left, tap_step, taps, step, columns, *results):
        builder = w.builder
        weight, weight_step, begin, y, y_row, beyond = results
        plane, weight, y = (w.pointer(address) for address in (plane, weight, y))
        widths = _splat(w, width)
        start = w.splat(w.load_one(w.pointer(begin)))
        blocks = builder.sdiv(builder.add(columns, w.number(w.width - 1)), w.number(w.width))
        fits = builder.icmp_signed(">=", columns, w.number(w.width))
        last = builder.select(fits, builder.sub(columns, w.number(w.width)), w.number(0))
        whole = builder.or_(fits, builder.icmp_signed("!=", beyond, w.number(0)))
        with w.counted(blocks, []) as (block, _, _following):
            j = builder.mul(block, w.number(w.width))
            j = builder.select(builder.icmp_signed("<", j, last), j, last)
            origin = builder.add(builder.mul(j, step), left)
            with w.counted(row_count, [*[start] * rows, weight]) as (r, outer, outer_next):
                row = w.at(plane, builder.mul(builder.add(top, builder.mul(r, row_step)), width))
                with w.counted(taps, outer) as (s, phis, following):
                    factor = w.splat(w.load_one(phis[rows]))
                    column = builder.add(origin, builder.mul(s, tap_step))
                    for i in range(rows):
                        at = w.at(row, builder.mul(next_row, w.number(i)))
                        values = _load_every(w, stride, at, column, step, widths, w.zeros)
                        following.append(w.multiply_add(factor, values, phis[i]))
                    following.append(w.at(phis[rows], weight_step))
                outer_next += following
            places = [w.at(w.at(y, j), builder.mul(y_row, w.number(i))) for i in range(rows)]
            with builder.if_else(whole) as (then, otherwise):
                with then:
                    for total, place in zip(outer_next, places, strict=False):
                        w.store(total, place)
                with otherwise:
                    for total, place in zip(outer_next, places, strict=False):
                        w.store_masked(total, place, w.first_lanes(columns))

    return vector_intrinsic("filter_rows", 17, generate, "Rows of a filtered plane; see make_filter_rows.", dtype)


def _generate_scale_row(w, gy, factors, factor, count, accumulate, sums):
    builder = w.builder
    gy, factors, sums = w.pointer(gy), w.pointer(factors), w.pointer(sums)
    common = w.splat(w.load_one(w.pointer(factor)))
    with w.counted(builder.sdiv(builder.add(count, w.number(w.width - 1)), w.number(w.width)), []) as (block, _, _):
        j = builder.mul(block, w.number(w.width))
        mask = w.first_lanes(builder.sub(count, j))
        kept = w.first_lanes(builder.mul(accumulate, builder.sub(count, j)))
        value = builder.fmul(
            w.load_masked(w.at(gy, j), mask), builder.fmul(common, w.load_masked(w.at(factors, j), mask))
        )
        w.store_masked(builder.fadd(value, w.load_masked(w.at(sums, j), kept)), w.at(sums, j), mask)


def make_scale_row(dtype: str) -> Any:
    """An intrinsic scale_row((gy, factors, factor, count, accumulate, sums)).

    sums[j] (+)= gy[j] * factors[j] * factor[0].  accumulate: 1 to add to sums, 0 to set them.
    """
    return vector_intrinsic("scale_row", 6, _generate_scale_row, "See make_scale_row.", dtype)


def _generate_spread_pairs(w, sums, count, gx):
    builder = w.builder
    sums, gx = w.pointer(sums), w.pointer(gx)
    with w.counted(builder.sdiv(builder.add(count, w.number(w.width - 1)), w.number(w.width)), []) as (block, _, _):
        j = builder.mul(block, w.number(w.width))
        left = builder.sub(count, j)
        values = w.load_masked(w.at(sums, j), w.first_lanes(left))
        for half in (0, 1):
            order = _numbers(w, [(half * w.width + i) // 2 for i in range(w.width)])
            doubled = builder.shuffle_vector(values, values, order)
            mask = w.first_lanes(builder.sub(builder.add(left, left), w.number(half * w.width)))
            to = builder.add(builder.add(j, j), w.number(half * w.width))
            w.store_masked(doubled, w.at(gx, to), mask)


def make_spread_pairs(dtype: str) -> Any:
    """An intrinsic spread_pairs((sums, count, gx)): gx[2 j] = gx[2 j + 1] = sums[j] for j < count."""
    return vector_intrinsic("spread_pairs", 3, _generate_spread_pairs, "See make_spread_pairs.", dtype)
