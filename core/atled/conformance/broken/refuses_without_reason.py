"""Sum that refuses several axes with a bare no."""

from atled.call import Call
from atled.conformance.broken.shelf import ShelfPlugin, prepare
from atled_contexts import Implementation


def _accepts(call: Call) -> bool:
    return len(call.attributes["axes"]) < 2


PLUGIN = ShelfPlugin(Sum=Implementation("Sum", "shelf", prepare, accepts=_accepts, note="reference"))
