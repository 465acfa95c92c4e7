"""Entries: what a description of a program consists of, and the graph that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.errors import RefusedError, did_you_mean, four_parts
from atled.graph.keyed.scopes import Scope, Side, Step
from atled.graph.nodes.gradient import backpropagate
from atled.graph.nodes.ir import FloatSlot, Graph, IRValue
from atled.named_tuple import NamedTuple
from atled.ops import formula
from atled.ops.elementwise import whole_operand, with_numbers
from atled.ops.spec import SPECS, OpSpec
from atled.strides import Window, bounds, contiguous_strides, is_injective, overlap, whole
from atled_contexts import Context

VIEW, NUMBER, OUTPUT, RESULT, ASSIGN, GRADIENTS = -1, -2, -3, -4, -5, -6
LOOP, END_LOOP, BRANCH, OTHERWISE, END_BRANCH = -7, -8, -9, -10, -11
HELD, SHOWN = -12, -13
"""What an entry begins with: one of these, an op, or, where a leaf is a whole array, the sizes of that."""

Entry = tuple[Any, ...]
"""`(op, operands)`, for a call with attributes `(op, operands, attributes)`, for one that is not to be one with equal
calls `(op, operands, attributes, True)`; the shape of a leaf; or one of

    (VIEW, leaf, shape, strides, offset), (NUMBER, float), (NUMBER, int, bits), (NUMBER, int, value, leaf of it),
    (OUTPUT, call, position), (RESULT, value), (RESULT, value, True), (ASSIGN, leaf, value)
    (GRADIENTS, value, values, error or None)
    (LOOP, sequences, states, count, length, backwards), the entries of its step, (END_LOOP, states, rows, until)
    (BRANCH, condition), the entries of one side, (OTHERWISE, values), those of the other one, (END_BRANCH, values)
    (HELD, leaf, value), (SHOWN, value, shape, strides, offset)

