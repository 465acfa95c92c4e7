"""Tanh in groups whose calls all get the values of the first."""

from collections.abc import Sequence
from typing import Any

from atled.call import Call, Prepared
from atled.conformance.broken.shelf import ShelfPlugin, prepare
from atled_contexts import Implementation


def _prepare_group(calls: Sequence[Call]) -> Prepared:
    compute = prepare(calls[0]).run
    assert compute is not None

    def run(*arguments: Any) -> None:
        for y in arguments[len(calls) :]:
            compute(arguments[0], y)

    return Prepared(run)


PLUGIN = ShelfPlugin(
    Tanh=Implementation("Tanh", "shelf", prepare, note="reference, changed", prepare_group=_prepare_group)
)
