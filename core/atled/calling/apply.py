"""Calling an op: check, then record it on Variables or compute it at once on NdArrays."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.arrays.operators import Calls
from atled.calling.call_tables import in_force, keep
from atled.errors import RefusedError, four_parts
from atled.graph.record.value import RecordedCall, Value
from atled.limits.caches import Generations
from atled.limits.sizes import out_of_memory, shown
from atled.ops.elementwise import ProgramOp
from atled.ops.spec import SPECS, OpSpec
from atled.variable import Variable
from atled_contexts import Context
from atled_contexts.surroundings import here


def apply(
    op: str | OpSpec,
    inputs: Sequence[Variable | NdArray | None],
    attributes: Mapping[str, Any],
    outputs: Sequence[NdArray | Variable] | None = None,
    key: tuple[Any, ...] | None = None,
) -> Any:
    """Call an op, the general way. The function of the op (`Calls.functions`) is quicker where calls compute at once.

    With an NdArray among the inputs it computes at once and gives NdArrays; else it is recorded and gives Variables.
    One output comes as it is, several as a tuple. outputs: arrays in which the results are to live.
    key: under which the call is cached: the op, shapes and codes of the inputs, and more; of one that is only recorded
        what it is recorded from (`key_part`).

    Raises TypeError or ValueError if the call does not fit the op; nothing is changed then. OutOfMemoryError: there is
        no memory, for as many outputs as a split makes for instance.
    """
    spec = SPECS[op] if isinstance(op, str) else op
    try:
        recorded = _recorded_again(spec, inputs, attributes) if outputs is None and key is None else None
        return _applied(spec, inputs, attributes, outputs, key) if recorded is None else recorded
    except MemoryError as error:
        import traceback  # only on the way to an error

        traceback.clear_frames(error.__traceback__)  # so that there is memory for the words
        shapes = ", ".join("None" if item is None else shown(item.shape) for item in inputs)
        raise out_of_memory(f"a call of {spec.name} on {shapes}", reason=str(error)) from error


def _recorded_again(
    spec: OpSpec, inputs: Sequence[Variable | NdArray | None], attributes: Mapping[str, Any]
) -> Variable | None:
    """The result of a call on Variables like one that was checked before; None where the general way has to make it."""
    surroundings = here()
    if surroundings.arrays is None or surroundings.auto_forward:
        return None
    values: list[Value | None] = []
    for item in inputs:
        if type(item) is Variable:
            values.append(item.value)
        elif item is None:
            values.append(None)
        else:
            return None
    key = _pattern_key(spec, values, attributes, surroundings.context)
    pattern = _PATTERNS.get(key)
    if pattern is None or pattern.visible != 1 or spec.outputs[-1].endswith("..."):
        return None
    return Variable.on_new(pattern.recorded_on(tuple(values)))


def recorded_from(pattern: RecordedCall, inputs: tuple[Value | None, ...], floats: Mapping[str, float] | None) -> Any:
    """The result of a call like one that was checked before, or a tuple of its results.

    floats: the attributes that may be others than the pattern's; None: there are none.
    """
    if pattern.visible == 1 and not pattern.spec.outputs[-1].endswith("..."):
        return Variable.on_new(pattern.recorded_on(inputs, floats))
    return tuple([Variable.on_new(value) for value in pattern.again_on(inputs, floats).make_outputs()])


def _applied(
    spec: OpSpec,
    inputs: Sequence[Variable | NdArray | None],
    attributes: Mapping[str, Any],
    outputs: Sequence[NdArray | Variable] | None,
    key: tuple[Any, ...] | None,
) -> Any:
    at_once = any(isinstance(item, NdArray) for item in inputs)
    surroundings = in_force()
    calls, context, auto_forward = surroundings.arrays, surroundings.context, surroundings.auto_forward
    values = [input_value(spec, position, item) for position, item in enumerate(inputs)]
    if not values and spec.variadic:
        raise TypeError(four_parts(f"{spec.name}()", "it got no input", "", "pass one array or more"))
    is_computed = at_once or auto_forward
    pattern_key = None if is_computed and key is not None else _pattern_key(spec, values, attributes, context)
    pattern = None if pattern_key is None else _PATTERNS.get(pattern_key) or _PATTERNS.find_old(pattern_key)
    if pattern is None:
        function = _checked(spec, values, attributes, context)
        if pattern_key is not None and not (spec.states or spec.opaque):
            remembered = _PATTERNS.add(pattern_key, function.copy_on((), function.attributes))
            pattern = None if spec.random else remembered  # the call has drawn the key of its random state already
    if pattern is not None:
        if key is not None and surroundings.recorded is not None and not is_computed:
            keep(surroundings.recorded, key, pattern)
        is_recorded = outputs is None and not is_computed
        if is_recorded and pattern.visible == 1 and not spec.outputs[-1].endswith("..."):
            return Variable.on_new(pattern.recorded_on(tuple(values)))
        function = pattern.again_on(tuple(values))
    if outputs is not None:
        _check_outputs(function, outputs)
        if spec.views or _overlaps(function, outputs):
            return _copied_into(function, inputs, attributes, outputs, at_once)
    made = function.make_outputs(None if outputs is None else [_array(item) for item in outputs])
    if is_computed:
        # Lazy: a program that only records its calls needs neither.
        from atled.calling.cached_calls import remember
        from atled.graph.run.one_call import call_function

        call, given = call_function(function, function.inputs, made)
        if key is not None:
            remember(key, calls, call, function, given)
    results: list[Any] = [value.data if at_once else Variable.on(value) for value in made]
    if at_once and outputs is not None:
        results = [_array(item) for item in outputs]
    return results[0] if len(results) == 1 and not spec.outputs[-1].endswith("...") else tuple(results)


_PATTERNS: Generations[RecordedCall] = Generations("checked calls", 2048)
"""Calls without their inputs, by all that is checked of a call: graphs have many that are alike."""

_EXACT = frozenset((int, str))
_PLAIN = frozenset((int, bool, str, type(None)))


def _pattern_key(
    spec: OpSpec, values: Sequence[Value | None], attributes: Mapping[str, Any], context: Context
) -> tuple[Any, ...] | None:
    """All that is checked of a call; None where that has no key.

    Types are in it, and how a float is written: True equals 1, and -0.0 equals 0.0.
    """
    said: list[Any] = [spec, context]
    said += [None if value is None else value.shape for value in values]
    for name, value in attributes.items():
        kind = type(value)
        if kind is float:
            said += name, value.hex()
        elif kind in _PLAIN:
            said += name, kind, value
        elif (kind is tuple or kind is list) and _EXACT.issuperset(map(type, value)):
            said += name, kind, tuple(value)
        else:
            return None
    return tuple(said)


def key_part(value: object) -> Hashable:
    """What the key of a recorded call has for an attribute; TypeError for what has to be checked each time."""
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    if (kind is tuple or kind is list) and _EXACT.issuperset(map(type, value)):  # type: ignore[call-overload]  # so it is
        return tuple(value)  # type: ignore[arg-type]  # likewise
    if kind is float:
        return value.hex()  # type: ignore[attr-defined]  # likewise
    raise TypeError(kind)


def _checked(spec: OpSpec, values: list[Value | None], attributes: Mapping[str, Any], context: Context) -> RecordedCall:
    """A call, checked against its op spec."""
    descs = [None if value is None else ArrayDesc(value.shape) for value in values]
    for name in spec.states:
        state_array = NdArray.from_numpy_array(spec.first_state(name, *descs))
        values.append(Value(state_array.shape, None, data=state_array))
        descs.append(ArrayDesc(state_array.shape))
    if len(descs) > 1 and isinstance(spec, ProgramOp):
        _check_axis_counts(spec, descs)
    checked = spec.check_attributes(attributes, descs)
    spec.check_values(checked)
    return RecordedCall(spec, values, checked, context)


def _array(item: NdArray | Variable) -> NdArray:
    return item if isinstance(item, NdArray) else item.data


def _check_axis_counts(spec: OpSpec, descs: Sequence[ArrayDesc | None]) -> None:
    """Refuse elementwise calls on arrays of different ndim, which op specs would broadcast: NNabla does so too."""
    counts = {desc.ndim for desc in descs if desc is not None}
    if len(counts) > 1:
        raise spec.error(
            descs,
            f"the inputs have {' and '.join(map(str, sorted(counts)))} axes",
            f"reshape them to {max(counts)} axes each; axes of size 1 broadcast",
        )


def input_value(spec: OpSpec, position: int, item: Any) -> Value | None:
    """The value of a graph for an argument that is given as an input; TypeError if it is no array."""
    if item is None:
        if not spec.input_at(position).optional:
            raise TypeError(
                four_parts(
                    spec.name, f"the input {spec.input_at(position).name} is missing", "", "pass an array for it"
                )
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


def _check_outputs(function: RecordedCall, outputs: Sequence[NdArray | Variable]) -> None:
    name, count = function.spec.name, function.visible
    if not isinstance(outputs, Sequence):
        raise TypeError(four_parts(f"{name}(outputs={outputs!r})", "not a list", "", "pass a list of NdArrays"))
    if len(outputs) != count:
        raise RefusedError(
            four_parts(
                f"{name}(outputs={len(outputs)} arrays)", f"it gives {count} results", "", f"pass {count} arrays"
            )
        )
    for desc, item in zip(function.output_descs, outputs, strict=False):
        if not isinstance(item, NdArray | Variable) or item.shape != desc.shape:
            kind = RefusedError if isinstance(item, NdArray | Variable) else TypeError
            raise kind(
                four_parts(
                    f"{name}(outputs=...)",
                    f"got {item!r} for a result of shape {desc.shape}",
                    "",
                    "pass NdArrays or Variables of the result's shape",
                )
            )


def _overlaps(function: RecordedCall, outputs: Sequence[NdArray | Variable]) -> bool:
    """Whether writing results would change inputs that are still to be read.

    An elementwise op reads each element just before it writes the one of the same place, unless it broadcasts.
    """
    written = {id(_array(item).cell) for item in outputs}
    shape = function.output_descs[0].shape
    in_step = isinstance(function.spec, ProgramOp)
    return any(
        value is not None and id(value.data.cell) in written and not (in_step and value.shape == shape)
        for value in function.inputs
    )


def _copied_into(
    function: RecordedCall,
    inputs: Sequence[Variable | NdArray | None],
    attributes: Mapping[str, Any],
    outputs: Sequence[NdArray | Variable],
    at_once: bool,
) -> Any:
    """The results of a call, computed elsewhere and copied into the given arrays."""
    if not at_once and not function.spec.views:
        raise RefusedError(
            four_parts(
                f"{function.spec.name}(outputs=...)",
                "an output is the memory of an input that is not read element by element",
                "",
                "give it an array of its own",
            )
        )
    results = apply(function.spec, inputs, attributes)
    made = results if isinstance(results, tuple) else (results,)
    copies = [apply("Identity", (result,), {}, [item]) for result, item in zip(made, outputs, strict=True)]
    return tuple(copies) if isinstance(results, tuple) else copies[0]


Calls.apply = staticmethod(apply)
