"""Parts of arrays that all begin where the array does."""

from atled.array_desc import ArrayDesc
from atled.conformance.broken.shelf import ShelfArray, ShelfClass, ShelfPlugin


class _Overlapping(ShelfClass):
    def part(self, array: ShelfArray, offset: int, desc: ArrayDesc) -> ShelfArray:
        return array.part(0, desc)


PLUGIN = ShelfPlugin(_Overlapping())
