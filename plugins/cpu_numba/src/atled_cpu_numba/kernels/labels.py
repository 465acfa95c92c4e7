"""One element per label: one-hot arrays, categorical cross entropy and its gradient.

Classes stand on the axis `axis` of x, as (outer, classes, inner); a label is one of (outer, inner).
The gradient checks the labels of its share before it writes; as share 0 of 0 all of them, and then writes nothing.
The loss takes what the labels choose first, of which many are on their way from memory at a time, then its logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from atled.plugin import Call, Prepared, Program, is_narrow
from atled_cpu_numba import elementwise
from atled_cpu_numba.kernels.rows_of_kernels import Rows
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.indices import make_are_within
from atled_cpu_numba.kernels.shared.launch import (
    ANY,
    MOVED,
    REALS,
    kernels_by_dtype,
    launch,
    moved_as,
    narrow_dtypes,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.kernels.shared.pieces import in_pieces


@layout
class Block:
    """What the kernels read; of OneHot, outer is the number of index tuples and classes the product of shape."""

    labels: int  # address
    x: int  # address
    gy: int  # address
    result: int  # address
    outer: int
    classes: int
    inner: int
    entries: int  # of an index tuple of OneHot
    shape: int = 0  # so many sizes


_OUT_OF_RANGE = 1
_ELEMENTS_PER_US = 4000.0  # a cautious rate of one core for writing, for the number of shares
_SMALLEST = float(np.finfo(np.float32).tiny)
# The comparison is false for NaN, which stays.
_LOSS = Program(("p",), (), (("p", f"-log(where(p < {_SMALLEST}, {_SMALLEST}, p))"),))


def _build_one_hot(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def one_hot(block, part, parts):
        w = words(block)
        label, classes, entries = ints64(w[Block.labels]), w[Block.classes], w[Block.entries]
        first, after = w[Block.outer] * part // parts, w[Block.outer] * (part + 1) // parts
        for i in range(first * entries, after * entries):
            if label[i] < 0 or label[i] >= w[Block.shape + i % entries]:
                return _OUT_OF_RANGE
        for i in range(first, after):
            y = floats(w[Block.result] + size * i * classes)
            for j in range(classes):
                y[j] = number(0)
            place = 0
            for entry in range(entries):
                place = place * w[Block.shape + entry] + label[i * entries + entry]
            y[place] = number(1)
        return 0

    return one_hot


def _build_chosen(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.moves import moves_of
    from atled_cpu_numba.kernels.shared.options import kernel

    elements, are_within = moves_of(dtype).pointer, make_are_within()

    @kernel
    def chosen(block, part, parts):
        w = words(block)
        label, x, y = ints64(w[Block.labels]), elements(w[Block.x]), elements(w[Block.result])
        classes, inner = w[Block.classes], w[Block.inner]
        count = w[Block.outer] * inner
        first, after = count * part // parts, count * (part + 1) // parts
        if not are_within(label, first, after, 0, classes):
            return _OUT_OF_RANGE
        if first == after:  # also where inner, which divides, is 0
            return 0
        outer, column = first // inner, first % inner
        for i in range(first, after):
            y[i] = x[(outer * classes + label[i]) * inner + column]
            is_last = column + 1 == inner  # one division for each element would take longer than all else
            outer, column = outer + (1 if is_last else 0), 0 if is_last else column + 1
        return 0

    return chosen


def _build_loss_grad(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_reading, make_writing
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    number, size, are_within = Real(real_of(dtype)).kind, item_bytes(dtype), make_are_within()
    (elements, read), write = make_reading(dtype), make_writing(dtype)

    @kernel
    def categorical_cross_entropy_grad(block, part, parts):
        w = words(block)
        label, gy, classes, inner = ints64(w[Block.labels]), elements(w[Block.gy]), w[Block.classes], w[Block.inner]
        shares = max(parts, 1)
        first, after = w[Block.outer] * part // shares, w[Block.outer] * (part + 1) // shares
        if not are_within(label, first * inner, after * inner, 0, classes):
            return _OUT_OF_RANGE
        if parts == 0:
            return 0
        length, smallest = classes * inner, number(_SMALLEST)
        for outer in range(first, after):
            x, gx = elements(w[Block.x] + size * outer * length), elements(w[Block.result] + size * outer * length)
            for j in range(length):
                write(gx, j, number(0))
            for j in range(inner):
                i = outer * inner + j
                at = label[i] * inner + j
                p = read(x, at)
                write(gx, at, -read(gy, i) / (smallest if p < smallest else p))
        return 0

    return categorical_cross_entropy_grad


_KERNELS = {
    "OneHot": kernels_by_dtype("OneHot", _build_one_hot),
    "CategoricalCrossEntropy": kernels_by_dtype("chosen_by_labels", _build_chosen, dtypes=MOVED),
    "CategoricalCrossEntropyGrad": kernels_by_dtype("CategoricalCrossEntropyGrad", _build_loss_grad, dtypes=ANY),
}

# Per op the position of the labels and those of the inputs that hold floats, then the words of inputs and output.
_LABELS_AND_FLOATS = {
    "OneHot": (0, ()),
    "CategoricalCrossEntropy": (1, (0,)),
    "CategoricalCrossEntropyGrad": (2, (0, 1)),
}
_ARGUMENTS = {
    "OneHot": (Block.labels, Block.result),
    "CategoricalCrossEntropy": (Block.x, Block.labels, Block.result),
    "CategoricalCrossEntropyGrad": (Block.gy, Block.x, Block.labels, Block.result),
}


def accepts(call: Call) -> bool | str:
    """Whether floats are float32 or float64 and the labels int64."""
    position, floats = _LABELS_AND_FLOATS[call.spec.name]
    refused = refuse_floats(call, REALS, floats=floats)
    if refused:
        return refused
    labels = call.inputs[position]
    assert labels is not None
    return labels.dtype == np.int64 or f"takes int64 labels, not {labels.dtype}"


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: x and y of the loss, which reads little of x.

    Of its gradient all floats.
    """
    if call.spec.name == "CategoricalCrossEntropy":
        return 0, 2
    dtypes = {desc.dtype.name for desc in (*call.inputs[:2], *call.outputs) if desc is not None}
    return (0, 1, 3) if len(dtypes) == 1 and dtypes <= set(narrow_dtypes()) else ()


