"""Calling an op: check, then record it on Variables or compute it at once on NdArrays."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from atled.array import NdArray
from atled.at_once import key_of, known, remember
from atled.call import ArrayDesc
from atled.errors import four_parts
from atled.graph.executor import call_function
from atled.graph.value import Function, Value
from atled.operators import Calls
from atled.ops.spec import SPECS, OpSpec
from atled.variable import Variable
from atled_contexts import get_current_context

_AUTO_FORWARD: ContextVar[bool] = ContextVar("atled_auto_forward", default=False)
_default_auto_forward = False


def get_auto_forward() -> bool:
    """Whether functions of Variables compute at the call."""
    return _AUTO_FORWARD.get() or _default_auto_forward


def set_auto_forward(auto: bool) -> None:
    """Switch computing at the call on or off for the whole program."""
    global _default_auto_forward
    _default_auto_forward = bool(auto)


@contextlib.contextmanager
def auto_forward(auto: bool = True) -> Iterator[None]:
    """Within the block, functions of Variables compute at the call; the graph is recorded all the same."""
    token = _AUTO_FORWARD.set(bool(auto))
    try:
        yield
    finally:
        _AUTO_FORWARD.reset(token)


def apply(
    op: str | OpSpec,
    inputs: Sequence[Variable | NdArray | None],
    attributes: Mapping[str, Any],
    outputs: Sequence[NdArray | Variable] | None = None,
) -> Any:
    """Call an op.

    With an NdArray among the inputs it computes at once and gives NdArrays; else it is recorded and gives Variables.
    One output comes as it is, several as a tuple. outputs: arrays to write the results to.

    Raises TypeError or ValueError if the call does not fit the op; nothing is changed then.
    """
    spec = SPECS[op] if isinstance(op, str) else op
    key = key_of(spec, inputs, attributes) if outputs is None else None
    if key is not None:
        call = known(key)
        if call is not None:
            return call(inputs, attributes)  # type: ignore[arg-type]  # a key is only for NdArrays
    at_once = any(isinstance(item, NdArray) for item in inputs) or _are_arrays(outputs)
    values = [_value(spec, position, item, at_once) for position, item in enumerate(inputs)]
    checked = spec.check_attributes(attributes, [None if value is None else ArrayDesc(value.shape) for value in values])
    spec.check_values(checked)
    function = Function(spec, values, checked, get_current_context())
    made = function.make_outputs()
    if outputs is not None:
        _give_arrays(spec, made, outputs)
    if at_once:
        made_call = call_function(function, function.inputs, made)
        if key is not None:
            remember(key, made_call, function)
        results: list[Any] = [value.data for value in made]
        if outputs is not None:
            results = [item if isinstance(item, NdArray) else item.data for item in outputs]
    else:
        if get_auto_forward():
            call_function(function, function.inputs, made)
        results = [Variable.on(value) for value in made]
    return results[0] if len(results) == 1 and not spec.outputs[-1].endswith("...") else tuple(results)


def _are_arrays(outputs: Sequence[NdArray | Variable] | None) -> bool:
    return outputs is not None and any(isinstance(item, NdArray) for item in outputs)


def _value(spec: OpSpec, position: int, item: Any, at_once: bool) -> Value | None:
    if item is None:
        if not spec.input_at(position).optional:
            raise TypeError(
                four_parts(spec.name, f"the input {spec.input_at(position).name} is missing", "", "pass an array for it")
            )
        return None
    if isinstance(item, Variable):
        return item.value
    if isinstance(item, NdArray):
        return Value(item.shape, None, data=item)
    raise TypeError(
        four_parts(
            f"{spec.name}, input {spec.input_at(position).name}",
            f"got {type(item).__name__}",
            "",
            "pass a Variable or an NdArray; NdArray.from_numpy_array makes one of a NumPy array",
        )
    )


def _give_arrays(spec: OpSpec, made: Sequence[Value], outputs: Sequence[NdArray | Variable]) -> None:
    """Let the results live in the given arrays."""
    if len(outputs) != len(made):
        raise ValueError(
            four_parts(
                f"{spec.name}(outputs={len(outputs)} arrays)", f"it gives {len(made)} results", "", "pass as many arrays"
            )
        )
    for value, item in zip(made, outputs, strict=True):
        if not isinstance(item, NdArray | Variable) or item.shape != value.shape:
            raise ValueError(
                four_parts(
                    f"{spec.name}(outputs=...)",
                    f"got {item!r} for a result of shape {value.shape}",
                    "",
                    "pass NdArrays or Variables of the result's shape",
                )
            )
    for value, item in zip(made, outputs, strict=True):
        value.data = item if isinstance(item, NdArray) else item.data


Calls.apply = staticmethod(apply)
