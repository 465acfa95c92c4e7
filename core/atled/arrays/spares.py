"""Spares: arrays of up to 256 KiB that were handed out, to be handed out again once nothing else refers to them.

On a device what was launched may not have run by then. It has its turn before whatever gets the memory next: the work
of a device is done in order.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell, Storage, Use
from atled.arrays.place import HOST, DeviceStorage, Place
from atled.arrays.storage import HostStorage
from atled.limits.alive import alive
from atled.named_tuple import NamedTuple
from atled_contexts import lock_across_forks

LARGE_BYTES = 1 << 18
"""Arrays of more bytes are never used again: what is computed of them takes many times longer than making them."""
_LIMIT_BYTES = 8 << 20  # of a ring; a graph that is computed while it is recorded has all its results in use at once
_TOTAL_BYTES = 32 << 20  # of all rings, which is looked at
_CHECK_EVERY = 16  # rings that were made, or where rings have grown
_CHECK_BYTES = 8 << 20  # by so much
_LIMIT = 2048  # arrays of a ring: so many results of one size dynamic graphs have in use at once

Item = TypeVar("Item", NdArray, ArrayCell)
_BYTE = np.dtype(np.uint8)
_UNUSED = Use.NONE
_FLOAT32 = np.dtype(np.float32)


class Counts(NamedTuple):
    """The counts of references, at one place of the code, of an array or a cell that is free.

    free: of what is next in a ring.  held: of what that holds: the cell of an array, and its storage.
    """

    free: int
    held: int


NEVER = Counts(-1, -1)
"""Matches nothing: what is in a ring is never used again."""


def _candidates() -> tuple[Counts, ...]:
    """The counts that may be right; none where reference counts do not tell whether an object is free.

    Versions of CPython differ: a local variable that is passed counts twice, or once where the compiler saw that it
    outlives the call (LOAD_FAST_BORROW, 3.14), which depends on the code around. A just-in-time compiler may decide
    that later than the proof, and without the interpreter lock counts are spread over threads.
    """
    jit = getattr(sys, "_jit", None)
    if _is_built_without_lock() or (jit is not None and jit.is_enabled()):
        return ()
    return tuple(Counts(*pair) for pair in ((3, 3), (2, 2), (4, 3), (3, 2), (2, 3), (4, 2)))


def _is_built_without_lock() -> bool:
    """Whether this Python can do without the interpreter lock, whether or not it does."""
    if sys.version_info < (3, 13):
        return False
    import sysconfig  # lazy: 1 ms, where the answer is known without

    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


_CANDIDATES = _candidates()


class _Nobodys:
    """Stands in a ring for an array or a cell that is never free: there are more references to it."""

    __slots__ = ("cell", "storage")

    def __init__(self) -> None:
        self.cell = self
        self.storage = None


NOBODYS = _Nobodys()
_HELD = [NOBODYS] * 8  # more than any place counts

_CHANGING = lock_across_forks()

_references = sys.getrefcount

_refused: list[str] = []


def proven(place: str, reuses: Callable[[Counts, Callable[[Any], object] | None], bool]) -> Counts:
    """The counts with which a place reuses all that is free and nothing that is referred to; NEVER if there are none.

    A held array that is used again is overwritten under its owner's eyes. So each place is tried before it is relied
    on, and one that fails makes new arrays always, which `places_without_spares` tells.

    reuses: makes one array or cell in an empty ring, has the place look there, and says whether that took it. It
        holds meanwhile what the second argument gives of it; None: nothing.
    """
    for counts in _CANDIDATES:
        if reuses(counts, None):
            if any(reuses(counts, hold) for hold in (_whole, _cell, _storage)):
                break
            return counts
    _refused.append(place)
    return NEVER


def _whole(taken: Any) -> object:
    return taken


def _cell(taken: Any) -> object:
    return taken.cell if isinstance(taken, NdArray) else taken


def _storage(taken: Any) -> object:
    return (taken.cell if isinstance(taken, NdArray) else taken).storage


def places_without_spares() -> tuple[str, ...]:
    """Names of the places that were tried and cannot tell a free array from one that is referred to."""
    return tuple(_refused)


class Spares(Generic[Item]):
    """Arrays, or bare cells, of one size and dtype in one memory, which come round: the one used longest ago is next.

    Most results of small ops are dropped soon. To learn of that from a finalizer, and to make three new objects, costs
    more than the op; so results stay in a ring, and who takes the next one reads the counts of references, whether
    it, its cell or its memory is in use. As it stays in the ring, another thread that comes round to it meanwhile
    sees a higher count; what leaves the ring is marked first (`_never_free`), for then the count falls. Large arrays
    are not kept: their pages are worth more elsewhere.

    ring: gives one by `next`; one that nobody may use, such as `NOBODYS`, as well.
    """

    __slots__ = (
        "__weakref__",
        "_counts",
        "_kept",
        "_kind",
        "_last",
        "_limit",
        "_replaced",
        "dtype",
        "place",
        "ring",
        "size",
    )

    def __init__(
        self, kind: type[Item], size: int, dtype: np.dtype, counts: Counts | None = None, place: Place = HOST
    ) -> None:
        self._kind: type[Any] = kind
        self.size = size
        self.dtype = dtype
        self.place = place
        self._limit = _limit(size * dtype.itemsize) if _CANDIDATES else 0
        self._replaced = 0
        self._last = 0  # where the last one stood that was not free
        # Never empty, or the ring would be looked through without end. It may grow while it is.
        self._kept: list[Any] = [NOBODYS]
        self.ring: Iterator[Any] = chain.from_iterable(repeat(self._kept)) if _CANDIDATES else repeat(NOBODYS)
        self._counts = _counts_of(kind) if counts is None else counts

    @property
    def is_kept(self) -> bool:
        """Whether any that are made come round again."""
        return self._limit > 0

    def get(self) -> Item:
        """One to which nothing else refers, shape and contents undefined."""
        taken = next(self.ring)
        cell = taken.cell if self._kind is NdArray else taken
        storage = cell.storage
        free, held = self._counts
        if (
            _references(taken) == free
            and (cell is taken or _references(cell) == held)
            and _references(storage) == held
            and cell._copies is None
            and (not storage.exported or storage.is_shown_no_more())
        ):
            # The state of a new array, set in line: a call would take a third of all this.
            cell.pending = None
            cell.zeroed = cell.is_data = False
            cell.use = _UNUSED
            item: Item = taken
            return item
        # It is in use. No further tries: with a new one the ring gets long enough for those that live longer.
        return self.new(taken)

    def new(self, in_use: Any = None) -> Item:
        """One that was never in the ring, and is from now on.

        in_use: what came round and was not free. It comes round again later than all that are there.
        """
        cell = ArrayCell(self.size)
        cell.output(self.place, self.dtype)
        made: Any = cell if self._kind is ArrayCell else NdArray.over(cell, (self.size,))
        if self._limit:
            with _CHANGING:
                before = len(self._kept)
                self._keep(made, in_use)
                grown = len(self._kept) - before
            if grown:
                _LIMITS.grow(self.nbytes)
        item: Item = made
        return item

    def _keep(self, made: Any, in_use: Any) -> None:
        kept = self._kept
        if kept[0] is NOBODYS:
            kept[0] = made
        elif in_use not in (None, NOBODYS) and self._is_spoilt(in_use) and (number := self._number_of(in_use)) >= 0:
            self._replace(number, made)
        elif len(kept) < self._limit:
            number = self._number_of(in_use)
            if number >= 0:  # else the ring was cleared meanwhile
                kept[number], made = made, in_use
            kept.append(made)
        else:
            self._replaced = (self._replaced + 1) % self._limit
            self._replace(self._replaced, made)

    def _number_of(self, item: Any) -> int:
        """Where in the ring something is that came round; -1 if it is there no more."""
        kept, last = self._kept, self._last
        # Where many are in use, it is the one behind the last.
        number = next((n for n in (last + 1, last) if n < len(kept) and kept[n] is item), -1)
        if number < 0:
            number = kept.index(item) if item in kept else -1
        self._last = max(number, 0)
        return number

    def _replace(self, number: int, made: Any) -> None:
        _never_free(self._kept[number])
        self._kept[number] = made

    def _is_spoilt(self, item: Any) -> bool:
        """Whether it will never be free, because another library may see its memory, or it has copies."""
        cell: ArrayCell = item.cell if self._kind is NdArray else item
        storage = cell.storage
        return not cell.is_alone or storage is None or (storage.exported and not isinstance(storage, HostStorage))

    @property
    def count(self) -> int:
        """How many are in the ring."""
        return len(self._in_ring())

    @property
    def nbytes(self) -> int:
        """Bytes of each."""
        return self.size * self.dtype.itemsize

    def free_count(self) -> int:
        """How many of them are free."""
        items = self._in_ring()
        free = [count == _IN_RING for count in _counted(items)]
        if self._kind is NdArray:
            cells = [item.cell for item in items]
            free = [alone and count == _IN_RING for alone, count in zip(free, _counted(cells), strict=True)]
        return sum(free)

    def _in_ring(self) -> list[Any]:
        return [item for item in self._kept if item is not NOBODYS]

    def clear(self) -> None:
        """Forget all; those that are in use live on."""
        with _CHANGING:
            for item in self._in_ring():
                _never_free(item)
            self._kept[:] = [NOBODYS]


def _never_free(item: Any) -> None:
    """Have what is going to leave a ring count as in use for ever.

    Another thread may have taken it and be about to count its references: there is one less, as if nobody held it.
    """
    cell = item if isinstance(item, ArrayCell) else item.cell
    cell.stand_apart()


class SpareWorkspaces:
    """Memory of one size for the time of a call. It never leaves the call, so references need not be counted.

    free: what no call has.  most: how many of these are kept. Callers for which calls of `take` and `put` cost too much
        take from there and put back as these do.
    """

    __slots__ = ("__weakref__", "_nbytes", "_place", "free", "most")

    def __init__(self, nbytes: int, place: Place) -> None:
        self._nbytes = nbytes
        self._place = place
        self.most = 0 if nbytes > min(LARGE_BYTES, _LIMITS.ring_bytes) else 2
        self.free: list[Storage] = []

    def take(self) -> Storage:
        """Memory with undefined contents."""
        try:
            return self.free.pop()
        except IndexError:
            on_host = self._place is HOST
            return HostStorage(self._nbytes) if on_host else DeviceStorage(self._place, self._nbytes, _BYTE)

    def put(self, storage: Storage) -> None:
        """Give it back."""
        if len(self.free) < self.most:
            self.free.append(storage)

    def clear(self) -> None:
        """Keep none for later."""
        self.free.clear()


def _limit(nbytes: int) -> int:
    """How many arrays of so many bytes are kept."""
    return 0 if nbytes > LARGE_BYTES else min(_LIMIT, _LIMITS.ring_bytes // max(nbytes, 1))


_IN_RING = 3
"""The count of references to what only its owner, a list and the walk along that list hold."""


def _counted(objects: list[Any]) -> list[int]:
    """The counts of references to objects, the list and the walk included, which no version's compiler changes."""
    return list(map(sys.getrefcount, objects))


