"""Memory in which the plans of one inference run, one after the other in the same."""

from __future__ import annotations

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

    storage: it; None before it was needed.
    """

    __slots__ = ("_users", "storage")

    def __init__(self) -> None:
        self.storage: HostStorage | None = None
        self._users: WeakSet[User] = WeakSet()

    def of_size(self, nbytes: int, user: User) -> HostStorage:
        """The memory, of nbytes or more, for one more user."""
        if self.storage is None or self.storage.nbytes < nbytes:
            self.give_up()  # first, so that the two are not there at once
            self.storage = HostStorage(nbytes)
        self._users.add(user)
        return self.storage

    def give_up(self) -> None:
        """Have no memory; only for who has it to itself."""
        for user in list(self._users):
            user.leave()
        self._users.clear()
        self.storage = None


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
        found = [each.storage for each in list(self.idle)]
        return sum(storage.nbytes for storage in found if storage is not None)
