"""The Python text of the functions of the NNabla API: calls that were made before, made again; else `apply`.

The text checks nothing twice and calls nothing it can do without: a call of Python costs as much as a small kernel.
Compiling all of it takes a millisecond or two, so a function has but the few lines that record a call until one is to
be computed at once, or many were recorded.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from atled.arrays.array import NdArray
from atled.arrays.cell import ABSENT, Use
from atled.arrays.operators import Calls
from atled.calling.apply import apply, key_part, recorded_from
from atled.calling.call_tables import has_fixed_floats, in_force, in_key, is_memorable
from atled.calling.function_trial import proven_counts
from atled.calling.using import under
from atled.graph.record.value import PLAIN, RecordedValue
from atled.named_tuple import NamedTuple
from atled.ops.spec import REQUIRED, SPECS, Attribute, Input, OpSpec
from atled.variable import Variable
from atled_contexts.surroundings import here

if TYPE_CHECKING:
    from atled.calling.inline_cache import InlineCache

_MODULE = "atled.functions"
"""Where users find them."""

# What every function takes beyond its inputs and attributes; n_outputs is there for NNabla's sake only. `using`
# overrides the Context for one call. It is last, for no NNabla script knows it; by keyword only, as stubs have it, it
# would cost a tenth of a small call, since CPython passes the arguments of such functions another way.
_COMMON = ("n_outputs=-1", "outputs=None", "using=None")

_LISTS = ("ints", "axes")  # kinds of attributes

_MANY = 250
"""Of so many calls it pays to compile all of a function, so that each takes a third of the time."""


class _Absent:
    """Stands for an absent input, its value, cell and storage, in what the texts read of these."""

    address = 0
    code = ABSENT
    pending = None
    shape = None

    def __init__(self) -> None:
        self.value = self.cell = self._cell = self.storage = self


_NAMES: dict[str, Any] = {
    "_absent": _Absent(),
    "_apply": apply,
    "_here": here,
    "_in_force": in_force,
    "_inline": None,
    "_inline_variables": None,
    "_len": len,
    "_NdArray": NdArray,
    "_new": Variable.__new__,
    "_next": next,
    "_UNUSED": Use.NONE,
    "_part": key_part,
    "_plain": PLAIN,
    "_Recorded": RecordedValue,
    "_recorded_from": recorded_from,
    "_references": sys.getrefcount,
    "_under": under,
    "_Variable": Variable,
    "_weak": weakref.ref,
}

# The next spare for the result, or a new one where something else refers to it. The counts are those that
# `function_trial` proved for the function at hand.
_SPARE = """
{taken}
_storage = _cell.storage
if (
    {is_free}
    and _cell._copies is None
    and (not _storage.exported or _storage.is_shown_no_more())
):
    _cell.pending = None
    _cell.zeroed = _cell.is_data = False
    _cell.use = _UNUSED
else:
    {made}
    _storage = _cell.storage
"""

_SPARE_ARRAY = _SPARE.format(
    taken="_array = _next(_call.arrays)\n_cell = _array.cell",
    is_free="_references(_array) == _free\n    and _references(_cell) == _held\n    and _references(_storage) == _held",
    made="_array = _call.new_array(_array)\n    _cell = _array.cell",
)

# For the result of a call that is recorded a cell is enough.
_SPARE_CELL = _SPARE.format(
    taken="_cell = _next(_call.cells)",
    is_free="_references(_cell) == _free_cell\n    and _references(_storage) == _held_by_cell",
    made="_cell = _call.new_cell(_cell)",
)

# A function in a slot is called by a local name: as an attribute it would be looked for among the methods first.
_LAUNCH = """
_launch = _call.launch
_status = _launch(_call.form, {addresses}_storage.address{floats})
if _status:
    _call.fail(_status, [{addresses}])
"""

_LAUNCH_WITH_WORKSPACE = """
_launch = _call.launch
_workspaces = _call.workspaces
if _workspaces is None:
    _status = _launch(_call.form, {addresses}_storage.address{floats})
else:
    _idle = _workspaces.free
    try:
        _memory = _idle.pop()
    except IndexError:
        _memory = _workspaces.take()
    _status = _launch(_call.form, {addresses}_storage.address, _memory.address{floats})
    if _len(_idle) < _workspaces.most:
        _idle.append(_memory)
if _status:
    _call.fail(_status, [{addresses}])
"""

# What an inline cache has is made again natively.
_INLINE = """
if {inline} is not None:
    _made = {inline}(_calls, {given})
    if _made is not None:
        return _made