Values are the numbers of their entries. A view names the first leaf of the same array, None where it is that itself;
its offset counts from the first element of that leaf. Its strides are None where it is the whole array, () where it is
a part in C order. An attribute is (name, value); of a run-time float (name,), unless the op refuses some values of
it. HELD is what the array of a leaf would hold if it were assigned a value. SHOWN is a window on a value, or, without
strides, that in another shape; both stand outside of loops and branches. A RESULT with True is
read before anything is assigned.
"""

_BITS = (7, 8, 15, 16, 31, 32, 53)
"""Whole numbers of so many bits are of one kind: an integer dtype has all of a kind and sign, or none."""


def number_entry(value: int) -> Entry:
    """The entry of a whole number that a float64 holds: its kind, inverted for negative ones."""
    is_negative = value < 0
    bits = (~value if is_negative else value).bit_length()
    kind = next(each for each in _BITS if each >= bits)
    return NUMBER, int, ~kind if is_negative else kind


def is_held(value: int) -> bool:
    """Whether a float64 holds a whole number, and all smaller ones."""
    return -_LARGEST <= value <= _LARGEST


_LARGEST = 2**53 - 1


class Leaves(NamedTuple):
    """The outside arrays of a description, in the order in which its entries name them first.

    sizes: counts of elements.  begins: elements in front of the first leaf of each; None where a run adds them to the
        addresses, so that the plan does not depend on them.
    """

    dtypes: Sequence[np.dtype]
    sizes: Sequence[int]
    begins: Sequence[int] | None


class Number(NamedTuple):
    """A Python number among the values, known when the program runs.

    kind: int, float or bool.  slot: its value as a float.  extreme: of whole ones that which fewest dtypes hold.
    exact: itself as an array, where a float does not hold it.
    """

    kind: type
    slot: FloatSlot
    extreme: int = 0
    exact: IRValue | None = None


class Assigned(NamedTuple):
    """A new value of an outside array, or of a window on one.

    number: of the array.  target: what it holds before.  value: what it holds then.  is_whole: whether it is all of it.
    """

    number: int
    target: IRValue
    value: IRValue | Number
    is_whole: bool


class Described:
    """The graph of a description.

    results, assigned: what it is computed for.  reads_first: whether results are read before anything is assigned.
    lows: per array the element, counted from the first one of its first leaf, at which the graph has it begin.
    """

    def __init__(self, entries: Sequence[Entry], leaves: Leaves, context: Context, graph: type[Graph] = Graph) -> None:
        """graph: of which class it is to be."""
        self.graph = graph(context, by_operands=True)
        self.results: list[IRValue] = []
        self.reads_first = False
        self.assigned: list[Assigned] = []
        self._values: list[Sequence[IRValue | Number]] = []
        self._calls: dict[Any, Sequence[IRValue]] = {}  # by op, operands, attributes and body
        self._scopes: list[Scope] = []  # the bodies that are being described, from the outermost one on
        self._owners: list[Scope | None] = []  # per entry the body to which its values belong
        # By rows that a loop keeps of a state: which is the last one, and what the state holds in the end.
        self._last_rows: dict[IRValue, tuple[int, IRValue]] = {}
        self._arrays: dict[int, int] = {}  # by entry of a leaf the number of its array
        self._windows: dict[int, Window] = {}  # by entry of a leaf; whole arrays have none
        self._shown: list[list[Window | None]] = []  # per array its windows
        self._origins: dict[int, int] = {}  # where an array begins that a view was the first leaf of
        self._leaves = leaves
        self._drawn: set[int] = set()  # random states
        self._float_count = 0
        self._number_leaves(entries)
        self.lows = [self._low(number) for number in range(len(leaves.dtypes))]
        for entry in entries:
            values = self._made(entry)
            is_outside = not self._scopes or entry[:1] == (NUMBER,) or len(self._values) in self._arrays
            self._owners.append(None if is_outside else self._scopes[-1])
            self._values.append(values)
        if self._scopes:
            raise TypeError(four_parts("a program", "a loop or a branch in it has no end", "", "describe it anew"))

    @property
    def _inner(self) -> Graph:
        """The graph to which calls are added."""
        return self._scopes[-1].builder if self._scopes else self.graph

    def _number_leaves(self, entries: Sequence[Entry]) -> None:
        for position, entry in enumerate(entries):
            kind = entry[0] if entry else 0
            if isinstance(kind, int) and (kind >= 0 or (kind == VIEW and entry[1] is None)):
                self._arrays[position] = len(self._shown)
                self._shown.append([])
            elif kind == VIEW:
                self._arrays[position] = self._arrays[entry[1]]
            if kind == VIEW and entry[3] is not None:
                shape, strides, offset = entry[2:]
                self._windows[position] = Window(shape, strides or contiguous_strides(shape), offset)
            elif kind == VIEW:
                self._origins[self._arrays[position]] = entry[4]
            if position in self._arrays:
                self._shown[self._arrays[position]].append(self._windows.get(position))

    def _low(self, number: int) -> int:
        """Where the graph has an array begin."""
        begins, windows = self._leaves.begins, self._shown[number]
        if begins is not None:
            return -begins[number]
        return (
            self._origins.get(number, 0)
            if None in windows
            else min(bounds(each)[0] for each in windows if each is not None)
        )

    def _base(self, number: int) -> IRValue:
        """An array that has windows, flat; without begins no more of it than they show."""
        size, windows = self._leaves.sizes[number], self._shown[number]
        if self._leaves.begins is None and None not in windows:
            size = max(bounds(each)[1] for each in windows if each is not None) - self.lows[number]
        return self.graph.external(number, ArrayDesc((size,), self._leaves.dtypes[number]))

    def _made(self, entry: Entry) -> Sequence[IRValue | Number]:
        """The values of one entry."""
        kind = entry[0] if entry else 0
        if isinstance(kind, str | OpSpec):
            return self._called_once(entry)
        if kind == NUMBER:
            return (self._number(*entry[1:]),)
        if kind == OUTPUT:
            return (self._output(entry[1], entry[2]),)
        if kind in (RESULT, ASSIGN) and self._scopes:
            what = "a result" if kind == RESULT else "an assignment"
            raise TypeError(four_parts(what, "it is in a loop or a branch", "", "have that return the value"))
        if kind == RESULT:
            self.results.append(self.value(entry[1]))
            self.reads_first = self.reads_first or len(entry) > 2
        elif kind == ASSIGN:
            self._assign(entry[1], entry[2])
        elif kind == GRADIENTS:
            error = None if entry[3] is None else self.value(entry[3])
            return self._gradients(self.value(entry[1]), [self.value(number) for number in entry[2]], error)
        elif kind == LOOP:
            return self._loop(*entry[1:])
        elif kind == END_LOOP:
            return self._end_loop(*entry[1:])
        elif kind in (BRANCH, OTHERWISE, END_BRANCH):
            return self._branch(kind, entry[1])
        elif kind == HELD:
            assigned = Assigned(self._arrays[entry[1]], self.value(entry[1]), self._operand(entry[2]), True)
            return (self.new_value(assigned, is_full=True),)
        elif kind == SHOWN:
            return (self._part(self.value(entry[1]), *entry[2:]),)
        else:
            return (self._leaf(entry[2] if kind == VIEW else entry),)
        return ()

    def _leaf(self, shape: tuple[int, ...]) -> IRValue:
        position = len(self._values)
        number, window = self._arrays[position], self._windows.get(position)
        if all(each is None for each in self._shown[number]):
            return self.graph.external(number, ArrayDesc(shape, self._leaves.dtypes[number]))
        window = whole(shape) if window is None else window._replace(offset=window.offset - self.lows[number])
        return self.graph.window(self._base(number), window)

    def _part(self, value: IRValue, shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int) -> IRValue:
        """A window on a value, or all of it in another shape."""
        if strides is None:
            return self.graph.reshape(value, shape)
        if value.is_window or value.base.external >= 0:  # strides count in memory that has the value only
            value = self.graph.op("Identity", value)
        return self.graph.window(value, Window(shape, strides, offset))

    def new_value(self, assigned: Assigned, *, is_full: bool) -> IRValue:
        """What an array is to hold, in its dtype; is_full: and in its shape."""
        target, value, graph = assigned.target, assigned.value, self.graph
        if isinstance(value, Number):
            shape = target.shape if is_full else ()
            made: IRValue = graph.op("Constant", val=value.slot, shape=shape, dtype=target.dtype)
            return made
        if is_full and value.shape != target.shape:
            value = graph.reshape(value, (1,) * (target.ndim - value.ndim) + value.shape)
            value = graph.op("Broadcast", value, shape=target.shape)
        return graph.coerce(value, None, target.dtype, graph.context)

    def _number(self, kind: type, *about: int) -> Number:
        slot = self._outside_float()
        if len(about) == 2:
            (exact,) = self._values[about[1]]
            assert isinstance(exact, IRValue), "a leaf"
            return Number(kind, slot, about[0], exact)
        extreme = 0
        if about:
            (bits,) = about
            extreme = (1 << bits) - 1 if bits >= 0 else ~((1 << ~bits) - 1)
        return Number(kind, slot, extreme)

    def value(self, number: Any) -> IRValue:
        """The value of an entry, of a call its first output; no number."""
        value = self._operand(number)
        if isinstance(value, Number):
            raise TypeError(
                four_parts(
                    f"{number!r} as a value of a program",
                    f"it is a Python number ({value.kind.__name__})",
                    "",
                    "have it as an operand of an elementwise op, assign it, or make a leaf of an array of its own",
                )
            )
        return value

    def _operand(self, number: Any) -> IRValue | Number:
        if type(number) is not int or not 0 <= number < len(self._values) or not self._values[number]:
            raise TypeError(
                four_parts(
                    f"{number!r} as a value of a program",
                    "it is none",
                    "",
                    "pass what leaf, number, call, output or gradients of this description gave",
                )
            )
        return self._taken(self._values[number][0], self._owners[number])

    def _taken(self, value: IRValue | Number, owner: Scope | None) -> IRValue | Number:
        """A value as the innermost body has it, through those around that."""
        if owner is not None and owner not in self._scopes:
            raise TypeError(
                four_parts(
                    "a value of a loop or a branch",
                    "it is used where that has ended",
                    "",
                    "have the loop or the branch return it",
                )
            )
        for scope in self._scopes[0 if owner is None else self._scopes.index(owner) + 1 :]:
            if isinstance(value, IRValue):
                value = scope.take(value)
            else:
                exact = None if value.exact is None else scope.take(value.exact)
                value = value._replace(slot=scope.take_float(value.slot), exact=exact)
        return value

    def _called_once(self, entry: Entry) -> Sequence[IRValue]:
        """The values of a call, those of an equal one before it in the same body where there is one."""
        spec = spec_of(entry[0])
        if len(entry) > 3:
            return self._called(*entry[:3])
        about = entry[2] if len(entry) > 2 else ()
        if (
            spec.random
            or spec.inplace
            or spec.mutated
            or spec.opaque
            or any(name in spec.float_names for name, *_ in about)
        ):
            return self._called(*entry)
        operands = tuple(self._identity(number) for number in entry[1])
        key = (spec, operands, about, self._scopes[-1] if self._scopes else None)
        found = self._calls.get(key)
        if found is None:
            found = self._calls[key] = self._called(*entry)
        return found

    def _identity(self, number: int | None) -> int | None:
        """The same for operands that are one value; wrong ones, which `value` refuses, have their own."""
        if type(number) is not int or not 0 <= number < len(self._values) or not self._values[number]:
            return number
        return -id(self._values[number][0])

    def _called(
        self, op: str | OpSpec, operands: Sequence[int | None], attributes: Sequence[tuple[str, Any]] = ()
    ) -> Sequence[IRValue]:
        spec, graph = spec_of(op), self._inner
        given: dict[str, Any] = {name: value[0] if value else 0.0 for name, *value in attributes}
        floats = {name: self._float() for name, *_ in attributes if name in spec.float_names}
        if self._scopes and (spec.mutated or spec.inplace or spec.opaque):
            wrong = "it changes arrays, or is code of the user"
            raise TypeError(four_parts(f"{spec.name} in a loop or a branch", wrong, "", "have it outside"))
        _check_count(spec, operands)
        values = [None if number is None else self._operand(number) for number in operands]
        inputs = [value for value in values if not isinstance(value, Number)]
        if len(inputs) < len(values):
            spec, inputs, slots = self._with_numbers(spec, values)
            floats |= slots
            given |= dict.fromkeys(slots, 0.0)
        if not spec.variadic:
            inputs += [None] * (len(spec.inputs) - len(inputs))
        if spec.random:
            self._draw(spec, operands[-1] if len(operands) == len(spec.inputs) else None)
        descs = [None if value is None else value.desc for value in inputs]
        checked = spec.check_attributes(given, descs)
        if spec is SPECS["Slice"]:
            inputs, checked = self._of_last_row(inputs[0], checked)
        if spec.checks_values:
            spec.check_values(checked)
        for name in spec.float_names:
            checked[name] = floats[name] if name in floats else graph.constant(checked[name])
        return graph.add(spec, inputs, checked, graph.context).outputs

    def _draw(self, spec: OpSpec, state: int | None) -> None:
        """Refuse a random state that draws already: both would draw the same."""
        if state is None or state in self._drawn:
            raise ValueError(
                four_parts(
                    f"a call of {spec.name}",
                    "its last input is no random state"
                    if state is None
                    else "its random state is that of another call",
                    "",
                    "give each call, as its last input, an int64 array of its own, (key, count of calls so far)",
                )
            )
        self._drawn.add(state)

    def _with_numbers(
        self, spec: OpSpec, values: Sequence[IRValue | Number | None]
    ) -> tuple[OpSpec, list[IRValue | None], dict[str, FloatSlot]]:
        """The op with numbers in place of some inputs, its other inputs, and the numbers by name."""
        arrays = [value.dtype for value in values if isinstance(value, IRValue)]
        dtype = np.result_type(*arrays) if arrays else np.dtype(float)
        if _compares(spec) and dtype.kind in "iu" and dtype != np.uint64:
            # To compare overflows nothing, as in NumPy.
            extremes = [value.extreme for value in values if isinstance(value, Number) and value.kind is int]
            if not all(_holds(dtype, each) for each in extremes):
                dtype, graph = np.dtype(np.int64), self._inner
                values = [
                    graph.coerce(value, None, dtype, graph.context) if isinstance(value, IRValue) else value
                    for value in values
                ]
        given = [self._beside(dtype, value) if isinstance(value, Number) else value for value in values]
        kinds = {position: value.kind for position, value in enumerate(given) if isinstance(value, Number)}
        slots = {spec.input_at(n).name: value.slot for n, value in enumerate(given) if isinstance(value, Number)}
        inputs = [value for value in given if not isinstance(value, Number)]
        if not kinds:
            return spec, inputs, slots
        if not inputs or spec.program is None:
            wrong = "it is not elementwise" if spec.program is None else "all its inputs are numbers"
            remedy = "make an array of one, and a leaf of that"
            raise TypeError(four_parts(f"a call of {spec.name} with Python numbers", wrong, "", remedy))
        return with_numbers(spec, kinds), inputs, slots

    def _beside(self, dtype: np.dtype, number: Number) -> IRValue | Number:
        """A number beside arrays of a dtype: an array where that has to be exact, and a float would not be."""
        if number.kind is int:
            _check_range(number.extreme, dtype)
        if number.kind is not int or isinstance(whole_operand(number.extreme, dtype), float):
            return number
        assert number.exact is not None
        exact = number.exact
        return self._inner.coerce(exact, None, dtype, self._inner.context) if dtype.kind in "iu" else exact

    def _outside_float(self) -> FloatSlot:
        self._float_count += 1
        return self.graph.float_from("call", self._float_count - 1)

    def _float(self) -> FloatSlot:
        """The next run-time float, as the innermost body has it."""
        slot = self._outside_float()
        for scope in self._scopes:
            slot = scope.take_float(slot)
        return slot

    def _output(self, number: int, position: int) -> IRValue:
        self.value(number)
        outputs = self._values[number]
        if not 0 <= position < len(outputs):
            raise IndexError(
                four_parts(f"output {position} of value {number}", f"it has {len(outputs)}", "", "ask for one of them")
            )
        found = self._taken(outputs[position], self._owners[number])
        assert isinstance(found, IRValue)
        return found

    def _assign(self, leaf: int, value: int) -> None:
        number = self._arrays.get(leaf)
        if number is None:
            raise TypeError(
                four_parts(
                    f"an assignment to value {leaf!r}", "it is no array outside of the program", "", "assign to a leaf"
                )
            )
        target, new = self.value(leaf), self._operand(value)
        what = f"a Python number ({new.kind.__name__})" if isinstance(new, Number) else new.desc
        asked = f"an assignment of {what} to an array of {target.desc}"
        if isinstance(new, Number):
            if new.kind is int:
                _check_range(new.extreme, target.dtype)
        elif not _broadcasts(new.shape, target.shape):
            raise RefusedError(
                four_parts(asked, "the value does not broadcast to the array", "", "assign a value of its shape")
            )
        if any(before.number == number and overlap(before.target.window, target.window) for before in self.assigned):
            raise ValueError(
                four_parts(asked, "the program assigns to it already", "", "assign once, what it is to hold in the end")
            )
        if not is_injective(target.window):
            raise ValueError(
                four_parts(asked, "elements of the view are one element of the array", "", "assign to that one")
            )
        self.assigned.append(Assigned(number, target, new, leaf not in self._windows))

    def _loop(
        self, sequences: Sequence[int], states: Sequence[int], count: int | None, length: int | None, backwards: bool
    ) -> Sequence[IRValue]:
        """Begin the step of a loop: rows of its sequences, and its states."""
        rows, first = ([self.value(number) for number in numbers] for numbers in (sequences, states))
        step = Step(self._inner, rows, first, None if count is None else self._count(count), length, backwards)
        self._scopes.append(step)
        return (*step.rows, *step.states)

    def _count(self, number: int) -> IRValue:
        """The count of a loop, which may be a Python number: a run-time value, too."""
        value = self._operand(number)
        if not isinstance(value, Number) or value.kind is not int:
            return self.value(number)
        if value.exact is not None:
            return value.exact
        made: IRValue = self._inner.op("Constant", val=value.slot, shape=(), dtype=np.dtype(np.int64))
        return made

    def _of_last_row(self, x: IRValue | None, bounds: dict[str, Any]) -> tuple[list[IRValue | None], dict[str, Any]]:
        """Input and attributes of a slice: of a state instead of its last row, for which alone no row need be kept."""
        assert x is not None
        row, state = self._last_rows.get(x, (-1, x))
        taken = SPECS["Slice"].window(whole(x.shape), bounds)
        if state is x or taken is None or taken.shape[0] != 1 or taken.offset // max(1, state.size) != row:
            return [x], bounds
        in_row = {"start": 0, "stop": 1, "step": 1}
        bounds = {name: (first, *bounds[name][1:]) for name, first in in_row.items()}
        return [self._inner.reshape(state, (1, *state.shape))], bounds

    def _end_loop(self, given: Sequence[int], rows: Sequence[int], until: int | None) -> Sequence[IRValue]:
        """The last states, how many steps there were where a condition ends it, and the rows of outputs."""
        step = self._scopes[-1]
        assert isinstance(step, Step)
        new, kept = ([self.value(number) for number in numbers] for numbers in (given, rows))
        condition = None if until is None else self.value(until)
        self._scopes.pop()
        last, count, stacked = step.end(new, kept, condition)
        if condition is None and step.last_row is not None:
            states = dict(zip(new, last, strict=True))
            self._last_rows |= {
                row: (step.last_row, states[value]) for row, value in zip(stacked, kept, strict=True) if value in states
            }
        return (*last, *([] if count is None else [count]), *stacked)

    def _branch(self, kind: int, about: Any) -> Sequence[IRValue]:
        """Begin one side of a branch or the other, or end it: what it gives."""
        if kind == BRANCH:
            self._scopes.append(Side(self._inner, self.value(about)))
            return ()
        side = self._scopes[-1]
        assert isinstance(side, Side)
        side.results = [self.value(number) for number in about]
        self._scopes.pop()
        if kind == END_BRANCH:
            return side.end()
        self._scopes.append(Side(side.graph, side.condition, side))
        return ()

    def _gradients(self, value: IRValue, wanted: Sequence[IRValue], error: IRValue | None = None) -> Sequence[IRValue]:
        graph = self._inner
        if error is None:
            start = graph.op("Constant", val=1.0, shape=value.shape, dtype=value.dtype)
        elif error.shape != value.shape:
            asked = f"gradients of a value {value.desc} for an error {error.desc}"
            raise RefusedError(four_parts(asked, "their shapes differ", "", "give an error of the shape of the value"))
        else:
            start = graph.coerce(error, None, value.dtype, graph.context)
        found = backpropagate(graph, list(graph.nodes), {value: start}, wanted)
        return [found[each] if each in found else self._zeros(each.desc) for each in wanted]

    def _zeros(self, desc: ArrayDesc) -> IRValue:
        made: IRValue = self._inner.op("Constant", val=0.0, shape=desc.shape, dtype=desc.dtype)
        return made


def spec_of(op: str | OpSpec) -> OpSpec:
    """The op spec of a name; ValueError for one that there is not."""
    spec = op if isinstance(op, OpSpec) else SPECS.get(op)
    if spec is None or spec.removed:
        raise ValueError(
            four_parts(f"a call of {op!r}", "no op has that name", "", did_you_mean(str(op), SPECS, "look at SPECS"))
        )
    return spec


def float_count(entry: Entry) -> int:
    """How many run-time floats an entry has."""
    if entry[:1] == (NUMBER,):
        return 1
    if len(entry) < 3 or not isinstance(entry[0], str | OpSpec):
        return 0
    names = spec_of(entry[0]).float_names
    return sum(name in names for name, *_ in entry[2])


def checked(spec: OpSpec, name: str, value: Any) -> Any:  # Any: whatever an attribute may be
    """The value of an attribute in canonical form; TypeError or ValueError where it does not fit."""
    if name not in spec.attribute_names:
        spec.check_attributes({name: value}, [])  # it says so
    return spec.attributes[spec.attribute_names.index(name)].check(spec.name, value)


def _check_count(spec: OpSpec, operands: Sequence[int | None]) -> None:
    """Refuse a call with more inputs than the op has, or without one that it needs."""
    most = len(operands) if spec.variadic else len(spec.inputs)
    absent = [
        each.name
        for n, each in enumerate(spec.inputs)
        if not (each.optional or each.kind == "random_state" or (n < len(operands) and operands[n] is not None))
    ]
    if len(operands) <= most and not absent:
        return
    wrong = f"{', '.join(absent)} is missing" if absent else f"it has {most}"
    inputs = ", ".join(each.name + " (may be None)" * each.optional for each in spec.inputs)
    asked = f"a call of {spec.name} with {len(operands)} inputs"
    raise TypeError(four_parts(asked, wrong, f"its inputs: {inputs}", "give it these, in this order"))


def _compares(spec: OpSpec) -> bool:
    """Whether an op says 1 or 0 of numbers that it compares, and computes with none."""
    if spec.predicate or spec.program is None:
        return spec.predicate
    return all(
        isinstance(each, formula.Apply)
        and each.op == "where"
        and all(isinstance(value, formula.Number) for value in each.args[1:])
        for each in spec.program.expressions
    )


def _holds(dtype: np.dtype, value: int) -> bool:
    """Whether a dtype of integers has a number."""
    return bool(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)


def _check_range(extreme: int, dtype: np.dtype) -> None:
    """Refuse a whole number of a kind that a dtype of integers does not hold."""
    if dtype.kind not in "iu" or _holds(dtype, extreme):
        return
    size = ~extreme if extreme < 0 else extreme
    least = max((1 << bits for bits in _BITS if (1 << bits) <= size), default=0)
    first, last = sorted((~least if extreme < 0 else least, extreme))
    holds = f"{dtype.name} holds {np.iinfo(dtype).min} to {np.iinfo(dtype).max}"
    asked = f"a Python number from {first} to {last} beside arrays of {dtype.name}"
    remedy = "cast the arrays to a wider dtype first"
    raise OverflowError(four_parts(asked, holds, "a Python number widens nothing", remedy))


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether NumPy would broadcast a shape to another."""
    behind = target[len(target) - len(shape) :]
    return len(shape) <= len(target) and all(a in (1, b) for a, b in zip(shape, behind, strict=True))
