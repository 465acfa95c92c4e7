"""Copies of values between memories: directly where that is possible, and counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.place import HOST, TRANSFERS, Place


def move(source: Any, from_place: Place, target: Any, to_place: Place, desc: ArrayDesc) -> None:
    """Copy an array to one in another memory, of the same shape and dtype; Any: NumPy or the devices' own arrays.

    Between devices that do not reach each other it goes by way of the host, and counts as two copies.
    """
    from_place.failures.look()  # what failed there must not go on elsewhere unnoticed
    if from_place.array_class is None:
        assert to_place.array_class is not None
        to_place.array_class.upload(source, target)
    elif to_place.array_class is None:
        from_place.download(source, target)
    elif from_place.array_class is not to_place.array_class or not to_place.array_class.copy_across(source, target):
        values = np.empty(desc.shape, desc.dtype)
        move(source, from_place, values, HOST, desc)
        move(values, HOST, target, to_place, desc)
        return
    TRANSFERS.add(from_place, to_place, desc.nbytes)
