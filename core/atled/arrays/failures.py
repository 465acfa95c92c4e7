"""What goes wrong on a device by itself: one flag per device, which the host reads when it waits."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.errors import DeviceLostError, four_parts
from atled_contexts import lock_across_forks

_DESC = ArrayDesc((1,), np.int64)
_NUMBERS = itertools.count(1)


class Culprit:
    """A step that may fail on a device.

    number: what it writes into the flag then.  step: gives who does what, in words.  wrong: what goes wrong.
    """

    __slots__ = ("__weakref__", "number", "step", "wrong")

    def __init__(self, step: Callable[[], str], wrong: str) -> None:
        self.number = next(_NUMBERS)
        self.step = step
        self.wrong = wrong
        _CULPRITS[self.number] = self


_CULPRITS: weakref.WeakValueDictionary[int, Culprit] = weakref.WeakValueDictionary()


class Flag:
    """The flag of a device: 0, or the number of the step that failed; `array` is the device's own."""

    __slots__ = ("__weakref__", "array")

    def __init__(self, array: Any) -> None:
        self.array = array


Expected = Mapping[int, tuple[Culprit, Flag]]
"""Steps that may fail, by number, with the flag that they write."""


Undo = Callable[[int], None]
"""Takes a count of the host's back by so many."""


class Failures:
    """What may have gone wrong on one device since the host last waited for it.

    Steps behind a failure see the flag and change no array, until the host has read it: then it is told, once.
    """

    __slots__ = ("_array_class", "_device_id", "_flag", "_lock", "_queued", "_undo")

    def __init__(self, array_class: Any, device_id: str) -> None:  # Any: an ArrayClass, whose module makes these
        self._array_class = array_class
        self._device_id = device_id
        self._flag: Callable[[], Flag | None] = lambda: None
        self._queued: dict[int, tuple[Culprit, Flag]] = {}
        self._undo: dict[Hashable, tuple[Undo, int]] = {}
        self._lock = lock_across_forks()

    def flag(self) -> Flag:
        """The flag, which lives as long as it is referred to."""
        with self._lock:
            flag = self._flag()
            if flag is None:
                flag = Flag(self._array_class.allocate(_DESC, self._device_id))
                self._array_class.upload(np.zeros(1, np.int64), flag.array)
                self._flag = weakref.ref(flag)
            return flag

    def expect(self, queued: Expected) -> None:
        """Steps that may fail were queued. Told behind that, so that no wait passes over them."""
        self._queued.update(queued)
        EXPECTING.add(self)

    def remember(self, key: Hashable, undo: Undo) -> None:
        """Have a count of the host's, or the like, which went on, go back if the next look finds a failure.

        Told behind the steps that go with it. key: equal for equal `undo`.
        """
        with self._lock:
            if self._queued:
                _, times = self._undo.get(key, (undo, 0))
                self._undo[key] = undo, times + 1

    @property
    def is_expecting(self) -> bool:
        """Whether anything that may fail was queued since the last look."""
        return bool(self._queued)

    def look(self) -> None:
        """Wait for what may fail, and raise what did: IndexError for indices, else RuntimeError."""
        if self._queued:
            self._look()

    def _look(self) -> None:
        with self._lock:
            EXPECTING.discard(self)
            queued, self._queued = self._queued, {}
            if not queued:
                return  # another thread was quicker
            found = np.zeros(1, np.int64)
            _, flag = next(iter(queued.values()))
            try:
                self._array_class.download(flag.array, found)
            except DeviceLostError:
                self._undo.clear()  # nothing is known of what was queued
                raise
            except BaseException:
                self.expect({**queued, **self._queued})
                raise
            undo, self._undo = self._undo, {}
            if not found[0]:
                return
            self._array_class.upload(np.zeros(1, np.int64), flag.array)
            for change, times in undo.values():
                change(times)
        number = int(found[0])
        culprit = queued[number][0] if number in queued else _CULPRITS[number]
        kind = IndexError if "out of range" in culprit.wrong else RuntimeError
        raise kind(
            four_parts(
                culprit.step(),
                culprit.wrong,
                f"{self._array_class.name}:{self._device_id} found it while it worked, the host when it waited; steps "
                "behind it changed no parameters or states",
                "check the values of its inputs, then compute again: results since then are not to be used",
            )
        )


EXPECTING: set[Failures] = set()
"""The devices on which something was queued that may fail, and that the host has not looked at since."""
