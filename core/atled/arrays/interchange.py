"""Interchange of arrays with other libraries by DLPack, on the host and on devices whose array class offers it."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.arrays.place import ArrayClass, DeviceStorage, place_on
from atled.arrays.watches import announce
from atled.errors import four_parts
from atled_contexts import array_class, array_class_names, backend_info, backends, devices

CPU = (1, 0)
"""The host as DLPack counts devices."""


def dlpack_device(array: NdArray) -> tuple[int, int]:
    """Where `array` is handed out: its device where the array class offers DLPack, else the host."""
    place = array.cell.place
    if array.cell.storage is None or place.array_class is None:
        return CPU
    return place.array_class.dlpack_device(place.device_id) or CPU


def _lends(array: NdArray) -> bool:
    """Whether it is on a device whose array class hands arrays out by itself; such a device may be the processor."""
    place = array.cell.place
    found = None if array.cell.storage is None else place.array_class
    return found is not None and found.dlpack_device(place.device_id) is not None


# `Any`: the capsule, which has no type in Python, and options as the protocol names them.
def to_dlpack(array: NdArray, dl_device: tuple[int, int] | None = None, **options: Any) -> Any:
    """A capsule over the memory of `array`, for `from_dlpack` of another library; see `NdArray.__dlpack__`."""
    own = dlpack_device(array)
    # Only options that are given are passed on: old protocols know few.
    options = {name: value for name, value in options.items() if value is not None}
    if not _lends(array) or dl_device == CPU != own:
        return array.data.__dlpack__(**options)
    if dl_device not in (None, own):
        raise BufferError(
            four_parts(
                f"{array!r} by DLPack on device {dl_device}",
                f"the array is on device {own}",
                "",
                "ask for that device, or for the host (1, 0)",
            )
        )
    cell = array.cell
    storage = cell.settle()
    announce((id(cell),))
    cell.touched()  # the other library may write
    assert isinstance(storage, DeviceStorage) and cell.place.array_class is not None and cell.dtype is not None
    storage.exported = True
    return cell.place.array_class.to_dlpack(storage.array(array.shape, cell.dtype), **options)


def from_dlpack(source: Any) -> NdArray:
    """See `NdArray.from_dlpack`."""
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise TypeError(
            four_parts(
                f"NdArray.from_dlpack({type(source).__name__})", "it does not speak DLPack", "", "use from_numpy_array"
            )
        )
    kind, number = source.__dlpack_device__()
    if int(kind) == CPU[0]:
        return NdArray.from_numpy_array(np.from_dlpack(source))
    device = (int(kind), int(number))
    found = _class_for(device)
    if found is None:
        raise BufferError(
            four_parts(
                f"NdArray.from_dlpack({type(source).__name__})",
                f"it is on DLPack device {device}",
                "no usable plugin has an array class for that device",
                "install one, or copy the array to the host first",
            )
        )
    owner, device_id = found
    values, desc = owner.from_dlpack(source, device_id)
    array = NdArray(desc.shape)
    storage = array.cell.output(place_on(owner, device_id), desc.dtype)
    flat = ArrayDesc((desc.size,), desc.dtype)
    owner.copy(owner.view(values, flat.shape), storage.array(flat.shape, flat.dtype))
    return array


def _class_for(device: tuple[int, int]) -> tuple[ArrayClass, str] | None:
    """An array class and device id of a device as DLPack counts it."""
    for backend in backends():
        for name in () if backend_info(backend).host else array_class_names(backend):
            candidate: Any = array_class(name)  # the registry of plugins knows no types of the core
            for device_id in devices(backend):
                if candidate.dlpack_device(device_id) == device:
                    return candidate, device_id
    return None
