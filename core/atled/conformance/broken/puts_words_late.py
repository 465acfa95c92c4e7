"""An array class whose `put_words` reads the words when its turn comes."""

import numpy as np

from atled.conformance.broken.shelf import ShelfArray
from atled.conformance.broken.shelf_queue import QueueClass, QueuePlugin


class _Late(QueueClass):
    def put_words(self, words: np.ndarray, target: ShelfArray) -> None:
        self.submit(lambda: np.copyto(target.on_device(), words))


PLUGIN = QueuePlugin(_Late())
