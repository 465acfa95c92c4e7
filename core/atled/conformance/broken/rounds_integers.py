"""Products of integers that go by way of float32."""

import numpy as np

from atled.call import Call, Prepared
from atled.conformance.broken.shelf import ShelfArray, ShelfPlugin, prepare
from atled_contexts import Implementation


def _prepare(call: Call) -> Prepared:
    if not call.has_integers:
        return prepare(call)

    def run(x: ShelfArray, y: ShelfArray, z: ShelfArray) -> None:
        with np.errstate(invalid="ignore"):
            z.on_device()[...] = x.on_device().astype(np.float32) * y.on_device()

    return Prepared(run)


PLUGIN = ShelfPlugin(Mul2=Implementation("Mul2", "shelf", _prepare, note="in float32", integers=True))
