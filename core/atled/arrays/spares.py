"""Spares: small arrays that were handed out, to be handed out again once nothing else refers to them."""

from __future__ import annotations

import functools
import sys
import sysconfig
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell
from atled.arrays.place import HOST
from atled.arrays.storage import HostStorage

_LARGE_BYTES = 1 << 14
_LIMIT_BYTES = 1 << 18
_TOTAL_BYTES = 16 << 20
_CHECK_EVERY = 64
_LIMIT = 256
_FLOAT32 = np.dtype(np.float32)


class Counts(NamedTuple):
    """The counts of references, at one place of the code, of an array or a cell that is free.

    taken: of what was just taken out of a queue.  held: of what that holds: the cell of an array, and its storage.
    """

    taken: int
    held: int


NEVER = Counts(-1, -1)
"""Matches nothing: what is taken is never used again."""


def _candidates() -> tuple[Counts, ...]:
    """The counts that may be right; none where reference counts do not tell whether an object is free.

    Versions of CPython differ: a local variable that is passed counts twice, or once where the compiler saw that it
    outlives the call (LOAD_FAST_BORROW, 3.14), which depends on the code around. A just-in-time compiler may decide
    that later than the proof, and without the interpreter lock counts are spread over threads.
    """
    jit = getattr(sys, "_jit", None)
    if sysconfig.get_config_var("Py_GIL_DISABLED") or (jit is not None and jit.is_enabled()):
        return ()
    return Counts(2, 3), Counts(1, 2), Counts(2, 2), Counts(1, 3)


_CANDIDATES = _candidates()

_references = sys.getrefcount

_refused: list[str] = []


