"""Sum whose `accepts` looks for an attribute that Sum has not."""

from atled.call import Call
from atled.conformance.broken.shelf import ShelfPlugin, prepare
from atled_contexts import Implementation


def _accepts(call: Call) -> bool | str:
    return True if call.attributes["axis"] else "no axis"


PLUGIN = ShelfPlugin(Sum=Implementation("Sum", "shelf", prepare, accepts=_accepts, note="reference"))
