"""Max and Min over any axes that collapse into four groups, with the place of the first one; MaxMinGrad, MaxMinGather.

The place is the flat index within the reduced axes. NaN counts as the extremum, the first one of them.
MaxMinGrad checks the places of its share before it writes; as share 0 of 0 all of them, and then writes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.reduction.groups import accepts as accepts
from atled_cpu_numba.kernels.reduction.groups import groups_of
from atled_cpu_numba.kernels.shared.launch import kernels_by_dtype, launch, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.kernels.shared.pieces import in_pieces

_INDEX_OUT_OF_RANGE = 1
_ERRORS = {_INDEX_OUT_OF_RANGE: "index out of range"}
_ELEMENTS_PER_US = 2000.0  # a cautious rate of one core, for the number of shares
_SEARCHED = 64  # elements in which the extremum is looked for at once
_COLUMNS = 256


@layout
class Block:
    """What all kernels read; the sizes are those of `groups.Groups`."""

    x: int  # address of x, or of gx
    y: int  # address of y, or of gy
    kept_outer: int
    reduced_outer: int
    kept_inner: int
    reduced_inner: int
    index: int  # address of the places, int64


def _build_rows(dtype: str, sign: int, places: bool) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.scalars import higher, lower

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size
    better = higher if sign > 0 else lower

    @kernel
    def extremum_rows(block, part, parts):
        w = words(block)
        reduced_outer, kept_inner, length = w[Block.reduced_outer], w[Block.kept_inner], w[Block.reduced_inner]
        y, index = floats(w[Block.y]), ints64(w[Block.index])
        count = w[Block.kept_outer] * kept_inner
        for i in range(count * part // parts, count * (part + 1) // parts):
            outer = i // kept_inner
            inner = i - outer * kept_inner
            place, found = -1, floats(w[Block.x])[0]
            for r in range(reduced_outer):
                x = floats(w[Block.x] + size * ((outer * reduced_outer + r) * kept_inner + inner) * length)
                best, nans = x[0], 0
                for j in range(length):
                    best = better(best, x[j])
                    nans += x[j] != x[j]
                if place >= 0 and (found != found or (nans == 0 and sign * best <= sign * found)):
                    continue
                if not places:
                    found, place = number(math.nan) if nans > 0 else best, 0
                    continue
                # Now its place: first the right stretch, in vectors, then in there.
                start = 0
                while start + _SEARCHED <= length:
                    hits = 0
                    for j in range(start, start + _SEARCHED):
                        hits += x[j] != x[j] if nans > 0 else x[j] == best
                    if hits > 0:
                        break
                    start += _SEARCHED
                while x[start] == x[start] if nans > 0 else x[start] != best:
                    start += 1
                found = x[start]
                place = r * length + start
            y[i] = found
            if places:
                index[i] = place
        return 0

    return extremum_rows


def _build_columns(dtype: str, sign: int, places: bool) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.scalars import choose

    real = Real(dtype)
    floats, size = real.pointer, real.size

    @kernel
    def extremum_columns(block, part, parts):
        w = words(block)
        rows, columns = w[Block.reduced_outer], w[Block.kept_inner]
        blocks = (columns + _COLUMNS - 1) // _COLUMNS
        for unit in range(
            w[Block.kept_outer] * blocks * part // parts, w[Block.kept_outer] * blocks * (part + 1) // parts
        ):
            outer = unit // blocks
            first = (unit - outer * blocks) * _COLUMNS
            count = min(_COLUMNS, columns - first)
            y = floats(w[Block.y] + size * (outer * columns + first))
            index = ints64(w[Block.index] + 8 * (outer * columns + first))
            x = floats(w[Block.x] + size * (outer * rows * columns + first))
            for j in range(count):
                y[j] = x[j]
                if places:
                    index[j] = 0
            for row in range(1, rows):
                x = floats(w[Block.x] + size * ((outer * rows + row) * columns + first))
                for j in range(count):
                    best, value = y[j], x[j]
                    wins = (sign * value > sign * best) | ((value != value) & (best == best))
                    y[j] = choose(wins, value, best)
                    if places:
                        index[j] = choose(wins, row, index[j])
        return 0

    return extremum_columns


def _build_grad(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def extremum_grad(block, part, parts):
        w = words(block)
        reduced_outer, kept_inner, reduced_inner = w[Block.reduced_outer], w[Block.kept_inner], w[Block.reduced_inner]
        shares = max(parts, 1)
        first, after = w[Block.kept_outer] * part // shares, w[Block.kept_outer] * (part + 1) // shares
        gy, index = floats(w[Block.y]), ints64(w[Block.index])
        for i in range(first * kept_inner, after * kept_inner):
            if index[i] < 0 or index[i] >= reduced_outer * reduced_inner:
                return _INDEX_OUT_OF_RANGE
        if parts == 0:
            return 0
        for outer in range(first, after):
            length = reduced_outer * kept_inner * reduced_inner
            gx = floats(w[Block.x] + size * outer * length)
            for j in range(length):
                gx[j] = number(0)
            for inner in range(kept_inner):
                at = outer * kept_inner + inner
                row = index[at] // reduced_inner
                gx[(row * kept_inner + inner) * reduced_inner + index[at] - row * reduced_inner] = gy[at]
        return 0

    return extremum_grad


def _build_gather(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    floats = real.pointer

    @kernel
    def extremum_gather(block, part, parts):
        w = words(block)
        reduced_outer, kept_inner, reduced_inner = w[Block.reduced_outer], w[Block.kept_inner], w[Block.reduced_inner]
        count = w[Block.kept_outer] * kept_inner
        first, after = count * part // parts, count * (part + 1) // parts
        x, y, index = floats(w[Block.x]), floats(w[Block.y]), ints64(w[Block.index])
        for i in range(first, after):
            if index[i] < 0 or index[i] >= reduced_outer * reduced_inner:
                return _INDEX_OUT_OF_RANGE
        for i in range(first, after):
            outer, row = i // kept_inner, index[i] // reduced_inner
            at = ((outer * reduced_outer + row) * kept_inner + i - outer * kept_inner) * reduced_inner
            y[i] = x[at + index[i] - row * reduced_inner]
        return 0

    return extremum_gather


# By op and whether it runs along rows.
_KERNELS = {
    ("Max", True): kernels_by_dtype("max_rows", _build_rows, 1, True),
    ("Max", False): kernels_by_dtype("max_columns", _build_columns, 1, True),
    ("Min", True): kernels_by_dtype("min_rows", _build_rows, -1, True),
    ("Min", False): kernels_by_dtype("min_columns", _build_columns, -1, True),
    ("MaxTies", True): kernels_by_dtype("max_value_rows", _build_rows, 1, False),
    ("MaxTies", False): kernels_by_dtype("max_value_columns", _build_columns, 1, False),
    ("MinTies", True): kernels_by_dtype("min_value_rows", _build_rows, -1, False),
    ("MinTies", False): kernels_by_dtype("min_value_columns", _build_columns, -1, False),
}
_KERNEL_OF = {"ArgMax": "Max", "ArgMin": "Min"}
_MOVING_KERNELS = {
    "MaxMinGrad": kernels_by_dtype("extremum_grad", _build_grad),
    "MaxMinGather": kernels_by_dtype("extremum_gather", _build_gather),
}


def prepare(call: Call) -> Prepared:
    """Max, Min: x -> y, index; MaxTies, ArgMax, ...: x -> one of these.

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
        return launch(_MOVING_KERNELS[name][dtype], words, arguments, parts=parts, errors=_ERRORS)
    if name == "MaxMinGrad":
        parts = share_count(work_us, groups.kept_outer)
        arguments = (Block.y, Block.index, Block.x)
        prepared = launch(_MOVING_KERNELS[name][dtype], words, arguments, parts=parts, errors=_ERRORS)
        is_empty = call.outputs[0].size == 0
        return prepared if is_empty else in_pieces(prepared, call, groups.kept_outer, source=None, checks=True)
    by_rows = groups.reduced_inner != 1 or groups.kept_inner == 1
    blocks = groups.kept_inner if by_rows else -(-groups.kept_inner // _COLUMNS)
    units = groups.kept_outer * blocks
    parts = share_count(work_us, units)
    kernel, note = _KERNELS[_KERNEL_OF.get(name, name), by_rows][dtype], "rows" if by_rows else "columns"
    if name in _KERNEL_OF:  # the values go into the workspace
        place_first = (Block.x, Block.index, Block.y)
        return launch(kernel, words, place_first, parts=parts, workspace=8 * call.outputs[0].size, note=note)
    prepared = launch(kernel, words, (Block.x, Block.y, Block.index)[: 1 + len(call.outputs)], parts=parts, note=note)
    # Of each unit the elements of x must lie together.
    fits = groups.reduced_outer == 1 if by_rows else blocks == 1
    return in_pieces(prepared, call, units) if fits and call.outputs[0].size else prepared
