"""Tanh with one scratch array for all threads."""

import time

import numpy as np

from atled.conformance.broken.shelf import Run, ShelfPlugin, changed

_WAIT_S = 0.02  # long enough for other threads to come by


def _change(run: Run) -> Run:
    scratch: dict[str, np.ndarray] = {}

    def shared(x: np.ndarray, y: np.ndarray) -> None:
        scratch["x"] = x
        time.sleep(_WAIT_S if x.size > 1 else 0)
        run(scratch["x"], y)

    return shared


PLUGIN = ShelfPlugin(**changed("Tanh", _change))