def prepare(call: Call) -> Prepared:
    """OneHot: x -> y.  CategoricalCrossEntropy: x, target -> y.  CategoricalCrossEntropyGrad: gy, x, target -> gx."""
    name, result = call.spec.name, call.outputs[0]
    if name == "OneHot":
        sizes = call.attributes["shape"]
        classes = math.prod(sizes)
        outer, inner = result.size // classes if classes else 0, 1
    else:
        x, axis = call.inputs[0 if name == "CategoricalCrossEntropy" else 1], call.attributes["axis"]
        assert x is not None
        outer, classes, inner, sizes = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]), ()
    dtype = result.dtype.name if name == "CategoricalCrossEntropyGrad" else moved_as(result.dtype)
    prepared = launch(
        _KERNELS[name][dtype],
        [*filled(Block, outer=outer, classes=classes, inner=inner, entries=len(sizes)), *sizes],
        _ARGUMENTS[name],
        parts=share_count(result.size / _ELEMENTS_PER_US, outer),
        errors={_OUT_OF_RANGE: "label out of range"},
    )
    if name == "OneHot" or not result.size:
        return prepared
    if name == "CategoricalCrossEntropy":
        rows = Rows(call)
        *_, y = rows.arguments
        rows.add(prepared, *rows.arguments)
        compute = "float32" if is_narrow(result.dtype) else None
        rows.add(elementwise.prepare_program(_LOSS, (result,), (result,), compute), y, y)
        return rows.finished("labels; formula")
    return in_pieces(prepared, call, outer, source=None, checks=True)
