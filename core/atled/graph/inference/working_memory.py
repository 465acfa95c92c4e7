"""Memory in which the plans of one inference run, one after the other in the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from weakref import WeakSet

from atled.arrays.storage import HostStorage


class User(Protocol):
    """What has addresses in such memory."""

    def leave(self) -> None:
        """The memory is given up: refer to it no more."""


class WorkingMemory:
    """What one run at a time has to itself; it grows to what the largest plan needs, and is where it was otherwise.

    Plans whose addresses are in it need not write them anew as long as it stays.
    """

    __slots__ = ("_storages", "_users")

    def __init__(self) -> None:
        self._storages: list[HostStorage | None] = []
        self._users: WeakSet[User] = WeakSet()

    def of_sizes(self, sizes: Sequence[int], user: User) -> list[HostStorage]:
        """Storages of so many bytes or more, for one more user.

        Several and not one in parts: the pool may have some of these sizes, which folding of weights has left.
        """
        self._storages += [None] * (len(sizes) - len(self._storages))
        small = [
            position
            for position, (storage, nbytes) in enumerate(zip(self._storages, sizes, strict=False))
            if storage is None or storage.nbytes < nbytes
        ]
        if small:
            self._have_left()
            for position in small:
                self._storages[position] = None  # first, so that the two are not there at once
                self._storages[position] = HostStorage(sizes[position])
        self._users.add(user)
        found = [storage for storage in self._storages[: len(sizes)] if storage is not None]
        assert len(found) == len(sizes), "all are there now"
        return found

    def _have_left(self) -> None:
        for user in list(self._users):
            user.leave()
        self._users.clear()

    def give_up(self) -> None:
        """Have no memory; only for who has it to itself."""
        self._have_left()
        self._storages = []

    def held_bytes(self) -> int:
        """Its bytes."""
        return sum(storage.nbytes for storage in self._storages if storage is not None)


class WorkingMemories:
    """The memories of an inference: as many as ran at one time. Runs at a time take different ones, by any threads.

    idle: those that no run has now. A run pops the last one, which caches may hold, or makes one, and appends it when
        it is over; both are atomic, and quicker than methods, which would take a fiftieth of a small network's time.
    """

    __slots__ = ("idle",)

    def __init__(self) -> None:
        self.idle: list[WorkingMemory] = []

    def forget(self) -> None:
        """Give up those that no run has now."""
        for _ in range(len(self.idle)):
            try:
                memory = self.idle.pop()  # so that no run takes it meanwhile
            except IndexError:
                return
            memory.give_up()
            self.idle.insert(0, memory)  # the others are to come first

    def idle_bytes(self) -> int:
        """The bytes of those that no run has now."""
        return sum(memory.held_bytes() for memory in list(self.idle))
