"""MaxPooling that says it omits its places, and writes them where nobody gave an array for them."""

from typing import Any

import numpy as np

from atled.conformance.broken.shelf import Run, ShelfPlugin, prepare
from atled_contexts import Implementation


def _change(run: Run) -> Run:
    def write(x: np.ndarray, y: np.ndarray, place: np.ndarray, *rest: Any) -> None:
        run(x, y, place, *rest)
        place += np.uint8(0)

    return write


PLUGIN = ShelfPlugin(
    MaxPooling=Implementation(
        "MaxPooling", "shelf", lambda call: prepare(call, _change), note="reference, changed", omits=("place",)
    )
)
