"""DLPack capsules over memory in which the values are not."""

from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.conformance.broken.shelf import ShelfArray, ShelfClass, ShelfPlugin

_DEVICE_TYPE = 12  # "extension device" of DLPack: one that it has no number for


class _Elsewhere(ShelfClass):
    def dlpack_device(self, device_id: str) -> tuple[int, int]:
        return (_DEVICE_TYPE, int(device_id))

    def to_dlpack(self, source: ShelfArray, **options: Any) -> Any:
        return source.on_device()

    def from_dlpack(self, source: Any, device_id: str) -> tuple[ShelfArray, ArrayDesc]:
        values = source.__dlpack__()
        zeros = np.zeros(values.size, values.dtype)
        return ShelfArray(zeros, values.shape), ArrayDesc(values.shape, values.dtype)


PLUGIN = ShelfPlugin(_Elsewhere())
