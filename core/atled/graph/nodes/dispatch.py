"""Dispatch: describes a call as its backend would get it, and asks the selection for the implementation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.place import HOST, ArrayClass, Place, place_on
from atled.call import Call, Prepared
from atled.dtypes import is_float
from atled.limits.caches import Generations, register_cache
from atled.ops.channel_axis import Channelled, back_axes, front_axes, to_front
from atled.ops.spec import SPECS, Input, OpSpec
from atled.type_configs import computable, compute_dtype, precise_dtype, standard_config
from atled_contexts import (
    Candidate,
    Context,
    Decision,
    Implementation,
    SelectionError,
    array_class,
    array_class_names,
    backend_info,
    backend_status,
    backends,
    best_candidate,
    clear_selection_cache,
    devices,
    implementations,
    plugin_generation,
    select,
    selection_count,
)

if TYPE_CHECKING:
    from atled.graph.nodes.body import Body
    from atled.graph.nodes.body_op import BodyOp

_INDEX: np.dtype[Any] = np.dtype(np.int64)
_TRUTH: np.dtype[Any] = np.dtype(np.bool_)
_SINGLE: np.dtype[Any] = np.dtype(np.float32)

PYTHON, ENGINE = "python", "engine"
"""What stands for a backend where the engine itself computes: code of the user, or plans of bodies."""

register_cache("decisions", selection_count, clear_selection_cache)

_SPARING: Generations[tuple[bool]] = Generations("auxiliary outputs that are left out", 1024)
_OMITTING: Generations[tuple[bool]] = Generations("decisions by which outputs are left out", 1024)
"""What `_spares` and `is_sparing` found: each asks who would compute the gradient."""


def cast_desc(item: Input, desc: ArrayDesc | None, type_config: str) -> ArrayDesc | None:
    """What an implementation gets for an input under a type config: cast as the kind of the input says."""
    if desc is None or item.kind in ("keep", "random_state", "state"):
        return desc
    if item.kind in ("compute", "truth"):
        wanted = compute_dtype(type_config)
    else:
        wanted = precise_dtype(type_config) if item.kind == "precise" else _INDEX
    return desc if desc.dtype == wanted else desc.astype(wanted)


def describe_call(
    spec: OpSpec,
    inputs: Sequence[ArrayDesc | None],
    attributes: Mapping[str, Any],
    context: Context,
    type_config: str,
    device_id: str,
    by_operands: bool = False,
) -> Call:
    """The call under one type config: inputs cast, outputs inferred.

    by_operands: whether the inputs are cast to a dtype that follows from them, as NumPy's promotion has it.
    """
    if by_operands:
        cast, outputs = _by_operands(spec, inputs, attributes, type_config)
    else:
        dtype = compute_dtype(type_config)
        cast = tuple(cast_desc(spec.input_at(i), desc, type_config) for i, desc in enumerate(inputs))
        is_dtype_set = "dtype" in attributes and spec.attributes[spec.attribute_names.index("dtype")].hidden
        if is_dtype_set and not spec.user_inputs:
            attributes = {**attributes, "dtype": dtype}
        outputs = infer(spec, cast, attributes)
    return Call(
        spec,
        cast,
        outputs,
        {name: value for name, value in attributes.items() if _is_told(spec, name, value)},
        device_id=device_id,
        type_config=type_config,
        deterministic=context.deterministic,
        local_errors=context.local_errors,
        by_operands=by_operands,
    )


def _by_operands(
    spec: OpSpec, inputs: Sequence[ArrayDesc | None], attributes: Mapping[str, Any], type_config: str
) -> tuple[tuple[ArrayDesc | None, ...], tuple[ArrayDesc, ...]]:
    """The inputs cast to the dtype that follows from them, and the outputs."""
    dtype = operand_dtype(spec, inputs)
    cast = tuple(_cast_to(dtype, spec.input_at(i), desc, type_config) for i, desc in enumerate(inputs))
    outputs = infer(spec, cast, attributes)
    return cast, outputs if dtype is None else spec.operand_outputs(outputs, dtype)


def outputs_by_operands(
    spec: OpSpec, inputs: Sequence[ArrayDesc | None], attributes: Mapping[str, Any]
) -> tuple[ArrayDesc, ...]:
    """What a call gives that takes its dtype from its inputs, whoever computes it."""
    return _by_operands(spec, inputs, attributes, standard_config(_SINGLE))[1]


def operand_dtype(spec: OpSpec, inputs: Sequence[ArrayDesc | None]) -> np.dtype | None:
    """`OpSpec.operand_dtype`, with the error in the house's wording."""
    try:
        return spec.operand_dtype(inputs)
    except TypeError as error:
        given = [None if desc is None else desc.dtype.name for desc in inputs]
        raise spec.error(
            inputs,
            f"NumPy has no promotion of {', '.join(map(str, given))} for it: {str(error).splitlines()[0]}",
            "cast one of them first",
        ) from error


