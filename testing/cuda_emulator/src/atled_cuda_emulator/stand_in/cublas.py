"""`cupy.cuda.cublas`: products of matrices in column-major order, by NumPy."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from atled_cuda_emulator.errors import CUBLASError
from atled_cuda_emulator.faults import driver_call
from atled_cuda_emulator.queues import Work
from atled_cuda_emulator.stand_in.world import queue, thread, world

__all__ = ["CUBLASError"]

CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C = 0, 1, 2
CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE = 0, 1
CUBLAS_DEFAULT_MATH, CUBLAS_TENSOR_OP_MATH = 0, 1
_PEDANTIC_MATH, _TF32_MATH = 2, 3
CUBLAS_GEMM_DEFAULT = CUBLAS_GEMM_DFALT = -1
CUBLAS_GEMM_DEFAULT_TENSOR_OP = CUBLAS_GEMM_DFALT_TENSOR_OP = 99
CUBLAS_COMPUTE_16F, CUBLAS_COMPUTE_16F_PEDANTIC = 64, 65
CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_PEDANTIC = 68, 69
CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_64F_PEDANTIC = 70, 71
CUBLAS_COMPUTE_32F_FAST_16F, CUBLAS_COMPUTE_32F_FAST_16BF, CUBLAS_COMPUTE_32F_FAST_TF32 = 74, 75, 77
_R_32F, _R_64F, _R_16F, _R_16BF = 0, 1, 2, 14  # cudaDataType

_handles: dict[int, _Handle] = {}
_numbers = itertools.count(0x7100_0000_0000, 64)
_of_threads = threading.local()


class _Handle:
    def __init__(self, device: int) -> None:
        self.device = device
        self.stream = 0
        self.math_mode = CUBLAS_DEFAULT_MATH
        self.pointer_mode = CUBLAS_POINTER_MODE_HOST


def create() -> int:
    """A handle for the current device."""
    driver_call("cublasCreate")
    number = next(_numbers)
    _handles[number] = _Handle(thread.device)
    return number


def destroy(handle: int) -> None:
    """Forget it."""
    _handles.pop(handle, None)


def handle_of_thread() -> int:
    """The thread's handle for the current device."""
    found: dict[int, int] = vars(_of_threads).setdefault("handles", {})
    if thread.device not in found:
        found[thread.device] = create()
    return found[thread.device]


def _of(handle: int) -> _Handle:
    if handle not in _handles:
        raise CUBLASError(1)
    return _handles[handle]


def getVersion(handle: int) -> int:
    """12.9."""
    return 120900


def setStream(handle: int, stream: int) -> None:
    """Where products are queued."""
    _of(handle).stream = stream


def getStream(handle: int) -> int:
    """Where products are queued."""
    return _of(handle).stream


def setMathMode(handle: int, mode: int) -> None:
    """3: factors of float32 may be rounded to TF32."""
    _of(handle).math_mode = mode


def getMathMode(handle: int) -> int:
    """As it was set."""
    return _of(handle).math_mode


def setPointerMode(handle: int, mode: int) -> None:
    """Where alpha and beta are."""
    _of(handle).pointer_mode = mode


def getPointerMode(handle: int) -> int:
    """As it was set."""
    return _of(handle).pointer_mode


