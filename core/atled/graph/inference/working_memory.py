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
    """The memories of an inference: as many as ran at one time. Runs at a time take different ones, by any threads."""

    __slots__ = ("_idle",)

    def __init__(self) -> None:
        self._idle: list[WorkingMemory] = []

    def take(self) -> WorkingMemory:
        """One for a run; the one that was given back last, which caches may hold."""
        try:
            return self._idle.pop()  # atomic
        except IndexError:
            return WorkingMemory()

    def give(self, memory: WorkingMemory) -> None:
        """Have one back."""
        self._idle.append(memory)

    def forget(self) -> None:
        """Give up those that no run has now."""
        for _ in range(len(self._idle)):
            memory = self.take()
            memory.give_up()
            self._idle.insert(0, memory)  # the others are to come first

    def idle_bytes(self) -> int:
        """The bytes of those that no run has now."""
        return sum(each.storage.nbytes for each in list(self._idle) if each.storage is not None)
