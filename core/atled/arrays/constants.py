"""Constants: what was computed from arrays that nobody wrote since, kept for later runs; counted and bounded."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Protocol
from weakref import WeakValueDictionary, ref

from atled.arrays.cell import ArrayCell
from atled.arrays.epoch import WRITES
from atled.arrays.storage import HostStorage
from atled.limits.alive import WeakRegister, alive
from atled.limits.caches import register_cache
from atled.limits.sizes import in_units
from atled_contexts import lock_across_forks

_LIMIT_BYTES = 1 << 30
_PATIENCE = 1  # looks in a row at which the arrays were as at the one before, until their form is kept
_MOST_PATIENCE = 64
_WORTHWHILE = 4  # reads of what was kept; after fewer of them, patience doubles
_UNTIL_ASKED_AGAIN = 64  # looks, where there was no room


class Holder(Protocol):
    """What holds the memory of constants between its runs."""

    def let_go(self) -> None:
        """One of them is dropped."""


class Constant:
    """One form of some arrays: what is computed from them alone.

    It lives as long as a plan that wants it, and is kept no longer than the arrays live.

    patience: looks at unchanged arrays until it is kept; it grows where they are written often.  seen: the number of
        writes at an earlier look, 0 for none.
    """

    __slots__ = ("__weakref__", "_cells", "_holders", "_quiet", "_reads", "_seen", "kept", "patience", "used")

    def __init__(self, cells: Sequence[ArrayCell], patience: int = _PATIENCE, seen: int = 0) -> None:
        dropped = partial(_drop, ref(self))
        self._cells = tuple(ref(cell, dropped) for cell in cells)
        for cell in cells:
            cell.note_runs()
        self.patience = patience
        self.kept: tuple[HostStorage, int] | None = None  # with the number of writes as of which it holds
        self.used = 0
        self._seen = seen
        self._quiet = 0
        self._reads = 0
        self._holders: WeakRegister[Holder] | None = None

    def is_of(self, cells: Sequence[ArrayCell]) -> bool:
        """Whether these are the arrays, and no others that have their places in memory now."""
        return all(found() is cell for found, cell in zip(self._cells, cells, strict=True))

    def holds_since(self, number: int) -> bool:
        """Whether none of the arrays was written since a number of `WRITES`, and all are there."""
        for found in self._cells:  # plans ask this at each run, and a generator takes twice as long
            cell = found()
            if cell is None or not cell.is_unchanged_since(number):
                return False
        return True

    def get(self, now: int) -> HostStorage | None:
        """Its memory, if it is kept and the arrays are as they were; now: the number of the run that asks."""
        kept = self.kept
        if kept is None or not self.holds_since(kept[1]):
            return None
        self.used = now
        self._reads += 1
        return kept[0]

    def is_due(self, now: int) -> bool:
        """Whether it is to be made now, which `get` did not find: its arrays were the same for long enough."""
        if self.holds_since(self._seen):
            self._quiet += 1
        else:
            if self.kept is not None:
                is_in_vain = self._reads < _WORTHWHILE
                self.patience = min(_MOST_PATIENCE, max(1, 2 * self.patience)) if is_in_vain else _PATIENCE
            self._quiet = min(self._quiet, 0)
        self.kept = None
        self._seen = now
        return self._quiet >= self.patience

    def keep(self, storage: HostStorage, number: int) -> None:
        """Keep it, as of a number of writes."""
        self.used = number
        self._reads = 0
        self.kept = storage, number

    def put_off(self) -> None:
        """Do not ask again soon: there is no room for it."""
        self._quiet = -_UNTIL_ASKED_AGAIN

    def held_by(self, holder: Holder) -> None:
        """Tell a holder when the value is dropped."""
        if self._holders is None:
            self._holders = WeakRegister()
        self._holders.add(holder)

    def drop(self) -> None:
        """Keep it no longer."""
        self.kept = None
        holders, self._holders = self._holders, None
        for holder in () if holders is None else holders.alive():
            holder.let_go()


def _drop(constant: ref[Constant], _: object) -> None:
    """An array is gone: what was made of it goes, too."""
    found = constant()
    if found is not None:
        found.drop()


class ConstantStore:
    """All constants that a plan wants, by form and arrays; those that are kept take at most so many bytes."""

    def __init__(self, limit_bytes: int = _LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._known: WeakValueDictionary[Hashable, Constant] = WeakValueDictionary()
        self._lock = lock_across_forks()
        self._is_told = False

    def find(self, form: Hashable, cells: Sequence[ArrayCell], patience: int = _PATIENCE, seen: int = 0) -> Constant:
        """The constant of a form of some arrays: one for all that want it; patience, seen: of one that is new."""
        key = (form, tuple(map(id, cells)))
        with self._lock:
            found = self._known.get(key)
            if found is None or not found.is_of(cells):
                found = self._known[key] = Constant(cells, patience, seen)
            return found

    def make(
        self, constant: Constant, nbytes: int, fill: Callable[[HostStorage], None], now: int, before: int
    ) -> HostStorage | None:
        """Make a constant and keep it: its memory; None where there is no room, or its arrays are being written.

        fill: writes it into memory.  now, before: numbers of the run that wants it, and of the one before of that plan.
        What was used since `before` is not dropped for it: a plan whose constants do not all fit would make each of
        them at every run.
        """
        with self._lock:
            found = constant.get(now)
            if found is not None:  # another thread was quicker
                return found
            if not self._has_room(nbytes, before):
                constant.put_off()
                self.tell(nbytes)
                return None
            number = next(WRITES)
            storage = HostStorage(nbytes)
            fill(storage)
            if not constant.holds_since(number):
                return None
            constant.keep(storage, number)
            return storage

    def offers(self, nbytes: int, before: int) -> bool:
        """Whether there is room for a constant; said once where there is not.  before: as for `make`."""
        with self._lock:
            if self._excess(nbytes, before)[0] <= 0:
                return True
            self.tell(nbytes)
            return False

    def take(self, constant: Constant, storage: HostStorage, number: int, before: int) -> bool:
        """Keep a constant that was made since a number of writes; whether it holds, and there is room.

        before: as for `make`.
        """
        with self._lock:
            if not constant.holds_since(number) or not self._has_room(storage.nbytes, before):
                return False
            constant.drop()
            constant.keep(storage, number)
            return True

    def __len__(self) -> int:
        return len(self._kept())

    def _kept(self) -> list[tuple[Constant, int]]:
        """Those that are kept, with their bytes."""
        found = [(constant, constant.kept) for constant in alive(self._known)]
        return [(constant, kept[0].nbytes) for constant, kept in found if kept is not None]

    def kept_bytes(self) -> int:
        """The bytes of all that is kept."""
        return sum(nbytes for _, nbytes in self._kept())

    def _has_room(self, nbytes: int, before: int) -> bool:
        """Whether so many bytes more fit, for which those used longest ago are dropped."""
        excess, dropped = self._excess(nbytes, before)
        if excess > 0:
            return False
        for constant in dropped:
            constant.drop()
        return True

    def _excess(self, nbytes: int, before: int) -> tuple[int, list[Constant]]:
        """How many bytes are too many with so many more, and without what would be dropped for them."""
        kept = self._kept()
        excess = sum(size for _, size in kept) + nbytes - self.limit_bytes
        old = sorted((item for item in kept if item[0].used < before), key=lambda item: item[0].used)
        dropped = []
        for constant, size in old:
            if excess <= 0:
                break
            dropped.append(constant)
            excess -= size
        return excess, dropped

    def tell(self, nbytes: int) -> None:
        """Say, once, that so many bytes do not fit."""
        if not self._is_told:
            self._is_told = True
            from atled.logger import logger  # lazy, for the import cost: logging and the configuration's files

            logger.warning(
                "%s of packed weights, or other values that depend on parameters alone, do not fit into the %s for "
                "such constants: they are computed at each run. set_constants_limit(bytes) changes that.",
                in_units(nbytes),
                in_units(self.limit_bytes),
            )

    def set_limit(self, limit_bytes: int) -> None:
        """Keep at most so many bytes from now on."""
        with self._lock:
            self.limit_bytes = limit_bytes
            self._is_told = False
            excess = self.kept_bytes() - limit_bytes
            for constant, nbytes in sorted(self._kept(), key=lambda item: item[0].used):
                if excess > 0:
                    constant.drop()
                    excess -= nbytes

    def clear(self) -> None:
        """Keep none of those that there are: each is made again when it is next wanted."""
        for constant, _ in self._kept():
            constant.drop()


CONSTANTS = ConstantStore()
register_cache("constants", CONSTANTS.__len__, CONSTANTS.clear)
register_cache("bytes of constants", CONSTANTS.kept_bytes, CONSTANTS.clear)