def _widen_bfloat16(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _narrow_bfloat16(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """To nearest, ties to even; NaN stays NaN."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = ((bits + (0x7FFF + (bits >> 16 & 1))) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def _to_tf32(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """float32 with 10 bits of mantissa, to nearest."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + 0x1000) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), rounded, values)


_DTYPES: dict[int, Any] = {_R_32F: np.float32, _R_64F: np.float64, _R_16F: np.float16, _R_16BF: np.uint16}


class _Matrix:
    """A matrix in column-major order with a leading dimension; `batch` of them, `step` elements apart."""

    def __init__(self, address: int, kind: int, rows: int, columns: int, leading: int, batch: int, step: int) -> None:
        if kind not in _DTYPES:
            raise CUBLASError(15)
        if leading < max(1, rows):
            raise CUBLASError(7)
        self.dtype, self.kind, self.address = np.dtype(_DTYPES[kind]), kind, address
        self.shape = (batch, rows, columns)
        self.strides = tuple(size * self.dtype.itemsize for size in (step, 1, leading))
        self.extent = 0
        if batch and rows and columns:
            last = (batch - 1) * step + (columns - 1) * leading + rows - 1
            self.extent = (last + 1) * self.dtype.itemsize

    def needs(self, device: int) -> Any:
        """The allocation; DeviceFault if the matrix does not lie in it."""
        return world().memory.at(self.address, self.extent, "gemm", device)

    def view(self) -> np.ndarray[Any, Any]:
        """The memory."""
        raw: Any = (ctypes.c_ubyte * self.extent).from_address(self.address)
        return np.ndarray(self.shape, self.dtype, raw, 0, self.strides)

    def load(self) -> np.ndarray[Any, Any]:
        """Its values."""
        values = self.view()
        return _widen_bfloat16(values) if self.kind == _R_16BF else values

    def store(self, values: np.ndarray[Any, Any]) -> None:
        """Round to its dtype."""
        with np.errstate(over="ignore"):
            self.view()[...] = _narrow_bfloat16(values) if self.kind == _R_16BF else values.astype(self.dtype)


def _product(
    handle: int,
    a: _Matrix,
    b: _Matrix,
    c: _Matrix,
    transposed: tuple[int, int],
    alpha: int,
    beta: int,
    real: Any,
    fast: bool,
) -> None:
    """C = alpha op(A) op(B) + beta C."""
    driver_call("gemm")
    one = _of(handle)
    if one.pointer_mode != CUBLAS_POINTER_MODE_HOST:
        raise NotImplementedError("the emulator reads alpha and beta from host memory only")
    if one.device != thread.device:
        raise CUBLASError(13)
    scalar: Callable[[int], float] = (ctypes.c_double if real is np.float64 else ctypes.c_float).from_address  # type: ignore[assignment]
    scale, keep = real(scalar(alpha).value), real(scalar(beta).value)  # type: ignore[attr-defined]
    if 0 in c.shape:
        return
    factors = [matrix for matrix in (a, b) if matrix.extent]
    needs = tuple(matrix.needs(one.device) for matrix in (*factors, c))
    tf32 = fast or (one.math_mode & 15 == _TF32_MATH and a.kind == _R_32F)

    def factor(matrix: _Matrix, transpose: int) -> np.ndarray[Any, Any]:
        values = matrix.load().astype(real) if matrix.extent else np.zeros(matrix.shape, real)
        values = _to_tf32(values) if tf32 and matrix.kind == _R_32F else values
        return values.swapaxes(1, 2) if transpose else values

    def compute() -> None:
        with np.errstate(all="ignore"):
            result = scale * np.matmul(factor(a, transposed[0]), factor(b, transposed[1]))
            if keep:  # C is not read else, and may be NaN
                result = result + keep * c.load().astype(real)
        c.store(result)
        for allocation in needs:
            allocation.check("gemm")

    queue(one.stream).put(Work("gemm", compute, needs))


def gemmStridedBatchedEx(
    handle: int,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: int,
    A: int,
    Atype: int,
    lda: int,
    strideA: int,
    B: int,
    Btype: int,
    ldb: int,
    strideB: int,
    beta: int,
    C: int,
    Ctype: int,
    ldc: int,
    strideC: int,
    batchCount: int,
    computeType: int,
    algo: int,
) -> None:
    """cublasGemmStridedBatchedEx."""
    if min(m, n, k, batchCount) < 0:
        raise CUBLASError(7)
    allowed = {
        CUBLAS_COMPUTE_64F: ({_R_64F}, {_R_64F}),
        CUBLAS_COMPUTE_64F_PEDANTIC: ({_R_64F}, {_R_64F}),
    }.get(computeType, ({_R_32F, _R_16F, _R_16BF}, {_R_32F, _R_16F, _R_16BF}))
    known = (CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_64F_PEDANTIC)
    if computeType not in (*known, CUBLAS_COMPUTE_32F_FAST_TF32) or Atype != Btype or Atype not in allowed[0]:
        raise CUBLASError(15)
    if Ctype not in allowed[1] or (Ctype != Atype and Ctype != _R_32F):
        raise CUBLASError(15)
    real = np.float64 if Atype == _R_64F else np.float32
    a = _Matrix(A, Atype, *((k, m) if transa else (m, k)), lda, batchCount, strideA)
    b = _Matrix(B, Btype, *((n, k) if transb else (k, n)), ldb, batchCount, strideB)
    c = _Matrix(C, Ctype, m, n, ldc, batchCount, strideC)
    _product(handle, a, b, c, (transa, transb), alpha, beta, real, computeType == CUBLAS_COMPUTE_32F_FAST_TF32)


def gemmEx(
    handle: int,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: int,
    A: int,
    Atype: int,
    lda: int,
    B: int,
    Btype: int,
    ldb: int,
    beta: int,
    C: int,
    Ctype: int,
    ldc: int,
    computeType: int,
    algo: int,
) -> None:
    """cublasGemmEx."""
    a, b, c = (A, Atype, lda, 0), (B, Btype, ldb, 0), (C, Ctype, ldc, 0)
    gemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, *a, *b, beta, *c, 1, computeType, algo)


def _plain(kind: int, compute: int) -> Any:
    def gemm(
        handle: int,
        transa: int,
        transb: int,
        m: int,
        n: int,
        k: int,
        alpha: int,
        A: int,
        lda: int,
        B: int,
        ldb: int,
        beta: int,
        C: int,
        ldc: int,
    ) -> None:
        """One product of matrices of one dtype."""
        gemmEx(handle, transa, transb, m, n, k, alpha, A, kind, lda, B, kind, ldb, beta, C, kind, ldc, compute, -1)

    return gemm


def _plain_batched(kind: int, compute: int) -> Any:
    def gemm(
        handle: int,
        transa: int,
        transb: int,
        m: int,
        n: int,
        k: int,
        alpha: int,
        A: int,
        lda: int,
        strideA: int,
        B: int,
        ldb: int,
        strideB: int,
        beta: int,
        C: int,
        ldc: int,
        strideC: int,
        batchCount: int,
    ) -> None:
        """Products of matrices of one dtype."""
        a, b, c = (A, kind, lda, strideA), (B, kind, ldb, strideB), (C, kind, ldc, strideC)
        gemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, *a, *b, beta, *c, batchCount, compute, -1)

    return gemm


sgemm = _plain(_R_32F, CUBLAS_COMPUTE_32F)
dgemm = _plain(_R_64F, CUBLAS_COMPUTE_64F)
sgemmStridedBatched = _plain_batched(_R_32F, CUBLAS_COMPUTE_32F)
dgemmStridedBatched = _plain_batched(_R_64F, CUBLAS_COMPUTE_64F)
