"""Cells: the values of one logical array, as a head copy, copies in other memories and dtypes, and what is pending."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from enum import IntEnum
from threading import get_ident
from typing import Any, Protocol

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.epoch import EPOCH, MOVES, WRITES
from atled.arrays.moving import move
from atled.arrays.place import HOST, DeviceStorage, Place
from atled.arrays.storage import HostStorage
from atled.arrays.watches import WATCHES, announce
from atled.errors import DeviceLostError, four_parts
from atled.named_tuple import NamedTuple

FLOAT32 = np.dtype(np.float32)


Storage = HostStorage | DeviceStorage

Copies = Mapping[tuple[Place, np.dtype], tuple[Storage, bool]]
"""Storages by place and dtype, and whether their values are the present ones."""


class Recipe(Protocol):
    """How to get values that no plan stored, or that a deferred change has still to be made to."""

    def recover(self, cell: ArrayCell) -> None:
        """Write the values into the cell; RuntimeError if they cannot be computed any more.

        While the same thread makes a deferred change, the cell is left alone: the change reads its memory.
        """

    def hold(self) -> None:
        """Keep alive what `recover` needs: a user holds the array."""


class Filled:
    """The values of an array of which every element is one number that is still to be written."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value


UNWRITTEN = Filled(0.0)
"""The values of an array that counts as not written: zeros, by `zero()` or because it is new."""


class _LeftOut:
    """The recipe of values that nobody needed when they could have been computed."""

    def recover(self, cell: ArrayCell) -> None:
        raise RuntimeError(
            four_parts(
                f"an auxiliary output of {cell.size} elements that a gradient reads",
                "it was left out, because the gradient was to be computed without it then",
                "the plugins, or what they can do, changed since",
                "compute the graph again",
            )
        )

    def hold(self) -> None:
        """Nothing keeps it."""


_LEFT_OUT = _LeftOut()


class Use(IntEnum):
    """How plans use the head's storage of an array.

    NONE: no plan holds it.
    READ: some read it, WRITTEN: some write it. They do not look at each run whether it still is the head, so that
        replacing it must bump EPOCH. That is for arrays that never left host memory; and for those that plans trust to
        stay on a device, of which MOVES tells.
    DEVICE: it has copies on devices, and plans check at each run which copy is the head.
    """

    DEVICE = -1
    NONE = 0
    READ = 1
    WRITTEN = 2


# To look a member up takes as long as all else that makes a cell, or finds a copy of one.
_UNUSED, _READ, _WRITTEN, _ON_DEVICE = Use.NONE, Use.READ, Use.WRITTEN, Use.DEVICE


