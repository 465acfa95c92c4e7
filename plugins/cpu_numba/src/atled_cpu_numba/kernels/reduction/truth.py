"""Any and All over any axes: 1 where one element, or each, is not 0.

Of floats or truth values; the results are of the same dtype, or truth values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.reduction.groups import Reduction, groups_of, has_no_gaps, takes_copies
from atled_cpu_numba.kernels.shared.launch import REALS, launch, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import Kernel

_ELEMENTS_PER_US = 4000.0  # a cautious rate of one core, for the number of shares
_LOOKED_AT = 256  # elements between two looks whether the answer is known
_COLUMNS = 1024


@layout
class Block(Reduction):
    """What both kernels read."""

    wanted: int  # 1 for Any: an element that is not 0 settles it; 0 for All: one that is


def _element(dtype: str) -> Any:  # numba ships no types
    """Kind, pointer and size as of `Real`; truth values are bytes that are 0 or 1."""
    from numba import types

    from atled_cpu_numba.codegen import bytes8
    from atled_cpu_numba.kernels.shared.options import Real

    return SimpleNamespace(kind=types.uint8, pointer=bytes8, size=1) if dtype == "bool" else Real(dtype)


def _build_rows(dtype: str, made: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.options import kernel

    source, target = _element(dtype), _element(made)
    elements, size, results, number = source.pointer, source.size, target.pointer, target.kind

    @kernel
    def truth_rows(block, part, parts):
        w = words(block)
        reduced_outer, kept_inner, length = w[Block.reduced_outer], w[Block.kept_inner], w[Block.reduced_inner]
        y, wanted = results(w[Block.y]), w[Block.wanted]
        count = w[Block.kept_outer] * kept_inner
        for i in range(count * part // parts, count * (part + 1) // parts):
            outer = i // kept_inner
            inner = i - outer * kept_inner
            found = 1 - wanted
            for r in range(reduced_outer):
                x = elements(w[Block.x] + size * ((outer * reduced_outer + r) * kept_inner + inner) * length)
                start = 0
                while start < length and found != wanted:
                    stop, hits = min(start + _LOOKED_AT, length), 0
                    for j in range(start, stop):
                        hits += x[j] != 0
                    if (wanted == 1 and hits > 0) or (wanted == 0 and hits < stop - start):
                        found = wanted
                    start = stop
            y[i] = number(found)
        return 0

    return truth_rows


def _build_columns(dtype: str, made: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.shared.options import kernel
    from atled_cpu_numba.kernels.shared.scalars import choose

    source, target = _element(dtype), _element(made)
    elements, size = source.pointer, source.size
    results, made_size, number = target.pointer, target.size, target.kind

    @kernel
    def truth_columns(block, part, parts):
        w = words(block)
        rows, columns, wanted = w[Block.reduced_outer], w[Block.kept_inner], w[Block.wanted]
        blocks = (columns + _COLUMNS - 1) // _COLUMNS
        for unit in range(
            w[Block.kept_outer] * blocks * part // parts, w[Block.kept_outer] * blocks * (part + 1) // parts
        ):
            outer = unit // blocks
            first = (unit - outer * blocks) * _COLUMNS
            count = min(_COLUMNS, columns - first)
            y = results(w[Block.y] + made_size * (outer * columns + first))
            for j in range(count):
                y[j] = number(1 - wanted)
            for row in range(rows):
                x = elements(w[Block.x] + size * ((outer * rows + row) * columns + first))
                for j in range(count):
                    y[j] = choose((x[j] != 0) == (wanted != 0), number(wanted), y[j])
        return 0

    return truth_columns


def _kernel(dtype: str, made: str, by_rows: bool) -> Kernel:
    build, name = (_build_rows, "truth_rows") if by_rows else (_build_columns, "truth_columns")
    return Kernel(f"{name}_{dtype}_{made}", partial(build, dtype, made), parameters=(dtype, made))


# By dtypes of x and y, and whether it runs along rows.
_DTYPES = (*((real, real) for real in REALS), *((dtype, "bool") for dtype in (*REALS, "bool")))
_KERNELS = {(*dtypes, by_rows): _kernel(*dtypes, by_rows) for dtypes in _DTYPES for by_rows in (True, False)}


def accepts(call: Call) -> bool | str:
    """Whether there is a kernel for the dtypes, and x lies in C order or without gaps."""
    x, y = call.inputs[0], call.outputs[0]
    assert x is not None
    if (x.dtype.name, y.dtype.name) not in _DTYPES:
        return f"takes {', '.join((*REALS, 'bool'))}, not {x.dtype}"
    return has_no_gaps(call)


@takes_copies
def prepare(call: Call) -> Prepared:
    """x -> y."""
    groups = groups_of(call)
    by_rows = groups.reduced_inner != 1 or groups.kept_inner == 1
    units = groups.kept_outer * (groups.kept_inner if by_rows else -(-groups.kept_inner // _COLUMNS))
    work_us = groups.kept_outer * groups.reduced_outer * groups.kept_inner * groups.reduced_inner / _ELEMENTS_PER_US
    words = filled(Block, **groups._asdict(), wanted=int(call.spec.name == "Any"))
    assert call.inputs[0] is not None
    kernel = _KERNELS[call.inputs[0].dtype.name, call.outputs[0].dtype.name, by_rows]
    return launch(
        kernel, words, (Block.x, Block.y), parts=share_count(work_us, units), note="rows" if by_rows else "columns"
    )
