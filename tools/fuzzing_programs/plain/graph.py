"""Recorded calls of the plain interpreter, and Variables on what they make."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.elementwise import derived_spec
from atled.ops.spec import SPECS, OpSpec
from atled.random import random_key
from fuzzing_programs.plain.arrays import OPERATORS, Cell, Hooks, NdArray
from fuzzing_programs.plain.state import STATE

_MOST_ELEMENTS = 500_000


class Arrays:
    """Values and gradient of a Value, and of those that share them."""

    def __init__(self, data: NdArray, grad: NdArray | None = None) -> None:
        self.data = data
        self.grad = NdArray(data.shape) if grad is None else grad


class Value:
    """One array of a graph.

    need_grad: as set.  call, position: what makes it; None for a leaf.  handle: the Variable on it.
    made: when its values were computed; gradient_made: when a backward left its gradient; 0 for never.
    was_held, was_gradient_held: whether a Variable was held then, so that there is no reason not to have them.
    roots: of the backward that left its gradient.
    shown: the one that is computed into its arrays, for a leaf that has them of it by `unlinked` or `rewire_on`.
    is_moved: whether a compiled step computed it and moved the parameters after that.
    """

    def __init__(
        self, arrays: Arrays, need_grad: bool | None = None, call: Call | None = None, position: int = 0
    ) -> None:
        self.arrays = arrays
        self.need_grad = need_grad
        self.call = call
        self.position = position
        self.handle: weakref.ref[Variable] | None = None
        self.persistent = False
        self.made = self.gradient_made = 0
        self.was_held = self.was_gradient_held = True
        self.roots: list[weakref.ref[Value]] = []
        self.shown: Value | None = None
        self.is_moved = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.arrays.data.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype:
        return self.arrays.data.cell.values.dtype

    @property
    def present(self) -> np.ndarray:
        """The values now."""
        return self.arrays.data.present

    @property
    def is_held(self) -> bool:
        """Whether its Variable is there, or its arrays have to be for another reason."""
        return self.persistent or (self.handle is not None and self.handle() is not None)

    @property
    def needs(self) -> bool:
        """Whether a gradient reaches it."""
        if self.need_grad is not None or self.call is None:
            return bool(self.need_grad)
        return self.call.spec.no_gradient != "stops" and any(v.needs for v in self.call.inputs if v is not None)

    def __neg__(self) -> Any:
        return record("MulScalar", (self,), {"val": -1.0})


class Call:
    """One call of an op.

    is_gradient: whether `nn.grad` recorded it.
    """

    is_gradient = False

    def __init__(self, spec: OpSpec, inputs: Sequence[Value | None], attributes: Mapping[str, Any]) -> None:
        self.spec = spec
        self.inputs = tuple(inputs)
        for name in spec.states:
            array = NdArray.from_numpy_array(spec.first_state(name, *self._descs()))
            self.inputs = (*self.inputs, Value(Arrays(array)))
        self.attributes: Mapping[str, Any] = spec.check_attributes(attributes, self._descs())
        self.random_state = np.array([random_key(self.attributes["seed"]), -1]) if spec.random else None
        self.outputs: list[Value] = []
        self._shape_outputs()

    def _descs(self) -> list[ArrayDesc | None]:
        return [None if value is None else ArrayDesc(value.shape, value.dtype) for value in self.inputs]

    def _shape_outputs(self) -> None:
        given = self._given_descs()
        self.spec.normalize(dict(self.attributes), *given)
        descs = _small_enough(self.spec.infer_outputs(given, self.attributes))
        if not self.outputs:
            for position, desc in enumerate(descs):
                dtype = np.float64 if desc.dtype.kind == "f" else desc.dtype
                array = NdArray(desc.shape, Cell(np.zeros(desc.size, dtype)))
                self.outputs.append(Value(Arrays(array), None, self, position))
            self.visible = self.spec.visible_count(len(descs), self.attributes)
        for value, desc in zip(self.outputs, descs, strict=True):
            if value.shape != desc.shape:
                data = NdArray(desc.shape, Cell(np.zeros(desc.size, value.dtype)))
                value.arrays.data, value.arrays.grad = data, NdArray(desc.shape)

    def _given_descs(self) -> list[ArrayDesc | None]:
        descs = [None if x is None else ArrayDesc(x.shape, x.dtype) for x in self._given()]
        return descs[:-1] if self.random_state is not None else descs

    def _given(self) -> list[np.ndarray | None]:
        given = []
        for position, value in enumerate(self.inputs):
            array = None if value is None else value.present
            kind = self.spec.input_at(position).kind
            if array is not None and kind == "index":
                array = array.astype(np.int64, copy=False)
            elif array is not None and kind in ("compute", "precise"):
                array = array.astype(np.float64, copy=False)
            given.append(array)
        if self.random_state is not None:
            given.append(self.random_state)
        return given

    def refresh(self) -> None:
        """Take over the shapes that inputs have now, and the memory of an input that a view shows."""
        shapes = [None if value is None else value.shape for value in self.inputs]
        self.attributes = self.spec.for_shapes(self.attributes, shapes)
        self._shape_outputs()
        if self.spec.views:
            assert self.inputs[0] is not None
            cell, output = self.inputs[0].arrays.data.cell, self.outputs[0]
            if output.arrays.data.cell is not cell:
                output.arrays.data = NdArray(output.shape, cell)

    def shapes_for(self, shapes: Sequence[tuple[int, ...] | None]) -> list[tuple[int, ...]]:
        """The shapes of the outputs for inputs of these shapes; changes nothing, ValueError where they do not fit."""
        attributes = self.spec.for_shapes(self.attributes, shapes)
        descs = [
            None if desc is None or shape is None else ArrayDesc(shape, desc.dtype)
            for desc, shape in zip(self._given_descs(), shapes, strict=True)
        ]
        self.spec.normalize(dict(attributes), *descs)
        return [desc.shape for desc in _small_enough(self.spec.infer_outputs(descs, attributes))]

    def compute(self) -> None:
        """Write the outputs."""
        self.refresh()
        if self.random_state is not None:
            self.random_state[1] += 1
        if self.spec.views:
            source = self.inputs[0]
            assert source is not None
            self.outputs[0].made = source.made if source.call is not None else STATE.tick()
            return
        STATE.computed[self.spec.name] += 1
        given = self._given()
        with np.errstate(all="ignore"):
            results = self.spec.reference(*given, **self.attributes)
        for position in self.spec.mutated:
            changed, array = self.inputs[position], given[position]
            if changed is not None and array is not None:
                changed.present[...] = array  # a cast copy otherwise would keep the change to itself
        for output, result in zip(
            self.outputs, (results,) if isinstance(results, np.ndarray | np.generic) else results, strict=True
        ):
            cell = output.arrays.data.cell
            cell.values[...] = STATE.disturbed(np.asarray(result)).reshape(-1)
            cell.state = "written"
        now = STATE.tick()
        for output in self.outputs:
            output.made = now


def _small_enough(descs: Sequence[ArrayDesc]) -> Sequence[ArrayDesc]:
    if any(desc.size > _MOST_ELEMENTS for desc in descs):
        raise ValueError(f"an array of more than {_MOST_ELEMENTS} elements, for which programs are too many")
    return descs


def spec_named(name: str) -> OpSpec:
    """An op by its name."""
    return SPECS.get(name) or derived_spec(name)


TAPES: list[list[Call]] = []
"""Where calls are noted while they are recorded: those of the innermost rule that asks for them."""


def record(op: str | OpSpec, inputs: Sequence[Value | None], attributes: Mapping[str, Any]) -> Any:
    """Record a call on values, computed now if that is the mode; the outputs, auxiliary ones included."""
    spec = spec_named(op) if isinstance(op, str) else op
    call = Call(spec, inputs, attributes)
    if TAPES:
        TAPES[-1].append(call)
    if spec.views or STATE.auto:
        if STATE.auto:
            refuse_lost(call.inputs)
        call.compute()
    return call.outputs[0] if len(call.outputs) == 1 else tuple(call.outputs)


def calls_before(values: Iterable[Value]) -> list[Call]:
    """The calls that lead to values, each once, inputs first and from left to right."""
    order: dict[Call, None] = {}

    def visit(call: Call | None) -> None:
        if call is None or call in order:
            return
        for value in call.inputs:
            if value is not None:
                visit(value.call)
        order[call] = None

    for value in values:
        visit(value.call)
    return list(order)


def sources_of(values: Iterable[Value]) -> list[Cell]:
    """All memory that is read to compute values, their own left out."""
    return [v.arrays.data.cell for call in calls_before(values) for v in call.inputs if v is not None]


class Variable:
    """The program's handle on a value."""

    __array_ufunc__ = None
    value: Value

    def __init__(self, shape: Sequence[int] = (), need_grad: bool | None = None) -> None:
        self._take(Value(Arrays(NdArray(shape)), need_grad))

    @classmethod
    def on(cls, value: Value) -> Variable:
        """The one Variable of a value."""
        handle = None if value.handle is None else value.handle()
        if handle is None:
            handle = cls.__new__(cls)
            handle._take(value)
        return handle

    def _take(self, value: Value) -> None:
        self.value = value
        value.handle = weakref.ref(self)

    @classmethod
    def from_numpy_array(cls, data: Any, need_grad: bool | None = None) -> Variable:
        return cls.on(Value(Arrays(NdArray.from_numpy_array(data)), need_grad))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def ndim(self) -> int:
        return self.value.ndim

    @property
    def size(self) -> int:
        return self.value.size

    @property
    def d(self) -> np.ndarray:
        refuse_lost([self.value])
        if self.value.call is not None and not self.value.made:
            raise RuntimeError("values that were not computed")
        return self.value.arrays.data.data

    @d.setter
    def d(self, values: Any) -> None:
        self.value.arrays.data.data = values

    @property
    def g(self) -> np.ndarray:
        value = self.value if self.value.shown is None else self.value.shown
        roots = [root() for root in value.roots]
        left = [root for root in roots if root is not None]
        STATE.refuse_if(
            value.gradient_made > 0
            and not value.was_gradient_held
            and (len(left) < len(roots) or not left or _may_have_changed(left, value.gradient_made))
        )
        return value.arrays.grad.data

    @g.setter
    def g(self, values: Any) -> None:
        self.value.arrays.grad.data = values

    @property
    def data(self) -> NdArray:
        return self.value.arrays.data

    @data.setter
    def data(self, array: NdArray) -> None:
        self.value.arrays.data = array
        array.cell.touch()

    @property
    def grad(self) -> NdArray:
        return self.value.arrays.grad

    @grad.setter
    def grad(self, array: NdArray) -> None:
        self.value.arrays.grad = array

    @property
    def parent(self) -> Any:
        """The call that makes it, with its inputs."""
        return None if self.value.call is None else _Function(self.value.call)

    @property
    def need_grad(self) -> bool:
        return self.value.needs

    @need_grad.setter
    def need_grad(self, flag: bool | None) -> None:
        self.value.need_grad = flag

    @property
    def persistent(self) -> bool:
        return self.value.persistent

    @persistent.setter
    def persistent(self, flag: bool) -> None:
        self.value.persistent = flag

    def forward(self, clear_buffer: bool = False, clear_no_need_grad: bool = False) -> None:
        forward_all([self])

    def backward(self, grad: Any = 1, clear_buffer: bool = False) -> None:
        backward_all([self], [grad])

    def unlinked(self, need_grad: bool | None = None) -> Variable:
        flag = self.value.need_grad if need_grad is None else need_grad
        value = Value(self.value.arrays, flag)
        value.shown = self.value
        return Variable.on(value)

    def rewire_on(self, variable: Variable) -> None:
        mine, theirs = self.value, variable.value
        mine.arrays = theirs.arrays
        mine.arrays.data.cell.touch()
        mine.call, mine.position, mine.need_grad = theirs.call, theirs.position, theirs.need_grad
        mine.made, mine.was_held, mine.is_moved = theirs.made, theirs.was_held, theirs.is_moved
        mine.shown, theirs.shown = None, mine
        if mine.call is not None:
            mine.call.outputs[mine.position] = mine
            theirs.call = None

    def reset_shape(self, shape: Sequence[int], force: bool = False) -> None:
        arrays = self.value.arrays
        if math.prod(shape) == self.size:
            arrays.data, arrays.grad = NdArray(shape, arrays.data.cell), NdArray(shape, arrays.grad.cell)
        else:
            arrays.data, arrays.grad = NdArray(shape), NdArray(shape)
        arrays.data.cell.touch()


