"""SgdUpdate in groups that say they heed failures, and move the parameters all the same."""

from collections.abc import Sequence
from typing import Any

from atled.call import Call, Prepared
from atled.conformance.broken.shelf import ShelfPlugin, prepare
from atled_contexts import Implementation


def _prepare_group(calls: Sequence[Call]) -> Prepared:
    update = prepare(calls[0]).run
    assert update is not None
    inputs, outputs, floats = len(calls[0].inputs), len(calls[0].outputs), calls[0].float_count

    def run(*arguments: Any) -> None:
        reads = arguments[: inputs * len(calls)]
        writes = arguments[len(reads) : len(reads) + outputs * len(calls)]
        numbers = arguments[len(reads) + len(writes) + 1 :]  # behind the flag
        for n in range(len(calls)):
            own = (reads[n * inputs : (n + 1) * inputs], writes[n * outputs : (n + 1) * outputs])
            update(*own[0], *own[1], *numbers[n * floats : (n + 1) * floats])

    return Prepared(run, queued=True, heeds_failure=True)


PLUGIN = ShelfPlugin(
    SgdUpdate=Implementation("SgdUpdate", "shelf", prepare, note="reference, changed", prepare_group=_prepare_group)
)
