"""Describing the graph of a network as a message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from atled.errors import four_parts
from atled.files.messages import Message
from atled.files.nnp.attributes import put_attributes
from atled.files.nnp.building import PARAMETER
from atled.files.nnp.recurrent import Recurrent
from atled.function import Function
from atled.ops.spec import FUNCTIONS, SPECS
from atled.parameter import get_parameters
from atled.variable import Variable

# Functions whose `shape` starts with the batch size where their input does.
_RESHAPING = ("Reshape", "Broadcast")


def describe(
    asked: str,
    message: Message,
    name: str,
    batch_size: int,
    outputs: Mapping[str, Variable],
    names: Mapping[str, Variable],
    variable_batch_size: bool,
) -> None:
    """Fill a `Network` message with the graph before `outputs`.

    names: of Variables of the graph, inputs above all; the others get names of the functions that they belong to.
    Leaves that are parameters of the current scope are described as such.

    Raises ValueError for a function that NNabla's format does not have.
    """
    for twice in names.keys() & outputs.keys():
        if names[twice] != outputs[twice]:
            raise _not_unique(f"{asked}, network {name!r}", twice)
    message.name = name
    message.batch_size = batch_size
    writer = _Writer(f"{asked}, network {name!r}", message, {**names, **outputs}, variable_batch_size)
    for output in outputs.values():
        output.visit(writer.add)
    for given, variable in outputs.items():
        writer.name_of(variable, given)  # one that is a leaf belongs to no function
    writer.finish()


class _Writer:
    """Collects variables and functions, each once."""

    def __init__(self, asked: str, message: Message, given: Mapping[str, Variable], variable_batch_size: bool) -> None:
        self.asked = asked
        self.message = message
        self.variable_batch_size = variable_batch_size
        self.given = {variable: name for name, variable in given.items()}
        self.parameters = {variable: key for key, variable in get_parameters(grad_only=False).items()}
        self.names: dict[Variable, str] = {}
        self.batched: set[Variable] = set()  # what depends on an input, and so on the batch size
        self.functions: set[Function] = set()
        self.counts: Counter[str] = Counter()
        self.buffers: dict[str, tuple[int, ...]] = {}  # shapes of what the recorded graph does not have, by name
        self.recurrent = Recurrent(self)

    def add(self, function: Function) -> None:
        """Describe one function; its inputs were made by those before."""
        if function in self.functions:
            return
        self.functions.add(function)
        # All of them, also those whose Variables are gone.
        graph_function = function._function
        outputs = [Variable.on(graph_function.output_value(position)) for position in range(graph_function.visible)]
        if not self.recurrent.add(function, outputs):
            self._add(function, outputs)

    def _add(self, function: Function, outputs: Sequence[Variable]) -> None:
        where = f"{self.asked}, function {function.name}"
        if function.name == "ScaleToNorm":
            self._scale_to_norm(function, outputs[0])
            return
        spec = SPECS.get(function.name)
        if spec is None or not spec.is_library or FUNCTIONS.get(spec.function) is not spec:
            raise ValueError(
                four_parts(
                    where,
                    "NNabla's format has no such function",
                    "",
                    "leave it out of the network that is saved, or save the parameters alone by save_parameters",
                )
            )
        made = self.function(function.name)
        made.input.extend([self.name_of(variable, f"{made.name}_in") for variable in function.inputs])
        if any(variable in self.batched for variable in function.inputs):
            self.batched.update(outputs)
        made.output.extend([self.name_of(variable, f"{made.name}_out") for variable in outputs])
        attributes: dict[str, Any] = function.arguments
        if function.name in _RESHAPING and outputs[0] in self.batched and self._is_open(attributes["shape"]):
            attributes = {**attributes, "shape": (-1, *attributes["shape"][1:])}
        put_attributes(self.asked, made, spec, attributes)

    def _scale_to_norm(self, function: Function, output: Variable) -> None:
        """What `F.clip_by_norm` records, by functions that NNabla has: y = clip_norm x / sqrt(sum(x^2))."""
        (variable,) = function.inputs
        attributes = function.arguments
        start = f"@{self.message.name}/{function.name}"
        x = self.name_of(variable, f"{start}_in")
        is_batched = variable in self.batched
        if is_batched:
            self.batched.add(output)
        norm = x
        shape = tuple(1 if axis in attributes["axes"] else size for axis, size in enumerate(variable.shape))
        for kind, given, made in (
            ("PowScalar", {"val": 2.0}, variable.shape),
            ("Sum", {"axes": attributes["axes"], "keep_dims": True}, shape),
            ("PowScalar", {"val": 0.5}, shape),
        ):
            norm = self.made(self.function(kind, [norm], attributes=given), made, is_batched)
        scaling = self.function("MulScalar", [x], attributes={"val": attributes["clip_norm"]})
        scaled = self.made(scaling, variable.shape, is_batched)
        self.function("Div2", [scaled, norm], [self.name_of(output, f"{start}_out")], {})

    def made(self, maker: Message, shape: tuple[int, ...], is_batched: bool = False) -> str:
        """One more output of a function, of which the graph has no Variable; its name."""
        name = self.unique(f"{maker.name}_out")
        maker.output.append(name)
        self.buffers[name] = (-1, *shape[1:]) if is_batched and self._is_open(shape) else shape
        return name

    def function(
        self,
        kind: str,
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
        attributes: Mapping[str, Any] | None = None,
    ) -> Message:
        """The message of one more function; with attributes where all that are not at their default are given."""
        made = self.message.function.add(type=kind, input=inputs, output=outputs)
        made.name = self.unique(f"@{self.message.name}/{kind}")
        if attributes is not None:
            spec = SPECS[kind]
            defaults = {each.name: each.default for each in spec.attributes}
            put_attributes(self.asked, made, spec, {**defaults, **attributes})
        return made

    def name_of(self, variable: Variable, otherwise: str) -> str:
        """The name of a Variable, which is given to it when it is first met."""
        name = self.names.get(variable)
        if name is None:
            name = self.parameters.get(variable) or self.given.get(variable) or self.unique(otherwise)
            self.names[variable] = name
            if variable.parent is None and variable not in self.parameters:
                self.batched.add(variable)
        return name

    def finish(self) -> None:
        """Describe the variables: parameters last, as NNabla has them."""
        gone = self.recurrent.left_out(set(self.given.values()))
        self.names = {variable: name for variable, name in self.names.items() if name not in gone}
        for variable, name in self.names.items():
            if variable not in self.parameters:
                self._describe(variable, name, "Buffer")
        for name, shape in self.buffers.items():
            self.message.variable.add(name=name, type="Buffer").shape.dim.extend(shape)
        for variable, name in self.names.items():
            if variable in self.parameters:
                self._describe(variable, name, PARAMETER)
        twice = [name for name, count in Counter(self.names.values()).items() if count > 1]
        if twice:
            raise _not_unique(self.asked, twice[0])

    def _describe(self, variable: Variable, name: str, kind: str) -> None:
        message = self.message.variable.add(name=name, type=kind)
        message.shape.SetInParent()
        shape = variable.shape
        if kind != PARAMETER and variable in self.batched and self._is_open(shape):
            shape = (-1, *shape[1:])
        message.shape.dim.extend(shape)

    def _is_open(self, shape: tuple[int, ...]) -> bool:
        """Whether the first size is the batch size, to be left open."""
        return self.variable_batch_size and len(shape) > 0 and shape[0] == self.message.batch_size

    def unique(self, name: str) -> str:
        self.counts[name] += 1
        return name if self.counts[name] == 1 else f"{name}_{self.counts[name] - 1}"


def _not_unique(asked: str, name: str) -> ValueError:
    return ValueError(
        four_parts(
            f"{asked}, name {name!r}",
            "two Variables of the network have this name",
            "",
            "give each another name in `names` and `outputs`; names of parameters are taken",
        )
    )
