"""An array class whose copies have a queue of their own, which is done when values are read."""

import numpy as np

from atled.conformance.broken.shelf import ShelfArray, ShelfClass, ShelfPlugin


class _TwoQueues(ShelfClass):
    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[tuple[ShelfArray, ShelfArray]] = []

    def copy(self, source: ShelfArray, target: ShelfArray) -> None:
        self._waiting.append((source, target))

    def download(self, source: ShelfArray, target: np.ndarray) -> None:
        self.synchronize("0")
        super().download(source, target)

    def synchronize(self, device_id: str) -> None:
        while self._waiting:
            super().copy(*self._waiting.pop(0))


PLUGIN = ShelfPlugin(_TwoQueues())