def _cast_to(dtype: np.dtype | None, item: Input, desc: ArrayDesc | None, type_config: str) -> ArrayDesc | None:
    """What an implementation gets for an input of a call that is computed in a dtype."""
    if desc is None or item.kind in ("keep", "random_state", "state"):
        return desc
    if item.kind in ("truth", "index"):
        wanted = _TRUTH if item.kind == "truth" else _INDEX
    elif item.kind == "precise" and dtype is not None and is_float(dtype):
        wanted = precise_dtype(type_config)
    else:
        assert dtype is not None
        wanted = dtype
    return desc if desc.dtype == wanted else desc.astype(wanted)


@lru_cache(maxsize=64)
def _context_for(context: Context, dtype: np.dtype, generation: int) -> Context:
    """A Context like one, under type configs that compute in a dtype: its own ones where they do.

    generation: that of the plugins, which may say what type configs mean.
    """
    standard = standard_config(dtype)
    configs = [config for _, config in context.backends]
    return context.with_type_configs(config if _computes_in(config, dtype) else standard for config in configs)


def _computes_in(type_config: str, dtype: np.dtype) -> bool:
    """Whether the dtype of a type config is known, and this one; backends that are absent may have their own."""
    return bool(computable((type_config,))) and compute_dtype(type_config) == dtype


def context_by_operands(spec: OpSpec, inputs: Sequence[ArrayDesc | None], context: Context) -> Context:
    """The Context under which a call is decided that takes its dtype from its operands."""
    dtype = operand_dtype(spec, inputs)
    if dtype is None:
        return context
    return _context_for(context.frozen, dtype if is_float(dtype) else _SINGLE, plugin_generation())


def _is_told(spec: OpSpec, name: str, value: Any) -> bool:
    """Whether an attribute is part of a call: no float one, and channel_last only where it changes what is computed."""
    return name not in spec.float_names and bool(value or name != "channel_last" or not spec.channelled)


def infer(spec: OpSpec, inputs: Sequence[ArrayDesc | None], attributes: Mapping[str, Any]) -> tuple[ArrayDesc, ...]:
    """The output descriptions; the shape rule sees the op's own inputs (no random state) and no run-time attributes.

    Nor does it see strides: what an op makes is in C order, but for what it changes in place.
    """
    static = {name: value for name, value in attributes.items() if name not in spec.float_names}
    shown = [None if desc is None else desc.contiguous for desc in (inputs[:-1] if spec.random else inputs)]
    outputs = spec.infer_outputs(shown, static)
    if not spec.inplace:
        return outputs
    return tuple(_in_place(desc, inputs, spec.inplace.get(n)) for n, desc in enumerate(outputs))


def _in_place(desc: ArrayDesc, inputs: Sequence[ArrayDesc | None], source: int | None) -> ArrayDesc:
    """An output; with the strides of the input of which it is made in place."""
    changed = None if source is None else inputs[source]
    return desc if changed is None else ArrayDesc(desc.shape, desc.dtype, changed.strides)


def choose(
    spec: OpSpec,
    inputs: tuple[ArrayDesc | None, ...],
    attributes: Mapping[str, Any],
    context: Context,
    *,
    may_spare: bool = True,
    by_operands: bool = False,
) -> Decision:
    """The implementation for a call, cached by what it depends on.

    may_spare: whether auxiliary outputs may be left out, if the gradient does without them.
    by_operands: whether the call takes its dtype from its inputs, not from the type configs of the Context.
    """
    if by_operands and not spec.by_engine:
        context = context_by_operands(spec, inputs, context)
    floats = spec.float_names
    static = tuple([item for item in attributes.items() if item[0] not in floats] if floats else attributes.items())

    def make_call(type_config: str, device_id: str) -> Call:
        return describe_call(spec, inputs, dict(static), context, type_config, device_id, by_operands)

    if spec.by_engine:
        return _decide_by_engine(spec, context, make_call)
    if spec.channelled and is_transposed(spec, inputs, attributes, context, by_operands):
        return _decide_transposed(spec, inputs, attributes, context, make_call, by_operands)
    by: tuple[str, ...] = ("by operands",) if by_operands else ()
    if may_spare and spec.may_spare and _spares(spec, context, (inputs, static, *by), make_call):
        without = partial(_without_auxiliary, make_call)
        return select(spec.name, context, (inputs, static, "without auxiliary outputs", *by), without, count=False)
    # A fallback is counted at each run, not here: a plan is compiled once and runs often.
    return select(spec.name, context, (inputs, static, *by), make_call, count=False)


