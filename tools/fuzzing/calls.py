"""Hostile calls, drawn from the op specs and from the signatures of everything else that users call."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.ops.samples import Sample
from atled.ops.spec import FUNCTIONS
from fuzzing import hostile
from fuzzing.judging import WrongError

_CONTEXTS = ("cpu:float", "cpu:float", "cpu:half", "cpu:double", "reference:float")
# Elements beyond which a result is not compared with the reference: that takes the time and memory of many calls.
_COMPARED = 100_000
_TAME = 1e4


class Attempt:
    """One hostile call.

    text: what is called, for reports.  run: calls it.
    """

    def __init__(self, text: str, run: Callable[[], None]) -> None:
        self.text = text
        self.run = run


def draw(seed: int, number: int) -> Attempt:
    """The attempt of a number, the same for equal seeds."""
    rng = Random(f"calls {seed} {number}")
    kinds = (_function, _function, _function, _function, _function, _function, _array, _array, _layer, _solver)
    return rng.choice(kinds)(rng)


def after() -> None:
    """Whether the library still computes; WrongError if not."""
    y = F.relu(nn.NdArray.from_numpy_array(np.array([-1.0, 2.0], np.float32)))
    if y.data.tolist() != [0.0, 2.0]:
        raise WrongError(f"afterwards relu([-1, 2]) is {y.data}")


# Functions.


def _function(rng: Random) -> Attempt:
    spec = FUNCTIONS[rng.choice(sorted(FUNCTIONS))]
    sample = rng.choice(list(spec.samples()) or [Sample(*((2, 3) for _ in spec.user_inputs))])
    inputs: list[Any] = sample.draw(rng.randrange(5))
    if spec.variadic:
        inputs = inputs if rng.random() < 0.8 else (inputs * 40)[: rng.choice((0, 1, 2, 3, 33))]
    else:
        inputs = inputs[: len(spec.user_inputs)]
    attributes = dict(sample.attributes)
    shown = [item for item in spec.attributes if not item.hidden]
    # One hostile thing, mostly: of several the first one that is refused hides the others.
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if shown and rng.random() < 0.7:
            attribute = rng.choice(shown)
            given = attributes.get(attribute.name, attribute.default)
            attributes[attribute.name] = hostile.value(rng, attribute, given)
        elif inputs:
            position = rng.randrange(len(inputs))
            inputs[position] = _hostile_input(rng, inputs[position])
    arguments = {item.argument: attributes[item.name] for item in shown if item.name in attributes}
    way = rng.choice(("record", "forward", "forward", "backward", "backward", "at once"))
    context = rng.choice(_CONTEXTS)
    text = ", ".join([*map(_shown, inputs), *(f"{k}={hostile.short(v)}" for k, v in arguments.items())])

    def run() -> None:
        with nn.context_scope(nn.Context([context])):
            _call(getattr(F, spec.function), inputs, arguments, way)

    return Attempt(f"F.{spec.function}({text}) {way}, {context}", run)


def _hostile_input(rng: Random, given: Any) -> Any:
    chance = rng.random()
    if chance < 0.2 or not isinstance(given, np.ndarray):
        return rng.choice(hostile.STRANGE)
    if chance < 0.5:
        return hostile.data(rng, given)
    # A description only: an array of which nothing was written yet takes no memory.
    return hostile.shape(rng, given.shape)


def _shown(item: Any) -> str:
    if isinstance(item, np.ndarray):
        return f"{item.dtype}{list(item.shape)}"
    return f"unwritten{list(item)}" if isinstance(item, tuple) else hostile.short(item)


def _made(item: Any, at_once: bool) -> Any:
    kind = nn.NdArray if at_once else nn.Variable
    if isinstance(item, np.ndarray):
        return kind.from_numpy_array(item.astype(np.float32) if item.dtype == np.float64 else item)
    if isinstance(item, tuple):
        return kind(item)
    return item


def _call(function: Callable[..., Any], inputs: Sequence[Any], attributes: dict[str, Any], way: str) -> None:
    arrays = [_made(item, way == "at once") for item in inputs]
    if way == "backward":
        for item in arrays:
            if isinstance(item, nn.Variable):
                item.need_grad = True
    found = function(*arrays, **attributes)
    results = found if isinstance(found, tuple | list) else (found,)
    if way == "record":
        return
    small = sum(math.prod(item.shape) for item in (*arrays, *results) if hasattr(item, "shape")) <= _COMPARED
    with nn.verify(1.0 if small and way != "at once" and all(map(_is_tame, inputs)) else 0.0):
        for result in results:
            _compute(result, way)


def _is_tame(item: Any) -> bool:
    """Whether sums and products of it stay within float32: else their order decides between inf and NaN."""
    return not isinstance(item, np.ndarray) or item.dtype.kind != "f" or bool((np.abs(item) < _TAME).all())


def _compute(result: Any, way: str) -> None:
    if isinstance(result, nn.Variable):
        result.forward()
        if way == "backward":
            result.backward()
        values = result.d
    else:
        values = result.data
    if values.shape != result.shape:
        raise WrongError(f"values of shape {values.shape} in a result of shape {result.shape}")


# Arrays.


def _array(rng: Random) -> Attempt:
    sizes = hostile.shape(rng, (2, 3))
    other = hostile.shape(rng, (2, 3))
    strange = rng.choice(hostile.STRANGE)
    number = rng.choice((*hostile.FLOATS, *hostile.INTS, strange))
    values = hostile.data(rng, np.arange(6.0).reshape(2, 3))
    index = rng.choice((number, strange, slice(number, None, rng.choice(hostile.INTS)), (Ellipsis, number), (0, 0, 0)))
    dtype = rng.choice((*hostile.DTYPES, "complex64", "O", "S3", "datetime64[s]", "nonsense", strange))
    steps: dict[str, Callable[[], Any]] = {
        f"Variable({hostile.short(sizes)}).d": lambda: nn.Variable(sizes).d,
        f"Variable({hostile.short(strange)}).g": lambda: nn.Variable(strange).g,
        f"Variable({hostile.short(sizes)}), strides, size": lambda: _described(nn.Variable(sizes)),
        f"NdArray({hostile.short(sizes)}).data": lambda: nn.NdArray(sizes).data,
        f"NdArray({hostile.short(strange)}).data": lambda: nn.NdArray(strange).data,
        f"NdArray({hostile.short(sizes)}).fill({number!r}); data": lambda: _filled(nn.NdArray(sizes), number),
        f"NdArray((2, 3)).cast({dtype!r})": lambda: nn.NdArray((2, 3)).cast(dtype),
        f"NdArray((2, 3)).data = {hostile.short(strange)}": lambda: setattr(nn.NdArray((2, 3)), "data", strange),
        f"NdArray.from_numpy_array({hostile.short(strange)})": lambda: nn.NdArray.from_numpy_array(strange),
        f"Variable.from_numpy_array({_shown(values)}) + {number!r}": lambda: _forwarded(
            nn.Variable.from_numpy_array(values) + number
        ),
        f"NdArray {_shown(values)} ** {number!r}": lambda: nn.NdArray.from_numpy_array(values) ** number,
        f"Variable {_shown(values)}[{hostile.short(index)}]": lambda: _forwarded(
            nn.Variable.from_numpy_array(values)[index]
        ),
        f"Variable((2, 3)).reset_shape({hostile.short(other)}, True)": lambda: nn.Variable((2, 3)).reset_shape(
            other, True
        ),
        f"Variable((2, 3)).reshape({hostile.short(other)})": lambda: _forwarded(nn.Variable((2, 3)).reshape(other)),
        f"Variable {hostile.short(sizes)} + Variable {hostile.short(other)}": lambda: _forwarded(
            nn.Variable(sizes) + nn.Variable(other)
        ),
        f"forward, backward({hostile.short(strange)})": lambda: _backward(strange),
    }
    text = rng.choice(list(steps))
    step = steps[text]

    def run() -> None:
        step()

    return Attempt(text, run)


def _described(variable: nn.Variable) -> None:
    if variable.size != math.prod(variable.shape) or variable.data.strides is None:
        raise WrongError("size")


def _filled(array: nn.NdArray, number: Any) -> None:
    array.fill(number)
    array.data  # noqa: B018  # makes the values


def _forwarded(variable: nn.Variable) -> None:
    variable.forward()
    variable.d  # noqa: B018  # makes the values


def _backward(gradient: Any) -> None:
    x = nn.Variable((2, 3), need_grad=True)
    y = F.tanh(x)
    y.forward()
    y.backward(gradient)


# Layers and solvers.


def _layer(rng: Random) -> Attempt:
    names = [name for name in PF.__all__ if not name[0].isupper() and name != "parametric_function_api"]
    name = rng.choice(names)
    layer = getattr(PF, name)
    shape = rng.choice(((2, 4), (2, 4, 6, 6), (3, 2, 4)))
    x = hostile.shape(rng, shape) if rng.random() < 0.3 else shape
    usual = {"kernel": (3, 3), "axes": (1,), "multiplier": 1, "state": (2, 3), "h": (2, 3), "c": (2, 3), "r": 2}
    arguments: dict[str, Any] = {}
    for parameter in list(inspect.signature(layer).parameters.values())[1:]:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            continue
        chance = rng.random()
        if parameter.default is inspect.Parameter.empty:
            arguments[parameter.name] = usual.get(parameter.name, 2)
            if chance < 0.3:
                arguments[parameter.name] = _argument(rng, arguments[parameter.name])
        elif chance < 0.15 and parameter.name not in ("rng", "using"):
            flag = isinstance(parameter.default, bool)
            arguments[parameter.name] = rng.choice((0, 2, None, "x")) if flag else _argument(rng, parameter.default)
            if callable(arguments[parameter.name]):  # code of the user, whose errors are its own
                del arguments[parameter.name]
    shown = ", ".join([f"unwritten{list(x)}", *(f"{k}={hostile.short(v)}" for k, v in arguments.items())])

    def run() -> None:
        nn.clear_parameters()
        for key in ("h", "c", "h0", "c0"):
            if isinstance(arguments.get(key), tuple):
                arguments[key] = nn.Variable(arguments[key])
        with nn.context_scope(nn.Context(["cpu:float"])):
            y = layer(nn.Variable(x), **arguments)
            for result in y if isinstance(y, tuple) else (y,):
                _compute(result, "forward")

    return Attempt(f"PF.{name}({shown})", run)


def _argument(rng: Random, given: Any) -> Any:
    if isinstance(given, tuple):
        return hostile.whole_numbers(rng, given)
    return rng.choice((*hostile.INTS, *hostile.FLOATS[:12], *hostile.STRANGE, (3, 3), (2**40, 1), (10**9, 10**9)))


def _solver(rng: Random) -> Attempt:
    names = [name for name in S.__all__ if issubclass(getattr(S, name), S.Solver) and name != "Solver"]
    name = rng.choice(sorted(names))
    made = getattr(S, name)
    names = [p.name for p in inspect.signature(made).parameters.values() if p.name not in ("args", "kwargs")]
    arguments = {key: _argument(rng, 0.1) for key in names if rng.random() < 0.3}
    decay = rng.choice((None, *hostile.FLOATS, *hostile.STRANGE))
    shown = json.dumps({k: hostile.short(v) for k, v in arguments.items()})

    def run() -> None:
        x = nn.Variable.from_numpy_array(np.ones((2, 3), np.float32), need_grad=True)
        solver = made(**arguments)
        solver.set_parameters({"x": x})
        y = F.sum(x * x)
        y.forward()
        solver.zero_grad()
        y.backward()
        if decay is not None:
            solver.weight_decay(decay)
        solver.update()
        x.d  # noqa: B018  # makes the values

    return Attempt(f"S.{name}({shown}), weight_decay {hostile.short(decay)}", run)