_counts: dict[type, Counts] = {}


def _counts_of(kind: type[Any]) -> Counts:
    """The counts for `get` of such spares, proven when the first one is made."""
    counts = _counts.get(kind)
    if counts is None:
        place = f"spares of {kind.__name__}"
        counts = _counts.setdefault(kind, proven(place, functools.partial(_get_reuses, kind)))
    return counts


def _get_reuses(kind: type[Any], counts: Counts, hold: Callable[[Any], object] | None) -> bool:
    """Whether `get` of such spares gives the one that is there."""
    spares: Spares[Any] = Spares(kind, 1, _FLOAT32, counts)
    return reuses(spares, hold, spares.get)


def reuses(spares: Spares[Any], hold: Callable[[Any], object] | None, get: Callable[[], Any]) -> bool:
    """Whether `get` gives the only one that is there, while what `hold` gives of it is held."""
    spares.clear()
    made = spares.new()
    number = id(made)
    held = None if hold is None else hold(made)
    del made
    is_same = id(get()) == number
    del held
    return is_same


_SPARES: WeakValueDictionary[tuple[type, int, np.dtype, Place], Spares[Any]] = WeakValueDictionary()
_WORKSPACES: WeakValueDictionary[tuple[int, Place], SpareWorkspaces] = WeakValueDictionary()
"""The spares by what they are. Those who take from them hold them: cached calls, of which there is a limit."""