def choose_strided(
    spec: OpSpec,
    inputs: tuple[ArrayDesc | None, ...],
    attributes: Mapping[str, Any],
    context: Context,
    *,
    by_operands: bool = False,
) -> Decision:
    """The implementation for a call on strided arrays: that of the call on arrays in C order, if there is a choice.

    Its call has strides where that implementation takes them; where it has none, the array is to be copied first. What
    an op changes in place keeps its strides, and so does what is only copied: who takes these computes it.
    """
    if isinstance(spec, EngineOp):
        taken = tuple(None if desc is None else spec.taken(n, desc) for n, desc in enumerate(inputs))
        return choose(spec, taken, attributes, context, by_operands=by_operands)
    changed = {*spec.mutated_with(attributes), *spec.inplace.values()}
    plain = tuple(None if desc is None else desc.contiguous for desc in inputs)
    must = tuple(desc if n in changed or spec is SPECS["Identity"] else plain[n] for n, desc in enumerate(inputs))
    decision = choose(spec, must, attributes, context, by_operands=by_operands)
    made = decision.implementation
    names = [spec.input_at(n).name for n in range(len(inputs))]
    wanted = tuple(desc if made.takes_strides((names[n],)) else must[n] for n, desc in enumerate(inputs))
    if wanted == must:
        return decision
    try:
        other = choose(spec, wanted, attributes, context, by_operands=by_operands)
    except SelectionError:  # nobody takes the strides, and the Context refuses fallbacks
        return decision
    return other if other.implementation is made else decision


def choose_anywhere(
    spec: OpSpec, inputs: tuple[ArrayDesc | None, ...], context: Context, *, by_operands: bool = False
) -> Decision:
    """The implementation for a copy from, or to, an array in C order that begins where few can: one for any strides."""
    strided = tuple(None if desc is None else ArrayDesc((2,), desc.dtype, (2,)) for desc in inputs)
    decision = choose(spec, strided, {}, context, by_operands=by_operands)
    there = decision.type_config, decision.device_id
    return decision.made_for(spec.name, describe_call(spec, inputs, {}, context, *there, by_operands))


def _without_auxiliary(make_call: Callable[[str, str], Call], type_config: str, device_id: str) -> Call:
    """The call as one gets it who need not make its auxiliary outputs."""
    call = make_call(type_config, device_id)
    first = len(call.outputs) - len(call.spec.auxiliary)
    return call.without(range(first, len(call.outputs)))


def _spares(spec: OpSpec, context: Context, key: Hashable, make_call: Callable[[str, str], Call]) -> bool:
    """Whether the first that computes a call without its auxiliary outputs omits them, and so does the gradient.

    Asked for all outputs it may refuse: most libraries do not make the places of maxima.

    key: what it depends on besides op and Context.
    """
    if not any(made.omits for backend, _ in context.backends for made in implementations(spec.name, backend)):
        return False
    context = context.frozen
    whole = spec.name, context, key, plugin_generation()
    found = _SPARING.get(whole) or _SPARING.find_old(whole)
    if found is None:
        found = _SPARING.add(whole, (_found_sparing(spec, context, make_call),))
    return found[0]


def _found_sparing(spec: OpSpec, context: Context, make_call: Callable[[str, str], Call]) -> bool:
    chosen = best_candidate(spec.name, context, partial(_without_auxiliary, make_call))
    if chosen is None or chosen.implementation is None:
        return False
    return _omits(chosen.implementation, chosen.backend, make_call(chosen.type_config, chosen.device_id), context)


def is_sparing(decision: Decision[Call], context: Context) -> bool:
    """Whether nobody needs the auxiliary outputs of a call: its backend omits them, and its gradient has another way.

    Both by one backend: another one would pay for what this one saves. Nor is it another way what the backend ranks
    lower than the call, such as the reference beside kernels: it leaves out only what no gradient would read then.
    """
    if not decision.implementation.omits:
        return False
    key = decision, context.frozen, plugin_generation()
    found = _OMITTING.get(key) or _OMITTING.find_old(key)
    if found is None:
        omits = _omits(decision.implementation, decision.backend, decision.call, context)
        found = _OMITTING.add(key, (omits,))
    return found[0]