def proven(place: str, reuses: Callable[[Counts, Callable[[Any], object] | None], bool]) -> Counts:
    """The counts with which a place reuses all that is free and nothing that is referred to; NEVER if there are none.

    A held array that is used again is overwritten under its owner's eyes. So each place is tried before it is relied
    on, and one that fails makes new arrays always, which `places_without_spares` tells.

    reuses: puts one array or cell into an empty queue, has the place take from it, and says whether that took it. It
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


class Spares:
    """Arrays of one size and dtype in host memory, made lately, the oldest first.

    Most results of small ops are dropped soon. To learn of that from a finalizer, and to make three new objects, costs
    more than the op; so arrays stay in a queue, and a call takes the oldest and reads three counts of
    references: whether the array, its cell or its memory is in use. Large arrays are not kept: their pages are
    worth more elsewhere.

    take, put: the oldest one (IndexError if there is none), and back as the youngest; the queue drops what is too much.
    """

    __slots__ = ("__weakref__", "_arrays", "_counts", "dtype", "put", "size", "take")

    def __init__(self, size: int, dtype: np.dtype, counts: Counts | None = None) -> None:
        self.size = size
        self.dtype = dtype
        self._counts = _counts_of(Spares) if counts is None else counts
        self._arrays: deque[NdArray] = deque(maxlen=_limit(size * dtype.itemsize))
        self.take: Callable[[], NdArray] = self._arrays.popleft
        self.put: Callable[[NdArray], None] = self._arrays.append

    def get(self) -> NdArray:
        """An array to which nothing else refers, shape and contents undefined; `put` it back when it is filled."""
        try:
            array = self.take()
        except IndexError:
            return self.new()
        cell = array.cell
        storage = cell.storage
        taken, held = self._counts
        if (
            _references(array) == taken
            and _references(cell) == held
            and _references(storage) == held
            and isinstance(storage, HostStorage)
            and not storage.exported
            and cell.is_alone
        ):
            cell.reset()
            return array
        # It is in use. No further tries: with a new one the queue gets long enough for those that live longer.
        self.put(array)
        return self.new()

    def new(self) -> NdArray:
        """An array that was never in the queue."""
        return _fresh(self.size, self.dtype)

    @property
    def count(self) -> int:
        """How many are in the queue."""
        return len(self._arrays)

    def free_count(self) -> int:
        """How many of them are free."""
        arrays = list(self._arrays)
        cells = [array.cell for array in arrays]
        pairs = zip(_counted(arrays), _counted(cells), strict=True)
        return sum(array == cell == _IN_QUEUE for array, cell in pairs)

    def clear(self) -> None:
        """Forget all; those that are in use live on."""
        self._arrays.clear()


class SpareCells:
    """The same for cells without arrays over them: for results of calls that are recorded, and what they keep.

    take, put: as for arrays.
    """

    __slots__ = ("__weakref__", "_cells", "_counts", "dtype", "put", "size", "take")

    def __init__(self, size: int, dtype: np.dtype, counts: Counts | None = None) -> None:
        self.size = size
        self.dtype = dtype
        self._counts = _counts_of(SpareCells) if counts is None else counts
        self._cells: deque[ArrayCell] = deque(maxlen=_limit(size * dtype.itemsize))
        self.take: Callable[[], ArrayCell] = self._cells.popleft
        self.put: Callable[[ArrayCell], None] = self._cells.append

    def get(self) -> ArrayCell:
        """A cell to which nothing else refers, contents undefined; it is in the queue already, as the youngest."""
        try:
            cell = self.take()
        except IndexError:
            cell = self.new()
        else:
            storage = cell.storage
            taken, held = self._counts
            if (
                _references(cell) == taken
                and _references(storage) == held
                and isinstance(storage, HostStorage)
                and not storage.exported
                and cell.is_alone
            ):
                cell.reset()
            else:
                self.put(cell)
                cell = self.new()
        self.put(cell)
        return cell

    def new(self) -> ArrayCell:
        """A cell that was never in the queue, contents undefined."""
        return _fresh(self.size, self.dtype).cell

    @property
    def count(self) -> int:
        """How many are in the queue."""
        return len(self._cells)

    def free_count(self) -> int:
        """How many cells of the queue are free."""
        return _counted(list(self._cells)).count(_IN_QUEUE)

    def clear(self) -> None:
        """Forget all; those that are in use live on."""
        self._cells.clear()


class SpareWorkspaces:
    """Memory of one size for the time of a call. It never leaves the call, so references need not be counted."""

    __slots__ = ("__weakref__", "_free", "_limit", "_nbytes")

    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes
        self._limit = 0 if nbytes > min(_LARGE_BYTES, _LIMITS.queue_bytes) else 2
        self._free: list[HostStorage] = []

    def take(self) -> HostStorage:
        """Memory with undefined contents."""
        try:
            return self._free.pop()
        except IndexError:
            return HostStorage(self._nbytes)

    def put(self, storage: HostStorage) -> None:
        """Give it back."""
        if len(self._free) < self._limit:
            self._free.append(storage)

    def clear(self) -> None:
        """Keep none for later."""
        self._free.clear()


def _limit(nbytes: int) -> int:
    """How many arrays of so many bytes are kept."""
    return 0 if nbytes > _LARGE_BYTES else min(_LIMIT, _LIMITS.queue_bytes // max(nbytes, 1))


def _fresh(size: int, dtype: np.dtype) -> NdArray:
    cell = ArrayCell(size)
    cell.output(HOST, dtype)
    return NdArray.over(cell, (size,))


_IN_QUEUE = 3
"""The count of references to what only its owner, a list and the walk along that list hold."""


def _counted(objects: list[Any]) -> list[int]:
    """The counts of references to objects, the list and the walk included, which no version's compiler changes."""
    return list(map(sys.getrefcount, objects))


_counts: dict[type, Counts] = {}


def _counts_of(queue: type[Spares | SpareCells]) -> Counts:
    """The counts for `get` of such queues, proven when the first one is made."""
    counts = _counts.get(queue)
    if counts is None:
        counts = _counts.setdefault(queue, proven(queue.__name__, functools.partial(_get_reuses, queue)))
    return counts


