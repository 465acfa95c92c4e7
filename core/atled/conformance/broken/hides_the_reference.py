"""Mul2 by the reference, under a note that promises a kernel."""

from atled.conformance.broken.shelf import ShelfPlugin, changed

PLUGIN = ShelfPlugin(**changed("Mul2", lambda run: run, note="hand-written kernel"))
