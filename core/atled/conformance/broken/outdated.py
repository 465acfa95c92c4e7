"""Sum written for another version of its op spec."""

from atled.conformance.broken.shelf import ShelfPlugin, prepare
from atled_contexts import Implementation

PLUGIN = ShelfPlugin(Sum=Implementation("Sum", "shelf", prepare, op_version=99, note="reference"))
