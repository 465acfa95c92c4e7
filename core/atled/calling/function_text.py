"""The Python text of the functions of the NNabla API: the short way of cached calls, else `apply`.

The text checks nothing twice and calls nothing it can do without: a call of Python costs as much as a small kernel.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from atled.arrays.array import NdArray
from atled.arrays.cell import Plans
from atled.arrays.operators import Calls
from atled.calling.apply import apply
from atled.calling.cached_calls import ABSENT_CELL, RECENT, in_key, is_memorable, present_state
from atled.calling.function_trial import proven_counts
from atled.calling.using import apply_using
from atled.graph.record.value import PLAIN, RecordedValue
from atled.ops.spec import REQUIRED, SPECS, Attribute, Input, OpSpec
from atled.variable import Variable
from atled_contexts.surroundings import PROCESS, mark_here

_MODULE = "atled.functions"
"""Where users find them."""

# What every function takes beyond its inputs and attributes; n_outputs is there for NNabla's sake only.
_COMMON = ("n_outputs=-1", "outputs=None")

_NAMES: dict[str, Any] = {
    "_absent": ABSENT_CELL,
    "_apply": apply,
    "_apply_using": apply_using,
    "_NdArray": NdArray,
    "_Recorded": RecordedValue,
    "_new": Variable.__new__,
    "_mark": mark_here,
    "_plain": PLAIN,
    "_present_state": present_state,
    "_process": PROCESS,
    "_recent": RECENT,
    "_references": sys.getrefcount,
    "_NO_PLANS": Plans.NONE,
    "_Variable": Variable,
    "_weak": weakref.ref,
}

# What was in force at the last call is so still, as a rule.
_STATE = """
_state = _recent.state
if _state.mark is not _mark() or _state.process is not _process.mark:
    _state = _present_state()
"""

# An array for the result: one that nobody else has any more, or a new one. The counts are those that `function_trial`
# proved for the function at hand. What is kept in slots is called by a local
# name here and below: the interpreter looks for a method first where it is called as an attribute.
_ARRAY = """
try:
    _take = _call.take
    _array = _take()
    _cell = _array.cell
    _storage = _cell.storage
except IndexError:
    _array = _call.new()
    _cell = _array.cell
    _storage = _cell.storage
else:
    if (
        _references(_array) == _taken
        and _references(_cell) == _held
        and _references(_storage) == _held
        and not _storage.exported
        and _cell._copies is None
    ):
        _cell.pending = None
        _cell.zeroed = _cell.is_data = False
        _cell.plans = _NO_PLANS
    else:
        _call.put(_array)
        _array = _call.new()
        _cell = _array.cell
        _storage = _cell.storage
"""

# Likewise a cell for the result of a call that is recorded.
_CELL = """
try:
    _take = _call.take_cell
    _cell = _take()
    _storage = _cell.storage
except IndexError:
    _cell = _call.new_cell()
    _storage = _cell.storage
else:
    if (
        _references(_cell) == _taken_cell
        and _references(_storage) == _held_by_cell
        and not _storage.exported
        and _cell._copies is None
    ):
        _cell.pending = None
        _cell.zeroed = _cell.is_data = False
        _cell.plans = _NO_PLANS
    else:
        _call.put_cell(_cell)
        _cell = _call.new_cell()
        _storage = _cell.storage
