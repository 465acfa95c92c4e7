"""The structure of a recorded graph: its calls in order, its arrays numbered, and the key of its plan."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any

from atled.arrays.cell import ArrayCell
from atled.arrays.epoch import EPOCH
from atled.graph.record.traversal import functions_before
from atled.graph.record.value import RecordedCall, Value
from atled.type_configs import compute_dtype


class Structure:
    """Calls and numbered values.

    functions: per call.  shapes: per value, leaves and outputs alike, each once.
    origins: per value (call number, output number), or None for a leaf.
    references: per call the value numbers of its inputs, -1 where one is absent.
    made: per call the value numbers of its visible outputs, -1 where the value is gone.
    cells: outside arrays in the order in which the plan numbers them: those of all values, then per call its
        auxiliary cells and its random state.
    aliases: per cell the number of the first that is the same one.
    key: everything that a plan depends on, hashable; equal keys mean equal plans.
    overwritten: numbers, as in `aliases`, of arrays into which a call writes although they are another value's, too.
    """

    def __init__(self, calls: Sequence[RecordedCall]) -> None:
        self.functions = list(calls)
        self.shapes: list[tuple[int, ...]] = []
        # A value that a call makes may hold the plan that holds this structure: it is referred to weakly.
        self._values: list[Value | weakref.ref[Value]] = []
        self.cells: list[ArrayCell] = []
        self.origins: list[tuple[int, int] | None] = []
        self.references: list[tuple[int, ...]] = []
        self.made: list[tuple[int, ...]] = []
        self._numbers: dict[Any, int] = {}
        self._merged: list[tuple[Value, bool | None]] = []  # leaves that count as others, with their need_grad
        self._call_numbers: dict[RecordedCall, int] = {}
        for number, call in enumerate(calls):
            dtype_of = call.context.backends[0][1]
            self.references.append(
                tuple(-1 if value is None else self._number(value, dtype_of) for value in call.inputs)
            )
            self.made.append(
                tuple(
                    -1 if value is None else self._enter(("made", number, position), value, (number, position))
                    for position, value in enumerate(call.live_outputs())
                )
            )
            self._call_numbers[call] = number
        self.state_numbers: list[tuple[tuple[int, ...], int]] = []
        for function in self.functions:
            self.state_numbers.append(self._number_state(function))
        self._flags: list[bool | None] | None = None
        self._needs: list[bool] | None = None
        self.aliases = aliases_of(self.cells)
        self.key = self._key()
        self.overwritten = self._find_overwritten()

    def _find_overwritten(self) -> frozenset[int]:
        if not repeats(self.aliases):
            return frozenset()
        owners = list(zip(self.aliases, self.origins, strict=False))
        read = {alias for alias, origin in owners if origin is None}
        written = Counter(alias for alias, origin in owners if origin and not self.functions[origin[0]].spec.views)
        return frozenset(alias for alias, count in written.items() if count > 1 or alias in read)

    def is_of(self, other: Structure) -> bool:
        """Whether another structure is of the same calls."""
        return self.functions == other.functions

    def number_of(self, value: Value) -> int:
        """The number of a value that a call makes."""
        assert value.parent is not None, "no leaf"
        return self.made[self._call_numbers[value.parent]][value.position]

    def is_reached(self, numbers: Sequence[int]) -> bool:
        """Whether gradients that start at results reach a leaf; not by the results' own flags: they are asked for."""
        origins = [self.origins[number] for number in numbers]
        before = [i for origin in origins if origin is not None for i in self.references[origin[0]]]
        return any(self.needs[i] for i in before if i >= 0)

    def passed_by_gradients(self, numbers: Sequence[int]) -> frozenset[int]:
        """The calls through which gradients that start at results pass on their way to leaves, by number."""
        origins = [self.origins[number] for number in numbers]
        waiting = [origin[0] for origin in origins if origin is not None]
        # From their inputs gradients flow on, whether or not any reaches the calls themselves.
        waiting += [
            number
            for number, function in enumerate(self.functions)
            if function.spec.may_resume and function.spec.resumes(function.attributes)
        ]
        passed: set[int] = set()
        while waiting:
            call = waiting.pop()
            needing = [i for i in self.references[call] if i >= 0 and self.needs[i]]
            if call not in passed and needing:
                passed.add(call)
                waiting += [origin[0] for i in needing if (origin := self.origins[i]) is not None]
        return frozenset(passed)

    def value(self, number: int) -> Value | None:
        """The value of a number; None if it was a result that nothing reads and that is gone."""
        found = self._values[number]
        return found() if isinstance(found, weakref.ref) else found

    def reference(self, number: int) -> weakref.ref[Value]:
        """The weak reference to a value that a call makes."""
        found = self._values[number]
        assert isinstance(found, weakref.ref), "leaves are held"
        return found

    # Not cached_property: up to Python 3.11 it has one lock for all structures, which after a fork stays locked in the
    # child if another thread held it.
    @property
    def flags(self) -> list[bool | None]:
        """Per value its need_grad at the first access to this; setting one raises the epoch."""
        if self._flags is None:
            values = map(self.value, range(len(self.shapes)))
            self._flags = [None if value is None else value.need_grad for value in values]
        return self._flags

    def is_as_of(self, but_need_grad: int) -> bool:
        """Whether nothing has changed since an epoch's `but_need_grad`, or need_grad alone, which is as it was then.

        With it plans of this structure were made.
        """
        if self._flags is None or but_need_grad != EPOCH.but_need_grad:
            return False
        for number, flag in enumerate(self._flags):  # asked at each run of programs that switch them
            value = self.value(number)
            if flag is not (None if value is None else value.need_grad):
                return False
        return all(value.need_grad is flag for value, flag in self._merged)

    @property
    def needs(self) -> list[bool]:
        """Per value whether a gradient is to reach it: by its need_grad, else by those of what it is computed from."""
        if self._needs is None:
            self._needs = self._find_needs()
        return self._needs

    def _find_needs(self) -> list[bool]:
        flags = self.flags
        needs = [bool(flag) for flag in flags]
        for function, references, made in zip(self.functions, self.references, self.made, strict=True):
            flows = function.spec.no_gradient != "stops" and any(needs[i] for i in references if i >= 0)
            for number in made:
                if number >= 0:
                    flag = flags[number]
                    needs[number] = flows if flag is None else flag
        return needs

    def _number_state(self, function: RecordedCall) -> tuple[tuple[int, ...], int]:
        numbers = []
        for cell in function.auxiliary:
            numbers.append(-1 if cell is None else len(self.cells))
            if cell is not None:
                self.cells.append(cell)
        random_state = -1
        if function.random_state is not None:
            random_state = len(self.cells)
            self.cells.append(function.random_state)
        return tuple(numbers), random_state

    def _number(self, value: Value, type_config: str) -> int:
        known = self._numbers.get(id(value))
        if known is not None:
            return known
        maker = None if value.parent is None else self._call_numbers.get(value.parent)
        if maker is not None:
            # By maker and position, as the call itself numbers it.
            return self._enter(("made", maker, value.position), value, (maker, value.position))
        # By cells: `unlinked()` gives a second value over the same arrays. What a call outside makes is only itself: a
        # gradient may reach it although its need_grad is None.
        cell = value.data.cell
        gradient = value.grad.cell if value.need_grad else value if value.parent is not None else None
        number = self._enter((id(cell), id(gradient), value.shape), value, None)
        self._numbers[id(value)] = number
        if self._values[number] is not value:
            self._merged.append((value, value.need_grad))
        if cell.storage is None:
            cell.settle(compute_dtype(type_config))
        return number

    def _enter(self, key: Any, value: Value, origin: tuple[int, int] | None) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.shapes)
            self._values.append(value if origin is None else weakref.ref(value))
            cell = value.data.cell
            cell.is_data = True
            self.cells.append(cell)
            self.shapes.append(value.shape)
            self.origins.append(origin)
        return number

    def _key(self) -> tuple[Any, ...]:
        # Not where they are: a plan fetches what it needs, and arrays move to and fro.
        arrays = [
            (shape, dtype_number(cell)) if origin is None else origin
            for cell, shape, origin in zip(self.cells, self.shapes, self.origins, strict=False)
        ]
        calls = tuple(
            (function.kind, references, made)
            for function, references, made in zip(self.functions, self.references, self.made, strict=True)
        )
        return calls, tuple(arrays), repeats(self.aliases)


def aliases_of(cells: Sequence[ArrayCell]) -> list[int]:
    """Per cell the index of the first that is the same one."""
    first: dict[int, int] = {}
    return [first.setdefault(id(cell), number) for number, cell in enumerate(cells)]


def repeats(aliases: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """What of aliases is not plain, for keys: the numbers of arrays that an earlier one is, with its number."""
    return tuple((number, first) for number, first in enumerate(aliases) if number != first)


def dtype_number(cell: ArrayCell) -> int:
    """A small number for the dtype of an array, for keys; -1 while it has none."""
    return -1 if cell.dtype is None else cell.dtype.num


def calls_before(roots: Sequence[Value]) -> list[RecordedCall]:
    """The calls that make values, in an order in which they can run, their shapes updated from those of the leaves."""
    order = functions_before(*roots)
    for function in order:
        function.refresh()
    return order
