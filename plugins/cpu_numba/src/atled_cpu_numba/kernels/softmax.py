"""Softmax, SoftmaxCrossEntropy and their gradients.

x is seen as (outer, n, inner), n the axis of the softmax. With inner == 1 the kernels run along rows, else along
columns, up to 256 of them at once. What is narrow is widened as its exponentials are computed, of columns once, some at
a time; by the gradient as it is read.
All check the labels of their share before they write; as share 0 of 0 all labels, and then write nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.indices import make_are_within
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import (
    ANY,
    NARROW,
    REALS,
    fitting_shares,
    has_empty,
    in_lines,
    is_brief,
    kernels_by_dtype,
    launch,
    narrow_dtypes,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.kernels.shared.pieces import in_pieces


@layout
class Forward:
    """What the forward kernels read."""

    x: int  # address
    p: int  # address
    outer: int
    n: int
    inner: int
    target: int  # address, or 0
    loss: int  # address, or 0
    workspace: int  # address
    share_bytes: int  # of the workspace, per share
    columns: int  # at once


@layout
class Backward:
    """What the gradient's kernel reads."""

    gy: int  # address
    p: int  # address
    outer: int
    n: int
    inner: int
    target: int  # address
    gx: int  # address


_COLUMNS = 256
_FEWEST_COLUMNS = 32  # narrow ones, that are a line of memory
_FEWEST_APART = 128  # of rows that are longer: of less memory is not read ahead
_NARROW_BYTES = 1 << 20  # of columns that are widened together: what caches have for a core
_LABEL_OUT_OF_RANGE = 1
_ERRORS = {_LABEL_OUT_OF_RANGE: "label out of range"}
# The loss of a label whose probability is the smallest normal float32 or less.
_HIGHEST_LOSS = -math.log(float(np.finfo(np.float32).tiny))
_FEWEST_NARROW = 64  # in a row that is taken as it is: what `narrow_maxima` takes
_SHORT_ROW_BYTES = 1 << 14
_FEWEST_CLASSES = 8  # for pieces of many columns, which need more workspace than they carry if there are less
_NS_PER_ELEMENT = 0.7  # of one core, for the number of shares; double takes ten times as long


def _make_loss() -> Any:
    """numba's function loss(total, top, picked): of the sum of exponentials, the greatest x and that of the label."""
    from atled_cpu_numba.kernels.shared.options import inlined

    @inlined
    def loss(total, top, picked):
        value = math.log(np.float64(total)) + (np.float64(top) - np.float64(picked))
        return _HIGHEST_LOSS if value > _HIGHEST_LOSS else value

    return loss


