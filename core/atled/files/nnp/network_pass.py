"""Changes to a network's description before its graph is built: functions left out or set otherwise, inputs given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from atled.errors import four_parts
from atled.files.messages import Message, new_message
from atled.variable import Variable


class DescribedVariable:
    """A variable of a description, as callbacks see it.

    proto: its message; `proto.shape.dim` may be changed.  variable: a Variable to take for it, or None.
    need_grad: whether a parameter gets a gradient; None: as the file says.
    """

    def __init__(self, proto: Message) -> None:
        self.proto = proto
        self.variable: Variable | None = None
        self.need_grad: bool | None = None
        self.stop = False
        self._same_as: DescribedVariable | None = None

    @property
    def name(self) -> str:
        """Its name in the network."""
        return str(self.proto.name)

    def rewire_on(self, other: DescribedVariable) -> None:
        """Have everything that reads this one read `other` instead."""
        if other.found() is self:
            return
        self._same_as = other

    def found(self) -> DescribedVariable:
        """What stands for it, after rewiring."""
        return self if self._same_as is None else self._same_as.found()

    @property
    def is_replaced(self) -> bool:
        """Whether another one stands for it."""
        return self._same_as is not None


class DescribedFunction:
    """A function of a description, as callbacks see it.

    proto: its message; fields such as `proto.average_pooling_param` may be changed.
    inputs, outputs: variables.  disabled: whether it is left out.
    """

    def __init__(self, proto: Message, variables: dict[str, DescribedVariable]) -> None:
        self.proto = proto
        self.inputs = [variables[name] for name in proto.input]
        self.outputs = [variables[name] for name in proto.output]
        self.disabled = False

    @property
    def name(self) -> str:
        """Its name in the network."""
        return str(self.proto.name)

    def disable(self) -> None:
        """Leave it out; what reads its results is then fed, or left out by `use_up_to`."""
        self.disabled = True


VariableCallback = Callable[[DescribedVariable], DescribedVariable]
FunctionCallback = Callable[[DescribedFunction], DescribedFunction]
PassCallback = Callable[[DescribedFunction, Sequence[DescribedVariable], Any], Any]


class NnpNetworkPass:
    """What to change in a network while `NnpLoader.get_network(..., callback=...)` builds it.

        callback = NnpNetworkPass()
        callback.drop_function("SoftmaxCrossEntropy")  # what it read is an output then
        callback.set_batch_normalization_batch_stat_all(False)
        callback.set_variable("x", nn.Variable((1, 3, 64, 64)))

        @callback.on_generate_function_by_type("Dropout")
        def less(f):
            f.proto.dropout_param.p = 0.1
            return f

        net = NnpLoader("net.nnp").get_network("net", callback=callback)

    The `on_` methods are decorators. Those of `generate` get each variable or function of a name or type first, and
    give it back, changed in its `proto`; those of `pass` then get each function, all variables, and the parameters by
    name. Names that a network does not have are passed over, as in NNabla: one pass may serve several networks.

    Args:
        verbose: 1 or more: print what is changed.
    """

    def __init__(self, verbose: int = 0) -> None:
        self._verbose = verbose
        self._variables: dict[str, VariableCallback] = {}
        self._functions: dict[tuple[str, str], FunctionCallback] = {}
        self._passes: dict[tuple[str, str], PassCallback] = {}
        self._last: set[str] = set()
        self._fixed = False

    def on_generate_variable(self, name: str) -> Callable[[VariableCallback], VariableCallback]:
        """Decorate what is called with the variable of a name."""
        return _entered(self._variables, name)

    def on_generate_function_by_name(self, name: str) -> Callable[[FunctionCallback], FunctionCallback]:
        """Decorate what is called with the function of a name."""
        return _entered(self._functions, ("name", name))

    def on_generate_function_by_type(self, name: str) -> Callable[[FunctionCallback], FunctionCallback]:
        """Decorate what is called with each function of a type, such as Convolution."""
        return _entered(self._functions, ("type", name))

    def on_function_pass_by_name(self, name: str) -> Callable[[PassCallback], PassCallback]:
        """Decorate what is called with the function of a name, the variables, and the parameters."""
        return _entered(self._passes, ("name", name))

    def on_function_pass_by_type(self, name: str) -> Callable[[PassCallback], PassCallback]:
        """Decorate what is called with each function of a type, the variables, and the parameters."""
        return _entered(self._passes, ("type", name))

    def drop_function(self, *names: str) -> None:
        """Leave functions out."""
        for name in names:
            self.on_function_pass_by_name(name)(lambda f, variables, scope: self._disable(f))

    def _disable(self, f: DescribedFunction) -> None:
        self._tell(f"{f.name} is left out")
        f.disable()

    def fix_parameters(self) -> None:
        """Have no parameter get a gradient."""
        self._fixed = True

    def use_up_to(self, *names: str) -> None:
        """Leave out everything that reads these variables, which are then outputs."""
        self._last.update(names)

    def remove_and_rewire(self, name: str, i: int = 0, o: int = 0) -> None:
        """Leave a function out, and have what reads its output `o` read its input `i`."""

        def rewire(f: DescribedFunction, variables: Sequence[DescribedVariable], scope: Any) -> None:
            self._disable(f)
            f.outputs[o].rewire_on(f.inputs[i])

        self.on_function_pass_by_name(name)(rewire)

    def set_variable(self, name: str, input_var: Variable) -> None:
        """Take a Variable for an input, with its shape."""

        def replace(v: DescribedVariable) -> DescribedVariable:
            self._tell(f"{name} is {input_var}")
            v.proto.shape.dim[:] = input_var.shape
            v.variable = input_var
            return v

        self.on_generate_variable(name)(replace)

    def force_average_pooling_global(self, name: str, by_type: bool = False) -> None:
        """Have an average pooling (all of them, where name is a type and `by_type`) take in all of its input."""

        def widen(f: DescribedFunction) -> DescribedFunction:
            param, shape = f.proto.average_pooling_param, f.inputs[0].proto.shape.dim[2:]
            self._tell(f"{f.name} takes in {list(shape)}")
            param.kernel.dim[:] = shape
            param.stride.dim[:] = shape
            return f

        self._by(by_type)(name)(widen)

    def check_average_pooling_global(self, name: str, by_type: bool = False) -> None:
        """Refuse (ValueError, when the network is built) an average pooling that does not take in all of its input."""

        def check(f: DescribedFunction) -> DescribedFunction:
            param, shape = f.proto.average_pooling_param, list(f.inputs[0].proto.shape.dim[2:])
            if [*param.kernel.dim] != shape or [*param.stride.dim] != shape:
                raise ValueError(
                    four_parts(
                        f"check_average_pooling_global({name!r})",
                        f"{f.name} pools {[*param.kernel.dim]}, its input has {shape}",
                        "",
                        "use force_average_pooling_global, or an input of the size that the network was made for",
                    )
                )
            return f

        self._by(by_type)(name)(check)

    def set_batch_normalization_batch_stat_all(self, batch_stat: bool) -> None:
        """Have every batch normalization use the batch's statistics, or the running ones."""

        def set_it(f: DescribedFunction) -> DescribedFunction:
            self._tell(f"{f.name} has batch_stat={batch_stat}")
            f.proto.batch_normalization_param.batch_stat = bool(batch_stat)
            return f

        self.on_generate_function_by_type("BatchNormalization")(set_it)

    def _by(self, by_type: bool) -> Callable[[str], Callable[[FunctionCallback], FunctionCallback]]:
        return self.on_generate_function_by_type if by_type else self.on_generate_function_by_name

    def _tell(self, text: str) -> None:
        if self._verbose:
            print(f"NnpNetworkPass: {text}")  # it was asked for

    def apply(self, asked: str, network: Message, scope: Any) -> Changed:
        """The changed description of a network without loops.

        scope: the parameters by name, for the callbacks of `pass`.
        """
        made = new_message(asked, "Network")
        made.CopyFrom(network)
        variables = {proto.name: DescribedVariable(proto) for proto in made.variable}
        for name, callback in self._variables.items():
            if name in variables:
                variables[name] = callback(variables[name])
        functions = [DescribedFunction(proto, variables) for proto in made.function]
        for key, change in self._functions.items():
            functions = [change(f) if _is_meant(key, f) else f for f in functions]
        for f in functions:
            for key, act in self._passes.items():
                if _is_meant(key, f) and not f.disabled:
                    act(f, list(variables.values()), scope)
        for name in self._last & variables.keys():
            variables[name].stop = True
        kept = _kept(functions)
        _write(made, variables, kept)
        return Changed(made, variables, self._fixed)


