"""Small arrays that were handed out lately, to be handed out again once nobody else has them."""

from __future__ import annotations

import sys
import sysconfig
from collections import deque
from collections.abc import Callable

import numpy as np

from atled.array import ArrayCell, NdArray
from atled.place import HOST
from atled.storage import HostStorage

_LARGE_BYTES = 1 << 14
_LIMIT_BYTES = 1 << 18
_LIMIT = 256


def _counts_if_free() -> tuple[int, int, int]:
    """What `sys.getrefcount` says of an array just taken that nobody else has, of its cell, and of its storage.

    (-1, -1, -1) where counts do not tell: then no array is ever used again. They are measured because versions of
    CPython count a local variable differently.
    """
    arrays = deque([_fresh(1, np.dtype(np.float32))])
    array = arrays.popleft()
    cell = array.cell
    storage = cell.storage
    free = sys.getrefcount(array), sys.getrefcount(cell), sys.getrefcount(storage)
    others = [array, cell, storage]
    held = sys.getrefcount(array), sys.getrefcount(cell), sys.getrefcount(storage)
    others.clear()
    tells = held == tuple(count + 1 for count in free) and not sysconfig.get_config_var("Py_GIL_DISABLED")
    return free if tells else (-1, -1, -1)


class Spares:
    """Arrays of one size and dtype in host memory, made lately, the oldest first.

    Most results of small ops are dropped soon. To learn of that from a finalizer, and to make three objects anew, costs
    more than the op; so arrays stay in a queue, and whoever needs one takes the oldest and looks at the counts of
    references to see whether anybody else has it, its cell or its memory. Large arrays are not kept: their pages are
    worth more elsewhere.

    take, put: the oldest one (IndexError if there is none), and back as the youngest; the queue drops what is too much.
    """

    __slots__ = ("_arrays", "dtype", "put", "size", "take")

    def __init__(self, size: int, dtype: np.dtype) -> None:
        self.size = size
        self.dtype = dtype
        self._arrays: deque[NdArray] = deque(maxlen=_limit(size * dtype.itemsize))
        self.take: Callable[[], NdArray] = self._arrays.popleft
        self.put: Callable[[NdArray], None] = self._arrays.append

    def get(self) -> NdArray:
        """An array that nobody else has, shape and contents undefined; it is to be `put` when it is filled."""
        try:
            array = self.take()
        except IndexError:
            return self.new()
        cell = array.cell
        storage = cell.storage
        if (
            sys.getrefcount(array) == FREE_ARRAY
            and sys.getrefcount(cell) == FREE_CELL
            and sys.getrefcount(storage) == FREE_STORAGE
            and isinstance(storage, HostStorage)
            and not storage.exported
            and cell.is_alone
        ):
            cell.reset()
            return array
        # Somebody has it still. No further tries: with a new one the queue gets long enough for those that live longer.
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
        """How many of them nobody else has."""
        return sum(
            # The list and the queue hold each of them as well.
            sys.getrefcount(array) == FREE_ARRAY + 2 and sys.getrefcount(array.cell) == FREE_CELL - 1
            for array in list(self._arrays)
        )

    def clear(self) -> None:
        """Forget all; those that somebody has live on."""
        self._arrays.clear()


class SpareCells:
    """The same for cells without arrays over them: for results of calls that are recorded, and what they keep.

    take, put: as for arrays.
    """

    __slots__ = ("_cells", "dtype", "put", "size", "take")

    def __init__(self, size: int, dtype: np.dtype) -> None:
        self.size = size
        self.dtype = dtype
        self._cells: deque[ArrayCell] = deque(maxlen=_limit(size * dtype.itemsize))
        self.take: Callable[[], ArrayCell] = self._cells.popleft
        self.put: Callable[[ArrayCell], None] = self._cells.append

    def get(self) -> ArrayCell:
        """A cell that nobody else has, contents undefined; it is the youngest of the queue already."""
        try:
            cell = self.take()
        except IndexError:
            cell = self.new()
        else:
            storage = cell.storage
            if (
                sys.getrefcount(cell) == FREE_ARRAY
                and sys.getrefcount(storage) == FREE_STORAGE
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

    def free_count(self) -> int:
        """How many cells of the queue nobody else has."""
        # The list and the queue hold each of them as well.
        return sum(sys.getrefcount(cell) == FREE_ARRAY + 2 for cell in list(self._cells))

    def clear(self) -> None:
        """Forget all; those that somebody has live on."""
        self._cells.clear()


class Scratch:
    """Memory of one size for the time of a call. It never leaves the call, so that nobody has to ask who has it."""

    __slots__ = ("_free", "_limit", "_nbytes")

    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes
        self._limit = 0 if nbytes > _LARGE_BYTES else 2
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
    return 0 if nbytes > _LARGE_BYTES else min(_LIMIT, _LIMIT_BYTES // max(nbytes, 1))


def _fresh(size: int, dtype: np.dtype) -> NdArray:
    cell = ArrayCell(size)
    cell.output(HOST, dtype)
    return NdArray.over(cell, (size,))


FREE_ARRAY, FREE_CELL, FREE_STORAGE = _counts_if_free()

_SPARES: dict[tuple[int, np.dtype], Spares] = {}


def spares_of(size: int, dtype: np.dtype) -> Spares:
    """The one queue for arrays of that size and dtype."""
    key = (size, dtype)
    spares = _SPARES.get(key)
    return _SPARES.setdefault(key, Spares(size, dtype)) if spares is None else spares


_SCRATCHES: dict[int, Scratch] = {}


def scratch_of(nbytes: int) -> Scratch:
    """The one stock of memory of that size."""
    scratch = _SCRATCHES.get(nbytes)
    return _SCRATCHES.setdefault(nbytes, Scratch(nbytes)) if scratch is None else scratch


_SPARE_CELLS: dict[tuple[int, np.dtype], SpareCells] = {}


def spare_cells_of(size: int, dtype: np.dtype) -> SpareCells:
    """The one queue for cells of that size and dtype."""
    key = (size, dtype)
    spares = _SPARE_CELLS.get(key)
    return _SPARE_CELLS.setdefault(key, SpareCells(size, dtype)) if spares is None else spares


def all_spares() -> list[Spares | SpareCells]:
    """Every queue there is."""
    return [*_SPARES.values(), *_SPARE_CELLS.values()]


def clear_spares() -> None:
    """Keep nothing for later."""
    for kept in (*all_spares(), *_SCRATCHES.values()):
        kept.clear()
