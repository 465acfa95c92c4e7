"""The names that a program uses, as the plain interpreter has them: `nn`, `F`, `PF`, `S`, `PythonFunction`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import atled.solvers as library_solvers
from atled.ops.spec import FUNCTIONS, Input, OpSpec
from fuzzing_programs.plain.arrays import NdArray
from fuzzing_programs.plain.gradients import grad
from fuzzing_programs.plain.graph import CALL, Arrays, Value, Variable, backward_all, forward_all
from fuzzing_programs.plain.inferring import Inference
from fuzzing_programs.plain.solvers import CompiledStep, Solver
from fuzzing_programs.plain.state import STATE

_SEQUENCES = {"lstm": ("LSTMSequence", (4,), 2), "gru": ("GRUSequence", (3,), 1), "rnn": ("RNNSequence", (), 1)}
"""Functions over sequences: the op, the gates of a weight, the count of states."""


class _Functions:
    """`F`: arrays by position, attributes by name."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in _SEQUENCES:
            return lambda *arrays: _sequence(*_SEQUENCES[name], arrays)
        spec = FUNCTIONS[name]
        names = {attribute.argument: attribute.name for attribute in spec.attributes}

        def function(*arrays: Any, outputs: Any = None, **attributes: Any) -> Any:
            given = list(arrays)
            if not spec.variadic:
                given += [None] * (len(spec.user_inputs) - len(given))
            return CALL(spec, given, {names[key]: value for key, value in attributes.items()}, outputs)

        return function


def _sequence(op: str, gates: tuple[int, ...], state_count: int, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """A recurrent function of one layer and direction: of x, states and the weight."""
    x, *states, weight = arrays
    size = states[0].shape[3]
    flat = [CALL("Reshape", (state,), {"shape": state.shape[2:]}) for state in states]
    weight = CALL("Reshape", (weight,), {"shape": (*(gates or (1,)), size, -1)})
    y, *last = CALL(op, (x, *flat, weight, None), {"reverse": False})
    assert len(states) == state_count
    return y, *(CALL("Reshape", (end,), {"shape": (1, 1, *end.shape)}) for end in last)


class _Layers:
    """`PF`: the layers that programs use, on parameters by name."""

    def __init__(self) -> None:
        self.parameters: dict[str, Variable] = {}

    def _parameter(self, name: str, shape: Sequence[int], first: Any, need_grad: bool = True) -> Variable:
        if name not in self.parameters:
            values = np.broadcast_to(np.asarray(first), shape)
            self.parameters[name] = Variable.from_numpy_array(values, need_grad=need_grad)
        return self.parameters[name]

    def affine(self, x: Any, maps: int, *, name: str, w_init: Any, b_init: Any) -> Any:
        w = self._parameter(f"{name}/affine/W", w_init.shape, w_init)
        b = self._parameter(f"{name}/affine/b", b_init.shape, b_init)
        return _F.affine(x, w, b)

    def convolution(self, x: Any, maps: int, kernel: Any, *, name: str, w_init: Any, b_init: Any, **others: Any) -> Any:
        w = self._parameter(f"{name}/conv/W", w_init.shape, w_init)
        b = self._parameter(f"{name}/conv/b", b_init.shape, b_init)
        return _F.convolution(x, w, b, **others)

    def batch_normalization(self, x: Any, *, name: str, **others: Any) -> Any:
        shape = [size if axis == 1 else 1 for axis, size in enumerate(x.shape)]
        firsts = (("beta", 0.0, True), ("gamma", 1.0, True), ("mean", 0.0, False), ("var", 0.0, False))
        found = [self._parameter(f"{name}/bn/{key}", shape, first, flag) for key, first, flag in firsts]
        return _F.batch_normalization(x, *found, axes=(1,), **others)


class PythonFunction:
    """A function written in Python, called as it is."""

    def __call__(self, *inputs: Any) -> Any:
        return CALL(_PythonOp(self), inputs, {})


class _PythonOp(OpSpec, abstract=True):
    """The op of one PythonFunction."""

    inputs = (Input("x", kind="keep", variadic=True),)
    outputs = ("y",)

    def __init__(self, function: Any) -> None:
        self.function_object = function
        super().__init__(type(function).__name__)

    def infer(self, *x: Any, **_: Any) -> Any:
        inputs, outputs = [Variable(each.shape) for each in x], [Variable()]
        self.function_object.setup_impl(inputs, outputs)
        return x[0].__class__(outputs[0].shape, np.float64)

    def reference(self, *x: Any, **_: Any) -> Any:
        inputs, outputs = list(map(_variable, x)), [Variable()]
        self.function_object.setup_impl(inputs, outputs)
        self.function_object.forward_impl(inputs, outputs)
        return outputs[0].d.copy()

    def gradient(self, g: Any, *x: Any, **_: Any) -> Any:
        inputs = [_variable(value.present) for value in x]
        outputs = [_variable(g.y.present)]
        outputs[0].g = g.gy.present
        self.function_object.backward_impl(inputs, outputs, list(g.needs), [False] * len(inputs))
        return [
            Value(Arrays(NdArray.from_numpy_array(each.g))) if need else None
            for each, need in zip(inputs, g.needs, strict=True)
        ]


def _variable(values: np.ndarray) -> Variable:
    return Variable.from_numpy_array(values)


class _Solvers:
    """`S`."""

    def __getattr__(self, name: str) -> Callable[..., Solver]:
        return lambda *arguments, **options: Solver(getattr(library_solvers, name)(*arguments, **options))


@contextlib.contextmanager
def _auto_forward(auto: bool = True) -> Any:
    before, STATE.auto = STATE.auto, auto
    try:
        yield
    finally:
        STATE.auto = before


@contextlib.contextmanager
def _trace() -> Any:
    """How often each op was computed within."""
    before = STATE.computed.copy()
    found: list[Any] = []
    yield SimpleNamespace(rows=lambda: found)
    made = STATE.computed - before
    found += [SimpleNamespace(op=name, calls=count) for name, count in made.items()]


_F = _Functions()


def names() -> dict[str, Any]:
    """What a program finds under the library's names; parameters are new."""
    layers = _Layers()

    def set_auto_forward(auto: bool) -> None:
        STATE.auto = auto

    nn = SimpleNamespace(
        Variable=Variable,
        NdArray=NdArray,
        grad=grad,
        forward_all=forward_all,
        backward_all=backward_all,
        compile_step=CompiledStep,
        inference=Inference,
        auto_forward=_auto_forward,
        set_auto_forward=set_auto_forward,
        get_parameters=lambda: {k: v for k, v in layers.parameters.items() if v.need_grad},
        trace=_trace,
        verify=contextlib.nullcontext,
        Context=lambda backends: backends,
        context_scope=contextlib.nullcontext,
        clear_memory_cache=lambda: None,
    )
    return {"nn": nn, "F": _F, "PF": layers, "S": _Solvers(), "PythonFunction": PythonFunction, "np": np}
