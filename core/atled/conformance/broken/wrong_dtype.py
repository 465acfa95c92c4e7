"""An array class that keeps float64 arrays in float32."""

import numpy as np

from atled.array_desc import ArrayDesc
from atled.conformance.broken.shelf import ShelfArray, ShelfClass, ShelfPlugin


class _Narrow(ShelfClass):
    def allocate(self, desc: ArrayDesc, device_id: str) -> ShelfArray:
        return super().allocate(desc.astype(np.float32) if desc.dtype == np.float64 else desc, device_id)

    def upload(self, source: np.ndarray, target: ShelfArray) -> None:
        with np.errstate(all="ignore"):
            super().upload(source, target)


PLUGIN = ShelfPlugin(_Narrow())
