"""An array class that keeps every array it made."""

from atled.array_desc import ArrayDesc
from atled.conformance.broken.shelf import ShelfArray, ShelfClass, ShelfPlugin


class _Hoard(ShelfClass):
    def __init__(self) -> None:
        super().__init__()
        self._kept: list[ShelfArray] = []

    def allocate(self, desc: ArrayDesc, device_id: str) -> ShelfArray:
        array = super().allocate(desc, device_id)
        self._kept.append(array)
        return array


PLUGIN = ShelfPlugin(_Hoard())
