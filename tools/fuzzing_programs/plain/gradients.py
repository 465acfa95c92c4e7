"""Gradients of the plain interpreter: the rules of the op specs, each op of which is computed by itself."""

from __future__ import annotations

import contextlib
import copy
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from atled.ops.spec import OpSpec
from fuzzing_programs.plain.arrays import Cell, NdArray
from fuzzing_programs.plain.graph import TAPES, Arrays, Backward, Call, Value, Variable, calls_before, record
from fuzzing_programs.plain.state import STATE


class GradientCall:
    """A call as its gradient rule sees it: `atled.ops.rules.GradientCall`."""

    is_sparing = False  # all outputs are there

    def __init__(
        self, call: Call, cotangents: Sequence[Value | None], needs: Sequence[bool], is_recorded: bool
    ) -> None:
        self.inputs = call.inputs
        self.outputs = tuple(call.outputs)
        self.cotangents = tuple(cotangents)
        self.needs = tuple(needs)
        self.is_recorded = is_recorded

    @property
    def y(self) -> Value:
        return self.outputs[0]

    @property
    def gy(self) -> Value:
        return self.cotangent(0)

    def cotangent(self, position: int) -> Value:
        return self.cotangents[position] or _filled(0.0, self.outputs[position].shape)

    def op(self, name: str, *inputs: Value | None, **attributes: Any) -> Any:
        return record(name, inputs, attributes)

    def add(self, spec: OpSpec, inputs: Sequence[Value | None], attributes: Mapping[str, Any]) -> Sequence[Value]:
        made = record(spec, inputs, attributes)
        return made if isinstance(made, tuple) else (made,)

    def with_inputs(self, inputs: Sequence[Value | None], needs: Sequence[bool]) -> GradientCall:
        other = copy.copy(self)
        other.inputs, other.needs = tuple(inputs), tuple(needs)
        return other

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        if value.shape == tuple(shape):
            return value
        made: Value = record("Reshape", (value,), {"shape": tuple(shape)})
        return made

    def sum_to(self, value: Value, shape: tuple[int, ...]) -> Value:
        extra = value.ndim - len(shape)
        sizes = (1,) * extra + shape
        axes = tuple(i for i, size in enumerate(sizes) if i < extra or (size == 1 and value.shape[i] != 1))
        if axes:
            value = record("Sum", (value,), {"axes": axes, "keep_dims": True})
        return self.reshape(value, shape)

    def by_composition(self, build: Callable[..., Any]) -> list[Value | None]:
        inputs = [None if x is None else record("Reshape", (x,), {"shape": x.shape}) for x in self.inputs]
        with _tape() as tape:
            built = build(self, *inputs)
        seeds: dict[Value, Value] = {}
        outputs = built if isinstance(built, tuple | list) else (built,)
        for output, cotangent in zip(outputs, self.cotangents, strict=False):
            if cotangent is not None:
                seeds[output] = seeds[output] + cotangent if output in seeds else cotangent
        wanted = [value for value, need in zip(inputs, self.needs, strict=True) if need and value is not None]
        found = backpropagate(tape, seeds, wanted, (), self.is_recorded)
        return [
            found.get(value) if need and value is not None else None
            for value, need in zip(inputs, self.needs, strict=True)
        ]


@contextlib.contextmanager
def _tape() -> Iterator[list[Call]]:
    """The calls that are recorded within; those around get them, too."""
    tape: list[Call] = []
    TAPES.append(tape)
    try:
        yield tape
    finally:
        TAPES.pop()
        if TAPES:
            TAPES[-1] += tape


def _filled(value: float, shape: Sequence[int]) -> Value:
    made: Value = record("Constant", (), {"val": value, "shape": tuple(shape), "dtype": np.dtype(np.float64)})
    return made


def backpropagate(
    calls: Sequence[Call],
    seeds: Mapping[Value, Value],
    wanted: Collection[Value],
    blocked: Collection[Value],
    is_recorded: bool,
) -> dict[Value, Value]:
    """The cotangents of all values between `wanted` and the seeds."""
    needing = set(wanted) - set(blocked)
    for call in calls:
        if call.spec.no_gradient != "stops" and any(value in needing for value in call.inputs):
            needing.update(set(call.outputs) - set(blocked))
    found = dict(seeds)
    for call in reversed(calls):
        arriving = [found.get(output) if output in needing else None for output in call.outputs]
        needs = [value is not None and value in needing for value in call.inputs]
        if not any(needs) or all(value is None for value in arriving):
            continue
        for value, gradient in zip(call.inputs, _pulled_back(call, arriving, needs, is_recorded), strict=False):
            if gradient is not None and value is not None and value in needing:
                found[value] = found[value] + gradient if value in found else gradient
    return found