class Changed:
    """A changed description: `message`, the Variables `given` for inputs by name, and `need_grad` of parameters."""

    def __init__(self, message: Message, variables: dict[str, DescribedVariable], fixed: bool) -> None:
        self.message = message
        self.given = {name: v.variable for name, v in variables.items() if v.variable is not None}
        flags = {name: False if fixed else v.need_grad for name, v in variables.items()}
        self.need_grad = {name: flag for name, flag in flags.items() if flag is not None}


def _entered(table: dict[Any, Any], key: Any) -> Callable[[Any], Any]:
    def enter(callback: Any) -> Any:
        table[key] = callback
        return callback

    return enter


def _is_meant(key: tuple[str, str], f: DescribedFunction) -> bool:
    what, name = key
    return name == (f.name if what == "name" else f.proto.type)


def _kept(functions: Sequence[DescribedFunction]) -> list[DescribedFunction]:
    """The functions that are neither left out nor read what `use_up_to` names, nor what those give."""
    kept = []
    for f in functions:
        if f.disabled:
            continue
        if any(v.found().stop for v in f.inputs):
            for output in f.outputs:
                output.stop = True
            continue
        kept.append(f)
    return kept


def _write(made: Message, variables: dict[str, DescribedVariable], kept: Sequence[DescribedFunction]) -> None:
    """Put what was decided into the message: the functions that stay, and the variables that they touch."""
    for f in kept:
        f.proto.input[:] = [v.found().name for v in f.inputs]
    touched = {name for f in kept for name in (*f.proto.input, *f.proto.output)}
    protos = [f.proto for f in kept]
    functions = [type(proto).FromString(proto.SerializeToString()) for proto in protos]
    del made.function[:]
    made.function.extend(functions)
    stay = [v.proto for v in variables.values() if v.name in touched and not v.is_replaced]
    copies = [type(proto).FromString(proto.SerializeToString()) for proto in stay]
    del made.variable[:]
    made.variable.extend(copies)