def _build_rows(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.scalars import higher
    from atled_cpu_numba.kernels.shared.sums import sum_of_exponentials

    real, sum_up, are_within, loss_of = Real(dtype), sum_of_exponentials(dtype), make_are_within(), _make_loss()
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def softmax_rows(block, part, parts):
        w = words(block)
        n = w[Forward.n]
        shares = max(parts, 1)
        first, after = w[Forward.outer] * part // shares, w[Forward.outer] * (part + 1) // shares
        target, loss = ints64(w[Forward.target]), floats(w[Forward.loss])
        if w[Forward.target] != 0 and not are_within(target, first, after, 0, n):
            return _LABEL_OUT_OF_RANGE
        if parts == 0:
            return 0
        picked = number(0)
        for row in range(first, after):
            x, p = floats(w[Forward.x] + size * row * n), floats(w[Forward.p] + size * row * n)
            if w[Forward.target] != 0:
                picked = x[target[row]]  # now: p may be written over x
            top = number(-math.inf)  # should there be a NaN, anything: all of the row will be NaN
            for j in range(n):
                top = higher(top, x[j])
            at = size * row * n
            total = sum_up(w[Forward.x] + at, w[Forward.p] + at, n, top)
            scale = number(1) / total
            for j in range(n):
                p[j] *= scale
            if w[Forward.target] != 0:
                loss[row] = number(loss_of(total, top, picked))
        return 0

    return softmax_rows


def _build_narrow_rows(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats32, ints64, words
    from atled_cpu_numba.kernels.shared.narrow_maxima import greatest_of
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_element_access
    from atled_cpu_numba.kernels.shared.options import kernel
    from atled_cpu_numba.kernels.shared.sums import sum_of_exponentials

    (load, store), greatest = make_element_access(dtype, alone=True), greatest_of(dtype)
    sum_up, are_within, loss_of = sum_of_exponentials(dtype), make_are_within(), _make_loss()

    @kernel
    def softmax_narrow_rows(block, part, parts):
        w = words(block)
        n = w[Forward.n]
        shares = max(parts, 1)
        first, after = w[Forward.outer] * part // shares, w[Forward.outer] * (part + 1) // shares
        target, loss = ints64(w[Forward.target]), floats32(w[Forward.loss])
        if w[Forward.target] != 0 and not are_within(target, first, after, 0, n):
            return _LABEL_OUT_OF_RANGE
        if parts == 0:
            return 0
        own = w[Forward.workspace] + part * w[Forward.share_bytes]
        row = floats32(own)
        picked = np.float32(0)
        for number in range(first, after):
            x, p = w[Forward.x] + 2 * number * n, w[Forward.p] + 2 * number * n
            if w[Forward.target] != 0:
                picked = load(x, target[number])  # now: p may be written over x
            top = greatest(x, n)  # as in softmax_rows
            total = sum_up(x, own, n, top)
            scale = np.float32(1) / total
            for j in range(n):
                store(p, j, row[j] * scale)
            if w[Forward.target] != 0:
                loss[number] = np.float32(loss_of(total, top, picked))
        return 0

    return softmax_narrow_rows


def _build_columns(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.exponentials import make_add_exponentials
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_reading, make_writing
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.scalars import higher

    real, item, is_narrow = Real(real_of(dtype)), item_bytes(dtype), dtype not in SIZES
    number, floats, size = real.kind, real.pointer, real.size
    (elements, read), write = make_reading(dtype), make_writing(dtype, alone=True)
    add_exponentials = make_add_exponentials(real_of(dtype), stored=True)
    are_within, loss_of = make_are_within(), _make_loss()

    @kernel
    def softmax_columns(block, part, parts):
        w = words(block)
        n, inner, step = w[Forward.n], w[Forward.inner], w[Forward.columns]
        blocks = (inner + step - 1) // step
        units = w[Forward.outer] * blocks
        target, loss = ints64(w[Forward.target]), floats(w[Forward.loss])
        top_at = w[Forward.workspace] + part * w[Forward.share_bytes]
        total_at = top_at + size * step
        rows_at = total_at + size * step  # of narrow columns: they in float32
        top, total = floats(top_at), floats(total_at)
        shares = max(parts, 1)
        first_unit, after_unit = units * part // shares, units * (part + 1) // shares
        if w[Forward.target] != 0:
            for unit in range(first_unit, after_unit):
                outer = unit // blocks
                first = (unit - outer * blocks) * step
                if not are_within(target, outer * inner + first, outer * inner + min(inner, first + step), 0, n):
                    return _LABEL_OUT_OF_RANGE
        if parts == 0:
            return 0
        for unit in range(first_unit, after_unit):
            outer = unit // blocks
            first = (unit - outer * blocks) * step
            count = min(step, inner - first)
            start = item * (outer * n * inner + first)
            for i in range(count):
                top[i] = number(-math.inf)
                total[i] = number(0)
            for j in range(n):
                x = elements(w[Forward.x] + start + item * j * inner)
                if is_narrow:
                    row = floats(rows_at + size * j * step)
                    for i in range(count):
                        value = read(x, i)
                        row[i] = value
                        top[i] = higher(top[i], value)
                else:
                    for i in range(count):
                        top[i] = higher(top[i], read(x, i))
            for j in range(n):
                at = start + item * j * inner
                source, made = (w[Forward.x] + at, w[Forward.p] + at)
                if is_narrow:
                    source = made = rows_at + size * j * step
                add_exponentials((source, top_at, total_at, made, count))
            if w[Forward.target] != 0:
                x = elements(w[Forward.x] + start)
                for i in range(count):
                    at = outer * inner + first + i
                    loss[at] = number(loss_of(total[i], top[i], read(x, target[at] * inner + i)))
            for i in range(count):
                total[i] = number(1) / total[i]
            for j in range(n):
                p = elements(w[Forward.p] + start + item * j * inner)
                if is_narrow:
                    row = floats(rows_at + size * j * step)
                    for i in range(count):
                        write(p, i, row[i] * total[i])
                else:
                    for i in range(count):
                        write(p, i, read(p, i) * total[i])
        return 0

    return softmax_columns


def _build_cross_entropy_grad(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_reading, make_writing
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    number, size, are_within = Real(real_of(dtype)).kind, item_bytes(dtype), make_are_within()
    (elements, read), write = make_reading(dtype), make_writing(dtype, alone=True)

    @kernel
    def cross_entropy_grad(block, part, parts):
        w = words(block)
        n, inner = w[Backward.n], w[Backward.inner]
        shares = max(parts, 1)
        first, after = w[Backward.outer] * part // shares, w[Backward.outer] * (part + 1) // shares
        target = ints64(w[Backward.target])
        if not are_within(target, first * inner, after * inner, 0, n):
            return _LABEL_OUT_OF_RANGE
        if parts == 0:
            return 0
        for outer in range(first, after):
            start = size * outer * n * inner
            g = elements(w[Backward.gy] + size * outer * inner)
            labels = ints64(w[Backward.target] + 8 * outer * inner)
            all_p, all_gx = elements(w[Backward.p] + start), elements(w[Backward.gx] + start)
            if inner == 1:
                factor = read(g, 0)
                for j in range(n):
                    write(all_gx, j, read(all_p, j) * factor)
            else:
                for j in range(n):
                    p = elements(w[Backward.p] + start + size * j * inner)
                    gx = elements(w[Backward.gx] + start + size * j * inner)
                    for i in range(inner):
                        write(gx, i, read(p, i) * read(g, i))
            for i in range(inner):
                at = labels[i] * inner + i
                write(all_gx, at, (read(all_p, at) - number(1)) * read(g, i))
        return 0

    return cross_entropy_grad


_ROWS = kernels_by_dtype("softmax_rows", _build_rows)
_NARROW_ROWS = kernels_by_dtype("softmax_rows", _build_narrow_rows, dtypes=NARROW)
_COLUMN_WISE = kernels_by_dtype("softmax_columns", _build_columns, dtypes=ANY)
_CROSS_ENTROPY_GRAD = kernels_by_dtype("cross_entropy_grad", _build_cross_entropy_grad, dtypes=ANY)

# Positions of the inputs with floats, of the target, and the number of outputs, all of floats.
_ARGUMENTS: dict[str, tuple[tuple[int, ...], int | None, int]] = {
    "Softmax": ((0,), None, 1),
    "SoftmaxCrossEntropy": ((0,), 1, 2),
    "SoftmaxCrossEntropyGrad": ((0, 1), 2, 1),
}


def accepts(call: Call) -> bool | str:
    """Whether the floats are float32 or float64, the labels int64, and there is something to compute."""
    floats, labels, outputs = _ARGUMENTS[call.spec.name]
    refused = refuse_floats(call, REALS, floats=floats, outputs=outputs)
    if refused:
        return refused
    if labels is not None:
        target = call.inputs[labels]
        assert target is not None
        if target.dtype != np.int64:
            return f"takes int64 labels, not {target.dtype}"
    if has_empty(call):
        return "takes no empty arrays"
    return True


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: x and p, of long rows and of many columns.

    Of the gradient all floats.
    """
    x, p = call.inputs[0], call.outputs[-1]
    assert x is not None
    if call.spec.name == "SoftmaxCrossEntropyGrad":
        dtypes = {desc.dtype.name for desc in (*call.inputs[:2], p) if desc is not None}
        return (0, 1, 3) if len(dtypes) == 1 and dtypes <= set(narrow_dtypes()) else ()
    if x.dtype != p.dtype or p.dtype.name not in narrow_dtypes() or x.strides or p.strides:
        return ()
    axis = call.attributes["axis"] % p.ndim
    n, inner = p.shape[axis], math.prod(p.shape[axis + 1 :])
    is_row, is_column = inner == 1 and n >= _FEWEST_NARROW, inner >= _FEWEST_COLUMNS
    if not (is_row or (is_column and _narrow_columns(n) >= min(inner, _FEWEST_APART))):
        return ()
    return 0, len(call.inputs) + len(call.outputs) - 1


def _narrow_columns(n: int) -> int:
    """How many columns of n elements are widened together."""
    return min(_COLUMNS, _NARROW_BYTES // (SIZES["float32"] * max(1, n)))


def prepare(call: Call) -> Prepared:
    """Softmax: x -> y.  SoftmaxCrossEntropy: x, target -> y, p.  SoftmaxCrossEntropyGrad: gy, p, target -> gx."""
    whole = call.outputs[-1]  # of all three ops, the output of x's shape
    axis = call.attributes["axis"] % whole.ndim
    sizes = {
        "outer": math.prod(whole.shape[:axis]),
        "n": whole.shape[axis],
        "inner": math.prod(whole.shape[axis + 1 :]),
    }
    work_us = whole.size * _NS_PER_ELEMENT * (10 if whole.dtype.itemsize == 8 else 1) / 1e3
    if call.spec.name == "SoftmaxCrossEntropyGrad":
        return _prepare_grad(call, sizes, work_us)
    return (_prepare_rows if sizes["inner"] == 1 else _prepare_columns)(call, sizes, work_us)


def _prepare_grad(call: Call, sizes: Mapping[str, int], work_us: float) -> Prepared:
    outer = sizes["outer"]
    prepared = launch(
        _CROSS_ENTROPY_GRAD[call.outputs[0].dtype.name],
        filled(Backward, **sizes),
        (Backward.gy, Backward.p, Backward.target, Backward.gx),
        parts=share_count(work_us, outer),
        errors=_ERRORS,
    )
    return in_pieces(prepared, call, outer, source=None, checks=True)


def _has_labels(call: Call) -> bool:
    return call.spec.name == "SoftmaxCrossEntropy"


def _arguments(call: Call) -> tuple[int, ...]:
    if _has_labels(call):
        return (Forward.x, Forward.target, Forward.loss, Forward.p)
    return (Forward.x, Forward.p)


def _prepare_rows(call: Call, sizes: Mapping[str, int], work_us: float) -> Prepared:
    outer, has_labels = sizes["outer"], _has_labels(call)
    if call.outputs[-1].dtype.name in NARROW:
        return _prepare_narrow_rows(call, sizes, work_us)
    prepared = launch(
        _ROWS[call.outputs[-1].dtype.name],
        filled(Forward, **sizes),
        _arguments(call),
        parts=share_count(work_us, outer),
        is_brief=is_brief(work_us, outer),
        errors=_ERRORS if has_labels else None,
        note="rows",
    )
    return in_pieces(prepared, call, outer, result=len(call.outputs) - 1, in_place=True, checks=has_labels)


def _prepare_narrow_rows(call: Call, sizes: Mapping[str, int], work_us: float) -> Prepared:
    outer, has_labels = sizes["outer"], _has_labels(call)
    share_bytes = in_lines(SIZES["float32"] * sizes["n"])  # a row in float32
    parts = fitting_shares(share_count(work_us, outer), share_bytes)
    prepared = launch(
        _NARROW_ROWS[call.outputs[-1].dtype.name],
        filled(Forward, share_bytes=share_bytes, **sizes),
        (*_arguments(call), Forward.workspace),
        parts=parts,
        workspace=parts * share_bytes,
        errors=_ERRORS if has_labels else None,
        note="rows",
    )
    # Each piece needs a row of its own: not of many pieces where rows are long.
    pieces = 0 if share_bytes <= _SHORT_ROW_BYTES else parts
    result = len(call.outputs) - 1
    return in_pieces(prepared, call, outer, result=result, in_place=True, checks=has_labels, pieces=pieces)


def _prepare_columns(call: Call, sizes: Mapping[str, int], work_us: float) -> Prepared:
    dtype, outer, has_labels = call.outputs[-1].dtype, sizes["outer"], _has_labels(call)
    columns, n = _COLUMNS, sizes["n"]
    rows = 2  # of as many columns, in the workspace
    if dtype.name in NARROW:
        rows += n
        columns = _narrow_columns(n)
    blocks = -(-sizes["inner"] // columns)
    share_bytes = rows * columns * SIZES[real_of(dtype.name)]
    parts = fitting_shares(share_count(work_us, outer * blocks), share_bytes)
    prepared = launch(
        _COLUMN_WISE[dtype.name],
        filled(Forward, share_bytes=share_bytes, columns=columns, **sizes),
        (*_arguments(call), Forward.workspace),
        parts=parts,
        workspace=parts * share_bytes,
        errors=_ERRORS if has_labels else None,
        note="columns",
    )
    result = len(call.outputs) - 1
    if blocks == 1:
        return in_pieces(prepared, call, outer, result=result, checks=has_labels)
    if n < _FEWEST_CLASSES or outer < parts:
        return prepared
    # A piece must not end between the blocks of columns, which lie beside one another.
    return in_pieces(prepared, call, outer, result=result, checks=has_labels, pieces=outer)
