"""Sum that adds up in the dtype of its input."""

import numpy as np

from atled.call import Call, Prepared
from atled.conformance.broken.shelf import ShelfArray, ShelfPlugin, prepare
from atled_contexts import Implementation


def _prepare(call: Call) -> Prepared:
    axes = call.attributes["axes"]
    if axes != (1,):
        return prepare(call)

    def run(x: ShelfArray, y: ShelfArray) -> None:
        values = x.on_device()
        y.on_device()[...] = np.add.accumulate(values, axis=1, dtype=values.dtype)[:, -1].reshape(y.shape)

    return Prepared(run)


PLUGIN = ShelfPlugin(Sum=Implementation("Sum", "shelf", _prepare, note="one after the other"))
