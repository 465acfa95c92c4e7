"""Softmax, and losses of class labels with their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from atled.plugin import Call, Prepared, Registrar
from atled_cuda_cupy.compiling import template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.attaching import attached_text
from atled_cuda_cupy.kernels.reduction import accepts, zeros
from atled_cuda_cupy.launching import Launch, Step, queued

MAY_FAIL = "a label is out of range"
_HELD_BYTES = 128  # of a row, in the registers of a thread
_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # of packs held: few, so that few kernels are compiled
_UNROLL = 4


@dataclass(frozen=True)
class _Rows:
    """How rows are shared out: threads per row and block, neighbours loaded at once, packs held by each (0: none)."""

    rows: int
    classes: int
    inner: int
    group: int
    block: int
    vector: int
    items: int

    @property
    def blocks(self) -> int:
        """So many hold all rows."""
        return -(-self.rows // (self.block // self.group))

    @property
    def defines(self) -> dict[str, object]:
        """As softmax.cuh wants them."""
        shape = {"GROUP": self.group, "BLOCK": self.block, "VEC": self.vector, "ITEMS": self.items}
        return {**shape, "STRIDED": int(self.inner > 1), "UNROLL": _UNROLL}


def plan_rows(shape: Sequence[int], axis: int, itemsize: int, multiprocessors: int, *, vectors: bool = True) -> _Rows:
    """Warps or less for short rows, blocks for long ones; with other axes behind, threads stand side by side there.

    vectors: whether 16 bytes may be loaded at once.
    """
    outer, classes, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    rows, held = outer * inner, _HELD_BYTES // max(itemsize, 4)
    if inner > 1:
        group = 1
        while group < min(8, classes) and rows * group < 2048 * multiprocessors:
            group *= 2
        return _Rows(rows, classes, inner, group, 256, 1, _items(classes, group, held))
    vector = 16 // itemsize if vectors and classes and classes % (16 // itemsize) == 0 else 1
    packs = max(1, -(-classes // vector))
    if packs <= 128 or classes <= 32 * held:
        group, block = min(32, _power(-(-packs // 4))), 128
    else:
        group = block = 256 if classes <= 256 * held else 4096 // max(itemsize, 4)
    # A thread of a block of 1024 has 64 registers, one of 512 twice as many.
    items = _items(packs, group, held // vector if group <= 256 else held // 2 // vector)
    return _Rows(rows, classes, 1, group, block, vector, items)


def _items(packs: int, group: int, most: int) -> int:
    count = max(1, -(-packs // group))
    return next((items for items in _COUNTS if count <= items <= most), 0)


def _power(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()


def _launch(
    call: Call, rows: _Rows, name: str, grid: Sequence[int] | int, *, parts: int = 0, text: str = "", **modes: int
) -> Launch:
    """A kernel of one of the files; parts: classes that a block of the second dimension has."""
    stored, real = type_names(call.outputs[-1].dtype)
    file = "categorical" if name.startswith("categorical") else name
    source = text + template("rows") + template(file)
    defines = {**rows.defines, "T": stored, "A": real, **modes}
    words, wide = (rows.rows, rows.classes, rows.inner, parts), rows.rows * rows.classes >= 2**30
    block = 256 if file == "categorical" else rows.block
    return Launch(device(call.device_id), source, name, grid, block, words, defines, 0, call.float_count, wide)


def prepare_softmax(call: Call) -> Prepared:
    """Softmax, and SoftmaxCrossEntropy, which gives it besides its loss."""
    where, is_loss = device(call.device_id), call.spec.name != "Softmax"
    x = call.inputs[0]
    assert x is not None
    axis, plain = call.attributes["axis"], not call.formulas
    rows = plan_rows(x.shape, axis, x.dtype.itemsize, where.multiprocessors, vectors=plain)
    text = attached_text(call, reads=(0,), stores=(0,), real=type_names(x.dtype)[1], once=True)
    modes = {"IS_LOSS": int(is_loss), "HAS_FORMULAS": int(not plain)}
    launch = _launch(call, rows, "softmax", rows.blocks, text=text, **modes)

    def steps(*arguments: Any) -> Sequence[Step]:  # Any: arrays of this device
        own, attached, _ = call.split(arguments)
        return [(launch, (own[0], None, own[1], None, None, 0, *attached), 0)]

    def loss_steps(*arguments: Any) -> Sequence[Step]:  # Any: as above
        (x, target, y, p), attached, (flag, number) = call.split(arguments)
        return [(launch, (x, target, y, p, flag, number, *attached), 0)]

    if is_loss:
        return queued(call, loss_steps, may_fail=MAY_FAIL)
    return queued(call, steps)


def prepare_loss_grad(call: Call) -> Prepared:
    """SoftmaxCrossEntropyGrad: by the threads of a row, or by several blocks for a long one."""
    where, gx = device(call.device_id), call.outputs[0]
    rows = plan_rows(gx.shape, call.attributes["axis"], gx.dtype.itemsize, where.multiprocessors)
    step = rows.group * rows.vector * _UNROLL
    parts = max(1, min(-(-8 * where.multiprocessors // max(rows.blocks, 1)), rows.classes // (2 * step), 65535))
    chunk = max(1, -(-rows.classes // (parts * step))) * step
    parts = max(1, -(-rows.classes // chunk))
    launch = _launch(call, rows, "softmax_loss_grad", (rows.blocks, parts), parts=chunk)
    return queued(call, lambda *given: [(launch, given, 0)], may_fail=MAY_FAIL)


def prepare_categorical(call: Call) -> Prepared:
    """CategoricalCrossEntropy and its gradient, which is zeros but at the labels."""
    where, is_grad = device(call.device_id), call.spec.name.endswith("Grad")
    x = call.inputs[1 if is_grad else 0]
    assert x is not None
    rows = plan_rows(x.shape, call.attributes["axis"], x.dtype.itemsize, where.multiprocessors)
    grid = min(-(-rows.rows // 256), 32 * where.multiprocessors)
    name = "categorical_grad" if is_grad else "categorical"
    launch = _launch(call, rows, name, grid)

    def steps(*given: Any) -> Sequence[Step]:  # Any: as above
        return [*(zeros(where, given[3]) if is_grad else ()), (launch, given, 0)]

    return queued(call, steps, may_fail=MAY_FAIL)


def register(registrar: Registrar) -> None:
    """Hand them over."""
    loss: dict[str, Any] = {"omits": ("p",), "attaches": ("x", "y")}
    facts: dict[str, Any] = {"accepts": accepts, "note": "kernel"}
    registrar.implementation("Softmax", "cuda", prepare_softmax, attaches=("x", "y"), **facts)
    registrar.implementation("SoftmaxCrossEntropy", "cuda", prepare_softmax, **loss, **facts)
    registrar.implementation("SoftmaxCrossEntropyGrad", "cuda", prepare_loss_grad, **facts)
    for op in ("CategoricalCrossEntropy", "CategoricalCrossEntropyGrad"):
        registrar.implementation(op, "cuda", prepare_categorical, **facts)
