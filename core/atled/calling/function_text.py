"""The Python text of the functions of the NNabla API: the short way of cached calls, else `apply`.

The text checks nothing twice and calls nothing it can do without: a call of Python costs as much as a small kernel.
"""

from __future__ import annotations

import linecache
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

# As a rule the surroundings are those of the last call.
_STATE = """
_state = _recent.state
if _state.mark is not _mark() or _state.process is not _process.mark:
    _state = _present_state()
"""

# An array for the result: one to which nothing else refers any more, or a new one. The counts are those that
# `function_trial` proved for the function at hand. Functions in slots of the cached call are called by a local name,
# here and below: called as attributes, they would be looked for among the methods first.
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
        text, name = source(spec), f"<{_MODULE}.{spec.function}>"
        exec(compile(text, name, "exec"), namespace)  # text made just here
        # So that tracebacks show its lines, and inspect.getsource all of it.
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
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
    short = "" if spec.variadic or not inputs or not is_memorable(spec) else _ShortWay(spec, inputs, arguments).text()
    return (
        f"def {spec.function}({signature}):\n"
        f"    if using is not None:\n"
        f"        return _apply_using(using, {call})\n"
        f"{short}"
        f"    return _apply({call})\n"
    )


class _ShortWay:
    """The text for calls that were made before: on NdArrays, on both kinds, and under `auto_forward` on Variables."""

    def __init__(self, spec: OpSpec, inputs: Sequence[Input], arguments: Sequence[Attribute]) -> None:
        self.spec = spec
        self.inputs = inputs
        self.arguments = arguments
        self.floats = [item for item in arguments if item.kind == "float"]
        self.floats_by_name = "{" + ", ".join(f"{item.name!r}: float({item.argument})" for item in self.floats) + "}"
        # An int of a thousand bits is no float: `apply` says so.
        of_int = "type({0}) is int and {0}.bit_length() < 1000"
        self.are_floats = [
            f"(type({item.argument}) is float or {of_int.format(item.argument)})" for item in self.floats
        ]
        self.attribute_keys = "".join(f", {_hashable(item)}" for item in arguments if in_key(spec, item))

    def text(self) -> str:
        """Lines for the body of the function."""
        first, *variables = self._on_variables()
        lines = [
            *_STATE.split("\n"),
            "if outputs is None and not _state.is_observed:",
            *_indented(self._on_arrays()),
            f"    el{first}",
            "        if _state.auto_forward:",
            *_indented(variables, 2),
            *_indented(self._on_both() if len(self.inputs) > 1 else []),
        ]
        return "\n".join(_indented(lines)) + "\n"

    def _on_arrays(self) -> list[str]:
        cells = "".join(f"{cell}, " for cell in self._each("_c{n}", "None"))
        return [
            f"if {self._all_are('_NdArray')}:",
            *_indented(self._assigned("_c{n}", "{x}.cell", "_absent")),
            f"    if {' and '.join([*self._each('_c{n}.pending is None'), *self.are_floats])}:",
            *_indented(self._found("{x}.shape", f"_call.on_arrays(({cells})", _ARRAY, _RETURN_ARRAY), 2),
        ]

    def _on_variables(self) -> list[str]:
        values = "".join(f"{value}, " for value in self._each("_v{n}"))
        # A value makes its cell when it is first asked for.
        settled = self._each("_c{n} is not None and _c{n}.pending is None")
        extra = f"({self.floats_by_name}, None, None)" if self.floats else "None"
        recorded = _RETURN_VARIABLE.format(values=values, extra=extra)
        return [
            f"if {self._all_are('_Variable')}:",
            *_indented(self._assigned("_v{n}", "{x}.value", "None")),
            *_indented(self._assigned("_c{n}", "_v{n}._cell", "_absent")),
            f"    if {' and '.join([*settled, *self.are_floats])}:",
            *_indented(self._found("_v{n}.shape", f"_call.on_values(({values})", _CELL, recorded), 2),
        ]

    def _on_both(self) -> list[str]:
        """Calls on NdArrays and Variables, as layers make them, compute at once: they are calls on the arrays."""
        arrays = " or ".join(self._each("type({x}) is _NdArray"))
        either = self._each("(type({x}) is _NdArray or type({x}) is _Variable)")
        known = [
            f"({x.name} is None or {text})" if x.optional else text for x, text in zip(self.inputs, either, strict=True)
        ]
        given = self._each("({x}.value.data if type({x}) is _Variable else {x})")
        attributes = [f"{item.argument}={item.argument}" for item in self.arguments]
        return [
            f"elif ({arrays}) and {' and '.join(known)}:",
            f"    return {self.spec.function}({', '.join([*given, *attributes])})",
        ]

    def _found(self, shape: str, general: str, taken: str, result: str) -> list[str]:
        """Look the call up by its key; launch it.

        shape: of an input.  general: the beginning of the call of what is not plain.  taken: gets memory for the
        result.  result: returns it.
        """
        shapes = self._each(shape, "None")
        key = ", ".join([repr(self.spec.name), *(f"{text}, _c{n}.code" for n, text in enumerate(shapes))])
        return [
            "try:",
            f"    _call = _state.calls[{key}{self.attribute_keys}]",
            "except (KeyError, TypeError):  # TypeError: such as an array for a shape",
            "    pass",
            "else:",
            "    if not _call.is_plain:",
            f"        return {general}, {self.floats_by_name})",
            *_indented(taken.split("\n")),
            *_indented(self._launch()),
            *_indented(result.split("\n")),
        ]

    def _launch(self) -> list[str]:
        addresses = "".join(self._each("_c{n}.storage.address, "))
        floats = "".join(f", {item.argument}" for item in self.floats)
        return [
            "_workspaces = _call.workspaces",
            "_launch = _call.launch",
            "if _workspaces is None:",
            f"    _status = _launch(_call.form, {addresses}_storage.address{floats})",
            "else:",
            "    _memory = _workspaces.take()",
            "    _status = _launch(",
            f"        _call.form, {addresses}_storage.address, _memory.address{floats}",
            "    )",
            "    _workspaces.put(_memory)",
            "if _status:",
            "    _call.check(_status)",
        ]

    def _all_are(self, kind: str) -> str:
        """The condition that each input is of a kind, or None where it is optional."""
        texts = [
            f"({item.name} is None or type({item.name}) is {kind})" if item.optional else f"type({item.name}) is {kind}"
            for item in self.inputs
        ]
        return " and ".join(texts)

    def _assigned(self, name: str, given: str, absent: str) -> list[str]:
        """An assignment per input."""
        pairs = zip(self._each(name), self._each(given, absent), strict=True)
        return [f"{left} = {right}" for left, right in pairs]

    def _each(self, given: str, absent: str = "") -> list[str]:
        """An expression per input, of number {n} and name {x}; `absent` where an optional one is None."""
        texts = [given.format(n=n, x=item.name) for n, item in enumerate(self.inputs)]
        if not absent:
            return texts
        return [
            f"({absent} if {item.name} is None else {text})" if item.optional else text
            for item, text in zip(self.inputs, texts, strict=True)
        ]


def _hashable(item: Attribute) -> str:
    """An expression for an attribute in a key."""
    name = item.argument
    return f"(tuple({name}) if type({name}) is list else {name})" if item.kind in ("ints", "axes") else name


def _indented(lines: Sequence[str], levels: int = 1) -> list[str]:
    return ["    " * levels + line for line in lines if line]
