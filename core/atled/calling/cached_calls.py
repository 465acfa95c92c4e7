"""Calls that were made before and compute at the call: found by a small key, with nothing checked twice."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell
from atled.arrays.spares import SpareCells, SpareWorkspaces, spare_cells_of, spare_workspaces_of, spares_of
from atled.arrays.watches import WATCHES, announce
from atled.calling.auto_mode import get_auto_forward
from atled.graph.compile.step import native_error
from atled.graph.record.random_state import new_random_state
from atled.graph.record.value import PLAIN, RecordedCall, RecordedValue, Value
from atled.graph.run.one_call import ABSENT, NativeCall, OneCall
from atled.limits.caches import register_cache
from atled.ops.spec import Attribute, OpSpec
from atled.random import random_key
from atled.variable import Variable
from atled_contexts import Context, context_in_force, discovery, is_observed
from atled_contexts.scopes import tell_if_slow
from atled_contexts.surroundings import PROCESS, mark_here

_LIMIT = 2048  # calls of all states together: each keeps a plan, and queues of spare arrays
_STATES_LIMIT = 64
_RANDOM_STATES = spare_cells_of(2, np.dtype(np.int64))


class State:
    """What was in force at a call, and the cached calls under it.

    It holds as long as `mark` and `process` are the marks in force, compared by identity.

    context: None in a state that never was in force.  is_observed: whether anything watches the calls.
    """

    __slots__ = ("auto_forward", "calls", "context", "is_observed", "mark", "process")

    def __init__(
        self,
        context: Context | None,
        calls: dict[Hashable, CachedCall],
        mark: object,
        process: object,
        auto_forward: bool,
        is_observed: bool,
    ) -> None:
        self.context = context
        self.calls = calls
        self.mark = mark
        self.process = process
        self.auto_forward = auto_forward
        self.is_observed = is_observed


_NONE = State(None, {}, None, None, False, False)  # never in force


class Recent:
    """The state of the last call, in whichever thread that was."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = _NONE


RECENT = Recent()
_tables: dict[Hashable, dict[Hashable, CachedCall]] = {}


def present_state() -> State:
    """The state in force here and now."""
    state = RECENT.state
    process = PROCESS.mark  # read before what it stands for: a change meanwhile shows next time
    mark = mark_here()
    if state.mark is not mark or state.process is not process:
        generation = discovery.current.generation
        tell_if_slow()
        context = context_in_force()
        key = (context, generation)
        if len(_tables) >= _STATES_LIMIT and key not in _tables:
            _tables.clear()
        # Equal Contexts share the cached calls, each under a state of its own.
        table = _tables.setdefault(key, {})
        state = RECENT.state = State(context, table, mark, process, get_auto_forward(), is_observed())
    return state


def forget_calls() -> None:
    """Know no call any more."""
    _tables.clear()
    RECENT.state = _NONE


def _cached_count() -> int:
    return sum(map(len, list(_tables.values())))


register_cache("cached calls", _cached_count, forget_calls)


class _Nowhere:
    """Stands for the memory of an absent input."""

    address = 0


ABSENT_CELL = ArrayCell(0)
"""Stands for the cell of an absent input."""

ABSENT_CELL.pending = None
ABSENT_CELL.code = ABSENT
ABSENT_CELL.storage = _Nowhere()  # type: ignore[assignment]  # only its address is read