class _Function:
    """What a Variable gives as its parent."""

    def __init__(self, call: Call) -> None:
        self._call = call

    @property
    def inputs(self) -> list[Variable]:
        return [Variable.on(value) for value in self._call.inputs if value is not None]


class Backward:
    """What this module gets from the one above."""

    run: Callable[[Sequence[Value], Sequence[Any]], None]


def refuse_lost(values: Iterable[Value | None]) -> None:
    """JustifiedError if the library refused what needs these values, and one of them may be lost."""
    for item in values if STATE.is_refused else ():
        value = item if item is None or item.shown is None else item.shown
        if value is not None and value.call is not None and not value.was_held:
            STATE.refuse_if(value.is_moved or _may_have_changed([value], value.made))


def _may_have_changed(values: Sequence[Value], time: int) -> bool:
    """Whether what values were computed from at a time may be another now."""
    calls = calls_before(values)
    return any(call.random_state is not None for call in calls) or any(
        cell.may_differ_since(time) for cell in sources_of(values)
    )


def forward_all(variables: Sequence[Variable]) -> None:
    """`nn.forward_all`."""
    calls = calls_before([variable.value for variable in variables])
    refuse_lost([value for call in calls for value in call.inputs if value is not None and value.call is None])
    for call in calls:
        call.compute()
    now = STATE.tick()
    for call in calls:
        for output in call.outputs:
            output.made, output.was_held, output.is_moved = now, output.is_held, False


