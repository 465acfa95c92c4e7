"""Max and Min over any axes, with the place of the first one; MaxMinGrad, MaxMinGather.

The place is the flat index within the reduced axes. NaN counts as the extremum, the first one of them. What is reduced
may be of half or bf16.
MaxMinGrad checks the places of its share before it writes; as share 0 of 0 all of them, and then writes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Call, Prepared, is_narrow
from atled_cpu_numba.kernels.reduction import groups as reduction_groups
from atled_cpu_numba.kernels.reduction.groups import Reduction, columns_at_once, groups_of, takes_copies
from atled_cpu_numba.kernels.shared import carrying
from atled_cpu_numba.kernels.shared.carrying import Carried, columns_of
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.indices import make_are_within
from atled_cpu_numba.kernels.shared.launch import (
    ANY,
    MOVED,
    is_brief,
    kernels_by_dtype,
    launch,
    moved_as,
    narrow_dtypes,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import NO_WORD, filled, layout, size_of
from atled_cpu_numba.kernels.shared.pieces import in_pieces
from atled_cpu_numba.store import Kernel

_INDEX_OUT_OF_RANGE = 1
_ERRORS = {_INDEX_OUT_OF_RANGE: "index out of range"}
_ELEMENTS_PER_US = 2000.0  # a cautious rate of one core, for the number of shares
_MOST_PLACES = 1 << 31  # of columns: they are kept in 32 bits
_STRETCH = 4096  # elements of a row of which the extremum is found before its place
_RANGE = 8192  # elements of neighbouring steps that are computed at once, if they are no more than some rows
_SMALL_BYTES = 1 << 15  # of what is reduced at once: below, several are computed between neighbouring steps


@layout
class Block(Reduction):
    """What all kernels read."""

    index: int  # address of the places, int64
    unit_columns: int  # of columns: how many make a unit
    carried: int = size_of(Carried)  # of columns: an elementwise step that is computed before x is read
    rows_at_once: int  # of columns: rows that are looked at between two ranges of that step
    after: int  # of columns: range kernel to run on extrema that are written, or 0
    after_block: int  # its block


def _make_wins(sign: int) -> Callable[..., bool]:
    """numba's function wins(value, best): whether a value is the extremum in the place of one that came before."""
    from atled_cpu_numba.kernels.shared.options import inlined

    def wins(value, best):
        return (sign * value > sign * best) | ((value != value) & (best == best))

    made: Callable[..., bool] = inlined(wins)
    return made


def _build_rows(dtype: str, sign: int, places: bool) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.reduction.extremum_vectors import extremum_of_vectors, place_in_vectors
    from atled_cpu_numba.kernels.shared.lanes import lanes_of
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_reading
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.scalars import choose, higher, lower

    real, (elements, read) = Real(real_of(dtype)), make_reading(dtype, compared=True)
    extremum_of, place_of = extremum_of_vectors(dtype, sign), place_in_vectors(dtype)
    number, floats, size, width = real.kind, real.pointer, item_bytes(dtype), lanes_of(real_of(dtype)).vector
    better, is_better = higher if sign > 0 else lower, _make_wins(sign)

    @kernel
    def extremum_rows(block, part, parts):
        w = words(block)
        reduced_outer, kept_inner, length = w[Block.reduced_outer], w[Block.kept_inner], w[Block.reduced_inner]
        y, index = floats(w[Block.y]), ints64(w[Block.index])
        count = w[Block.kept_outer] * kept_inner
        first, after = count * part // parts, count * (part + 1) // parts
        if reduced_outer == 1 and length < width:  # what comes before and behind the vectors takes longer than these
            for i in range(first, after):
                x = elements(w[Block.x] + size * i * length)
                best, place = read(x, 0), 0
                for j in range(1, length):
                    here = read(x, j)
                    is_first = is_better(here, best)
                    best, place = choose(is_first, here, best), choose(is_first, j, place)
                y[i] = best
                if places:
                    index[i] = place
            return 0
        for i in range(first, after):
            outer = i // kept_inner
            row = w[Block.x] + size * (outer * reduced_outer * kept_inner + i - outer * kept_inner) * length
            # The first stretch of the extremum, which is NaN where that has one.
            found, has_nan, found_row, found_start = read(elements(row), 0), False, -1, 0
            for r in range(reduced_outer):
                for start in range(0, length, _STRETCH):
                    at, some = row + size * (r * kept_inner * length + start), min(_STRETCH, length - start)
                    if some >= width:
                        best, nans = extremum_of(at, some)
                    else:
                        x = elements(at)
                        best, nans = read(x, 0), 0
                        for j in range(some):
                            best = better(best, read(x, j))
                            nans = nans if read(x, j) == read(x, j) else 1
                    wins = found_row < 0 or nans != 0 or sign * best > sign * found
                    if wins and not has_nan:
                        found, has_nan, found_row, found_start = best, nans != 0, r, start
            if not places:
                y[i] = number(math.nan) if has_nan else found
                continue
            # Its place in there.
            at, start = row + size * (found_row * kept_inner * length + found_start), 0
            x, some = elements(at), min(_STRETCH, length - found_start)
            if some >= width:
                start = place_of(at, some, number(math.nan) if has_nan else found)
            else:
                while read(x, start) == read(x, start) if has_nan else read(x, start) != found:
                    start += 1
            y[i] = read(x, start)
            index[i] = found_row * length + found_start + start
        return 0

    return extremum_rows


