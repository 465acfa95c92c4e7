"""Interchange of arrays with other libraries by DLPack, on the host and on devices whose array class offers it."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell
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
        if array.dtype.isbuiltin != 1:
            raise BufferError(
                four_parts(
                    f"{array!r} by DLPack",
                    f"NumPy, which hands out host memory, has no {array.dtype} there",
                    "",
                    "cast('float32') it first",
                )
            )
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
    assert cell.place.array_class is not None and cell.dtype is not None
    _hand_out(cell)
    return cell.place.array_class.to_dlpack(storage.array(array.shape, cell.dtype), **options)


def cuda_array_interface(array: NdArray) -> dict[str, Any]:
    """See `NdArray.__cuda_array_interface__`."""
    cell = array.cell
    found = None
    if cell.storage is not None and cell.place.array_class is not None:
        storage = cell.settle()
        assert cell.dtype is not None
        found = cell.place.array_class.cuda_array_interface(storage.array(array.shape, cell.dtype))
    if found is None:
        raise AttributeError(
            four_parts(
                f"{array!r}.__cuda_array_interface__",
                f"it is in memory of {cell.place}, which offers none",
                "",
                "compute it on a device of CUDA first, or cast(dtype, ctx=...) it to one",
            )
        )
    _hand_out(cell)
    return found


def _hand_out(cell: ArrayCell) -> None:
    """Another library may write into the device memory from now on."""
    announce((id(cell),))
    cell.touched()
    assert isinstance(cell.storage, DeviceStorage)
    cell.storage.exported = True


def from_dlpack(source: Any, copy: bool | None = None) -> NdArray:
    """See `NdArray.from_dlpack`."""
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise TypeError(
            four_parts(
                f"NdArray.from_dlpack({type(source).__name__})", "it does not speak DLPack", "", "use from_numpy_array"
            )
        )
    kind, number = source.__dlpack_device__()
    if int(kind) == CPU[0]:
        if copy is False:
            raise BufferError(
                four_parts(
                    f"NdArray.from_dlpack({type(source).__name__}, copy=False)",
                    "arrays of atled in host memory begin at multiples of 64 bytes, so others are copied",
                    "",
                    "leave copy out",
                )
            )
        return NdArray.from_numpy_array(_on_host(source))
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
    values, desc = owner.copy_dlpack(source, device_id) if copy else _shared(owner, source, device_id)
    array = NdArray(desc.shape)
    place = place_on(owner, device_id)
    buffer = owner.view(values, (desc.size,))
    array.cell.adopt(place, desc.dtype, DeviceStorage(place, desc.size, desc.dtype, buffer))
    return array


def _on_host(source: Any) -> np.ndarray:
    """A view of an array in host memory; what its library refuses passes through."""
    try:
        return np.from_dlpack(source)
    except RuntimeError as error:  # NumPy knows fewer dtypes than DLPack has names for
        raise BufferError(
            four_parts(
                f"NdArray.from_dlpack({type(source).__name__})",
                f"NumPy takes no array of it ({error})",
                f"its dtype is {getattr(source, 'dtype', 'not told')}",
                "convert it to a dtype of NumPy first, such as float32",
            )
        ) from error


def _shared(owner: ArrayClass, source: Any, device_id: str) -> tuple[Any, ArrayDesc]:
    try:
        return owner.from_dlpack(source, device_id)
    except BufferError as error:
        raise BufferError(
            four_parts(
                f"NdArray.from_dlpack({type(source).__name__}) without a copy",
                str(error),
                "",
                "pass copy=True, or make it C-contiguous first",
            )
        ) from error


def _class_for(device: tuple[int, int]) -> tuple[ArrayClass, str] | None:
    """An array class and device id of a device as DLPack counts it."""
    for backend in backends():
        for name in () if backend_info(backend).host else array_class_names(backend):
            candidate: Any = array_class(name)  # the registry of plugins knows no types of the core
            for device_id in devices(backend):
                if candidate.dlpack_device(device_id) == device:
                    return candidate, device_id
    return None
