"""Transpose that says it takes strides, and reads its input as if that were in C order."""

import numpy as np

from atled.call import Call, Prepared
from atled.conformance.broken.shelf import Run, ShelfPlugin, prepare
from atled.strides import contiguous_strides
from atled_contexts import Implementation


def _prepare(call: Call) -> Prepared:
    def change(run: Run) -> Run:
        def in_c_order(x: np.ndarray, y: np.ndarray) -> None:
            steps = [step * x.itemsize for step in contiguous_strides(x.shape)]
            run(np.lib.stride_tricks.as_strided(x, x.shape, steps), y)

        return in_c_order

    return prepare(call, change)


PLUGIN = ShelfPlugin(Transpose=Implementation("Transpose", "shelf", _prepare, note="reference, changed", strides=True))