"""

_RETURN_ARRAY = """
_array.shape = _call.shape
_put = _call.put
_put(_array)
return _array
"""

# `CachedCall.record`, in line: a call would cost half as much again.
_RETURN_VARIABLE = """
_put = _call.put_cell
_put(_cell)
_value = _Recorded()
_value.shape = _call.shape
_value.pattern = _call.pattern
_value.inputs = ({values})
_value.extra = {extra}
_value.details = _plain
_value._cell = _cell
_variable = _new(_Variable)
_variable.value = _value
_value.handle = _weak(_variable)
return _variable
"""


class _Functions(dict[str, Callable[..., Any]]):
    """The functions of the op specs by op name, made when they are first asked for."""

    def __missing__(self, op: str) -> Callable[..., Any]:
        spec = SPECS[op]
        defaults = {item.argument: item.default for item in spec.attributes}
        # The name of a module: warnings look for the first frame outside of the library.
        namespace = {**_NAMES, "__name__": _MODULE, "_spec": spec, "_defaults": defaults}
        exec(compile(source(spec), f"<{_MODULE}.{spec.function}>", "exec"), namespace)  # text made just here
        function: Callable[..., Any] = namespace[spec.function]
        if "_references" in function.__code__.co_names:
            namespace.update(proven_counts(function, spec))
        function.__doc__ = spec.doc
        function.__module__ = _MODULE
        function.spec = spec  # type: ignore[attr-defined]  # for `explain` and the pages
        return self.setdefault(op, function)


FUNCTIONS = _Functions()
Calls.functions = FUNCTIONS


def source(spec: OpSpec) -> str:
    """The text of one function; it needs `_NAMES`, `_spec` and `_defaults`."""
    inputs = list(spec.user_inputs)
    arguments = [attribute for attribute in spec.attributes if not attribute.hidden]
    parameters: list[str] = []
    if spec.variadic:
        parameters.append(f"*{inputs[-1].name}")
        passed = inputs[-1].name
    else:
        # An optional input may stand before required attributes only if it has no default there.
        parameters += [item.name + ("=None" if item.optional else "") for item in inputs]
        passed = f"({''.join(item.name + ', ' for item in inputs)})"
    for attribute in arguments:
        default = "" if attribute.default is REQUIRED else f"=_defaults[{attribute.argument!r}]"
        parameters.append(attribute.argument + default)
    values = ", ".join(f"{attribute.name!r}: {attribute.argument}" for attribute in arguments)
    # `using` overrides the Context for one call; by keyword only, for no NNabla script knows it.
    signature = ", ".join([*parameters, *_COMMON, *([] if spec.variadic else ["*"]), "using=None"])
    call = f"_spec, {passed}, {{{values}}}, outputs"
    short = "" if spec.variadic or not inputs or not is_memorable(spec) else _short_way(spec, inputs, arguments)
    return (
        f"def {spec.function}({signature}):\n"
        f"    if using is not None:\n"
        f"        return _apply_using(using, {call})\n"
        f"{short}"
        f"    return _apply({call})\n"
    )


def _short_way(spec: OpSpec, inputs: Sequence[Input], arguments: Sequence[Attribute]) -> str:
    """The text for calls on NdArrays and, under `auto_forward`, on Variables that were made before."""
    floats = [item for item in arguments if item.kind == "float"]
    others = "".join(f", {_hashable(item)}" for item in arguments if in_key(spec, item))
    # An int of a thousand bits is no float: `apply` says so.
    of_int = "type({0}) is int and {0}.bit_length() < 1000"
    numbers = [f"(type({item.argument}) is float or {of_int.format(item.argument)})" for item in floats]
    by_name = ", ".join(f"{item.name!r}: float({item.argument})" for item in floats)
    count = range(len(inputs))

    def branch(
        kind: str, lines: Sequence[str], shape: str, cell: str, general: str, taken: str, result: str
    ) -> list[str]:
        """The text for inputs of one kind; `lines` make the names that shape and cell of an input are taken from."""
        given = [
            f"({item.name} is None or type({item.name}) is {kind})" if item.optional else f"type({item.name}) is {kind}"
            for item in inputs
        ]
        cells = [f"_c{n} = {_or_absent(inputs[n], '_absent', cell.format(n=n, x=inputs[n].name))}" for n in count]
        settled = [f"_c{n}.pending is None" for n in count]
        if kind == "_Variable":  # a value makes its cell when it is first asked for
            settled = [f"_c{n} is not None and {text}" for n, text in enumerate(settled)]
        shapes = [_or_absent(inputs[n], "None", shape.format(n=n, x=inputs[n].name)) for n in count]
        key = ", ".join([repr(spec.name), *(f"{shapes[n]}, _c{n}.code" for n in count)])
        addresses = "".join(f"_c{n}.storage.address, " for n in count)
        return [
            f"if {' and '.join(given)}:",
            *_indented([*lines, *cells]),
            f"    if {' and '.join([*settled, *numbers])}:",
            "        try:",
            f"            _call = _state.calls[{key}{others}]",
            "        except (KeyError, TypeError):  # TypeError: such as an array for a shape",
            "            pass",
            "        else:",
            "            if not _call.is_plain:",
            f"                return {general}, {{{by_name}}})",
            *_indented(taken.split("\n"), 3),
            "            _workspaces = _call.workspaces",
            "            _launch = _call.launch",
            "            if _workspaces is None:",
            f"                _status = _launch(_call.form, {addresses}_storage.address{_list(floats)})",
            "            else:",
            "                _memory = _workspaces.take()",
            "                _status = _launch(",
            f"                    _call.form, {addresses}_storage.address, _memory.address{_list(floats)}",
            "                )",
            "                _workspaces.put(_memory)",
            "            if _status:",
            "                _call.check(_status)",
            *_indented(result.split("\n"), 3),
        ]

    cells = "".join(_or_absent(inputs[n], "None", f"_c{n}") + ", " for n in count)
    values = "".join(f"_v{n}, " for n in count)
    value_lines = [f"_v{n} = {_or_absent(inputs[n], 'None', inputs[n].name + '.value')}" for n in count]
    on_arrays, on_values = f"_call.on_arrays(({cells})", f"_call.on_values(({values})"
    arrays = branch("_NdArray", [], "{x}.shape", "{x}.cell", on_arrays, _ARRAY, _RETURN_ARRAY)
    extra = f"({{{by_name}}}, None, None)" if floats else "None"
    recorded = _RETURN_VARIABLE.format(values=values, extra=extra)
    variables = branch("_Variable", value_lines, "_v{n}.shape", "_v{n}._cell", on_values, _CELL, recorded)
    text = [
        *_STATE.split("\n"),
        "if outputs is None and not _state.is_observed:",
        *_indented(arrays),
        f"    el{variables[0]}",
        "        if _state.auto_forward:",
        *_indented(variables[1:], 2),
    ]
    return "\n".join(_indented(text)) + "\n"


def _hashable(item: Attribute) -> str:
    """An expression for an attribute in a key."""
    name = item.argument
    return f"(tuple({name}) if type({name}) is list else {name})" if item.kind in ("ints", "axes") else name


def _or_absent(item: Input, absent: str, given: str) -> str:
    """An expression for an input, `absent` where an optional one is None."""
    return f"({absent} if {item.name} is None else {given})" if item.optional else given


def _list(floats: Sequence[Attribute]) -> str:
    return "".join(f", {item.argument}" for item in floats)


def _indented(lines: Sequence[str], levels: int = 1) -> list[str]:
    return ["    " * levels + line for line in lines if line]
