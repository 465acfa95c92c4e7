"""Tanh, which says that it only goes into the queue, and waits for it."""

from typing import Any

from atled.call import Call, Prepared
from atled.conformance.broken.shelf import ShelfClass, ShelfPlugin, prepare
from atled_contexts import Implementation

SHELVES = ShelfClass()


def _prepare(call: Call) -> Prepared:
    compute = prepare(call).run
    assert compute is not None

    def run(*arguments: Any) -> None:
        compute(*arguments)
        SHELVES.synchronize(call.device_id)

    return Prepared(run, queued=True)


PLUGIN = ShelfPlugin(SHELVES, Tanh=Implementation("Tanh", "shelf", _prepare, note="reference, changed"))
