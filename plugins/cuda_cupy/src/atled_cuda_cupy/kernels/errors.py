"""Measures of how well predictions fit their targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atled.plugin import Call, Prepared, Program, Registrar
from atled_cuda_cupy.compiling import template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels import elementwise, reduction
from atled_cuda_cupy.kernels.softmax import MAY_FAIL, plan_rows
from atled_cuda_cupy.launching import Launch, Step, queued

_IS_WRONG = Program(
    ("x", "target"), (), (("output", "where(x >= 0.5, where(target >= 0.5, 0, 1), where(target >= 0.5, 1, 0))"),)
)
_MOST_CLASSES = 2**24  # places that a float holds


def accepts(call: Call) -> bool | str:
    """True for floats, as many classes as are counted in them; else the reason."""
    x, axis = call.inputs[0], call.attributes["axis"]
    if x is not None and x.shape[axis] > _MOST_CLASSES:
        return f"the kernels count {_MOST_CLASSES} classes at most"
    return reduction.accepts(call)


def prepare_by_label(call: Call) -> Prepared:
    """TopNError, ConfusionMatrix: the threads of a row look at all its scores."""
    x, y, where = call.inputs[0], call.outputs[0], device(call.device_id)
    assert x is not None
    rows = plan_rows(x.shape, call.attributes["axis"], x.dtype.itemsize, where.multiprocessors, vectors=False)
    is_matrix = call.spec.name == "ConfusionMatrix"
    name = "confusion_matrix" if is_matrix else "top_n_error"
    stored, real = type_names(x.dtype)
    words = (rows.rows, rows.classes, rows.inner, min(call.attributes.get("n", 0), _MOST_CLASSES))
    source, defines = template("rows") + template("errors"), {**rows.defines, "T": stored, "A": real}
    launch = Launch(where, source, name, rows.blocks, rows.block, words, defines, wide=max(x.size, y.size) >= 2**30)

    def steps(*given: Any) -> Sequence[Step]:  # Any: arrays of this device
        return [*(reduction.zeros(where, given[2]) if is_matrix else ()), (launch, given, 0)]

    return queued(call, steps, may_fail=MAY_FAIL)


def prepare_binary_error(call: Call) -> Prepared:
    """BinaryError, which is a formula."""
    operands = [desc for desc in (*call.inputs, *call.outputs) if desc is not None]
    launch = elementwise.launch_formula(device(call.device_id), _IS_WRONG, operands)
    return queued(call, launch, note="formula")


def register(registrar: Registrar) -> None:
    """Hand them over."""
    for op in ("ConfusionMatrix", "TopNError"):
        registrar.implementation(op, "cuda", prepare_by_label, accepts=accepts, note="kernel")
    registrar.implementation("BinaryError", "cuda", prepare_binary_error, accepts=reduction.accepts, note="formula")
