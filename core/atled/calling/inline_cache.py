"""Inline caches: the last calls at once of a function, which an executor that can do so makes again natively.

What the text of a function does with a cached call of a small kernel takes several times as long as the kernel. An
executor may have `inline_call(address of a cache)`. It gives a function, which refers to that very int, and which is
called with the table of cached calls, the inputs, the attributes of the key and the floats. That compares them with the
entries of the cache, takes a spare, runs the kernel and gives the array, or the Variable of a call that it records; or
it gives None, and the text makes the call.
Calls on devices profit from whichever executor has it: of them all is native but the function that launches.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.arrays.cell import ABSENT, ArrayCell, Use, code_of
from atled.arrays.place import HOST, ArrayClass, DeviceStorage, Place
from atled.arrays.spares import NEVER, NOBODYS, Counts, Spares, proven, reuses
from atled.arrays.storage import HostStorage, ViewEnd
from atled.calling.call_tables import INLINE_CACHES
from atled.graph.record.value import PLAIN, Details, RecordedCall, RecordedValue, Value
from atled.graph.run.inline_launch import InlineLaunch, Make
from atled.inline_words import InlineEntryWord, InlineObjectWord, InlineResultWord, InlineWord
from atled.variable import Variable
from atled_contexts import lock_across_forks

_LIMIT = 64  # entries of a cache; each is looked at with one comparison of numbers, those of one size with some more

# Calls on devices that are found before one is entered. An executor that nothing else uses takes 10 to 50 ms to load,
# which is as much as some ten thousand calls save.
_PATIENCE = 5000
_DEVICE_CALLS = itertools.count(1)

_CHANGING = lock_across_forks()


class InlineCache:
    """That of one function: its words, and the entries whose addresses they are.

    install: what is done with the executor's function once there is an entry.
    inputs, attributes, floats: how many a call is given of each; inputs -1: any number.
    records: whether it is of calls on Variables, which are recorded, or of those on NdArrays.
    """

    __slots__ = ("__weakref__", "_entries", "_given", "_install", "_make", "_next", "_records", "_words")

    def __init__(
        self,
        install: Callable[[Callable[..., Any]], None],
        inputs: int,
        attributes: int,
        floats: int,
        *,
        records: bool = False,
    ) -> None:
        self._install = install
        self._records = records
        self._make: Callable[[int], Callable[..., Any]] | None = None
        self._entries: list[_Entry] = []
        self._next = 0
        self._given = inputs, attributes, floats
        self._words = np.zeros(InlineWord.ENTRIES + _LIMIT, np.int64)

    def note(
        self,
        table: dict[Any, Any],
        call: Any,
        inputs: Sequence[Variable | NdArray | None],
        attributes: Sequence[object],
    ) -> None:
        """Have the next call like one that was just found in a table made natively; call: a `CachedCall`."""
        if _is_on_device(call, inputs) and next(_DEVICE_CALLS) < _PATIENCE:
            return
        budget = _budget(self._records)
        setattr(call, budget, getattr(call, budget) - 1)
        if any(type(each) is list for each in attributes):
            return  # attributes are known by their identity, which a list keeps when it changes
        launch: InlineLaunch | None = call.inline_launch()
        with _CHANGING:
            if launch is None:
                setattr(call, budget, 0)
                return
            spares = call.spares(ArrayCell if self._records else NdArray)
            entry = _Entry(table, call, launch, spares, inputs, attributes, call.saved)
            is_still_found = table.get(entry.key) is call
            if not is_still_found:  # another thread has changed an input, or what the table has
                return
            if entry.fits(launch) and _is_trusted(call, launch, inputs, attributes, records=self._records):
                self.enter(entry, launch.make)
            else:
                setattr(call, budget, 0)

    def enter(self, entry: _Entry, make: Callable[[int], Callable[..., Any]]) -> None:
        """Have an entry, in the place of the oldest if there is no room; all of one executor, which makes the function.

        One of another executor is the first of a new cache: programs go from one device to another for good, and how
        often a call may be entered is limited.
        """
        if make != self._make:
            self._start(make)
        self._words[InlineWord.ENTRIES + self._next] = entry.address
        if self._next < len(self._entries):
            self._entries[self._next] = entry
        else:
            self._entries.append(entry)
            self._words[InlineWord.COUNT] = len(self._entries)
        self._next = (self._next + 1) % _LIMIT

    def _start(self, make: Callable[[int], Callable[..., Any]]) -> None:
        """Be empty, with the function of an executor.

        Another thread may be in the function that was there, or about to call it: that one's words stay its own, and
        have no entries, which it sees whenever it begins, but never between two of its looks at a word.
        """
        self._empty()
        self._words = np.zeros_like(self._words)
        self._words[InlineWord.INPUTS : InlineWord.COUNT] = self._given
        objects = _objects()
        self._words[InlineWord.OBJECTS] = objects.ctypes.data
        slots = _VALUE_SLOTS if self._records else _ARRAY_SLOTS
        self._words[InlineWord.RECORDS : InlineWord.LAST] = self._records, *objects[slots]
        self._make = make
        INLINE_CACHES.add(self)
        self._install(make(_Address(self._words)))

    def forget(self) -> None:
        """Know no call any more."""
        with _CHANGING:
            self._empty()

    def _empty(self) -> None:
        self._words[InlineWord.COUNT] = self._words[InlineWord.LAST] = self._next = 0
        self._entries.clear()


def _budget(records: bool) -> str:
    """The attribute of a `CachedCall` that says how often it may still be entered into a cache of one kind."""
    return "variable_notes_left" if records else "notes_left"


def _is_on_device(call: Any, inputs: Sequence[Variable | NdArray | None]) -> bool:
    """Whether a call is launched on a device, or gives a view of an array there."""
    if not call.is_view:
        return bool(call.is_on_device)
    first = inputs[0]
    cell: Any = first.value._cell if isinstance(first, Variable) else first.cell  # type: ignore[union-attr]  # it is there
    return cell is not None and cell.place is not HOST


class _Address(int):
    """The address of an array, which it keeps alive: the function of a cache may live longer than the cache."""

    def __new__(cls, words: np.ndarray) -> _Address:
        made = super().__new__(cls, words.ctypes.data)
        made._words = words
        return made

    _words: np.ndarray


class _Entry:
    """The words of a call, and what they are the addresses of.

    key: under which a table has a call of the words.
    """

    __slots__ = ("_held", "_shapes", "_words", "key")

    def __init__(
        self,
        table: dict[Any, Any],
        call: Any,
        launch: InlineLaunch,
        spares: Sequence[Spares[Any]],
        inputs: Sequence[Variable | NdArray | None],
        attributes: Sequence[object],
        saved: Sequence[int] = (),
    ) -> None:
        """spares: of each result, the first ones of the call; none where it is a view.  saved: those that it keeps."""
        arrays = [x.value if isinstance(x, Variable) else x for x in inputs]
        shapes = [None if array is None else array.shape for array in arrays]
        codes = [ABSENT if array is None else array.cell.code for array in arrays]
        given = [each for pair in zip(shapes, codes, strict=True) for each in pair]
        self.key = (call.pattern.spec.name, *shapes, *codes, *attributes)
        outputs = call.shapes[: max(len(spares), 1)]
        self._shapes = (*shapes, *outputs)
        place = spares[0].place if spares else HOST
        offsets = _storage_offsets(HostStorage if place is HOST else DeviceStorage)
        root, view_end = _view_offsets() if place is HOST else (-1, -1)
        pattern = call.pattern
        copied = pattern.copy_on((), pattern.attributes)
        names = tuple(call.floats)
        absent = (None, ABSENT)
        tail = [0 if each in absent else id(each) for each in given] + [id(each) for each in (*attributes, *names)]
        head: dict[InlineEntryWord, int] = {
            InlineEntryWord.OWNER: id(self),
            InlineEntryWord.TABLE: id(table),
            InlineEntryWord.SIZE: 0 if arrays[0] is None else arrays[0].cell.size,
            InlineEntryWord.INPUTS: len(arrays),
            InlineEntryWord.FORM: launch.form,
            InlineEntryWord.RUN: id(launch.run),
            InlineEntryWord.FAIL: id(launch.fail),
            InlineEntryWord.ADDRESS: offsets[0],
            InlineEntryWord.EXPORTED: offsets[1],
            InlineEntryWord.ROOT: root,
            InlineEntryWord.VIEW_END: view_end,
            InlineEntryWord.PATTERN: id(pattern),
            InlineEntryWord.CALL: id(copied),
            InlineEntryWord.OUTPUTS: len(outputs),
            InlineEntryWord.IS_TUPLE: call.gives_tuple,
            InlineEntryWord.IS_SAVING: bool(saved),
            InlineEntryWord.RESULTS: InlineEntryWord.GIVEN + len(tail),
        }
        results = [
            _Result(shape, ring, position, position in saved)
            for position, (shape, ring) in enumerate(zip(outputs, spares or (None,), strict=True))
        ]
        words = [head[word] for word in InlineEntryWord if word is not InlineEntryWord.GIVEN] + tail
        self._words = np.array(words + [word for result in results for word in result.words], np.int64)
        self._held = (table, self._shapes, launch, results, given, tuple(attributes), names, pattern, copied)

    @property
    def address(self) -> int:
        """Of the words."""
        return self._words.ctypes.data

    def fits(self, launch: InlineLaunch) -> bool:
        """Whether a launch takes arrays by the shapes of the call: entries have no others."""
        return bool(launch.form) or launch.run is None or launch.keys == self._shapes


class _Result:
    """What an entry says of one of its results.

    spares: None for a view of the first input.  words: `InlineResultWord`.
    """

    __slots__ = ("_held", "spares", "words")

    def __init__(self, shape: tuple[int, ...], spares: Spares[Any] | None, position: int, is_saved: bool) -> None:
        details = Details(position=position)
        code = None if spares is None else code_of(spares.place, spares.dtype)
        new = None if spares is None else spares.new
        found = {
            InlineResultWord.RING: 0 if spares is None else id(spares.ring),
            InlineResultWord.SHAPE: id(shape),
            InlineResultWord.CODE: id(code),
            InlineResultWord.DETAILS: id(details),
            InlineResultWord.NEW: id(new),
            InlineResultWord.IS_SAVED: is_saved,
        }
        self.words = [found[word] for word in InlineResultWord if word is not InlineResultWord.END]
        self.spares = spares
        self._held = shape, details, code, new


def _is_trusted(
    call: Any,
    launch: InlineLaunch,
    inputs: Sequence[Variable | NdArray | None],
    attributes: Sequence[object],
    *,
    records: bool,
) -> bool:
    """Whether the function of an executor was found to use what is free, and nothing else."""
    kind = call.is_view, call.gives_tuple, bool(call.saved), call.pattern.spec.variadic, bool(launch.form)
    of_kind = launch.make, records, kind
    found = _trusted.get(of_kind)
    if found is None:
        is_proven = _is_layout_known() and _is_proven(call, launch, inputs, attributes, records=records)
        found = _trusted[of_kind] = is_proven
    return found


_trusted: dict[tuple[Make, bool, tuple[bool, ...]], bool] = {}


class _NoDevice(ArrayClass):
    """Arrays in the place of those of a device."""

    name = "arrays to try inline caches with"

    def allocate(self, desc: ArrayDesc, device_id: str) -> np.ndarray:
        return np.empty(desc.shape, desc.dtype)

    def view(self, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        return array.reshape(shape)


@functools.cache
def _nowhere() -> Place:
    return Place(_NoDevice(), "")


def _is_proven(
    call: Any,
    launch: InlineLaunch,
    inputs: Sequence[Variable | NdArray | None],
    attributes: Sequence[object],
    *,
    records: bool = False,
) -> bool:
    """Try the function of an executor on a call, with a ring of its own; no device has anything to do for that."""
    made: list[Callable[..., Any]] = []
    floats = [1.0] * len(call.floats)
    count = -1 if call.pattern.spec.variadic else len(inputs)
    cache = InlineCache(made.append, count, len(attributes), len(floats), records=records)
    table: dict[Any, Any] = {}
    if call.is_view:
        cache.enter(_Entry(table, call, launch, (), inputs, attributes), launch.make)
        (function,) = made
        return _shares(function(table, *inputs, *attributes), inputs[0])
    alike = call.spares(NdArray)[0]
    place = HOST
    if not launch.form or call.gives_tuple or call.saved:  # of which one result is tried
        place, launch = _nowhere(), InlineLaunch(launch.make, run=_do_nothing)
        inputs = [None if x is None else _at(place, x.shape, records) for x in inputs]
    spares: Spares[Any] = Spares(ArrayCell if records else NdArray, alike.size, alike.dtype, NEVER, place)
    saved = (0,) if call.saved else ()
    cache.enter(_Entry(table, call, launch, (spares,), inputs, attributes, saved), launch.make)
    (function,) = made

    def made_again() -> Any:
        results = function(table, *inputs, *attributes, *floats)
        return results[0] if call.gives_tuple and results is not None else results

    def is_reused(_: Counts, hold: Callable[[Any], object] | None) -> bool:
        return reuses(spares, hold, (lambda: _cell_of(made_again())) if records else made_again)

    return proven("inline caches of Variables" if records else "inline caches", is_reused) is not NEVER


def _shares(made: Variable | NdArray | None, first: Variable | NdArray | None) -> bool:
    """Whether what a function gave is a new array, or Variable, with the cell of another one."""
    if isinstance(made, Variable) and isinstance(first, Variable):
        return made is not first and made.value is not first.value and made.value._cell is first.value._cell
    return isinstance(made, NdArray) and isinstance(first, NdArray) and made is not first and made.cell is first.cell


def _cell_of(made: Variable | None) -> ArrayCell | None:
    """The cell of what a function gave, or None, where it leaves the call to the text."""
    return None if made is None else made.value.cell


def _do_nothing(*arguments: object) -> None:
    """What launches nothing."""


def _at(place: Place, shape: tuple[int, ...], records: bool) -> Variable | NdArray:
    """A new array there, or a Variable on one."""
    cell = ArrayCell(math.prod(shape))
    cell.output(place, np.dtype(np.float32))
    array = NdArray.over(cell, shape)
    return Variable.on_new(Value(shape, data=array)) if records else array


_SLOTS: dict[InlineObjectWord, tuple[type, str]] = {
    InlineObjectWord.ARRAY_CELL: (NdArray, "cell"),
    InlineObjectWord.ARRAY_SHAPE: (NdArray, "shape"),
    InlineObjectWord.CELL_SIZE: (ArrayCell, "size"),
    InlineObjectWord.CELL_CODE: (ArrayCell, "code"),
    InlineObjectWord.CELL_STORAGE: (ArrayCell, "storage"),
    InlineObjectWord.CELL_PENDING: (ArrayCell, "pending"),
    InlineObjectWord.CELL_COPIES: (ArrayCell, "_copies"),
    InlineObjectWord.CELL_ZEROED: (ArrayCell, "zeroed"),
    InlineObjectWord.CELL_IS_DATA: (ArrayCell, "is_data"),
    InlineObjectWord.CELL_USE: (ArrayCell, "use"),
    InlineObjectWord.VARIABLE_VALUE: (Variable, "value"),
    InlineObjectWord.VALUE_SHAPE: (Value, "shape"),
    InlineObjectWord.VALUE_CELL: (Value, "_cell"),
    InlineObjectWord.VALUE_PATTERN: (Value, "pattern"),
    InlineObjectWord.VALUE_INPUTS: (Value, "inputs"),
    InlineObjectWord.VALUE_EXTRA: (Value, "extra"),
    InlineObjectWord.VALUE_DETAILS: (Value, "details"),
    InlineObjectWord.VALUE_HANDLE: (Value, "handle"),
    InlineObjectWord.VIEW_END_GONE: (ViewEnd, "gone"),
    InlineObjectWord.CALL_INPUTS: (RecordedCall, "inputs"),
    InlineObjectWord.CALL_OUTPUTS: (RecordedCall, "outputs"),
    InlineObjectWord.CALL_AUXILIARY: (RecordedCall, "auxiliary"),
    InlineObjectWord.DETAILS_PARENT: (Details, "parent"),
}

_ARRAY_SLOTS = [InlineObjectWord.ARRAY_CELL, InlineObjectWord.ARRAY_SHAPE]
_VALUE_SLOTS = [InlineObjectWord.VALUE_CELL, InlineObjectWord.VALUE_SHAPE]

_OBJECTS: dict[InlineObjectWord, object] = {
    InlineObjectWord.NONE: None,
    InlineObjectWord.FALSE: False,
    InlineObjectWord.UNUSED: Use.NONE,
    InlineObjectWord.NOBODYS: NOBODYS,
    InlineObjectWord.FLOAT: float,
    InlineObjectWord.VARIABLE: Variable,
    InlineObjectWord.RECORDED: RecordedValue,
    InlineObjectWord.DETAILS: PLAIN,
    InlineObjectWord.ARRAY: NdArray,
}

_COPIED: dict[InlineObjectWord, type] = {
    InlineObjectWord.CALL_BYTES: RecordedCall,
    InlineObjectWord.DETAILS_BYTES: Details,
}
"""The types of what is copied."""


@functools.cache
def _storage_offsets(kind: type) -> tuple[int, int]:
    """Where a kind of storages has what words of an entry say."""
    return slot_offset(kind, "address"), slot_offset(kind, "exported")


@functools.cache
def _view_offsets() -> tuple[int, int]:
    """Where a host storage has the root of its views, and what notes their end."""
    return slot_offset(HostStorage, "_root"), slot_offset(HostStorage, "_view_end")


@functools.cache
def _objects() -> np.ndarray:
    """The words of `InlineObjectWord`; all objects live as long as the process."""
    offsets = {word: slot_offset(kind, name) for word, (kind, name) in _SLOTS.items()}
    addresses = {word: id(each) for word, each in _OBJECTS.items()}
    sizes = {word: kind.__basicsize__ for word, kind in _COPIED.items()}
    found = {**offsets, **addresses, **sizes}
    return np.array([found[word] for word in InlineObjectWord], np.int64)


def _is_layout_known() -> bool:
    """Whether this is CPython with words of 64 bits, where `id` is an address and the type is the second word."""
    if sys.implementation.name != "cpython" or sys.maxsize >> 32 == 0:
        return False
    offsets = [*_objects(), *_storage_offsets(HostStorage), *_storage_offsets(DeviceStorage), *_view_offsets()]
    is_head_known = ctypes.c_void_p.from_address(id(NOBODYS) + 8).value == id(type(NOBODYS))
    return is_head_known and min(offsets) >= 0 and all(map(_is_all_slots, _COPIED.values()))


def _is_all_slots(kind: type) -> bool:
    """Whether objects are two words and slots, but for a word that the weak references to them have, or have not."""
    slots = [name for name in vars(kind)["__slots__"] if name != "__weakref__"]
    offsets = {slot_offset(kind, name) for name in slots}
    words = kind.__basicsize__ // 8 - 2
    return min(offsets) >= 16 and len(offsets) == len(slots) and words - len(slots) in (0, 1)


def slot_offset(kind: type, name: str) -> int:
    """Where in an object a slot of its class is, in bytes: looked for, since that is CPython's own affair; -1: nowhere.

    Objects of derived classes have it there, too.
    """
    made: Any = object.__new__(kind)
    mark = object()
    setattr(made, name, mark)
    words = (ctypes.c_void_p * (kind.__basicsize__ // 8)).from_address(id(made))
    found = [number * 8 for number, word in enumerate(words) if word == id(mark)]
    delattr(made, name)
    return found[0] if len(found) == 1 else -1