class ArrayCell:
    """The values of one logical array: a head copy, further copies, and what is pending.

    The head has the array's dtype, and the values that were written last. Arrays that share a cell (a reshaped
    view, `unlinked()`) are the same memory under other shapes.

    size: count of elements.
    dtype, place, storage: of the head; storage is None while nothing was allocated.
    pending: None if the storage holds the values. UNWRITTEN or another Filled: every element is to become that number.
        A Recipe: the values are not stored (there is no storage then), or a change of them is deferred.
    last_write: number of the last write by others than the plan that computes the array; to hand out a view counts
        as one. Kept up to date while plans read the array (`use`).
    is_source: whether something that was computed from the values is kept.
    last_run: of a source, number of the last run of a plan that computed the array.
    writer: identity of the thread that writes it now, 0 for none.
    zeroed: whether `zero()` had to write the zeros at once, and nothing is known to have been written since.
    code: one small number for place and dtype of the head, -1 while there is no storage; for keys of caches.
    use: how plans use the head's storage.
    is_data: whether plans rely on its memory without a look at `pending`; the gradients of leaves are looked at.
    """

    __slots__ = (
        "__weakref__",
        "_copies",
        "code",
        "dtype",
        "is_data",
        "is_source",
        "last_run",
        "last_write",
        "pending",
        "place",
        "size",
        "storage",
        "use",
        "writer",
        "zeroed",
    )

    def __init__(self, size: int) -> None:
        self.size = size
        self.dtype: np.dtype | None = None
        self.place = HOST
        self.storage: Storage | None = None
        self.pending: Filled | Recipe | None = UNWRITTEN
        self.last_write = 0
        self.last_run = 0
        self.writer = 0
        self.is_source = False
        self.zeroed = False
        self.use = _UNUSED
        self.is_data = False
        self.code = -1
        # Copies beside the head: (storage, whether its values are the present ones). Stale ones are kept because
        # plans hold their storage. None while there are none: most arrays never get any. Empty where it stands apart.
        self._copies: dict[tuple[Place, np.dtype], tuple[Storage, bool]] | None = None

    def settle(self, dtype: np.dtype = FLOAT32) -> Storage:
        """The head's storage, allocated and filled; dtype is for an array that has none yet."""
        if self.pending is not None and not isinstance(self.pending, Filled):
            self.pending.recover(self)
        if self.storage is None:
            self._put(HOST, self.dtype or dtype)
        if isinstance(self.pending, Filled):
            _fill(self.storage, self.place, self.size, self.dtype, self.pending.value)
            self.pending = None
        assert self.storage is not None
        return self.storage

    @property
    def is_unstored(self) -> bool:
        """Whether a plan computed the values and did not store them."""
        return self.storage is None and self.pending is not None and not isinstance(self.pending, Filled)

    def wait_for(self, recipe: Recipe) -> None:
        """Defer a change: the array counts as written now, and the recipe changes its values when they are read."""
        self.pending = recipe
        self.last_write = next(WRITES)
        if self._copies:
            self.outdate_copies()

    @property
    def is_waiting(self) -> bool:
        """Whether a deferred change of the values in the storage is pending."""
        return self.pending is not None and not isinstance(self.pending, Filled) and self.storage is not None

    def release(self, recipe: Recipe) -> None:
        """Give the memory away: a read of the values follows the recipe."""
        assert not self.use, "plans rely on the memory"
        self.pending = recipe
        self.storage = None
        self._copies = None
        self.place = HOST
        self.code = -1
        self.zeroed = False

    def leave_out(self) -> None:
        """A plan that could compute the values does not, because nobody needs them: what is here is not theirs."""
        if self.pending is not _LEFT_OUT:
            if self.use:
                self.use = _UNUSED
                EPOCH.bump()
                MOVES.bump()
            self.release(_LEFT_OUT)

    def _put(self, place: Place, dtype: np.dtype) -> None:
        """Make an uninitialised head at a place, reusing a copy that is there."""
        copy = self._copies.get((place, dtype)) if self._copies else None
        self._set_head(place, dtype, _allocate(place, self.size, dtype) if copy is None else copy[0])

    def _set_head(self, place: Place, dtype: np.dtype, storage: Storage) -> None:
        """Make a storage the head; the old head stays as a copy that is not current."""
        self.last_write = next(WRITES)
        if self.use > 0 and storage is not self.storage:
            self._tell_plans()
        if self.use and dtype != self.dtype:
            EPOCH.bump()
        if self.storage is not None and self.storage is not storage and self.dtype is not None:
            if self._copies is None:
                self._copies = {}
            self._copies[(self.place, self.dtype)] = (self.storage, False)
        if self._copies:
            replaced = self._copies.pop((place, dtype), None)
            if replaced is not None and replaced[0] is not storage:
                EPOCH.bump()
            self.outdate_copies()
            self._copies = self._copies or None
        self.code = code_of(place, dtype)
        self.place = place
        self.dtype = dtype
        self.storage = storage

    def _tell_plans(self) -> None:
        """Have all plans check the array before their next run."""
        if self.place is HOST:
            self.use = _UNUSED
            EPOCH.bump()
        else:
            self.use = _ON_DEVICE
            MOVES.bump()

    @property
    def travels(self) -> bool:
        """Whether it has a copy on a device, so that plans must see at each run which copy is the head."""
        if self.place is not HOST:
            return True
        return self._copies is not None and any(place is not HOST for place, _ in self._copies)

    def storage_at(self, place: Place, dtype: np.dtype) -> Storage | None:
        """The storage at that place with that dtype, if there is one; its values need not be the present ones."""
        if self.place is place and self.dtype == dtype:
            return self.storage
        copy = self._copies.get((place, dtype)) if self._copies else None
        return None if copy is None else copy[0]

    def reserve(self, place: Place, dtype: np.dtype) -> Storage:
        """The storage at that place with that dtype, for values to come; the present values stay as they are."""
        storage = self.storage_at(place, dtype)
        return self._add_copy(place, dtype, is_current=False) if storage is None else storage

    def _add_copy(self, place: Place, dtype: np.dtype, *, is_current: bool) -> Storage:
        """An uninitialised copy beside the head."""
        storage = _allocate(place, self.size, dtype)
        if self._copies is None:
            self._copies = {}
        self._copies[(place, dtype)] = (storage, is_current)
        if self.use > 0 and place is not HOST and self.place is HOST:
            self._tell_plans()
        return storage

    def settle_down(self, place: Place, dtype: np.dtype, storage: Storage, *, is_written: bool) -> bool:
        """Have plans trust that a storage on a device is the head from now on, as long as MOVES does not tell of it.

        Whether they may: no other copy has the present values if plans write this one, and nothing is pending. What was
        only copied there from host memory, for plans that read it, moves there.
        """
        is_used_on_host = self.use > 0 and self.place is HOST
        if self.pending is not None or self.dtype != dtype or is_used_on_host or self._is_shown(dtype):
            return False
        if self.storage is not storage and not self.come_to(place, dtype):
            return False
        if is_written and self.has_current_copies:
            return False
        self.use = _WRITTEN if is_written else max(self.use, _READ)
        return True

    def come_to(self, place: Place, dtype: np.dtype) -> bool:
        """Make a copy on a device the head, which in host memory stays a copy with the same values.

        Whether it was there with the present values, and nothing relies on the head.
        """
        found = self._copies.get((place, dtype)) if self._copies else None
        if found is None or not found[1] or self.place is not HOST or self.use > 0 or self.dtype != dtype:
            return False
        if self._may_have_changed() or self._is_shown(dtype):
            return False
        last_write, left = self.last_write, self.storage
        self._set_head(place, dtype, found[0])
        self.last_write = last_write
        if left is not None and self._copies is not None:
            self._copies[(HOST, dtype)] = (left, True)
        return True

    def _is_shown(self, dtype: np.dtype) -> bool:
        """Whether a user holds a view of the copy in host memory, into which plans put what they write."""
        host = self.storage_at(HOST, dtype)
        return isinstance(host, HostStorage) and host.has_live_view

    @property
    def copies(self) -> Copies:
        """What there is beside the head."""
        return self._copies or {}

    @property
    def has_current_copies(self) -> bool:
        """Whether copies beside the head have the present values."""
        return self._copies is not None and any(is_current for _, is_current in self._copies.values())

    def written_at(self, place: Place, dtype: np.dtype, storage: Storage) -> None:
        """A plan has written all values into a storage of this array: it is the head now.

        While a user holds a view of the host copy, the values go there at once: it shows them, and may change them.
        """
        last_write = self.last_write
        if storage is self.storage:
            self.outdate_copies()
        else:
            self._set_head(place, dtype, storage)
        self.last_write = last_write  # of writes by others, which a plan is not
        self.pending = None
        self.zeroed = False
        if place is not HOST and self._is_shown(dtype):
            self.move(HOST, dtype)

    def output(self, place: Place, dtype: np.dtype) -> Storage:
        """The storage for a step that is going to write all values; other copies are outdated."""
        if WATCHES:
            announce((id(self),))
        return self._prepared(place, dtype)

    def begin_write(self, place: Place, dtype: np.dtype) -> Storage:
        """As `output`, of an array that others may read: they are told until `end_write`."""
        if WATCHES:
            announce((id(self),))
        self.writer = get_ident()  # before the write is counted: who sees no number between looks no further
        try:
            return self._prepared(place, dtype)
        except BaseException:  # no memory, or an interrupt
            self.writer = 0
            raise

    def end_write(self) -> None:
        """The values are written; what another thread computed of the array meanwhile does not hold."""
        self.touched()
        self.writer = 0

    def _prepared(self, place: Place, dtype: np.dtype) -> Storage:
        """The storage at a place, as the head, for values that will be written."""
        if self.storage is None or self.place is not place or self.dtype != dtype:
            self._put(place, dtype)
        else:
            self.last_write = next(WRITES)
        self.pending = None
        self.zeroed = False
        if self._copies:
            self.outdate_copies()
        assert self.storage is not None
        return self.storage

    @property
    def is_alone(self) -> bool:
        """Whether it has no copies beside the head, and does not stand apart."""
        return self._copies is None

    def stand_apart(self) -> None:
        """Be none of the arrays that are spares once nobody refers to them; all else is as before."""
        if self._copies is None:
            self._copies = {}

    def target(self, place: Place, dtype: np.dtype) -> Storage:
        """The storage into which a plan will write all values at each run, which `last_write` does not count."""
        last_write = self.last_write
        storage = self._prepared(place, dtype)
        self.last_write = last_write
        return storage

    def first_target(self, dtype: np.dtype) -> HostStorage:
        """As `target` in host memory, of data without a storage so far, which other plans are to store from now on."""
        storage = HostStorage(self.size * dtype.itemsize)
        self.use = _WRITTEN
        self.is_data = True
        self.dtype = dtype
        self.storage = storage
        self.code = code_of(HOST, dtype)
        self.pending = None
        return storage

    def adopt(self, place: Place, dtype: np.dtype, storage: Storage) -> None:
        """Take a storage with its values as the head."""
        if WATCHES:
            announce((id(self),))
        self._set_head(place, dtype, storage)
        self.pending = None
        self.zeroed = False

    def exchange(self, place: Place, dtype: np.dtype, storage: Storage) -> None:
        """Take the values of a storage that nobody else has, and the storage itself if nobody relies on the head's.

        Plans and views of users go on with the memory that they have: then the values are copied.
        """
        former = self.storage
        if former is None or self.place is not place or self.dtype != dtype:
            self.adopt(place, dtype, storage)
            if self._is_shown(dtype):
                self.move(HOST, dtype)
            return
        is_shown = former.has_live_view if isinstance(former, HostStorage) else former.exported
        if self.use is _UNUSED and self._copies is None and not is_shown:
            self.storage = storage
        else:
            _convert(storage, place, dtype, former, place, dtype, self.size)
            self.outdate_copies()
        self.pending = None
        self.zeroed = False
        self.last_write = next(WRITES)

    def copy_into(self, place: Place, dtype: np.dtype, storage: Storage) -> None:
        """Copy the present values into a storage of that place and dtype, unless it is the head."""
        head = self.settle(dtype)
        if head is not storage:
            self._write_values(head, storage, place, dtype)

    def copy_at(self, place: Place, dtype: np.dtype) -> Storage:
        """A storage at that place with that dtype that holds the present values; the head stays where it is."""
        head = self.storage if self.pending is None and self.storage is not None else self.settle(dtype)
        if self.place is place and self.dtype == dtype:
            return head
        key = (place, dtype)
        if self.use is _WRITTEN and self.place is not HOST:
            self._tell_plans()  # they outdate this copy before they write
        if self._may_have_changed():
            self.outdate_copies()  # all: this one is copied again, and the head counts as unchanged then
        storage, is_current = (self._copies.get(key) if self._copies else None) or (None, False)
        if storage is not None and is_current:
            return storage
        if storage is None:
            storage = self._add_copy(place, dtype, is_current=False)
        self._write_values(head, storage, place, dtype)
        if isinstance(head, HostStorage):
            head.seen_changed = head.has_live_view
        assert self._copies is not None
        self._copies[key] = (storage, True)
        return storage

    def _write_values(self, head: Storage, storage: Storage, place: Place, dtype: np.dtype) -> None:
        """Copy the present values into a storage; if the device of the head was lost, from where they are as well."""
        assert self.dtype is not None
        try:
            _convert(head, self.place, self.dtype, storage, place, dtype, self.size)
        except DeviceLostError:
            other = self._elsewhere(self.copies)
            if other is None:
                raise
            source_place, source = other
            _convert(source, source_place, self.dtype, storage, place, dtype, self.size)

    def _elsewhere(self, copies: Copies) -> tuple[Place, Storage] | None:
        """A copy with the values in another memory than the head, and of its dtype: others may have lost digits."""
        for (place, dtype), (storage, is_current) in copies.items():
            if is_current and dtype == self.dtype and place is not self.place:
                return place, storage
        return None

    def known_copy(self, key: tuple[Place, np.dtype]) -> Storage | None:
        """The storage of the copy at a place with a dtype if that is known to hold the present values, as most do."""
        copies, storage = self._copies, self.storage
        if copies is None or storage is None or self.pending is not None:
            return None
        if self.use is _WRITTEN or storage.seen_changed:  # as it is once a view was handed out since the copy was made
            return None
        found = copies.get(key)
        return found[0] if found is not None and found[1] else None

    def move(self, place: Place, dtype: np.dtype) -> Storage:
        """Make the copy at that place with that dtype the head, with the present values."""
        storage = self.copy_at(place, dtype)
        if storage is not self.storage:
            self._set_head(place, dtype, storage)
        return storage

    def cast_at(self, place: Place, dtype: np.dtype) -> None:
        """Make the copy at that place with that dtype the head, which then is the array's."""
        if WATCHES:
            announce((id(self),))
        if self.storage is None:
            self.dtype = dtype
        self.move(place, dtype)
        self.zeroed = False
        self.touched()

    def copy_from(self, other: ArrayCell, place: Place, dtype: np.dtype) -> None:
        """Take the values of another array, at that place with that dtype; where it fails, the values are as before."""
        if WATCHES:
            announce((id(self),))
        other.copy_into(place, dtype, self.reserve(place, dtype))
        self._prepared(place, dtype)
        if self._is_shown(dtype):
            self.move(HOST, dtype)

    def _may_have_changed(self) -> bool:
        """Whether the head may have been written, by a plan or through a view, since a copy was made of it."""
        storage = self.storage
        return self.use is _WRITTEN or (storage is not None and storage.seen_changed)

    def may_differ_since(self, number: int) -> bool:
        """Whether others may have written since a number of `WRITES`: for all that is seen, or through a view."""
        storage = self.storage
        if self.last_write > number:
            return True
        return isinstance(storage, HostStorage) and (storage.has_live_view or storage.viewed_until > number)

    def note_runs(self) -> None:
        """Be a source: `is_unchanged_since` is going to be asked, which plans that compute the array are told."""
        if not self.is_source:
            self.is_source = True
            if self.use is not _UNUSED:
                EPOCH.bump()

    def is_unchanged_since(self, number: int) -> bool:
        """Whether nobody wrote since a number of `WRITES`, plans included, as far as can be told, nor writes now.

        For sources (`note_runs`), and numbers since they are.
        """
        # In this order: a writer counts its write before it says that it has ended.
        if self.writer or self.last_write > number or self.last_run > number or self.pending is not None:
            return False
        storage = self.storage
        if storage is None or not storage.exported:
            return True
        # What another library was given of a device's memory, it may write at any time.
        return isinstance(storage, HostStorage) and not (storage.has_live_view or storage.viewed_until > number)

    def touched(self) -> None:
        """The head was written, or handed out to be: there is a new version, and copies are not current any more."""
        self.last_write = next(WRITES)
        if self._copies:
            self.outdate_copies()

    def outdate_copies(self) -> None:
        """Copies are not current any more."""
        if self._copies:
            self._copies = {key: (storage, False) for key, (storage, _) in self._copies.items()}

    def host(self) -> HostStorage:
        """The head, moved to host memory with its dtype, for a user who may write into it."""
        if WATCHES:
            announce((id(self),))
        storage = self.settle()
        assert self.dtype is not None
        if self.place is not HOST:
            storage = self.move(HOST, self.dtype)
        assert isinstance(storage, HostStorage)
        self.zeroed = False
        return storage

    def shown(self, shape: tuple[int, ...]) -> np.ndarray:
        """The values as a writable NumPy view of a shape, for a user."""
        storage = self.host()
        self.touched()
        assert self.dtype is not None
        return storage.export(shape, self.dtype)

    def cast(self, dtype: np.dtype) -> HostStorage:
        """The head, in host memory with another dtype, values kept."""
        if self.storage is None:
            self.dtype = dtype
        self.host()
        storage = self.move(HOST, dtype)
        assert isinstance(storage, HostStorage)
        return storage

    def fill(self, value: float) -> None:
        """Every element becomes `value`, lazily unless a user holds a view or a plan reads the memory."""
        if WATCHES:
            announce((id(self),))
        if self.use > 0 or self.has_live_view:
            _fill(self.storage, self.place, self.size, self.dtype, value)
            self.pending = None
        else:
            self.pending = Filled(float(value))
            if value == 0.0:
                self.settle()  # these zeros count as written, unlike those of zero()
        self.zeroed = False
        self.touched()

    def zero(self) -> None:
        """Every element becomes 0 and counts as not written; lazily unless a view is out or a graph reads it."""
        if WATCHES:
            announce((id(self),))
        if self.has_live_view or (self.use > 0 and self.is_data):
            self.fill(0.0)
            self.zeroed = True
        else:
            self.pending = UNWRITTEN
            self.touched()

    def go_back(self, copies: Copies) -> None:
        """The head was lost while a plan wrote it: a copy elsewhere that had its values before is the head now."""
        other = self._elsewhere(copies)
        if other is not None:
            assert self.dtype is not None
            place, storage = other
            self._set_head(place, self.dtype, storage)

    @property
    def has_live_view(self) -> bool:
        """Whether a user holds a view of the head through which values may change unseen."""
        storage = self.storage
        return isinstance(storage, HostStorage) and storage.exported and storage.has_live_view

    @property
    def is_written(self) -> bool:
        """Whether anything was written since `zero()`; an array that never was does not count as written."""
        if self.pending is not None:
            return self.pending is not UNWRITTEN
        if self.zeroed:
            # Zeroed under a view: only the memory knows whether something was written through it.
            assert self.dtype is not None
            values = self.copy_at(HOST, self.dtype)
            assert isinstance(values, HostStorage)
            self.zeroed = not values.array((self.size,), self.dtype).any()
        return not self.zeroed


