"""Recurrent ops of one layer and one direction, described as the functions of NNabla that they are a case of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from atled.files.messages import Message
from atled.function import Function
from atled.named_tuple import NamedTuple
from atled.variable import Variable

_TYPES = {"GRUSequence": "GRU", "LSTMSequence": "LSTM", "RNNSequence": "RNN"}
_STATE_AXES = 2  # of layers and directions, which NNabla's states have in front


class Writer(Protocol):
    """What describes a network: see `describing`."""

    message: Message
    batched: set[Variable]
    buffers: dict[str, tuple[int, ...]]

    def function(
        self,
        kind: str,
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
        attributes: Mapping[str, Any] | None = None,
    ) -> Message: ...

    def name_of(self, variable: Variable, otherwise: str) -> str: ...

    def made(self, maker: Message, shape: tuple[int, ...], is_batched: bool = False) -> str: ...


class _State(NamedTuple):
    """A last state: the message of the layer, where its name stands there, and the message of the reshape behind."""

    layer: Message
    position: int
    reshape: Message


class Recurrent:
    """Describes such ops among the other functions of a network.

    NNabla's functions have axes of layers and directions, here of size 1, which are reshaped away by whoever records
    `F.lstm` and the like. Such a reshape is left out where nothing else reads what it makes.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._input_name = f"@{writer.message.name}/recurrent_in"
        self._states: dict[Variable, _State] = {}
        self._passed: set[str] = set()  # names of what reshapes make and perhaps nobody reads

    def add(self, function: Function, outputs: Sequence[Variable]) -> bool:
        """Describe a function if it is such an op, or the reshape of a last state of one; whether it was."""
        if function.name in _TYPES:
            self._add(function, outputs)
            return True
        if function.name == "Reshape":
            return self._is_state(function.inputs[0], outputs[0])
        return False

    def _add(self, function: Function, outputs: Sequence[Variable]) -> None:
        kind, writer = _TYPES[function.name], self._writer
        x, *others = function.inputs
        states, (weight, *bias) = others[: len(outputs) - 1], others[len(outputs) - 1 :]
        attributes = function.arguments
        sequence = writer.name_of(x, self._input_name)
        names = [self._turned(sequence, x) if attributes["reverse"] else sequence]
        names += [self._reshaped(state, (1,) * _STATE_AXES + state.shape) for state in states]
        # Of an RNN, which has one map per layer and direction, weight and bias have an axis of size 1 for it.
        maps = 0 if kind == "RNN" else 1
        names += [self._reshaped(weight, (1,) * maps + weight.shape)]
        names += [self._reshaped(each, (1,) * (1 + maps) + each.shape) for each in bias]
        if any(variable in writer.batched for variable in function.inputs):
            writer.batched.update(outputs)
        layer = writer.function(kind, names)
        fields = getattr(layer, f"{kind.lower()}_param")
        fields.num_layers, fields.training = 1, True
        if kind == "RNN":
            fields.nonlinearity = attributes["nonlinearity"]
        y, *last = outputs
        if attributes["reverse"]:
            turned = writer.made(layer, y.shape, y in writer.batched)
            writer.function("Flip", [turned], [writer.name_of(y, f"{layer.name}_out")], {"axes": (0,)})
        else:
            layer.output.append(writer.name_of(y, f"{layer.name}_out"))
        for position, state in enumerate(last, 1):
            made = writer.made(layer, (1,) * _STATE_AXES + state.shape)
            name = writer.name_of(state, f"{layer.name}_state")
            reshape = writer.function("Reshape", [made], [name], {"shape": state.shape})
            self._states[state] = _State(layer, position, reshape)
            self._passed.add(name)

    def _is_state(self, source: Variable, made: Variable) -> bool:
        """Whether a reshape makes a last state as NNabla's function does; then that is what the function makes."""
        found = self._states.get(source)
        if found is None or made.shape != (1,) * _STATE_AXES + source.shape:
            return False
        del self._states[source]
        del self._writer.buffers[found.layer.output[found.position]]
        name = self._writer.name_of(made, f"{found.layer.name}_state")
        found.layer.output[found.position] = found.reshape.input[0] = name
        return True

    def _reshaped(self, variable: Variable, shape: tuple[int, ...]) -> str:
        writer = self._writer
        if variable.shape == shape:
            return writer.name_of(variable, self._input_name)
        parent = variable.parent
        if parent is not None and parent.name == "Reshape" and parent.inputs[0].shape == shape:
            self._passed.add(writer.name_of(variable, self._input_name))
            return writer.name_of(parent.inputs[0], self._input_name)
        made = writer.function("Reshape", [writer.name_of(variable, self._input_name)], attributes={"shape": shape})
        return writer.made(made, shape)

    def _turned(self, name: str, x: Variable) -> str:
        made = self._writer.function("Flip", [name], attributes={"axes": (0,)})
        return self._writer.made(made, x.shape, x in self._writer.batched)

    def left_out(self, asked_for: set[str]) -> set[str]:
        """Take away the reshapes that nothing reads; the names of the variables that are gone with them."""
        functions, gone = self._writer.message.function, set[str]()
        unread = self._passed - asked_for - {name for function in functions for name in function.input}
        for position in range(len(functions) - 1, -1, -1):
            if functions[position].type == "Reshape" and functions[position].output[0] in unread:
                gone.add(functions[position].output[0])
                del functions[position]
        return gone
