"""A sum that says it computes formulas behind it, and computes them only where nobody reads the sum itself."""

from typing import Any

from atled.call import Call
from atled.conformance.broken.shelf import Run, ShelfPlugin, prepare
from atled_contexts import Implementation


def _prepare(call: Call) -> Any:
    def change(run: Run) -> Run:
        def compute(*arguments: Any) -> None:
            run(*arguments)
            _, attached, _ = call.split(arguments)
            if call.after and call.wanted[0]:
                attached[-1].fill(0)

        return compute

    return prepare(call, change)


PLUGIN = ShelfPlugin(Sum=Implementation("Sum", "shelf", _prepare, note="reference, changed", attaches=("y",)))