ABSENT = -9
"""Stands for an absent optional input among the codes of a key."""


class Look(NamedTuple):
    """Where the head of a cell is, and of which dtype."""

    place: Place
    dtype: np.dtype


_CODES: dict[tuple[Place, np.dtype], int] = {}
_LOOKS: dict[int, Look] = {}
_NUMBERS = itertools.count()  # none comes twice, whichever threads ask


def code_of(place: Place, dtype: np.dtype) -> int:
    """The code of cells whose head is of that dtype in that place."""
    key = (place, dtype)
    code = _CODES.get(key)
    if code is None:
        number = next(_NUMBERS)
        _LOOKS[number] = Look(place, dtype)
        code = _CODES.setdefault(key, number)
    return code


def look_of(code: int) -> Look:
    """What a code stands for."""
    return _LOOKS[code]


def _allocate(place: Place, size: int, dtype: np.dtype) -> Storage:
    if place is HOST:
        return HostStorage(size * dtype.itemsize)
    return DeviceStorage(place, size, dtype)


def _fill(storage: Storage | None, place: Place, size: int, dtype: np.dtype | None, value: float) -> None:
    assert storage is not None and dtype is not None
    if isinstance(storage, HostStorage):
        storage.array((size,), dtype).fill(value)
    else:
        assert place.array_class is not None
        place.array_class.fill(storage.buffer, value)


