"""MaxPooling that says it knows both orders of axes, and writes every image with the channels in front."""

from typing import Any

import numpy as np

from atled.call import Call, Prepared
from atled.conformance.broken.shelf import Run, ShelfPlugin, prepare
from atled_contexts import Implementation


def _prepare(call: Call) -> Prepared:
    def change(run: Run) -> Run:
        def write(x: np.ndarray, y: np.ndarray, *rest: Any) -> None:
            run(x, y, *rest)
            y[...] = np.moveaxis(y, -1, 1).reshape(y.shape)

        return write if call.channel_last else run

    return prepare(call, change)


PLUGIN = ShelfPlugin(
    MaxPooling=Implementation("MaxPooling", "shelf", _prepare, note="reference, changed", layout=lambda call: "")
)
