"""Tanh by a rational approximation that is good only near 0."""

from typing import Any

import numpy as np

from atled.conformance.broken.shelf import Run, ShelfPlugin, changed


def _change(run: Run) -> Run:
    def approximate(x: np.ndarray, y: np.ndarray, *rest: Any) -> None:
        y[...] = x * (27 + x * x) / (27 + 9 * x * x)

    return approximate


PLUGIN = ShelfPlugin(**changed("Tanh", _change))
