"""Tables of run-time words: what launches on a device read when their turn comes, in the device's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.arrays.place import DeviceStorage
from atled.graph.compile.words import Words
from atled.graph.run.launching import Arrays

_INT64 = np.dtype(np.int64)


class Table:
    """The run-time words of one binding on one device. They are copied there when one of them has changed."""

    __slots__ = ("_floats", "_random_states", "_reals", "_sent", "_storage", "_words", "layout", "place")

    def __init__(self, bound: Arrays, layout: Words) -> None:
        self.layout = layout
        self.place = next(iter(layout.first)).queue
        self._floats = bound.floats
        self._random_states = [(word, bound.array(slot)) for word, slot in layout.random_states]
        self._words = np.zeros(layout.count, _INT64)
        self._reals = self._words.view(np.float64)
        self._storage: DeviceStorage | None = None
        self._sent = b""

    @property
    def array(self) -> Any:  # Any: the device's own array type
        """The table in the device's memory, (count,) int64."""
        if self._storage is None:
            assert self.place is not None
            self._storage = DeviceStorage(self.place, self.layout.count, _INT64)
        return self._storage.buffer

    def put(self) -> None:
        """Have the launches that are queued from now on read the present values."""
        layout = self.layout
        if self._sent and not layout.changes:
            return
        words = self._words
        if self._random_states:
            self._reals[layout.float_words] = self._floats[layout.float_numbers]
            for word, state in self._random_states:
                words[word : word + 2] = state
        else:  # floats only; clip: quicker, and nothing is out of range
            self._floats.take(layout.float_numbers, out=self._reals, mode="clip")
        now = words.tobytes()
        if now != self._sent:
            assert self.place is not None and self.place.array_class is not None
            self._sent = b""  # whatever is there if the copy fails
            self.place.array_class.put_words(words, self.array)
            self._sent = now
