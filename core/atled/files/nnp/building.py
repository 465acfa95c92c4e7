"""Building the graph of a network from its description."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from atled.calling.apply import apply
from atled.calling.recurrence import gru, lstm, rnn
from atled.errors import did_you_mean, four_parts
from atled.files.messages import Message
from atled.files.nnp.attributes import fields_of, taken_attributes
from atled.files.nnp.network_pass import NnpNetworkPass
from atled.files.nnp.unrolling import unrolled
from atled.ops.spec import FUNCTIONS, OpSpec
from atled.variable import Variable

PARAMETER = "Parameter"
_SAVE_AGAIN = "save the network again"
# By type, with the count of states, which stand behind the sequences.
_RECURRENT: dict[str, tuple[Callable[..., Any], int]] = {"GRU": (gru, 1), "LSTM": (lstm, 2), "RNN": (rnn, 1)}


class Network:
    """The graph of one network of a file.

    name: of the network.  batch_size: what stands in for the sizes that the file leaves open.
    variables: all by name.  inputs: those that no function makes.  outputs: those that no function reads, and those
        that an executor of the file gives.  parameters: by name.
    """

    def __init__(self, name: str, batch_size: int) -> None:
        self.name = name
        self.batch_size = batch_size
        self.variables: dict[str, Variable] = {}
        self.inputs: dict[str, Variable] = {}
        self.outputs: dict[str, Variable] = {}
        self.parameters: dict[str, Variable] = {}


def build(
    asked: str,
    message: Message,
    parameters: Mapping[str, Variable],
    batch_size: int | None = None,
    also_outputs: Sequence[str] = (),
    callback: NnpNetworkPass | None = None,
) -> Network:
    """The graph that a `Network` message describes, on given parameters.

    callback: what to change in the description, of which the graph is then made.

    Raises ValueError if the description does not hold together, or has a function that is not in atled.
    """
    asked = f"{asked}, network {message.name!r}"
    message = unrolled(asked, message)
    changed = None if callback is None else callback.apply(asked, message, parameters)
    if changed is not None:
        message = changed.message
    size = message.batch_size if batch_size is None else int(batch_size)
    network = Network(message.name, size)
    shapes = {}
    for variable in message.variable:
        if variable.name in shapes:
            raise _damaged(f"{asked}, variable {variable.name!r}", "another variable has this name")
        shapes[variable.name] = _shape(asked, variable, size)
    made = {name for function in message.function for name in function.output}
    for variable in message.variable:
        if variable.type == PARAMETER:
            parameter = _parameter(asked, variable.name, shapes[variable.name], parameters)
            flag = None if changed is None else changed.need_grad.get(variable.name)
            network.parameters[variable.name] = parameter if flag is None else parameter.unlinked(need_grad=flag)
        elif changed is not None and variable.name in changed.given:
            network.inputs[variable.name] = changed.given[variable.name]
        elif variable.name not in made:
            network.inputs[variable.name] = Variable(shapes[variable.name])
    network.variables = {**network.inputs, **network.parameters}
    # The shapes that the file says are those of its own batch size, and of its own functions and inputs.
    fixed = shapes if size == message.batch_size and changed is None else {}
    for function in message.function:
        _call(asked, network, function, message.batch_size, fixed)
    read = {name for function in message.function for name in function.input}
    network.outputs = {
        name: network.variables[name]
        for variable in message.variable
        if (name := variable.name) in made and (name not in read or name in also_outputs)
    }
    order = [variable.name for variable in message.variable]
    network.variables = {name: network.variables[name] for name in order if name in network.variables}
    return network


def _shape(asked: str, variable: Message, batch_size: int) -> tuple[int, ...]:
    shape = tuple(variable.shape.dim)
    if any(size < -1 for size in shape) or (variable.type == PARAMETER and -1 in shape):
        raise _damaged(f"{asked}, variable {variable.name!r}", f"its shape is {list(shape)}")
    if -1 in shape and batch_size < 1:
        raise ValueError(
            four_parts(
                f"{asked}, variable {variable.name!r}",
                f"its shape {list(shape)} leaves the batch size open, and that is {batch_size}",
                "",
                "pass batch_size=, a positive number",
            )
        )
    return tuple(batch_size if size == -1 else size for size in shape)


def _parameter(asked: str, name: str, shape: tuple[int, ...], parameters: Mapping[str, Variable]) -> Variable:
    parameter = parameters.get(name)
    if parameter is None:
        raise ValueError(
            four_parts(
                f"{asked}, parameter {name!r}",
                "it is neither in the files nor in the current parameter scope",
                f"{len(parameters)} parameters",
                did_you_mean(name, parameters, "load the file with the parameters as well"),
            )
        )
    if parameter.shape != shape:
        raise ValueError(
            four_parts(
                f"{asked}, parameter {name!r}",
                f"the network wants shape {shape}, the parameter has shape {parameter.shape}",
                "",
                "load the parameters that belong to this network",
            )
        )
    return parameter


def _call(
    asked: str, network: Network, function: Message, file_batch_size: int, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Call one function of the description on what is there already; shapes: those that the results must have."""
    where = f"{asked}, function {function.name!r} ({function.type})"
    for name in function.input:
        if name not in network.variables:
            raise _damaged(where, f"its input {name!r} is not a variable that comes before it")
    inputs = [network.variables[name] for name in function.input]
    call = _recurrent_call if function.type in _RECURRENT else _op_call
    compute = call(where, function, inputs, file_batch_size, network.batch_size)
    try:
        made = compute()
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        raise ValueError(four_parts(where, "the call does not fit", str(error).splitlines(), _SAVE_AGAIN)) from error
    outputs = made if isinstance(made, tuple) else (made,)
    if len(outputs) != len(function.output):
        raise _damaged(where, f"it gives {len(outputs)} outputs, the network names {len(function.output)}")
    for name, output in zip(function.output, outputs, strict=True):
        if name in network.variables:
            raise _damaged(where, f"its output {name!r} is there already")
        if shapes and shapes.get(name) != output.shape:
            raise _damaged(where, f"it gives shape {output.shape}, the network says {shapes.get(name)} for {name!r}")
        network.variables[name] = output


