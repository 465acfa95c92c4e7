"""Rand, which reads its random state when its turn comes."""

from typing import Any

from atled.call import Call, Prepared
from atled.conformance.broken.shelf import prepare
from atled.conformance.broken.shelf_queue import QueueClass, QueuePlugin
from atled_contexts import Implementation

_QUEUE = QueueClass()


def _prepare(call: Call) -> Prepared:
    compute = prepare(call).run
    assert compute is not None

    def run(*arguments: Any) -> None:
        _QUEUE.submit(lambda: compute(*arguments))

    return Prepared(run, queued=True)


PLUGIN = QueuePlugin(_QUEUE, Rand=Implementation("Rand", "shelf", _prepare, note="reference, changed"))
