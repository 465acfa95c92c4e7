"""An array class whose `put_words` writes past its queue."""

import numpy as np

from atled.conformance.broken.shelf import ShelfArray
from atled.conformance.broken.shelf_queue import QueueClass, QueuePlugin


class _Early(QueueClass):
    def put_words(self, words: np.ndarray, target: ShelfArray) -> None:
        target.on_device()[...] = words


PLUGIN = QueuePlugin(_Early())
