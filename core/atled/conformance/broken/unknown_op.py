"""An implementation of an op that there is not."""

from atled.conformance.broken.shelf import ShelfPlugin, usual

PLUGIN = ShelfPlugin(Convolutoin=usual("Convolutoin"))
