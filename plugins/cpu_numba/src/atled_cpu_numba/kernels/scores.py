"""Measures of class scores: TopNError and ConfusionMatrix.

Scores stand on the axis `axis` of x, as (outer, classes, inner); a label is one of (outer, inner).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.indices import make_are_within
from atled_cpu_numba.kernels.shared.launch import (
    ANY,
    REALS,
    kernels_by_dtype,
    launch,
    narrow_dtypes,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout


@layout
class Block:
    """What both kernels read."""

    x: int  # address
    labels: int  # address
    result: int  # address
    outer: int
    classes: int
    inner: int
    n: int  # of TopNError


_OUT_OF_RANGE = 1
_MOST_CLASSES = (1 << 31) - 1  # which an int32 counts
_ELEMENTS_PER_US = 2000.0  # a cautious rate of one core, for the number of shares


def _build_top_n(dtype: str) -> Callable[..., int]:
    from numba import types

    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_reading
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real, size, are_within = Real(real_of(dtype)), item_bytes(dtype), make_are_within()
    number, floats, (elements, read) = real.kind, real.pointer, make_reading(dtype, compared=True)
    # As wide as what is compared, for as many in a vector.
    whole = types.int64 if dtype == "float64" else types.int32

    @kernel
    def top_n_error(block, part, parts):
        w = words(block)
        label, y, classes = ints64(w[Block.labels]), floats(w[Block.result]), w[Block.classes]
        inner, n = w[Block.inner], w[Block.n]
        count = w[Block.outer] * inner
        first, after = count * part // parts, count * (part + 1) // parts
        if not are_within(label, first, after, 0, classes):
            return _OUT_OF_RANGE
        for i in range(first, after):
            x = elements(w[Block.x] + size * (i // inner * classes * inner + i % inner))
            score, better = read(x, label[i] * inner), whole(0)
            if inner == 1:  # a loop of its own: side by side, the scores are compared in vectors
                for j in range(classes):
                    better += whole(1) if read(x, j) >= score else whole(0)
            else:
                for j in range(classes):
                    better += whole(1) if read(x, j * inner) >= score else whole(0)
            y[i] = number(1) if better > n else number(0)
        return 0

    return top_n_error


def _build_confusion(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import ints32, ints64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    floats, size, are_within = real.pointer, real.size, make_are_within()

    @kernel
    def confusion_matrix(block, part, parts):
        w = words(block)
        label, counts = ints64(w[Block.labels]), ints32(w[Block.result])
        classes, inner = w[Block.classes], w[Block.inner]
        count = w[Block.outer] * inner
        if not are_within(label, 0, count, 0, classes):
            return _OUT_OF_RANGE
        for i in range(classes * classes):
            counts[i] = 0
        for i in range(count):
            x = floats(w[Block.x] + size * (i // inner * classes * inner + i % inner))
            best, most = 0, x[0]
            # The first NaN counts as the maximum, as in NumPy: nothing compares as larger, and the loop ends there.
            for j in range(1, classes):
                if most != most:
                    break
                if not x[j * inner] <= most:
                    best, most = j, x[j * inner]
            counts[label[i] * classes + best] += 1
        return 0

    return confusion_matrix


_KERNELS = {
    "TopNError": kernels_by_dtype("TopNError", _build_top_n, dtypes=ANY),
    "ConfusionMatrix": kernels_by_dtype("ConfusionMatrix", _build_confusion),
}


def accepts(call: Call) -> bool | str:
    """Whether scores are float32 or float64 and the labels int64."""
    refused = refuse_floats(call, REALS, floats=(0,), outputs=call.spec.name == "TopNError")
    if refused:
        return refused
    x, labels = call.inputs
    assert x is not None
    assert labels is not None
    if call.spec.name == "TopNError" and x.shape[call.attributes["axis"]] > _MOST_CLASSES:
        return f"counts up to {_MOST_CLASSES} classes"
    return labels.dtype == np.int64 or f"takes int64 labels, not {labels.dtype}"


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments are taken as they are where they are narrow: the scores whose places are counted."""
    x = call.inputs[0]
    assert x is not None
    return (0,) if call.spec.name == "TopNError" and x.dtype.name in narrow_dtypes() else ()


def prepare(call: Call) -> Prepared:
    """TopNError: x, target -> error.  ConfusionMatrix: x, target -> counts, in one share: all write to all of it."""
    x, axis = call.inputs[0], call.attributes["axis"]
    assert x is not None
    outer, classes, inner = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    is_top = call.spec.name == "TopNError"
    return launch(
        _KERNELS[call.spec.name][x.dtype.name],
        filled(Block, outer=outer, classes=classes, inner=inner, n=call.attributes["n"] if is_top else 0),
        (Block.x, Block.labels, Block.result),
        parts=share_count(x.size / _ELEMENTS_PER_US, outer * inner) if is_top else 1,
        errors={_OUT_OF_RANGE: "label out of range"},
    )
