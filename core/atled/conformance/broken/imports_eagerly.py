"""A plugin whose import loads a library that it may never need."""

import hypothesis

from atled.conformance.broken.shelf import ShelfPlugin

PLUGIN = ShelfPlugin()
PLUGIN.library = hypothesis  # type: ignore[attr-defined]  # so that the import is used
