"""An array class that puts every array on device 0."""

from atled.array_desc import ArrayDesc
from atled.conformance.broken.shelf import ShelfArray, ShelfClass, ShelfPlugin


class _One(ShelfClass):
    def allocate(self, desc: ArrayDesc, device_id: str) -> ShelfArray:
        return super().allocate(desc, "0")


PLUGIN = ShelfPlugin(_One())