"""

_NOTE = """
if _call.{budget}:
    {cache}.note(_calls, _call, {inputs}, {attributes})
"""

_INLINED = {
    "arrays": {"inline": "_inline", "cache": "_cache", "budget": "notes_left"},
    "values": {"inline": "_inline_variables", "cache": "_variable_cache", "budget": "variable_notes_left"},
}
"""What the texts call the function of an inline cache, the cache, and the attribute of a cached call, per table."""

_RETURN_ARRAY = """
_array.shape = _call.shape
return _array
"""

# `CachedCall.record`, in line: a call would cost half as much again.
_RETURN_VARIABLE = """
_value = _Recorded()
_value.shape = {shape}
_value.pattern = {pattern}
_value.inputs = {values}
_value.extra = {extra}
_value.details = _plain
_value._cell = {cell}
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
        text, name = _Text(spec), f"{_MODULE}.{spec.function or spec.name}"
        is_whole = not is_memorable(spec)
        function = _defined(text.text() if is_whole else text.recording(), f"<{name}, recording>", namespace)
        namespace["_counted"] = itertools.count()
        namespace["_complete"] = functools.partial(_complete, function, spec, f"<{name}>")
        function.__doc__ = spec.doc
        function.__module__ = _MODULE
        function.spec = spec  # type: ignore[attr-defined]  # for `explain` and the pages
        return self.setdefault(op, function)


def _defined(text: str, file: str, namespace: dict[str, Any]) -> FunctionType:
    """The function that a text defines."""
    exec(compile(text, file, "exec"), namespace)  # text made just here
    # So that tracebacks show its lines, and inspect.getsource all of it.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    (function,) = (value for value in namespace.values() if getattr(value, "__globals__", None) is namespace)
    return function


def _complete(function: FunctionType, spec: OpSpec, file: str) -> None:
    """Have a function compute at once, too: it stays the same object, which many may have by now."""
    # Defined in names of its own: other threads may call the function meanwhile.
    whole = _defined(source(spec), file, dict(function.__globals__))
    if "_references" in whole.__code__.co_names:
        function.__globals__.update(proven_counts(whole, spec))
    for table, names in _INLINED.items():
        if names["cache"] in whole.__code__.co_names:
            cache = _inline_cache(function.__globals__, spec, names["inline"], records=table == "values")
            function.__globals__.setdefault(names["cache"], cache)
    function.__code__ = whole.__code__


def _inline_cache(namespace: dict[str, Any], spec: OpSpec, name: str, *, records: bool) -> InlineCache:
    """A cache whose function the names of a text then have by a name."""
    from atled.calling.inline_cache import InlineCache  # lazy: what is only recorded needs none

    text = _Text(spec)
    install = functools.partial(namespace.__setitem__, name)
    counts = -1 if spec.variadic else len(text.inputs), len(text.key_attributes), len(text.floats)
    return InlineCache(install, *counts, records=records)


FUNCTIONS = _Functions()
Calls.functions = FUNCTIONS


def source(spec: OpSpec) -> str:
    """The whole text of one function; it needs `_NAMES`, `_spec` and `_defaults`."""
    return _Text(spec).text()


class _Given(NamedTuple):
    """How the text reads the inputs of a call, which are all Variables or all NdArrays.

    table: the name of the cached calls of that kind.  reads: the lines.  cells: those that read the cells then.
    shapes, codes: what of them is in the key.  settled: the conditions that they hold values.
    passed: what `on_values` or `on_arrays` gets.
    """

    table: str
    reads: list[str]
    cells: list[str]
    shapes: list[str]
    codes: list[str]
    settled: list[str]
    passed: str