def _omits(made: Implementation, backend: str, call: Call, context: Context) -> bool:
    if not made.omits or not set(made.omits).issuperset(call.spec.auxiliary):
        return False
    sparing = call.spec.sparing_gradient(call.inputs, call.outputs, call.attributes)
    if sparing is None:
        return False
    op, inputs, attributes = sparing
    spec = SPECS[op]
    found = _chosen(spec, inputs, attributes, context, call.by_operands)
    if found is None or found.implementation is None or found.backend != backend:
        return False
    checked, there = spec.check_attributes(attributes, inputs), (found.type_config, found.device_id)
    gradient = describe_call(spec, inputs, checked, context, *there, call.by_operands)
    return _rank(found.implementation, gradient) >= _rank(made, call)


def _rank(made: Implementation, call: Call) -> float:
    return 0.0 if made.prefers is None else made.prefers(call)


def is_transposed(
    spec: OpSpec,
    inputs: Sequence[ArrayDesc | None],
    attributes: Mapping[str, Any],
    context: Context,
    by_operands: bool = False,
) -> bool:
    """Whether a call with channel_last is computed without it, between transposes on the same backend.

    So it is where the backend that would compute the call without does not compute it as it is.
    """
    if not (spec.channelled and attributes["channel_last"]):
        return False
    moved, without = in_front(spec, inputs, attributes)
    plain = backend_for(spec, moved, without, context, by_operands)
    if plain is None or plain == backend_for(spec, inputs, attributes, context, by_operands):
        return False
    assert isinstance(spec, Channelled)
    count = len(attributes[spec.spatial])
    outputs = infer(spec, moved, without)
    ends = [(desc, front_axes) for desc, name in zip(inputs, spec.input_names, strict=True) if name in spec.channelled]
    ends += [(desc, back_axes) for desc, name in zip(outputs, spec.outputs, strict=True) if name in spec.channelled]
    return all(
        _transposing(desc, axes(desc.ndim, count), context, by_operands) == plain
        for desc, axes in ends
        if desc is not None
    )


def _transposing(desc: ArrayDesc, axes: Sequence[int], context: Context, by_operands: bool) -> str | None:
    """The backend that transposes an array; places as the integers that they are."""
    is_exact = by_operands or not is_float(desc.dtype)
    return backend_for(SPECS["Transpose"], [desc], {"axes": axes}, context, is_exact)


def in_front(
    spec: OpSpec, inputs: Sequence[ArrayDesc | None], attributes: Mapping[str, Any]
) -> tuple[tuple[ArrayDesc | None, ...], dict[str, Any]]:
    """Inputs and attributes of the call without channel_last that computes the same of transposed arrays."""
    assert isinstance(spec, Channelled)
    count = len(attributes[spec.spatial])
    named = zip(spec.input_names, inputs, strict=True)
    moved = tuple(to_front(desc, count) if name in spec.channelled else desc for name, desc in named)
    return moved, {**attributes, "channel_last": False}


def backend_for(
    spec: OpSpec,
    inputs: Sequence[ArrayDesc | None],
    attributes: Mapping[str, Any],
    context: Context,
    by_operands: bool = False,
) -> str | None:
    """The backend that would compute a call; None if none would, which is no error here."""
    found = _chosen(spec, inputs, attributes, context, by_operands)
    return None if found is None else found.backend


def _chosen(
    spec: OpSpec,
    inputs: Sequence[ArrayDesc | None],
    attributes: Mapping[str, Any],
    context: Context,
    by_operands: bool,
) -> Candidate | None:
    """Who would compute a call; None if nobody would, which is no error here."""
    checked = spec.check_attributes(attributes, inputs)
    if by_operands:
        context = context_by_operands(spec, inputs, context)
    describe = partial(describe_call, spec, inputs, checked, context, by_operands=by_operands)
    return best_candidate(spec.name, context, describe)


def place_of(decision: Decision, context: Context) -> Place:
    """The memory in which the chosen backend computes."""
    backend = _home(context)[0] if decision.backend in (PYTHON, ENGINE) else decision.backend
    return _memory_of(backend, decision.device_id, context)


def home_of(context: Context) -> Place:
    """The memory in which the first usable backend of a Context computes."""
    return _memory_of(_home(context)[0], context.device_id, context)