class CachedCall:
    """A call but for its arrays and float attributes, made the quick way: not where anything observes calls.

    is_plain: whether it is one native kernel with one output, which the text of a function launches by itself:
        `launch(form, addresses of the inputs, address of the output, *floats)`. Where there is `workspaces`, the
        address of one of them follows that of the output.
    shape: of the first output.  pattern: what such a call is recorded from.
    take, put, new: of the spare arrays of the output's size.  take_cell, put_cell, new_cell: of the spare cells.
    """

    __slots__ = (
        "_call",
        "_cell_spares",
        "_is_view",
        "_outputs",
        "_saved",
        "_single",
        "_spares",
        "form",
        "is_plain",
        "launch",
        "new",
        "new_cell",
        "pattern",
        "put",
        "put_cell",
        "shape",
        "take",
        "take_cell",
        "workspaces",
    )

    def __init__(self, call: OneCall, function: RecordedCall) -> None:
        descs = function.output_descs
        self._call = call
        self.pattern = function.copy_on((), function.attributes)
        self._outputs = [(desc.shape, desc.size) for desc in descs]
        self._saved = [position for position, cell in enumerate(function.auxiliary) if cell is not None]
        self._single = function.visible == 1 and not function.spec.outputs[-1].endswith("...")
        self.shape = descs[0].shape if descs else ()
        self._is_view = function.spec.views
        self.is_plain = isinstance(call, NativeCall) and call.is_plain and self._single and function.auxiliary == [None]
        self._cell_spares: list[SpareCells] | None = None
        if isinstance(call, NativeCall) and call.is_direct:
            self.launch = call.launch
            self.form = call.form
            self.workspaces: SpareWorkspaces | None = spare_workspaces_of(call.workspace) if call.workspace else None
            self._cell_spares = [spare_cells_of(size, dtype) for dtype, size in call.outputs]
            if self.is_plain:
                ((dtype, size),) = call.outputs
                self._spares = spares = spares_of(size, dtype)
                self.take, self.put, self.new = spares.take, spares.put, spares.new
                cells = spare_cells_of(size, dtype)
                self.take_cell, self.put_cell, self.new_cell = cells.take, cells.put, cells.new

    def check(self, status: int) -> None:
        """Raise what the code of a launch means."""
        if status:
            raise native_error(self._call.plan.steps[0], status)

    def on_arrays(self, cells: Sequence[ArrayCell | None], floats: Mapping[str, float]) -> Any:
        """Compute from the cells of NdArrays; NdArrays."""
        if self.is_plain:
            return self._launched(cells, floats)
        if self._is_view and cells[0] is not None:
            return NdArray.over(cells[0], self.shape)
        made, _ = self._computed(list(cells), floats)
        visible = self.pattern.visible
        arrays = [NdArray.over(cell, shape) for cell, (shape, _) in zip(made, self._outputs[:visible], strict=False)]
        return arrays[0] if self._single else tuple(arrays)

    def on_values(self, inputs: tuple[Value | None, ...], floats: Mapping[str, float]) -> Any:
        """Compute from the values of Variables, and record the call; Variables."""
        cells = [None if value is None else value._cell for value in inputs]
        if self._is_view and cells[0] is not None:
            return self.record(inputs, cells[0], floats)
        made, random_state = self._computed(cells, floats)
        saved: list[ArrayCell | None] | None = None
        if self._saved:
            saved = [None] * len(made)
            for position in self._saved:
                saved[position] = made[position]
        if self._single:
            return self.record(inputs, made[0], floats, saved, random_state)
        pattern = self.pattern
        function = pattern.copy_on(inputs, {**pattern.attributes, **floats} if floats else pattern.attributes)
        function.auxiliary = saved or [None] * len(made)
        function.random_state = random_state
        values = [
            Value(shape, None, function, position, NdArray.over(made[position], shape))
            for position, (shape, _) in enumerate(self._outputs[: function.visible])
        ]
        function.outputs = [weakref.ref(value) for value in values]
        return tuple([Variable.on_new(value) for value in values])

    def _computed(
        self, cells: list[ArrayCell | None], floats: Mapping[str, float]
    ) -> tuple[list[ArrayCell], ArrayCell | None]:
        """The outputs of a call, auxiliary ones included, and the random state of a random one, which is its own."""
        is_random = self.pattern.spec.random
        spares = self._cell_spares
        if spares is None:
            random_state = new_random_state(self.pattern.attributes["seed"]) if is_random else None
            made = [ArrayCell(size) for _, size in self._outputs]
            self._call.run([*cells, random_state] if is_random else cells, made, list(floats.values()))
            return made, random_state
        made = [queue.get() for queue in spares]
        random_state = self._advanced_random_state() if is_random else None
        # Cells with a code are in host memory, as the form wants it.
        used: list[Any] = [*cells, random_state, *made] if is_random else [*cells, *made]
        addresses = [0 if cell is None else cell.storage.address for cell in used]
        if WATCHES:
            announce(id(used[number]) for number in self._call.mutated)
        if self.workspaces is None:
            status = self.launch(self.form, *addresses, *floats.values())
        else:
            memory = self.workspaces.take()
            status = self.launch(self.form, *addresses, memory.address, *floats.values())
            self.workspaces.put(memory)
        for number in self._call.mutated:
            used[number].touched()
        if status:
            self.check(status)
        return made, random_state

    def _advanced_random_state(self) -> ArrayCell:
        """A random state as after one `advance`."""
        random_state = _RANDOM_STATES.get()
        storage: Any = random_state.storage
        storage.write_integers(random_key(self.pattern.attributes["seed"]), 0)
        return random_state

    def _launched(self, cells: Sequence[ArrayCell | None], floats: Mapping[str, float]) -> NdArray:
        """The result of a plain call."""
        array = self._spares.get()
        addresses = [0 if cell is None else cell.storage.address for cell in cells]  # type: ignore[union-attr]  # as above
        storage: Any = array.cell.storage
        if self.workspaces is None:
            status = self.launch(self.form, *addresses, storage.address, *floats.values())
        else:
            memory = self.workspaces.take()
            status = self.launch(self.form, *addresses, storage.address, memory.address, *floats.values())
            self.workspaces.put(memory)
        self.check(status)
        array.shape = self.shape
        self.put(array)
        return array

    def record(
        self,
        inputs: tuple[Value | None, ...],
        cell: ArrayCell,
        floats: Mapping[str, float],
        saved: Sequence[ArrayCell | None] | None = None,
        random_state: ArrayCell | None = None,
    ) -> Variable:
        """The Variable of a call with one output that was computed from values into a cell.

        saved: per output the cell that keeps what the gradient needs.  random_state: of a random op.
        """
        # The text of functions does the same in line.
        value = RecordedValue()
        value.shape = self.shape
        value.pattern = self.pattern
        value.inputs = inputs
        value.extra = (floats, saved, random_state) if floats or saved or random_state else None
        value.details = PLAIN
        value._cell = cell
        return Variable.on_new(value)


