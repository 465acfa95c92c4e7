"""AddScalar that counts its runs into the result."""

from typing import Any

import numpy as np

from atled.conformance.broken.shelf import Run, ShelfPlugin, changed


def _change(run: Run) -> Run:
    runs = [0]

    def count(x: np.ndarray, y: np.ndarray, *rest: Any) -> None:
        run(x, y, *rest)
        y += runs[0]
        runs[0] += 1

    return count


PLUGIN = ShelfPlugin(**changed("AddScalar", _change))
