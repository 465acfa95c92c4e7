"""Identity that leaves the last element of the result as it finds it."""

import numpy as np

from atled.conformance.broken.shelf import Run, ShelfPlugin, changed


def _change(run: Run) -> Run:
    def all_but_one(x: np.ndarray, y: np.ndarray) -> None:
        y.reshape(-1)[:-1] = x.reshape(-1)[:-1]

    return all_but_one


PLUGIN = ShelfPlugin(**changed("Identity", _change))
