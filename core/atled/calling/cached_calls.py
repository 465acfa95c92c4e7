"""Calls that were made before and compute at the call: found by a small key, with nothing checked twice."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell
from atled.arrays.place import HOST
from atled.arrays.spares import Item, Spares, spares_of
from atled.arrays.together import written_together
from atled.calling.call_tables import is_found, keep
from atled.graph.record.random_state import new_random_state
from atled.graph.record.value import PLAIN, Details, RecordedCall, RecordedValue, Value
from atled.graph.run.inline_launch import InlineLaunch, inline_maker
from atled.graph.run.one_call import CastCall, DeviceCall, NativeCall, OneCall, ShortCall, random_state_by_shape
from atled.random import random_key
from atled.variable import Variable
from atled_contexts import native_executors

_NOTES = 4
"""How often a call enters an inline cache: where more come round than there is room for, entering would cost more."""

_RANDOM_STATES = spares_of(ArrayCell, 2, np.dtype(np.int64))


class CachedCall:
    """A call but for its arrays and float attributes, made the short way: not where anything observes calls.

    is_plain: whether it is one launch with one output, of machine code or on a device where all inputs are, which the
        text of a function makes by itself: `launch(form, addresses of the inputs, address of the output, *floats)`.
        Where there is `workspaces`, the address of one of them follows that of the output; elementwise calls that are
        plain have none.  fail: raises what a status other than 0 means.
    gives_tuple: whether the outputs come in a tuple.  is_view: whether the only one has the memory of the first input.
    saved: the outputs that a recorded call keeps for its gradient, auxiliary ones among them.
    shape: of the first output.  pattern: what such a call is recorded from.  floats: its float attributes, which are
        those of every call if the key has them (`has_fixed_floats`).
    arrays, new_array: the spare arrays of the output's size.  cells, new_cell: the spare cells.
    notes_left, variable_notes_left: how often it may still be entered into an inline cache of calls on NdArrays, and
        of those on Variables.
    """

    __slots__ = (
        "_call",
        "_casts",
        "_direct",
        "_on_host",
        "_outputs",
        "_single",
        "_spare_tuple",
        "_spares",
        "arrays",
        "cells",
        "fail",
        "floats",
        "form",
        "gives_tuple",
        "is_plain",
        "is_view",
        "launch",
        "new_array",
        "new_cell",
        "notes_left",
        "pattern",
        "saved",
        "shape",
        "variable_notes_left",
        "workspaces",
    )

    def __init__(self, call: OneCall, function: RecordedCall) -> None:
        descs = function.output_descs
        spec = function.spec
        self._call = call
        self.pattern = function.copy_on((), function.attributes)
        self.floats = MappingProxyType({name: function.attributes[name] for name in spec.float_names})
        self._outputs = [(desc.shape, desc.size) for desc in descs]
        self.saved = [position for position, cell in enumerate(function.auxiliary) if cell is not None]
        self._single = function.visible == 1 and not spec.outputs[-1].endswith("...")
        self.gives_tuple = not self._single
        self.shape = descs[0].shape if descs else ()
        self.is_view = spec.views
        self.is_plain = False
        self.notes_left = self.variable_notes_left = _NOTES if spec.views and self._single else 0
        self._direct = call if isinstance(call, NativeCall) and call.is_direct else None
        self._casts = call if isinstance(call, CastCall) else None
        self._on_host = isinstance(call, ShortCall | CastCall)  # and so are its outputs, in the dtypes that it names
        self._spare_tuple: list[Spares[NdArray]] | None = None
        if not isinstance(call, ShortCall | CastCall | DeviceCall):
            return
        place = call.place if isinstance(call, DeviceCall) else HOST
        outputs: list[Any] = list(call.outputs)  # pairs, or None for one left out
        self._spares = [out and spares_of(ArrayCell, out[1], out[0], place) for out in outputs]
        if not isinstance(call, NativeCall | DeviceCall) or (place is HOST and not call.is_direct):
            return
        is_pure = not call.mutated and not spec.random
        if call.is_direct and is_pure and all(each is not None and each.is_kept for each in self._spares):
            if self._single and self.saved:
                self.notes_left = self.variable_notes_left = _NOTES
            elif self.gives_tuple and not self.saved:
                self._spare_tuple = self.spares(NdArray)
                self.notes_left = _NOTES
                self.variable_notes_left = 0 if self.floats else _NOTES
        is_alone = self._single and function.auxiliary == [None] and is_pure
        self.is_plain = is_alone and call.is_direct and (call.workspaces is None or spec.program is None)
        if self.is_plain:
            self.launch, self.form, self.workspaces = call.launch, call.form, call.workspaces
            if isinstance(call, NativeCall):
                self.fail = call.fail
            ((dtype, size),) = outputs
            arrays, (cells,) = spares_of(NdArray, size, dtype, call.place), self._spares
            self.arrays, self.new_array = arrays.ring, arrays.new
            self.notes_left = self.variable_notes_left = _NOTES if arrays.is_kept else 0
            self.cells, self.new_cell = cells.ring, cells.new

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of all outputs."""
        return [shape for shape, _ in self._outputs]

    @property
    def is_on_device(self) -> bool:
        """Whether it is launched on a device."""
        return isinstance(self._call, DeviceCall)

    def inline_launch(self) -> InlineLaunch | None:
        """How an inline cache makes the call; None where none can."""
        if self.is_view:
            make = inline_maker(native_executors())
            return None if make is None else InlineLaunch(make)
        assert isinstance(self._call, NativeCall | DeviceCall)
        return self._call.inline_launch()

    def spares(self, kind: type[Item]) -> list[Spares[Item]]:
        """Of a call that inline caches may have, the spare arrays, or cells, for its outputs; none for a view."""
        call: Any = self._call
        return [] if self.is_view else [spares_of(kind, size, dtype, call.place) for dtype, size in call.outputs]

    def on_arrays(self, cells: Sequence[ArrayCell | None], floats: Mapping[str, float]) -> Any:
        """Compute from the cells of NdArrays; NdArrays."""
        if self.is_view and cells[0] is not None:
            return NdArray.over(cells[0], self.shape)
        if self._spare_tuple is not None:
            # Out of the rings that inline caches take from, which never have any to take where nobody else makes some.
            arrays = tuple([each.get() for each in self._spare_tuple])
            self._computed(cells, floats, [array.cell for array in arrays])
            for array, (shape, _) in zip(arrays, self._outputs, strict=True):
                array.shape = shape
            return arrays
        made, _ = self._computed(cells, floats)
        if self._single:
            return NdArray.over(made[0], self.shape)
        visible = zip(made, self._outputs[: self.pattern.visible], strict=False)
        return tuple([NdArray.over(cell, shape) for cell, (shape, _) in visible])

    def put(self, cells: Sequence[ArrayCell | None], into: ArrayCell, floats: Mapping[str, float]) -> None:
        """Compute from the cells of NdArrays into that of another, or of one of them: of a call with one output."""
        direct = self._direct
        if direct is None:
            self._call.run(cells, [into], list(floats.values()))
            return
        storages: list[Any] = [None if cell is None else cell.storage for cell in cells]
        try:
            storages.append(into.begin_write(HOST, direct.outputs[0][0]))  # last: it may give an input other memory
            addresses = [0 if storage is None else storage.address for storage in storages]
            status = direct.run_on(addresses, floats.values())
        finally:
            into.end_write()
        if status:
            direct.fail(status, addresses)

    def on_values(self, inputs: tuple[Value | None, ...], floats: Mapping[str, float]) -> Any:
        """Compute from the values of Variables, and record the call; Variables."""
        cells = [None if value is None else value._cell for value in inputs]
        if self.is_view and cells[0] is not None:
            return self.record(inputs, cells[0], floats)
        made, random_state = self._computed(cells, floats)
        saved: list[ArrayCell | None] | None = None
        if self.saved:
            saved = [None] * len(made)
            for position in self.saved:
                saved[position] = made[position]
        if self._single:
            return self.record(inputs, made[0], floats, saved, random_state)
        pattern = self.pattern
        function = pattern.copy_on(inputs, {**pattern.attributes, **floats} if floats else pattern.attributes)
        if saved is not None:
            function.auxiliary = saved
        function.random_state = random_state
        variables = []
        for position in range(function.visible):
            value = RecordedValue()
            value.shape = self._outputs[position][0]
            value.pattern = value.inputs = value.extra = None
            value.details = Details(None, function, position)
            value._cell = made[position]  # without an array, which few are asked for
            function.outputs.append(weakref.ref(value))
            variables.append(Variable.on_new(value))
        return tuple(variables)

    def _computed(
        self, cells: Sequence[ArrayCell | None], floats: Mapping[str, float], into: list[ArrayCell] | None = None
    ) -> tuple[list[ArrayCell], ArrayCell | None]:
        """The outputs of a call, auxiliary ones included, and the random state of a random one, which is its own.

        into: spare cells of one's own for them, of a call that inline caches may have.
        """
        is_random = self.pattern.spec.random
        direct = self._direct
        storages: list[Any] = []
        if direct is not None:
            # Cells with a code are in host memory, as the kernel wants it.
            storages = [None if cell is None else cell.storage for cell in cells]
        elif self._casts is not None and (found := self._casts.direct_on(cells)) is not None:
            direct, storages = found
        if direct is None:
            random_state = new_random_state(self.pattern.attributes["seed"]) if is_random else None
            if into is not None:
                made = into
            elif self._on_host:
                made = [each.get() for each in self._spares]
            else:
                made = [ArrayCell(size) for _, size in self._outputs]
            self._call.run([*cells, random_state] if is_random else cells, made, list(floats.values()))
            return made, random_state
        made = [each.get() for each in self._spares] if into is None else into
        random_state = self._advanced_random_state() if is_random else None
        if random_state is not None:
            storages.append(random_state.storage)
        storages += [cell.storage for cell in made]
        addresses = [0 if storage is None else storage.address for storage in storages]
        if not direct.mutated:
            status = direct.run_on(addresses, floats.values())
        else:
            changed: list[Any] = [cells[number] for number in direct.mutated]
            with written_together(changed):
                status = direct.run_on(addresses, floats.values())
            for cell in changed:
                cell.outdate_copies()
        if status:
            direct.fail(status, addresses)
        return made, random_state

    def _advanced_random_state(self) -> ArrayCell:
        """A random state as after one `advance`."""
        random_state = _RANDOM_STATES.get()
        storage: Any = random_state.storage
        storage.write_integers(random_key(self.pattern.attributes["seed"]), 0)
        return random_state

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


