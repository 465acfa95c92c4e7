"""cuBLAS by its C functions: CuPy's own refuse to be captured, and take the workspace away at each call."""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from atled_cuda_cupy import cupy_names as cp
from atled_cuda_cupy.devices import Device

# Of cublas_api.h and library_types.h.
_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
_IN_FLOAT, _IN_DOUBLE, _IN_TF32 = 68, 70, 77
_ALGORITHM = -1  # cuBLAS chooses
_NO_NARROW_SUMS = 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION

_SMALL_WORKSPACE, _LARGE_WORKSPACE = 4 << 20, 32 << 20  # bytes; what NVIDIA recommends, the large one for Hopper
_LARGE_PRODUCT = 2**27  # multiplications

_alpha, _beta = (ctypes.c_float * 2)(1.0, 0.0), (ctypes.c_double * 2)(1.0, 0.0)
_SCALARS = {
    _IN_FLOAT: (ctypes.addressof(_alpha), ctypes.addressof(_alpha) + 4),
    _IN_TF32: (ctypes.addressof(_alpha), ctypes.addressof(_alpha) + 4),
    _IN_DOUBLE: (ctypes.addressof(_beta), ctypes.addressof(_beta) + 8),
}
"""Addresses of 1 and 0 as each way of computing wants them."""


class _Handle:
    """A handle of one thread and device, which is current; destroyed with the thread."""

    def __init__(self, where: Device) -> None:
        self._library = _library()
        self._where = where
        made = ctypes.c_void_p()
        _check(self._library.cublasCreate_v2(ctypes.addressof(made)), "cublasCreate")
        self.address = made.value or 0
        _check(self._library.cublasSetMathMode(self.address, _NO_NARROW_SUMS), "cublasSetMathMode")
        self._stream: int | None = None

    def use(self, stream: int, workspace: int, size: int) -> int:
        """The handle, for work in this stream and workspace."""
        if stream != self._stream:
            _check(self._library.cublasSetStream_v2(self.address, stream), "cublasSetStream")
            self._stream = stream
        _check(self._library.cublasSetWorkspace_v2(self.address, workspace, size), "cublasSetWorkspace")
        return self.address

    def __del__(self) -> None:
        # A child process has no use of its parent's handles, and at exit the driver may be gone already.
        if getattr(self, "address", 0) and self._where.loss.refusal is None and not sys.is_finalizing():
            with self._where:
                self._library.cublasDestroy_v2(self.address)


class _Handles(threading.local):
    def __init__(self) -> None:
        self.by_device: dict[int, _Handle] = {}

    def of(self, where: Device) -> _Handle:
        """That of this thread and device, which is current."""
        found = self.by_device.get(where.number)
        if found is None:
            found = self.by_device[where.number] = _Handle(where)
        return found


_handles = _Handles()


def workspace_bytes(where: Device, multiplications: int) -> int:
    """How much memory a product wants beside its arrays."""
    is_large = where.capability >= 90 and multiplications >= _LARGE_PRODUCT
    return _LARGE_WORKSPACE if is_large else _SMALL_WORKSPACE


def product(
    where: Device,
    rows: int,
    columns: int,
    depth: int,
    batch: int,
    *,
    transposes: tuple[bool, bool],
    dtype: str,
    result: str,
    is_tf32: bool,
    workspace: int,
    pitches: tuple[int, int, int] | None = None,
    adds: bool = False,
    is_shared: bool = False,
) -> Callable[..., Callable[[int], None]]:
    """Of the addresses of a, b, y and workspace what puts y = a b, matrices by rows, into a stream.

    transposes: whether a, and b, is given transposed.  dtype, result: of a and b, and of y.
    pitches: elements from row to row of a, b and y, where a row is part of a longer one; of a single product.
    adds: whether it is added to what y holds.  is_shared: whether all products have one a.
    """
    library = _library()
    way = _IN_DOUBLE if dtype == "float64" else _IN_TF32 if is_tf32 else _IN_FLOAT
    one, zero = _SCALARS[way]
    before = one if adds else zero
    of_a, of_b = transposes
    kind, made = _TYPES[dtype], _TYPES[result]
    packed = rows if of_a else depth, depth if of_b else columns, columns  # elements in a row of each
    a_row, b_row, y_row = pitches or packed
    # By columns, as cuBLAS sees them, the matrices are transposed: y' = b' a'.
    head = int(of_b), int(of_a), columns, rows, depth, one

    def of(a: int, b: int, y: int, memory: int) -> Callable[[int], None]:
        rest: tuple[int, ...]
        _handles.of(where)  # a handle is not to be made while the stream captures
        if batch == 1:
            name, call = "cublasGemmEx", library.cublasGemmEx
            rest = (*head, b, kind, b_row, a, kind, a_row, before, y, made, y_row, way, _ALGORITHM)
        else:
            name, call = "cublasGemmStridedBatchedEx", library.cublasGemmStridedBatchedEx
            factors = (b, kind, b_row, depth * columns, a, kind, a_row, 0 if is_shared else rows * depth)
            rest = (*head, *factors, before, y, made, columns, rows * columns, batch, way, _ALGORITHM)

        def multiply(stream: int) -> None:
            status = call(_handles.of(where).use(stream, memory, workspace), *rest)
            if status:
                _check(status, name)

        return multiply

    return of


@functools.cache
def _library() -> Any:  # Any: ctypes' functions, or those of the emulator
    """The functions of cuBLAS, which know the types of their arguments."""
    library = cp.cublas_library()
    address, whole, long = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
    matrix, strided = (address, whole, whole), (address, whole, whole, long)
    head = (address, *(whole,) * 5, address)
    types: dict[str, tuple[Any, ...]] = {
        "cublasCreate_v2": (address,),
        "cublasDestroy_v2": (address,),
        "cublasSetMathMode": (address, whole),
        "cublasSetStream_v2": (address, address),
        "cublasSetWorkspace_v2": (address, address, ctypes.c_size_t),
        "cublasGemmEx": (*head, *matrix, *matrix, address, *matrix, whole, whole),
        "cublasGemmStridedBatchedEx": (*head, *strided, *strided, address, *strided, whole, whole, whole),
    }
    for name, arguments in types.items():
        getattr(library, name).argtypes = arguments
    return library


def _check(status: int, name: str) -> None:
    if status:
        raise RuntimeError(f"cuBLAS: {name} failed with status {status} (see cublasStatus_t)")
