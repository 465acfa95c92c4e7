"""ReduceSum, ReduceMean and GlobalAveragePooling, which are Sum and Mean over all elements, or all of a map."""

from __future__ import annotations

from atled.plugin import Call, Prepared, op_spec
from atled_cpu_numba.kernels.reduction import any_axes as reduction

_MEANT = {"ReduceSum": "Sum", "ReduceMean": "Mean", "GlobalAveragePooling": "Mean"}


def accepts(call: Call) -> bool | str:
    """As Sum and Mean."""
    return reduction.accepts(_sum(call))


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """As of Sum and Mean."""
    return reduction.narrow_arguments(_sum(call))


def prepare(call: Call) -> Prepared:
    """x -> y."""
    return reduction.prepare(_sum(call))


def _sum(call: Call) -> Call:
    """The call of Sum or Mean that does the same; sizes of 1 in the result make no difference to its memory."""
    (x,) = call.inputs
    assert x is not None
    first = 2 if call.spec.name == "GlobalAveragePooling" else 0
    attributes = {"axes": tuple(range(first, x.ndim)), "keep_dims": first > 0}
    return Call(
        op_spec(_MEANT[call.spec.name]),
        call.inputs,
        call.outputs,
        attributes,
        device_id=call.device_id,
        type_config=call.type_config,
    )