class _Text:
    """The text of a function, which makes the calls that compute at once and were made before.

    A call is looked up by a key: the op, shape and code (dtype and place) of each input, and the attributes for which
    `in_key` says so. It is made here if it is plain, else by `CachedCall`. What is not known by its key goes to
    `apply`, which makes and remembers it. So does what has no key: what is only recorded, or observed, or refused.
    """

    def __init__(self, spec: OpSpec) -> None:
        self.spec = spec
        self.name = spec.function or spec.name
        self.inputs = list(spec.user_inputs)
        self.arguments = [attribute for attribute in spec.attributes if not attribute.hidden]
        self.floats = [item for item in self.arguments if item.kind == "float"]
        self.floats_by_name = "{" + ", ".join(f"{item.name!r}: float({item.argument})" for item in self.floats) + "}"
        self.has_fixed_floats = has_fixed_floats(spec)
        self.key_attributes = [item for item in self.arguments if in_key(spec, item)]
        has_first = bool(self.inputs) and not self.inputs[0].optional  # by whose size inline caches look
        self.is_inlined = has_first and not self.has_fixed_floats
        passed = self.inputs[-1].name if spec.variadic else _tuple(item.name for item in self.inputs)
        attributes = ", ".join(f"{item.name!r}: {item.argument}" for item in self.arguments)
        self.apply = f"return _apply(_spec, {passed}, {{{attributes}}}, "

    def text(self) -> str:
        """The whole function."""
        lines = [] if self.spec.opaque else ["if outputs is None:", *_indented(self._again())]
        return self._whole(lines, has_table=not self.spec.opaque)

    def recording(self) -> str:
        """The function as long as it was only given Variables whose calls were recorded."""
        if self.spec.variadic:
            are_variables = f"all([type(_x) is _Variable for _x in {self.inputs[-1].name}])"
        else:
            are_variables = " and ".join(_is_given(item, "_Variable") for item in self.inputs)
        at_once = "_here().values is not None" + (f" or not ({are_variables})" if are_variables else "")
        condition = f"outputs is None and ({at_once} or _next(_counted) > {_MANY})"
        return self._whole([f"if {condition}:", "    _complete()", f"    {self._called_again()}"])

    def _whole(self, lines: Sequence[str], *, has_table: bool = True) -> str:
        """The function: some lines, and what makes calls of which nothing is known.

        has_table: whether they look for calls in the tables of the Context in force, which must be there then.
        """
        again = self._called_again()
        begin = ["if using is not None:", "    with _under(using):", f"        {again}"]
        end = ["if _here().arrays is None:", "    _in_force()", f"    {again}"] if has_table else []
        signature = f"def {self.name}({', '.join(self._parameters())}):"
        return "\n".join([signature, *_indented([*begin, *lines, *end, f"{self.apply}outputs)"])]) + "\n"

    def _parameters(self) -> list[str]:
        attributes = []
        for item in self.arguments:
            default = "" if item.default is REQUIRED else f"=_defaults[{item.argument!r}]"
            attributes.append(item.argument + default)
        # An optional input may stand before required attributes only if it has no default there.
        inputs = [item.name + ("=None" if item.optional else "") for item in self.inputs]
        given = [f"*{self.inputs[-1].name}"] if self.spec.variadic else inputs
        return [*given, *attributes, *_COMMON]

    def _called_again(self) -> str:
        """A call of the function itself, with what it was given."""
        return self._called("*{x}" if self.spec.variadic else "{x}")

    def _called(self, given: str) -> str:
        """A call of the function itself, with each input as `given`."""
        attributes = [f"{item.argument}={item.argument}" for item in self.arguments]
        inputs = [given.format(x=item.name) for item in self.inputs]
        return f"return {self.name}({', '.join([*inputs, *attributes, 'outputs=outputs'])})"

    def _again(self) -> list[str]:
        """What is done with calls that were made before, or recorded."""
        of_variables = self._of_variables()
        if not self.inputs:
            return of_variables
        if self.spec.variadic:
            name = self.inputs[-1].name
            lines = [f"if not {name}:", "    pass", f"elif type({name}[0]) is _Variable:"]
            are_arrays = f"type({name}[0]) is _NdArray"
        else:
            lines = [f"if type({self.inputs[0].name}) is _Variable:"]
            # An error on the way is right for what is rare, but these are the calls of layers on arrays.
            are_arrays = " and ".join(_is_given(item, "_NdArray") for item in self.inputs)
        lines += _indented(of_variables)
        if not is_memorable(self.spec):
            return lines
        found = [*self._inlined("arrays"), *self._found(self._arrays())]
        at_once = ["_calls = _here().arrays", "if _calls is not None:", *_indented(found)]
        lines += [f"elif {are_arrays}:", *_indented(at_once)]
        return lines if self.spec.variadic or len(self.inputs) == 1 else [*lines, *self._mixed()]

    def _inlined(self, table: str) -> list[str]:
        """Have an inline cache make the call, if there may be one for it."""
        if not self.is_inlined:
            return []
        names = [f"*{self.inputs[-1].name}"] if self.spec.variadic else [item.name for item in self.inputs]
        names += [item.argument for item in (*self.key_attributes, *self.floats)]
        return _lines(_INLINE.format(given=", ".join(names), **_INLINED[table]))

    def _noted(self, table: str) -> list[str]:
        """Have an inline cache know the call, if there may be one for it."""
        if not self.is_inlined:
            return []
        inputs = self.inputs[-1].name if self.spec.variadic else _tuple(item.name for item in self.inputs)
        attributes = _tuple(item.argument for item in self.key_attributes)
        return _lines(_NOTE.format(inputs=inputs, attributes=attributes, **_INLINED[table]))

    def _of_variables(self) -> list[str]:
        """The same for calls on Variables, which compute at the call or do not."""
        lines = ["_around = _here()"]
        if is_memorable(self.spec):
            found = [*self._inlined("values"), *self._found(self._values())]
            lines += ["_calls = _around.values", "if _calls is not None:", *_indented(found)]
        if not (self.spec.opaque or self.spec.states or not self.spec.outputs):
            lines += ["_calls = _around.recorded", "if _calls is not None:", *_indented(self._recorded())]
        return lines

    def _values(self) -> _Given:
        if self.spec.variadic:
            reads = [f"_values = tuple([_x.value for _x in {self.inputs[-1].name}])"]
            cells = ["_cells = [_v._cell for _v in _values]"]
            shapes, codes = ["*[_v.shape for _v in _values]"], ["*[_c.code for _c in _cells]"]
            settled = ["all([_c.pending is None for _c in _cells])"]
            return _Given("values", reads, cells, shapes, codes, settled, "_values")
        reads, cells = [*self._optional(), *self._each("_v{n} = {x}.value")], self._each("_c{n} = _v{n}._cell")
        shapes, codes, settled = (self._each(text) for text in ("_v{n}.shape", "_c{n}.code", "_c{n}.pending is None"))
        return _Given("values", reads, cells, shapes, codes, settled, self._tuple_of("_v{n}"))

    def _arrays(self) -> _Given:
        if self.spec.variadic:
            name = self.inputs[-1].name
            shapes, codes = [f"*[_x.shape for _x in {name}]"], ["*[_c.code for _c in _cells]"]
            settled = ["all([_c.pending is None for _c in _cells])"]
            return _Given("arrays", [], [f"_cells = [_x.cell for _x in {name}]"], shapes, codes, settled, "_cells")
        cells = self._each("_c{n} = {x}.cell")
        shapes, codes, settled = (self._each(text) for text in ("{x}.shape", "_c{n}.code", "_c{n}.pending is None"))
        return _Given("arrays", self._optional(), cells, shapes, codes, settled, self._tuple_of("_c{n}"))

    def _found(self, given: _Given) -> list[str]:
        """Find a call and make it, where `_calls` are those that are cached."""
        attributes = [_hashable(item) for item in self.key_attributes]
        found = f"_calls[{_tuple([repr(self.spec.name), *given.shapes, *given.codes, *attributes])}]"
        floats = "_call.floats" if self.has_fixed_floats else self.floats_by_name
        made = f"return _call.on_{given.table}({given.passed}, {floats})"
        lines = self._sought([*given.reads, *given.cells], found, [*given.settled, *self._are_floats()])
        lines += _indented(self._noted(given.table))
        return [*lines, "    if not _call.is_plain:", f"        {made}", *_indented(self._plain(given))]

    def _sought(self, reads: Sequence[str], found: str, conditions: Sequence[str]) -> list[str]:
        """Look for a call; what is done with it follows."""
        if conditions:
            found = f"{found} if {' and '.join(conditions)} else None"
        return [
            "try:",
            *_indented(reads),
            f"    _call = {found}",
            "except KeyError as _missing:",
            f"    {self.apply}None, _missing.args[0])",
            "except (AttributeError, TypeError):  # of another kind, or no value yet; such as an array for a shape",
            "    _call = None",
            "if _call is not None:",
        ]

    def _are_floats(self) -> list[str]:
        # An int of a thousand bits is no float: `apply` says so.
        of_int = "type({0}) is int and {0}.bit_length() < 1000"
        return [f"(type({item.argument}) is float or {of_int.format(item.argument)})" for item in self.floats]

    def _recorded(self) -> list[str]:
        """Find what a call is recorded from, and record it, where `_calls` is the table of that."""
        spec, given = self.spec, self._values()
        # Where other attributes follow from floats, these are checked, too.
        is_checked = spec.checks_values or self.has_fixed_floats
        attributes = [_exact(item) for item in self.arguments if item.kind != "float" or is_checked]
        found = f"_calls[{_tuple(['_spec', *given.shapes, *attributes])}]"
        lines = self._sought(given.reads, found, [] if is_checked else self._are_floats())
        keeps = spec.views or spec.auxiliary or spec.saved_positions or spec.random
        if keeps or len(spec.outputs) != 1 or spec.outputs[-1].endswith("..."):
            floats = "None" if is_checked else self.floats_by_name
            return [*lines, f"    return _recorded_from(_call, {given.passed}, {floats})"]
        named = {"shape": "_call.output_descs[0].shape", "pattern": "_call", "cell": "None"}
        extra = "None" if is_checked else self._extra()
        return [*lines, *_indented(_lines(_RETURN_VARIABLE.format(values=given.passed, extra=extra, **named)))]

    def _plain(self, given: _Given) -> list[str]:
        """Make a call of one native kernel."""
        each = (
            ["*[_c.storage.address for _c in _cells], "]
            if self.spec.variadic
            else self._each("_c{n}.storage.address, ")
        )
        addresses = "".join(each)
        floats = "".join(f", {item.argument}" for item in self.floats)
        if self.has_fixed_floats:
            floats = ", *_call.floats.values()"
        launch = (_LAUNCH_WITH_WORKSPACE if self.spec.program is None else _LAUNCH).format(
            addresses=addresses, floats=floats
        )
        if given.table == "arrays":
            return [*_lines(_SPARE_ARRAY), *_lines(launch), *_lines(_RETURN_ARRAY)]
        named = {"shape": "_call.shape", "pattern": "_call.pattern", "cell": "_cell"}
        recorded = _RETURN_VARIABLE.format(values=given.passed, extra=self._extra(), **named)
        return [*_lines(_SPARE_CELL), *_lines(launch), *_lines(recorded)]

    def _extra(self) -> str:
        if self.has_fixed_floats:
            return "(_call.floats, None, None)"
        return f"({self.floats_by_name}, None, None)" if self.floats else "None"

    def _mixed(self) -> list[str]:
        """Calls on NdArrays and Variables, as layers make them, compute at once: they are calls on the arrays."""
        arrays = " or ".join(f"type({item.name}) is _NdArray" for item in self.inputs)
        known = []
        for item in self.inputs:
            absent = f"{item.name} is None or " if item.optional else ""
            known.append(f"({absent}type({item.name}) is _NdArray or type({item.name}) is _Variable)")
        variables = " or ".join(f"type({item.name}) is _Variable" for item in self.inputs)
        called = self._called("({x}.value.data if type({x}) is _Variable else {x})")
        return [f"if ({arrays}) and ({variables}) and {' and '.join(known)}:", f"    {called}"]

    def _optional(self) -> list[str]:
        """Something in the place of optional inputs that are absent."""
        return [f"_x{n} = _absent if {x.name} is None else {x.name}" for n, x in enumerate(self.inputs) if x.optional]

    def _each(self, text: str) -> list[str]:
        """The text per input, of number {n} and name {x}."""
        names = [f"_x{n}" if item.optional else item.name for n, item in enumerate(self.inputs)]
        return [text.format(n=n, x=name) for n, name in enumerate(names)]

    def _tuple_of(self, text: str) -> str:
        """A tuple of an expression per input of number {n}, None where one is absent."""
        return _tuple(
            f"None if {item.name} is None else {text.format(n=n)}" if item.optional else text.format(n=n)
            for n, item in enumerate(self.inputs)
        )


def _tuple(items: Iterable[str]) -> str:
    return f"({''.join(f'{item}, ' for item in items)})"


def _lines(text: str) -> list[str]:
    return text.strip().split("\n")


def _hashable(item: Attribute) -> str:
    """An expression for an attribute in a key."""
    name = item.argument
    return f"(tuple({name}) if type({name}) is list else {name})" if item.kind in _LISTS else name


def _exact(item: Attribute) -> str:
    """The same for a key in which True is not 1, and 0.0 not -0.0."""
    name = item.argument
    return f"_part({name})" if item.kind in (*_LISTS, "float") else f"type({name}), {name}"


def _is_given(item: Input, kind: str) -> str:
    """The condition that an input is of a kind, or absent where it may be."""
    is_of_kind = f"type({item.name}) is {kind}"
    return f"({item.name} is None or {is_of_kind})" if item.optional else is_of_kind


def _indented(lines: Sequence[str]) -> list[str]:
    return ["    " + line for line in lines if line]