def _convert(
    source: Storage,
    source_place: Place,
    source_dtype: np.dtype,
    target: Storage,
    place: Place,
    dtype: np.dtype,
    size: int,
) -> None:
    """Copy values between storages of any place and dtype.

    Casts happen before what is moved: on the device where the values are, if one of its backends casts, else on the
    host, so that what leaves a device only to be cast is counted.
    """
    desc = ArrayDesc((size,), source_dtype)
    values: Any = source.array((size,), source_dtype)
    if source_dtype != dtype and isinstance(source, DeviceStorage) and isinstance(target, DeviceStorage):
        # Lazily: only the graph knows who computes on a device.
        from atled.graph.nodes.device_casts import cast_on

        cast = cast_on(source_place, desc, dtype)
        if cast is not None:
            own = target if source_place is place else DeviceStorage(source_place, size, dtype)
            cast(values, own.array((size,), dtype))
            if own is target:
                return
            desc, values = desc.astype(dtype), own.array((size,), dtype)
    if desc.dtype != dtype:
        if source_place is not HOST:
            fetched = np.empty(size, source_dtype)
            move(values, source_place, fetched, HOST, desc)
            values, source_place = fetched, HOST
        values, desc = values.astype(dtype), desc.astype(dtype)
    if source_place is not place:
        move(values, source_place, target.array((size,), dtype), place, desc)
    elif place.array_class is None:
        target.array((size,), dtype)[...] = values
    else:
        place.array_class.copy(values, target.array((size,), dtype))