def _pulled_back(
    call: Call, arriving: Sequence[Value | None], needs: Sequence[bool], is_recorded: bool
) -> Sequence[Value | None]:
    spec = call.spec
    if spec.no_gradient == "stops":
        return [None] * len(call.inputs)
    if spec.no_gradient == "raises":
        raise RuntimeError(f"backward through {spec.name}")
    asked = [need and spec.input_at(position).gradient == "flows" for position, need in enumerate(needs)]
    if not any(asked):
        return [None] * len(call.inputs)
    gradient_call = GradientCall(call, arriving, asked, is_recorded)
    return list(spec.gradient(gradient_call, *call.inputs, **call.attributes))


@contextlib.contextmanager
def _computing(auto: bool) -> Iterator[None]:
    before, STATE.auto = STATE.auto, auto
    try:
        yield
    finally:
        STATE.auto = before


def backward(roots: Sequence[Value], grads: Sequence[Any], only: Collection[Cell] | None = None) -> None:
    """Backward from values, as `Variable.backward` and `nn.backward_all` do it.

    only: the arrays of the parameters whose gradients are computed, for a compiled step; None: of all leaves.
    """
    # A call of backward on it asks for gradients, whatever its own flag; not if nothing before it does.
    asked = [
        (root, grad)
        for root, grad in zip(roots, grads, strict=True)
        if root.call is not None and any(value.needs for value in root.call.inputs if value is not None)
    ]
    if not asked:
        return
    calls = calls_before(roots)
    for call in calls:
        call.refresh()
    leaves: dict[Value, None] = {}
    middle: dict[Value, None] = {}
    for call in calls:
        for value in call.inputs:
            if value is not None and value.call is None and value.need_grad:
                leaves[value] = None
        middle.update(dict.fromkeys(call.outputs))
    if only is not None:
        leaves = {value: None for value in leaves if value.arrays.data.cell in only}
    wanted = [*leaves, *(value for value in middle if value.need_grad and only is None)]
    with _computing(True):
        seeds: dict[Value, Value] = {}
        for root, grad in asked:
            seed = _seed(root, grad)
            seeds[root] = seeds[root] + seed if root in seeds else seed
        held = {value for call in calls if call.spec.resumes(call.attributes) for value in call.inputs}
        for value in middle:
            if value in held and value.needs:
                own = Value(Arrays(value.arrays.grad))
                seeds[value] = seeds[value] + own if value in seeds else own
        blocked = [value for value in middle if value.need_grad is False and value not in seeds]
        found = backpropagate(calls, seeds, wanted, blocked, False)
    _leave(roots, [*leaves], [] if only is not None else [*middle], seeds, found)


def _seed(root: Value, grad: Any) -> Value:
    if grad is None:
        return Value(Arrays(root.arrays.grad))
    given = grad.present if isinstance(grad, NdArray) else np.asarray(grad, np.float64)
    return Value(Arrays(NdArray.from_numpy_array(np.broadcast_to(given, root.shape))))


def _leave(
    roots: Sequence[Value],
    leaves: Sequence[Value],
    middle: Sequence[Value],
    seeds: Mapping[Value, Value],
    found: Mapping[Value, Value],
) -> None:
    """Add to the gradients of leaves, replace those of values in the middle."""
    # All first: an array may be read here and written there.
    added = [(value, found[value].present.copy()) for value in leaves if value in found]
    left = [
        (value, found[value].present.copy())
        for value in middle
        if value in found and found[value] is not seeds.get(value)
    ]
    for value, gradient in added:
        cell = value.arrays.grad.cell
        cell.write(STATE.disturbed(cell.values + gradient.reshape(-1)))
    now = STATE.tick()
    for value, gradient in left:
        cell = value.arrays.grad.cell
        cell.values[...] = gradient.reshape(-1)
        cell.state = "written"
        value.gradient_made, value.was_gradient_held = now, value.is_held
        value.roots = list(map(weakref.ref, roots))


Backward.run = backward


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, bind_grad_output: bool = False) -> list[Variable]:
    """`nn.grad`."""
    ends = [item.value for item in (outputs if isinstance(outputs, list | tuple) else [outputs])]
    starts = [item.value for item in (inputs if isinstance(inputs, list | tuple) else [inputs])]
    given = grad_outputs if isinstance(grad_outputs, list | tuple) else [grad_outputs] * len(ends)
    calls = calls_before(ends)
    blocked = {value for call in calls for value in call.outputs if value.need_grad is False and value not in starts}
    seeds: dict[Value, Value] = {}
    for end, one in zip(ends, given, strict=True):
        if isinstance(one, Variable):
            seed = one.value
        else:
            seed = _seed(end, 1.0 if one is None else one)
        seeds[end] = seeds[end] + seed if end in seeds else seed
    with _tape() as tape:
        found = backpropagate(calls, seeds, starts, blocked, True)
    for call in tape:
        call.is_gradient = True
    results = []
    for start in starts:
        made = found.get(start)
        if made is None:
            made = Value(Arrays(NdArray(start.shape)))
        results.append(Variable.on(made))
        if bind_grad_output:
            start.arrays.grad = made.arrays.data
    for end in ends:
        end.persistent = True
    return results
