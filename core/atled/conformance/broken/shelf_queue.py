"""The same plugin as `shelf` with a queue: work waits until somebody waits for it. It is right, too."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import RLock
from typing import Any

import numpy as np

from atled.call import Call, Prepared
from atled.conformance.broken.shelf import ShelfArray, ShelfClass, ShelfPlugin
from atled.conformance.broken.shelf import prepare as prepare_now
from atled_contexts import Implementation


class QueueClass(ShelfClass):
    """Array class `ShelfArray` of devices that work as late as they may."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[Callable[[], None]] = deque()
        self._lock = RLock()

    def submit(self, job: Callable[[], None]) -> None:
        """Put it into the queue, with all that it refers to."""
        self._waiting.append(job)

    def synchronize(self, device_id: str) -> None:
        with self._lock:
            while self._waiting:
                self._waiting.popleft()()

    def upload(self, source: np.ndarray, target: ShelfArray) -> None:
        values = source.copy()
        self.submit(lambda: ShelfClass.upload(self, values, target))

    def download(self, source: ShelfArray, target: np.ndarray) -> None:
        self.synchronize("")
        super().download(source, target)

    def copy(self, source: ShelfArray, target: ShelfArray) -> None:
        self.submit(lambda: ShelfClass.copy(self, source, target))

    def fill(self, target: ShelfArray, value: float) -> None:
        self.submit(lambda: ShelfClass.fill(self, target, value))


class QueuePlugin(ShelfPlugin):
    """Backend `shelf` over a queue."""

    def __init__(self, array_class: QueueClass, /, **special: Implementation) -> None:
        super().__init__(array_class, **special)
        self.queue = array_class

    def usual(self, op: str) -> Implementation:
        """The right implementation of any op."""
        note = "reference on the device's memory"
        return Implementation(op, "shelf", lambda call: prepare(call, self.queue), note=note, op_version=None)


def prepare(call: Call, queue: QueueClass) -> Prepared:
    """The reference, when its turn comes; a random state is read before."""
    run = prepare_now(call).run
    assert run is not None

    def launch(*arguments: Any) -> None:
        given = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
        queue.submit(lambda: run(*given))

    return Prepared(launch, queued=True)


PLUGIN = QueuePlugin(QueueClass())
