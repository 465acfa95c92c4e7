"""Calls of ops by the NumPy reference of their specs, which backends that lack a kernel adopt."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.call import Call, Prepared
from atled.dtypes import is_narrow
from atled_contexts import Implementation

ADOPTED_NOTE = "adopted reference"
"""What marks a reference that a host backend took as its own implementation."""

_SINGLE = np.dtype(np.float32)


def reference_run(call: Call) -> Callable[..., None]:
    """`run(*arguments)` on NumPy arrays that computes a call by the reference of its spec.

    Arrays narrower than float32 are computed in float32 and rounded once, when the results are stored.
    """
    return _composed_run(call) if call.before or call.after else _plain_run(call)


def _composed_run(call: Call) -> Callable[..., None]:
    """The op and the formulas that are attached to it, one after the other, with arrays for what is between them."""
    own = _plain_run(call)
    runs = [(position, formula, _plain_run(formula)) for position, formula in call.formulas]
    early = len(call.before)
    read_count, write_count = len(call.reads), len(call.writes)
    own_floats = len(call.spec.float_names)

    def run(*arguments: Any) -> None:
        reads, writes = arguments[:read_count], arguments[read_count : read_count + write_count]
        floats = iter(arguments[read_count + write_count :])
        inputs, operands = list(reads[: len(call.inputs)]), iter(reads[len(call.inputs) :])
        outputs, made = list(writes[: len(call.outputs)]), iter(writes[len(call.outputs) :])
        numbers = list(islice(floats, own_floats))
        for position, formula, compute in runs[:early]:
            (desc,) = formula.outputs
            values = np.empty(desc.shape, desc.dtype)
            compute(*islice(operands, len(formula.inputs)), values, *islice(floats, len(formula.spec.float_names)))
            inputs[position] = values.reshape(_shape_of(call.inputs[position]))
        for position in call.after:
            if outputs[position] is None:
                outputs[position] = np.empty(call.outputs[position].shape, call.outputs[position].dtype)
        own(*inputs, *outputs, *numbers)
        for position, formula, compute in runs[early:]:
            values = outputs[position].reshape(_shape_of(formula.inputs[0]))
            besides = islice(operands, len(formula.inputs) - 1)
            results = islice(made, len(formula.outputs))
            compute(values, *besides, *results, *islice(floats, len(formula.spec.float_names)))

    return run


def _shape_of(desc: ArrayDesc | None) -> tuple[int, ...]:
    assert desc is not None  # what a formula makes or reads is there
    return desc.shape


def _plain_run(call: Call) -> Callable[..., None]:
    spec = call.spec
    attributes = dict(call.attributes)
    names = spec.float_names
    first_output = len(call.inputs)
    first_float = first_output + len(call.outputs)
    narrow = [desc is not None and is_narrow(desc.dtype) for desc in call.inputs]
    widen = any(narrow) and not _passes_through(call)

    def run(*arguments: Any) -> None:
        inputs = list(arguments[:first_output])
        if widen:
            pairs = zip(inputs, narrow, strict=True)
            inputs = [x.astype(_SINGLE) if must and x is not None else x for x, must in pairs]
        values = spec.reference(*inputs, **attributes, **dict(zip(names, arguments[first_float:], strict=True)))
        results = (values,) if isinstance(values, np.ndarray | np.generic) else values
        for output, result in zip(arguments[first_output:first_float], results, strict=True):
            if output is None:
                continue  # nobody reads it
            with np.errstate(over="ignore"):  # a large number becomes inf in a narrow dtype
                np.copyto(output, result, casting="unsafe")
        if widen:
            for position in call.mutated:
                arguments[position][...] = inputs[position]

    return run


def _passes_through(call: Call) -> bool:
    """Whether the op only moves elements, whatever their dtype."""
    return call.spec.moves or all(item.kind == "keep" for item in call.spec.inputs)


def prepare_reference(call: Call) -> Prepared:
    """Prepare a call on its reference."""
    return Prepared(reference_run(call))


def adopt_reference(op: str, backend: str) -> Implementation:
    """The reference as a host backend's own implementation of an op; `explain` shows it as adopted."""
    return Implementation(
        op,
        backend,
        prepare_reference,
        prefers=-1.0,
        note=ADOPTED_NOTE,
        op_version=None,
        integers=True,
        strides=True,
    )