def _get_reuses(queue: type[Spares | SpareCells], counts: Counts, hold: Callable[[Any], object] | None) -> bool:
    """Whether `get` of such a queue gives the one that is in it."""
    spares = queue(1, _FLOAT32, counts)
    return reuses(spares, hold, spares.get)


def reuses(spares: Spares | SpareCells, hold: Callable[[Any], object] | None, get: Callable[[], Any]) -> bool:
    """Whether `get` gives the one that is put into an empty queue before, while what `hold` gives of it is held."""
    spares.put(spares.new())  # type: ignore[arg-type]  # both are of the queue's kind
    taken = spares.take()
    number = id(taken)
    held = None if hold is None else hold(taken)
    spares.put(taken)  # type: ignore[arg-type]
    del taken
    is_same = id(get()) == number
    del held
    return is_same


_SPARES: WeakValueDictionary[tuple[int, np.dtype], Spares] = WeakValueDictionary()
_SPARE_CELLS: WeakValueDictionary[tuple[int, np.dtype], SpareCells] = WeakValueDictionary()
_WORKSPACES: WeakValueDictionary[int, SpareWorkspaces] = WeakValueDictionary()
"""The queues by what they hold. Those who take from a queue hold it: cached calls, of which there is a limit."""


def spares_of(size: int, dtype: np.dtype) -> Spares:
    """The one queue for arrays of that size and dtype."""
    spares = _SPARES.get((size, dtype))
    return _SPARES.setdefault((size, dtype), _counted_in(Spares(size, dtype))) if spares is None else spares


def spare_cells_of(size: int, dtype: np.dtype) -> SpareCells:
    """The one queue for cells of that size and dtype."""
    spares = _SPARE_CELLS.get((size, dtype))
    return _SPARE_CELLS.setdefault((size, dtype), _counted_in(SpareCells(size, dtype))) if spares is None else spares


def spare_workspaces_of(nbytes: int) -> SpareWorkspaces:
    """The one stock of memory of that size."""
    found = _WORKSPACES.get(nbytes)
    return _WORKSPACES.setdefault(nbytes, SpareWorkspaces(nbytes)) if found is None else found


def all_spares() -> list[Spares | SpareCells]:
    """Every queue there is."""
    return [*_alive(_SPARES), *_alive(_SPARE_CELLS)]


def _alive(queues: WeakValueDictionary[Any, Q]) -> list[Q]:
    """What is in a table, to which another thread may add meanwhile: its own iterators break off then."""
    return [queue for reference in queues.valuerefs() if (queue := reference()) is not None]


class _Limits:
    """queue_bytes: the most that one queue holds.  bytes: the most that all hold, looked at as further ones are made.

    made_count: how many queues were made.
    """

    def __init__(self) -> None:
        self.made_count = 0
        self.set(_TOTAL_BYTES)

    def set(self, limit_bytes: int) -> None:
        self.bytes = min(limit_bytes, _TOTAL_BYTES)
        self.queue_bytes = min(limit_bytes, _LIMIT_BYTES)


_LIMITS = _Limits()

S = TypeVar("S", Spares, SpareCells)
Q = TypeVar("Q", Spares, SpareCells, SpareWorkspaces)


def _counted_in(queue: S) -> S:
    """The new queue; now and then all others are emptied if they hold too much together."""
    _LIMITS.made_count += 1
    if _LIMITS.made_count % _CHECK_EVERY == 0 and _kept_bytes() > _LIMITS.bytes:
        clear_spares()
    return queue


def _kept_bytes() -> int:
    return sum(spares.count * spares.size * spares.dtype.itemsize for spares in all_spares())


def set_spares_limit(limit_bytes: int) -> None:
    """Let queues that are made from now on hold at most so many bytes, all together, and never more than 16 MiB."""
    _LIMITS.set(limit_bytes)


def clear_spares() -> None:
    """Keep nothing for later."""
    for kept in (*all_spares(), *_alive(_WORKSPACES)):
        kept.clear()