def is_memorable(spec: OpSpec) -> bool:
    """Whether calls of an op can be cached.

    Not those of code of the user, and not where floats that users do not give are worked out at each call.
    """
    return not spec.opaque and not any(item.hidden and item.kind == "float" for item in spec.attributes)


def given_floats(spec: OpSpec, attributes: Mapping[str, Any]) -> dict[str, float] | None:
    """The float attributes of a call, in the order of the spec; None if one is not a plain number."""
    floats = {}
    for item in spec.attributes:
        if item.kind == "float":
            value = attributes.get(item.name, item.default)
            if type(value) is not float and (type(value) is not int or value.bit_length() >= 1000):
                return None
            floats[item.name] = float(value)
    return floats


def in_key(spec: OpSpec, item: Attribute) -> bool:
    """Whether an attribute belongs to the key: floats only where the op refuses some values; they were checked then."""
    return not item.hidden and (item.kind != "float" or spec.checks_values)


def key_of(spec: OpSpec, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Hashable | None:
    """The key under which such a call is cached; None for a call that cannot be remembered.

    Remembered are calls on NdArrays or on Variables, all settled. Texts of functions make the same keys: name, shape
    and code per input, attributes as `in_key` says.
    """
    if not is_memorable(spec):
        return None
    parts: list[Any] = [spec.name]
    kind = NdArray if any(type(x) is NdArray for x in inputs) else Variable
    for x in inputs:
        if x is None:
            parts += (None, ABSENT)
            continue
        if type(x) is not kind:
            return None
        cell: ArrayCell = x.cell if kind is NdArray else x.value.cell  # type: ignore[union-attr]  # as `kind` says
        if cell.pending is not None:
            return None
        parts += (x.shape, cell.code)
    for item in spec.attributes:
        if item.hidden and item.name in attributes:
            return None
        if in_key(spec, item):
            value = attributes.get(item.name, item.default)
            parts.append(tuple(value) if type(value) is list else value)
    return tuple(parts)


def find_call(state: State, key: Hashable) -> CachedCall | None:
    """The call of a key; None if it was not made before or its attributes have no hash."""
    try:
        return state.calls.get(key)
    except TypeError:  # such as an array for a shape: the long way makes a tuple of it
        return None


def remember(state: State, key: Hashable, call: OneCall, function: RecordedCall) -> None:
    """Know a call from now on, unless the function has arrays of its own, which another call must not share."""
    if function.spec.states:
        return
    try:
        hash(key)
    except TypeError:
        return
    if _cached_count() >= _LIMIT:
        for table in list(_tables.values()):
            table.clear()
    state.calls[key] = CachedCall(call, function)
