"""Transpose that accepts every call and gives up on three axes."""

from atled.call import Call, Prepared
from atled.conformance.broken.shelf import ShelfPlugin, prepare
from atled_contexts import Implementation


def _prepare(call: Call) -> Prepared:
    if call.outputs[0].ndim > 2:
        raise NotImplementedError("more than two axes")
    return prepare(call)


PLUGIN = ShelfPlugin(Transpose=Implementation("Transpose", "shelf", _prepare, note="reference"))