def context_on(place: Place, type_config: str = "float") -> Context | None:
    """A Context for what is to be computed where an array is, by its device's backends alone; None if there is none."""
    found = []
    for backend in () if place.is_host else backends():
        info = backend_info(backend)
        names = () if info.host or type_config not in info.type_configs else array_class_names(backend)
        found += [(backend, name) for name in names if array_class(name) is place.array_class]
    if not found or place.device_id not in devices(found[0][0]):
        return None
    entries = [f"{backend}:{type_config}" for backend, _ in found]
    return Context(entries, found[0][1], place.device_id, fallback="raise")


def _memory_of(backend: str, device_id: str, context: Context) -> Place:
    if backend_info(backend).host:
        return HOST
    names = array_class_names(backend)
    # The Context names the array class of its first backend, which need not be that of this one.
    found = array_class(context.array_class if context.array_class in names else names[0])
    assert isinstance(found, ArrayClass)
    return place_on(found, device_id)


def _home(context: Context) -> tuple[str, str]:
    """The first usable backend of a Context, with its type config."""
    usable = (entry for entry in context.backends if backend_status(entry[0]).usable)
    return next(usable, context.backends[0])


class EngineOp(OpSpec, abstract=True):
    """An op that no backend computes: the engine runs it.

    note: what listings say of it.  bodies: that it runs, as loops and branches do.
    """

    by_engine = True
    note: str = ""
    bodies: Sequence[Body] = ()

    def prepare(self, call: Call) -> Prepared:
        """How a call runs."""
        raise NotImplementedError(f"{self.name} does not say how it runs")

    def taken(self, position: int, desc: ArrayDesc) -> ArrayDesc:
        """What becomes of a strided input: itself, or a copy in C order."""
        return desc.contiguous


class OpaqueOp(EngineOp, abstract=True):
    """Code of the user, for which the engine calls `run(*NdArrays of inputs and outputs, *floats)`."""

    opaque = True
    note = "the function's own Python code"


def has_bodies(spec: OpSpec | None) -> TypeGuard[BodyOp]:
    """Whether an op is a loop or a branch; who asks need not import what these are made of, 4 ms at first."""
    return isinstance(spec, EngineOp) and bool(spec.bodies)


def engine_candidate(spec: OpSpec, context: Context) -> Candidate:
    """The only candidate for an op that the engine computes."""
    assert isinstance(spec, EngineOp)
    who, omits = PYTHON if spec.opaque else ENGINE, tuple(spec.auxiliary)
    strides = () if spec.opaque else spec.input_names  # as far as `taken` says
    made = Implementation(spec.name, who, spec.prepare, note=spec.note, op_version=None, omits=omits, strides=strides)
    return Candidate(who, _home(context)[1], "chosen", device_id=context.device_id, implementation=made)


class BetweenTransposes(Implementation):
    """Stands for the implementation of a call with channel_last that computes the call without, on transposed arrays.

    Lowering puts the transposes into the plan; nobody prepares this.

    plain: the decision for the call without.
    """

    __slots__ = ("plain",)

    def __init__(self, plain: Decision[Call]) -> None:
        made = plain.implementation
        note = f"{made.note}, between transposes" if made.note else "between transposes"
        super().__init__(made.op, made.backend, _is_lowered, note=note, op_version=None)
        self.plain = plain


def _is_lowered(call: Call) -> Prepared:
    raise RuntimeError(f"{call!r} is computed between transposes, which are steps of a plan")


def _decide_transposed(
    spec: OpSpec,
    inputs: Sequence[ArrayDesc | None],
    attributes: Mapping[str, Any],
    context: Context,
    make_call: Callable[[str, str], Call],
    by_operands: bool,
) -> Decision[Call]:
    plain = choose(spec, *in_front(spec, inputs, attributes), context, may_spare=False, by_operands=by_operands)
    decision = plain.made_for(spec.name, make_call(plain.type_config, plain.device_id))
    decision.implementation = BetweenTransposes(plain)
    return decision


def _decide_by_engine(spec: OpSpec, context: Context, make_call: Callable[[str, str], Call]) -> Decision:
    """Nothing is to be selected: it runs where the values of its Context live."""
    candidate = engine_candidate(spec, context)
    assert candidate.implementation is not None
    return Decision(
        spec.name,
        context,
        candidate,
        candidate.implementation,
        make_call(candidate.type_config, context.device_id),
        plugin="atled",
        candidates=(candidate,),
        generation=plugin_generation(),
    )