def backward_all(variables: Sequence[Variable], grads: Sequence[Any] | None = None) -> None:
    """`nn.backward_all`."""
    values = [variable.value for variable in variables]
    if any(not output.made for call in calls_before(values) for output in call.outputs if not call.spec.views):
        raise RuntimeError("backward of what was not computed")
    STATE.refuse_if(_may_have_changed(values, min(value.made for value in values)))
    Backward.run(values, [1] * len(values) if grads is None else grads)


def _call(op: str | OpSpec, inputs: Sequence[Any], attributes: Mapping[str, Any], outputs: Any = None) -> Any:
    """A call of the program's: of Variables, or at once of NdArrays."""
    if any(isinstance(item, Value) for item in inputs):
        return record(op, inputs, attributes)
    at_once = any(isinstance(item, NdArray) for item in inputs)
    values = [item.value if isinstance(item, Variable) else item and Value(Arrays(item)) for item in inputs]
    before, STATE.auto = STATE.auto, False
    try:
        made = record(op, values, attributes)
    finally:
        STATE.auto = before
    call = (made[0] if isinstance(made, tuple) else made).call
    results = call.outputs[: call.visible]
    if outputs is not None:
        for value, item in zip(results, outputs, strict=True):
            value.arrays = Arrays(item if isinstance(item, NdArray) else item.data)
    if at_once or STATE.auto:
        refuse_lost(call.inputs)
        call.compute()
        for value in results:
            value.arrays.data.cell.touch()
    if at_once and outputs is not None:
        found: list[Any] = [item if isinstance(item, NdArray) else item.data for item in outputs]
    else:
        found = [value.arrays.data if at_once else Variable.on(value) for value in results]
    return found[0] if len(found) == 1 and not call.spec.outputs[-1].endswith("...") else tuple(found)


Hooks.call = _call
CALL = _call

for _name, _method in OPERATORS.items():
    setattr(Value, _name, _method)
    setattr(Variable, _name, _method)
Variable.__neg__ = lambda self: _call("MulScalar", (self,), {"val": -1.0})  # type: ignore[attr-defined]
