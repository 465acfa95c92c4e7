"""An array class whose windows in C order begin where their memory does."""

from atled.array_desc import ArrayDesc
from atled.conformance.broken.shelf import ShelfArray, ShelfClass, ShelfPlugin, prepare
from atled_contexts import Implementation


class _Class(ShelfClass):
    def window(self, array: ShelfArray, desc: ArrayDesc, offset: int) -> ShelfArray:
        """Of what has strides it is right."""
        return super().window(array, desc, offset if desc.strides is not None else 0)


PLUGIN = ShelfPlugin(_Class(), Transpose=Implementation("Transpose", "shelf", prepare, note="reference", strides=True))
