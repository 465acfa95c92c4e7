"""An array class whose uploads read their source when their turn comes."""

import numpy as np

from atled.conformance.broken.shelf import ShelfArray, ShelfClass
from atled.conformance.broken.shelf_queue import QueueClass, QueuePlugin


class _Late(QueueClass):
    def upload(self, source: np.ndarray, target: ShelfArray) -> None:
        self.submit(lambda: ShelfClass.upload(self, source, target))


PLUGIN = QueuePlugin(_Late())