class _CachedOnDevice(CachedCall):
    """A call of a single step on a device."""

    __slots__ = ("_is_nearly_plain", "_spare_arrays")

    def __init__(self, call: OneCall, function: RecordedCall) -> None:
        super().__init__(call, function)
        assert isinstance(call, DeviceCall)
        spec = self.pattern.spec
        # All that may keep it from being plain is where its inputs are.
        self._is_nearly_plain = self._single and len(call.outputs) == 1 and not call.mutated and not spec.random
        if self._is_nearly_plain and call.outputs[0] is not None:
            dtype, size = call.outputs[0]
            self._spare_arrays = spares_of(NdArray, size, dtype, call.place)

    def on_arrays(self, cells: Sequence[ArrayCell | None], floats: Mapping[str, float]) -> Any:
        """See CachedCall."""
        if not self._is_nearly_plain:
            return super().on_arrays(cells, floats)
        call: Any = self._call
        array = self._spare_arrays.get()
        call.compute(cells, call.fetch(cells), (array.cell.storage.address,), floats.values())  # type: ignore[union-attr]  # spares have memory
        array.shape = self.shape
        return array

    def _computed(
        self, cells: Sequence[ArrayCell | None], floats: Mapping[str, float], into: list[ArrayCell] | None = None
    ) -> tuple[list[ArrayCell], ArrayCell | None]:
        call: Any = self._call
        pairs = zip(self._spares, self._outputs, strict=True)
        made = into or [_left_out(size) if each is None else each.get() for each, (_, size) in pairs]
        arrays = call.fetch(cells)
        random_state = None
        if self.pattern.spec.random:
            random_state = self._advanced_random_state()
            arrays.append(random_state_by_shape(random_state))
        storages: list[Any] = [cell.storage for cell in made]
        outputs = [None if storage is None else storage.address for storage in storages]
        call.compute(cells, arrays, outputs, floats.values())
        return made, random_state


def _left_out(size: int) -> ArrayCell:
    """The cell of an output that nobody needs."""
    cell = ArrayCell(size)
    cell.leave_out()
    return cell


def remember(
    key: tuple[object, ...],
    calls: dict[Hashable, Any] | None,
    call: OneCall,
    function: RecordedCall,
    given: tuple[object, ...],
) -> None:
    """Know a call from now on, unless the function has arrays of its own, which another call must not share.

    calls: the table that was in force when the call began. It may have been dropped since, by a change for the process.
    given: shapes and codes of the inputs that it was compiled for; the key, which begins with the op and these, may say
        others: of an input that another thread has cast or reshaped since.
    """
    is_of_key = key[1 : 1 + len(given)] == given
    if is_of_key and calls is not None and is_found(calls, function.context) and not function.spec.states:
        keep(calls, key, (_CachedOnDevice if isinstance(call, DeviceCall) else CachedCall)(call, function))
