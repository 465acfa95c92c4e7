"""Function: the user's handle on one recorded op call.

`PythonFunction`, for calls of the user's own, is here as well, where NNabla has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from atled.arrays.array import NdArray
from atled.arrays.operators import Calls
from atled.errors import RefusedError, four_parts
from atled.graph.record.value import RecordedCall, Value
from atled.variable import Variable
from atled_contexts import Context

if TYPE_CHECKING:
    from atled.calling.python_function import PythonFunction

__all__ = ["Function", "Info", "PythonFunction"]


class Info:
    """What a function is: `type_name` (the op's name) and `args` (its attributes by name)."""

    __slots__ = ("args", "type_name")

    def __init__(self, type_name: str, args: dict[str, Any]) -> None:
        self.type_name = type_name
        self.args = args

    def __repr__(self) -> str:
        return f"{self.type_name}({', '.join(f'{k}={v!r}' for k, v in self.args.items())})"


class Function:
    """One op call of a recorded graph: `variable.parent`. Compared by identity of the call."""

    __slots__ = ("_function",)

    def __init__(self, function: RecordedCall) -> None:
        self._function = function

    def __reduce__(self) -> NoReturn:
        """TypeError: a call of a recorded graph is neither pickled nor copied."""
        raise TypeError(
            four_parts(
                f"a pickle or a copy by `copy` of {self!r}",
                "it is a call of a recorded graph, which is neither pickled nor copied",
                "",
                "take its name, `.name`, and its attributes, `.arguments`; or record the call again where it is needed",
            )
        )

    @property
    def name(self) -> str:
        """The op's name, such as "ReLU"."""
        return self._function.spec.name

    @property
    def info(self) -> Info:
        """Name and attributes."""
        return Info(self.name, self.arguments)

    @property
    def arguments(self) -> dict[str, Any]:
        """The attributes by name."""
        function = self._function
        return {item.name: function.attributes[item.name] for item in function.spec.attributes if not item.hidden}

    @property
    def context(self) -> Context:
        """The Context in force when it was called; it keeps it."""
        return self._function.context

    @property
    def inputs(self) -> list[Variable]:
        """The Variables it was called on; absent optional ones left out."""
        return [Variable.on(value) for value in self._given() if value is not None]

    @property
    def outputs(self) -> list[Variable]:
        """Its results that still exist."""
        visible = self._function.live_outputs()[: self._function.visible]
        return [Variable.on(value) for value in visible if value is not None]

    def min_outputs(self) -> int:
        """How many results it gives."""
        return self._function.visible

    def inplace_data(self, index: int) -> int:
        """Whether output 0 shares the data of input `index`: 0 no, 1 unchanged (reshape)."""
        return int(self._function.spec.views and index == 0)

    def inplace_data_with(self, index: int) -> int:
        """The output that shares the data of input `index`."""
        return 0

    def inplace_grad(self, index: int) -> int:
        """Whether gradients share memory: never."""
        return 0

    def inplace_grad_with(self, index: int) -> int:
        """The output that shares the gradient of input `index`."""
        return 0

    def grad_depends_output_data(self, index: int, output: int) -> bool:
        """Whether the gradient of input `index` may read the data of an output; the engine tells plans exactly."""
        return True

    def setup(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        """Check inputs and give the outputs their shapes."""
        function = self._function
        values = self._values(inputs)
        function.setup([None if value is None else value.shape for value in values])
        if len(outputs) != function.visible:
            raise RefusedError(
                four_parts(
                    f"{self.name} into {len(outputs)} outputs",
                    f"it gives {function.visible}",
                    "",
                    "give that many Variables",
                )
            )
        for variable, desc in zip(outputs, function.output_descs, strict=False):
            if variable.shape != desc.shape:
                variable.reset_shape(desc.shape, force=True)

    def forward(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        """Compute into `outputs`, which need not be those of its graph; its state (mask, statistics) is its own."""
        values = self._values(inputs)
        self.setup(inputs, outputs)
        for variable in outputs:
            variable.value.expose()
        from atled.graph.run.one_call import call_function  # with what calls of ops need, which is imported later

        call_function(self._function, values, [variable.value for variable in outputs])

    def backward(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], accum: Sequence[bool] | None = None
    ) -> None:
        """Backpropagate from the gradients of `outputs` into those of `inputs`.

        accum: per input whether to add to its gradient; False overwrites. None: add to all.
        Inputs with need_grad False are left alone.
        """
        accumulate = [True] * len(inputs) if accum is None else [bool(flag) for flag in accum]
        if len(accumulate) != len(inputs):
            raise RefusedError(
                four_parts(
                    f"{self.name}.backward(accum={accum!r})",
                    f"{len(accumulate)} flags for {len(inputs)} inputs",
                    "",
                    "give one flag per input",
                )
            )
        self._check_shapes(inputs, outputs)
        given = iter(accumulate)
        flags = [value is not None and next(given) for value in self._given()]
        flags += [False] * len(self._function.spec.states)
        from atled.graph.backward import call_backward  # with what `Variable.backward` imports when it is needed

        call_backward(self._function, self._values(inputs), [variable.value for variable in outputs], flags)

    def _check_shapes(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        """Refuse outputs that the function does not make of such inputs."""
        function = self._function
        shapes = [None if value is None else value.shape for value in self._values(inputs)]
        expected = function.shapes_for(shapes)[: function.visible]
        given = [variable.shape for variable in outputs]
        if given != expected:
            raise RefusedError(
                four_parts(
                    f"{self.name} on inputs of shapes {[shape for shape in shapes if shape is not None]}",
                    f"the outputs have shapes {given}",
                    "",
                    f"give outputs of shapes {expected}",
                )
            )

    def _matched(self, inputs: Sequence[Variable]) -> Sequence[Variable]:
        expected = sum(1 for value in self._given() if value is not None)
        if len(inputs) != expected:
            raise RefusedError(
                four_parts(
                    f"{self.name} on {len(inputs)} inputs", f"it takes {expected}", "", "give that many Variables"
                )
            )
        return inputs

    def _given(self) -> Sequence[Value | None]:
        """What it was called on, without the arrays of its own."""
        inputs = self._function.inputs
        return inputs[: len(inputs) - len(self._function.spec.states)]

    def _values(self, inputs: Sequence[Variable]) -> list[Value | None]:
        """The given inputs, with absent optional ones in their places and the arrays of its own behind them."""
        given = iter(self._matched(inputs))
        values = [None if value is None else next(given).value for value in self._given()]
        return [*values, *self._function.inputs[len(values) :]]

    def __call__(
        self, *inputs: Variable | NdArray, n_outputs: int = -1, outputs: Sequence[Variable | NdArray] | None = None
    ) -> Any:
        """Call the same op, with the same attributes, on other arrays; state such as a random state is the new call's.

        n_outputs: not used; it is there for NNabla's sake.
        """
        spec = self._function.spec
        given = iter(self._matched(inputs))  # type: ignore[arg-type]  # only counted there
        arrays = [None if value is None else next(given) for value in self._given()]
        hidden = {item.name for item in spec.attributes if item.hidden}
        attributes = {name: value for name, value in self._function.attributes.items() if name not in hidden}
        return Calls.apply(spec.name, arrays, attributes, outputs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and self._function is other._function

    def __hash__(self) -> int:
        return hash(self._function)

    def __repr__(self) -> str:
        return f"<Function {self.info}>"


Calls.function_on = staticmethod(Function)


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name != "PythonFunction":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # At its first use: a PythonFunction is called by what records Functions.
    from atled.calling.python_function import PythonFunction

    globals()[name] = PythonFunction
    return PythonFunction