def _op_call(
    where: str, function: Message, variables: Sequence[Variable], file_batch_size: int, batch_size: int
) -> Callable[[], Any]:
    """The call of an op."""
    spec = _spec(where, function.type)
    inputs: list[Variable | None] = [*variables]
    if not spec.variadic:
        inputs += [None] * (len(spec.user_inputs) - len(inputs))
    attributes = taken_attributes(where, function, spec, batch_size)
    if spec.name == "Slice" and batch_size != file_batch_size:
        attributes = _for_batch(attributes, inputs, file_batch_size, batch_size)
    if "output_stat" in spec.attribute_names:
        attributes["output_stat"] = len(function.output) > 1
    return partial(apply, spec, inputs, attributes)


def _recurrent_call(
    where: str, function: Message, variables: Sequence[Variable], file_batch_size: int, batch_size: int
) -> Callable[[], Any]:
    """The call of a recurrent layer over sequences, which is no op but made of some."""
    compute, state_count = _RECURRENT[function.type]
    attributes = fields_of(where, function, function.type.lower())
    inputs: list[Variable | None] = [*variables]
    if attributes.get("num_layers") == 1:
        inputs.insert(state_count + 2, None)  # the weights of further layers
    return partial(compute, *inputs, **attributes)


def _for_batch(
    attributes: dict[str, Any], inputs: Sequence[Variable | None], file_batch_size: int, batch_size: int
) -> dict[str, Any]:
    """A slice through all samples, which a file can only write down with a number, for another count of them."""
    start, stop, step = (tuple(attributes.get(name) or ()) for name in ("start", "stop", "step"))
    through = start[:1] == (0,) and step[:1] == (1,) and stop[:1] == (file_batch_size,)
    x = inputs[0]
    if through and x is not None and x.ndim == len(start) and x.shape[0] == batch_size:
        return {**attributes, "stop": (batch_size, *stop[1:])}
    return attributes


def _spec(where: str, type_name: str) -> OpSpec:
    known = {spec.name: spec for spec in FUNCTIONS.values() if spec.is_library}
    if type_name not in known:
        raise ValueError(
            four_parts(
                where,
                f"atled has no function {type_name}",
                "",
                did_you_mean(type_name, known, "save a network of the functions in dir(atled.functions)"),
            )
        )
    return known[type_name]


def _damaged(asked: str, wrong: str) -> ValueError:
    return ValueError(four_parts(asked, f"the description is damaged: {wrong}", "", _SAVE_AGAIN))
