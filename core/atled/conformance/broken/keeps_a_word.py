"""AddScalar, which reads its number when it is bound, instead of when it runs."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.call import Call, Prepared
from atled.conformance.broken.shelf import ShelfPlugin, prepare
from atled_contexts import Implementation


def _prepare(call: Call) -> Prepared:
    compute = prepare(call).run
    assert compute is not None

    def bind(arrays: Sequence[Any], table: Any, first: int) -> Callable[[], None]:
        word = float(table.on_device()[first : first + 1].view(np.float64)[0])
        return lambda: compute(*arrays, word)

    return Prepared(compute, queued=True, bind=bind)


PLUGIN = ShelfPlugin(
    AddScalar=Implementation("AddScalar", "shelf", _prepare, note="reference, changed", op_version=None)
)