def _build_columns(dtype: str, sign: int, places: bool) -> Callable[..., int]:
    from numba import types

    from atled_cpu_numba.codegen import call3, ints32, ints64, words
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_reading
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.scalars import choose

    real, (elements, read) = Real(real_of(dtype)), make_reading(dtype, compared=True)
    floats, size, result_size = real.pointer, item_bytes(dtype), real.size
    open_share, rows_at = columns_of(size, Block.carried)
    # Places are as wide as elements until they are known, for as many in a vector.
    place_of, places_at = (types.int32, ints32) if real.size == 4 else (types.int64, ints64)
    wins = _make_wins(sign)

    @kernel
    def extremum_columns(block, part, parts):
        w = words(block)
        rows, columns, step = w[Block.reduced_outer], w[Block.kept_inner], w[Block.unit_columns]
        at_once, own = w[Block.rows_at_once], open_share(w, w[Block.x], part)
        blocks = (columns + step - 1) // step
        for unit in range(
            w[Block.kept_outer] * blocks * part // parts, w[Block.kept_outer] * blocks * (part + 1) // parts
        ):
            outer = unit // blocks
            first = (unit - outer * blocks) * step
            count = min(step, columns - first)
            y = floats(w[Block.y] + result_size * (outer * columns + first))
            index_at = w[Block.index] + 8 * (outer * columns + first)
            place = places_at(index_at)
            for piece in range((rows + at_once - 1) // at_once):
                top = piece * at_once
                bottom = min(rows, top + at_once)
                start = (outer * rows + top) * columns + first
                at, stride = rows_at(w, w[Block.x], own, start, bottom - top, columns, count)
                if top == 0:
                    x = elements(at)
                    for j in range(count):
                        y[j] = read(x, j)
                        if places:
                            place[j] = place_of(0)
                row = max(1, top)
                at += size * (row - top) * stride
                for pair in range((bottom - row) // 2):
                    x0, x1 = elements(at), elements(at + size * stride)
                    row0, row1 = place_of(row + 2 * pair), place_of(row + 2 * pair + 1)
                    for j in range(count):
                        best, upper, lower = y[j], read(x0, j), read(x1, j)
                        is_first = wins(upper, best)
                        best = choose(is_first, upper, best)
                        is_second = wins(lower, best)
                        y[j] = choose(is_second, lower, best)
                        if places:
                            place[j] = choose(is_second, row1, choose(is_first, row0, place[j]))
                    at += size * 2 * stride
                if (bottom - row) % 2 != 0:
                    x, last = elements(at), place_of(bottom - 1)
                    for j in range(count):
                        best, here = y[j], read(x, j)
                        is_first = wins(here, best)
                        y[j] = choose(is_first, here, best)
                        if places:
                            place[j] = choose(is_first, last, place[j])
            if places and result_size == 4:
                # From the last one on, since they lie where the index will be.
                index = ints64(index_at)
                for j in range(count - 1, -1, -1):
                    index[j] = place[j]
            if w[Block.after] != 0:
                start = outer * columns + first
                call3(w[Block.after], w[Block.after_block], start, start + count)
        return 0

    return extremum_columns


def _build_grad(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.moves import moves_of
    from atled_cpu_numba.kernels.shared.options import kernel

    (elements, size, _), are_within = moves_of(dtype), make_are_within()

    @kernel
    def extremum_grad(block, part, parts):
        w = words(block)
        reduced_outer, kept_inner, reduced_inner = w[Block.reduced_outer], w[Block.kept_inner], w[Block.reduced_inner]
        shares = max(parts, 1)
        first, after = w[Block.kept_outer] * part // shares, w[Block.kept_outer] * (part + 1) // shares
        gy, index = elements(w[Block.y]), ints64(w[Block.index])
        if not are_within(index, first * kept_inner, after * kept_inner, 0, reduced_outer * reduced_inner):
            return _INDEX_OUT_OF_RANGE
        if parts == 0:
            return 0
        length = reduced_outer * kept_inner * reduced_inner
        at_once = max(1, _RANGE // max(1, length))  # short ones together: setting each to 0 is a call
        for piece in range((after - first + at_once - 1) // at_once):
            top = first + piece * at_once
            bottom = min(after, top + at_once)
            whole = elements(w[Block.x] + size * top * length)
            for j in range((bottom - top) * length):
                whole[j] = 0  # of integers and of floats
            for outer in range(top, bottom):
                gx = elements(w[Block.x] + size * outer * length)
                for inner in range(kept_inner):
                    at = outer * kept_inner + inner
                    # A division takes longer than all else.
                    row = index[at] // reduced_inner if reduced_outer > 1 else 0
                    gx[(row * kept_inner + inner) * reduced_inner + index[at] - row * reduced_inner] = gy[at]
        return 0

    return extremum_grad


def _build_gather(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.moves import moves_of
    from atled_cpu_numba.kernels.shared.options import kernel

    elements, are_within = moves_of(dtype).pointer, make_are_within()

    @kernel
    def extremum_gather(block, part, parts):
        w = words(block)
        reduced_outer, kept_inner, reduced_inner = w[Block.reduced_outer], w[Block.kept_inner], w[Block.reduced_inner]
        count = w[Block.kept_outer] * kept_inner
        first, after = count * part // parts, count * (part + 1) // parts
        x, y, index = elements(w[Block.x]), elements(w[Block.y]), ints64(w[Block.index])
        if not are_within(index, first, after, 0, reduced_outer * reduced_inner):
            return _INDEX_OUT_OF_RANGE
        for i in range(first, after):
            outer, row = i // kept_inner, index[i] // reduced_inner
            at = ((outer * reduced_outer + row) * kept_inner + i - outer * kept_inner) * reduced_inner
            y[i] = x[at + index[i] - row * reduced_inner]
        return 0

    return extremum_gather


def _columns(name: str, sign: int, places: bool) -> dict[str, Kernel]:
    return kernels_by_dtype(name, _build_columns, sign, places, dtypes=ANY, depends=carrying.PARAMETERS)


def _rows(name: str, sign: int, places: bool) -> dict[str, Kernel]:
    return kernels_by_dtype(name, _build_rows, sign, places, dtypes=ANY, depends=carrying.PARAMETERS)


# By op and whether it runs along rows.
_KERNELS = {
    ("Max", True): _rows("max_rows", 1, True),
    ("Max", False): _columns("max_columns", 1, True),
    ("Min", True): _rows("min_rows", -1, True),
    ("Min", False): _columns("min_columns", -1, True),
    ("MaxTies", True): _rows("max_value_rows", 1, False),
    ("MaxTies", False): _columns("max_value_columns", 1, False),
    ("MinTies", True): _rows("min_value_rows", -1, False),
    ("MinTies", False): _columns("min_value_columns", -1, False),
}
_WITHOUT_PLACES = {"Max": "MaxTies", "Min": "MinTies"}
_KERNEL_OF = {"ArgMax": "Max", "ArgMin": "Min"}
_MOVING_KERNELS = {
    "MaxMinGrad": kernels_by_dtype("extremum_grad", _build_grad, dtypes=MOVED, depends=carrying.PARAMETERS),
    "MaxMinGather": kernels_by_dtype("extremum_gather", _build_gather, dtypes=MOVED, depends=carrying.PARAMETERS),
}


def accepts(call: Call) -> bool | str:
    """Whether a reduction of floats takes it, and the reduced axes of x lie in their order, in which places count."""
    answer = reduction_groups.accepts(call)
    x = call.inputs[0]
    if answer is not True or x is None or x.strides is None:
        return answer
    steps = [x.strides[axis] for axis in call.attributes["axes"] if x.shape[axis] > 1]
    return steps == sorted(steps, reverse=True) or "takes arrays whose reduced axes are in order"


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: x, if that is reduced, and what is only moved."""
    x = call.inputs[0]
    assert x is not None
    if call.spec.name in _MOVING_KERNELS:
        return (0, 2) if is_narrow(x.dtype) and x.dtype == call.outputs[0].dtype else ()
    return (0,) if x.dtype.name in narrow_dtypes() else ()


@takes_copies
def prepare(call: Call) -> Prepared:
    """Max, Min: x -> y, index; MaxTies, ArgMax, ...: x -> one of these. There x may be narrow (`narrow_arguments`).

    MaxMinGrad: gy, index -> gx.  MaxMinGather: x, index -> y.
    """
    groups = groups_of(call)
    assert call.inputs[0] is not None
    name, dtype = call.spec.name, call.inputs[0].dtype.name
    work_us = groups.kept_outer * groups.reduced_outer * groups.kept_inner * groups.reduced_inner / _ELEMENTS_PER_US
    words = filled(Block, **groups._asdict())
    if name == "MaxMinGather":
        parts = share_count(work_us, groups.kept_outer * groups.kept_inner)
        arguments = (Block.x, Block.index, Block.y)
        return launch(
            _MOVING_KERNELS[name][moved_as(call.inputs[0].dtype)], words, arguments, parts=parts, errors=_ERRORS
        )
    if name == "MaxMinGrad":
        parts = share_count(work_us, groups.kept_outer)
        arguments = (Block.y, Block.index, Block.x)
        kernel = _MOVING_KERNELS[name][moved_as(call.inputs[0].dtype)]
        prepared = launch(kernel, words, arguments, parts=parts, errors=_ERRORS)
        is_empty = call.outputs[0].size == 0
        return prepared if is_empty else in_pieces(prepared, call, groups.kept_outer, source=None, checks=True)
    by_rows = groups.reduced_inner != 1 or groups.kept_inner == 1 or groups.reduced_outer > _MOST_PLACES
    if by_rows:
        parts = share_count(work_us, groups.kept_outer * groups.kept_inner)
    else:
        parts, words[Block.unit_columns] = columns_at_once(groups, work_us)
        words[Block.rows_at_once] = rows_at_once = max(1, _RANGE // words[Block.unit_columns])
    alone = name in _WITHOUT_PLACES and not call.wanted[1]
    computed = _WITHOUT_PLACES[name] if alone else _KERNEL_OF.get(name, name)
    kernel, note = _KERNELS[computed, by_rows][dtype], "rows" if by_rows else "columns"
    if name in _KERNEL_OF:  # the values go into the workspace, which there is for no values, too: it has a word
        place_first, nbytes = (Block.x, Block.index, Block.y), 8 * max(1, call.outputs[0].size)
        return launch(kernel, words, place_first, parts=parts, workspace=nbytes, note=note)
    found = (Block.x, Block.y, NO_WORD if alone else Block.index)[: 1 + len(call.outputs)]
    size, is_whole = call.inputs[0].dtype.itemsize, by_rows or words[Block.unit_columns] >= groups.kept_inner
    of_one = groups.reduced_outer * groups.reduced_inner * (1 if by_rows else groups.kept_inner)
    if by_rows or (is_whole and of_one * size <= _SMALL_BYTES):
        brief = is_brief(work_us, groups.kept_outer * (groups.kept_inner if by_rows else groups.reduced_outer))
        prepared = launch(kernel, words, found, parts=parts, is_brief=brief, note=note)
        # Of each unit the elements of x must lie together.
        fits = call.outputs[0].size and not (by_rows and groups.reduced_outer > 1)
        units = call.outputs[0].size if by_rows else groups.kept_outer
        return in_pieces(prepared, call, units) if fits else prepared
    carried_bytes = carrying.share_bytes(size * rows_at_once * words[Block.unit_columns])
    words[Block.carried + Carried.share_bytes] = carried_bytes
    return launch(
        kernel,
        words,
        found,
        parts=parts,
        before={0: Block.carried},
        range_bytes={0: carried_bytes},
        after={0: Block.after},
        note=note,
    )