def spares_of(kind: type[Item], size: int, dtype: np.dtype, place: Place = HOST) -> Spares[Item]:
    """The one ring of arrays or cells of that size and dtype in a memory."""
    key = (kind, size, dtype, place)
    found = _SPARES.get(key)
    return _SPARES.setdefault(key, _counted_in(Spares(kind, size, dtype, place=place))) if found is None else found


def spare_workspaces_of(nbytes: int, place: Place = HOST) -> SpareWorkspaces:
    """The one stock of pieces of memory of that size."""
    key = (nbytes, place)
    found = _WORKSPACES.get(key)
    return _WORKSPACES.setdefault(key, SpareWorkspaces(nbytes, place)) if found is None else found


def all_spares() -> list[Spares[Any]]:
    """All rings there are."""
    return alive(_SPARES)


class _Limits:
    """ring_bytes: the most that one ring holds.  bytes: the most that all hold, looked at as further ones are made.

    made_count: how many rings were made.  grown_bytes: by how much rings have grown since the last look.
    """

    def __init__(self) -> None:
        self.made_count = 0
        self.grown_bytes = 0
        self.set(_TOTAL_BYTES)

    def set(self, limit_bytes: int) -> None:
        self.bytes = min(limit_bytes, _TOTAL_BYTES)
        self.ring_bytes = min(limit_bytes, _LIMIT_BYTES)

    def grow(self, nbytes: int) -> None:
        """Count what rings have grown by, and look at all of them now and then."""
        self.grown_bytes += nbytes
        if self.grown_bytes >= _CHECK_BYTES:
            self.look()

    def look(self) -> None:
        """Empty all rings if they hold too much together."""
        self.grown_bytes = 0
        if _kept_bytes() > self.bytes:
            clear_spares()


_LIMITS = _Limits()


def _counted_in(spares: Spares[Item]) -> Spares[Item]:
    """The new spares; now and then all others are emptied if they hold too much together."""
    _LIMITS.made_count += 1
    if _LIMITS.made_count % _CHECK_EVERY == 0:
        _LIMITS.look()
    return spares


def _kept_bytes() -> int:
    return sum(spares.count * spares.nbytes for spares in all_spares())


def set_spares_limit(limit_bytes: int) -> None:
    """Let rings that are made from now on hold at most so many bytes, all together, and never more than 32 MiB."""
    _LIMITS.set(limit_bytes)


def clear_spares() -> None:
    """Keep nothing for later."""
    for spares in all_spares():
        spares.clear()
    for workspaces in alive(_WORKSPACES):
        workspaces.clear()
