"""ReLU that makes 0 of NaN."""

import numpy as np

from atled.conformance.broken.shelf import Run, ShelfPlugin, changed


def _change(run: Run) -> Run:
    def compare(x: np.ndarray, y: np.ndarray) -> None:
        y[...] = np.where(x > 0, x, 0)

    return compare


PLUGIN = ShelfPlugin(**changed("ReLU", _change))
