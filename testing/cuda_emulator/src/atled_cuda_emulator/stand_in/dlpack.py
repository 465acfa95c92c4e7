"""Capsules of DLPack for memory of emulated devices."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from atled_cuda_emulator.compiling import runtime

CUDA = 2  # kDLCUDA
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]
_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
_NAME, _USED = b"dltensor", b"used_dltensor"

_exported: dict[int, tuple[Any, ...]] = {}  # what a capsule needs, until its consumer has deleted it
_numbers = itertools.count(1)


@_Deleter
def _delete(managed: Any) -> None:
    _exported.pop(managed.contents.context, None)


def capsule(owner: Any, device: tuple[int, int], address: int) -> Any:
    """A capsule of an array that keeps it alive."""
    ndim, itemsize = len(owner.shape), owner.dtype.itemsize
    shape = (ctypes.c_int64 * max(ndim, 1))(*owner.shape)
    strides = (ctypes.c_int64 * max(ndim, 1))(*(step // itemsize for step in owner.strides))
    if owner.dtype.name == "bfloat16":
        code = 4
    elif owner.dtype.kind in _CODES:
        code = _CODES[owner.dtype.kind]
    else:
        raise BufferError(f"DLPack has no dtype {owner.dtype}")
    kind = code, 8 * itemsize, 1
    pointer = ctypes.POINTER(ctypes.c_int64)
    tensor = _Tensor(address, *device, ndim, *kind, ctypes.cast(shape, pointer), ctypes.cast(strides, pointer), 0)
    number = next(_numbers)
    managed = _Managed(tensor, number, _delete)
    _exported[number] = (owner, shape, strides, managed)
    return _new(ctypes.addressof(managed), _NAME, ctypes.cast(runtime().cu_capsule_gone, ctypes.c_void_p))


@dataclass
class Found:
    """What a capsule describes."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    device: tuple[int, int]
    owner: _Owner


class _Owner:
    """Calls the producer's deleter when nothing needs the memory any more."""

    def __init__(self, managed: Any) -> None:
        self._managed = managed

    def __del__(self) -> None:
        deleter = self._managed.contents.deleter
        if deleter:
            deleter(self._managed)


def read(capsule: Any) -> Found:
    """Take the tensor out of a capsule, which is used up then."""
    if not _is_valid(capsule, _NAME):
        raise ValueError("A DLPack tensor object cannot be consumed multiple times")
    managed = ctypes.cast(_pointer(capsule, _NAME), ctypes.POINTER(_Managed))
    _rename(capsule, _USED)
    tensor = managed.contents.tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    dtype = _dtype(tensor.code, tensor.bits)
    if tensor.strides:
        strides = tuple(step * dtype.itemsize for step in tensor.strides[: tensor.ndim])
    else:
        strides = np.empty(shape, dtype).strides
    address = (tensor.data or 0) + tensor.byte_offset
    return Found(address, shape, strides, dtype, (tensor.device_type, tensor.device_id), _Owner(managed))


def _dtype(code: int, bits: int) -> np.dtype[Any]:
    if code == 4:
        import ml_dtypes  # only who exports bfloat16 needs it

        return np.dtype(ml_dtypes.bfloat16)
    kinds = {number: kind for kind, number in _CODES.items()}
    if code not in kinds:
        raise BufferError(f"NumPy has no dtype for code {code} of DLPack")
    return np.dtype(f"{kinds[code]}{bits // 8}")
