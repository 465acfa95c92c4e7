"""SgdUpdate that says it heeds failures, and moves the parameter all the same."""

from typing import Any

from atled.call import Call, Prepared
from atled.conformance.broken.shelf import ShelfPlugin, prepare
from atled_contexts import Implementation


def _prepare(call: Call) -> Prepared:
    update = prepare(call).run
    assert update is not None

    def run(w: Any, g: Any, y: Any, flag: Any, *floats: float) -> None:
        update(w, g, y, *floats)

    return Prepared(run, queued=True, heeds_failure=True)


PLUGIN = ShelfPlugin(SgdUpdate=Implementation("SgdUpdate", "shelf", _prepare, note="reference, changed"))
