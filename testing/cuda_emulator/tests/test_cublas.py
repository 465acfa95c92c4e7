"""Products in column-major order against NumPy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from atled_cuda_emulator import DeviceFault, fault

FLOAT, DOUBLE, HALF, BFLOAT = 0, 1, 2, 14


def scalar(value: float, kind: Any = ctypes.c_float) -> Any:
    return kind(value)


def random(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("transa", [0, 1])
@pytest.mark.parametrize("transb", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gemm_is_that_of_blas(cupy: Any, transa: int, transb: int, dtype: Any) -> None:
    """Row-major y = op(a) op(b) is column-major with the factors exchanged."""
    a, b = random(5, 7, dtype=dtype), random(7, 3, dtype=dtype)
    y = cupy.full((5, 3), 2, dtype)
    one, two = (cupy.asarray(np.ascontiguousarray(m.T) if t else m) for m, t in ((a, transa), (b, transb)))
    kind = ctypes.c_float if dtype is np.float32 else ctypes.c_double
    alpha, beta = scalar(2, kind), scalar(0.5, kind)
    gemm = cupy.cuda.cublas.sgemm if dtype is np.float32 else cupy.cuda.cublas.dgemm
    factors = (two.data.ptr, two.shape[1], one.data.ptr, one.shape[1])
    numbers = ctypes.addressof(alpha), ctypes.addressof(beta)
    handle = cupy.cuda.Device().cublas_handle
    gemm(handle, transb, transa, 3, 5, 7, numbers[0], *factors, numbers[1], y.data.ptr, 3)
    np.testing.assert_allclose(y.get(), 2 * (a @ b) + 1, rtol=1e-5)


def batched(cupy: Any, a: Any, b: Any, kind: int, compute: int = 68, c_kind: int | None = None) -> Any:
    """y = a b for every matrix of a batch."""
    count, m, k = a.shape
    n = b.shape[2]
    c_kind = kind if c_kind is None else c_kind
    y = cupy.empty((count, m, n), {FLOAT: np.float32, HALF: np.float16, BFLOAT: np.uint16}[c_kind])
    one, two = cupy.asarray(a), cupy.asarray(b)
    alpha, beta = scalar(1), scalar(0)
    handle = cupy.cuda.Device().cublas_handle
    first, second = (two.data.ptr, kind, n, k * n), (one.data.ptr, kind, max(k, 1), m * k)
    third = (y.data.ptr, c_kind, n, m * n)
    numbers = ctypes.addressof(alpha), ctypes.addressof(beta)
    gemm = cupy.cuda.cublas.gemmStridedBatchedEx
    gemm(handle, 0, 0, n, m, k, numbers[0], *first, *second, numbers[1], *third, count, compute, -1)
    return y.get()


def test_beta_zero_does_not_read_what_was_there(cupy: Any) -> None:
    a, b = random(4, 5, 6), random(4, 6, 3)
    np.testing.assert_allclose(batched(cupy, a, b, FLOAT), a @ b, rtol=1e-5, atol=1e-5)


def test_half_is_computed_in_float32_and_rounded_once(cupy: Any) -> None:
    a, b = random(2, 5, 6, dtype=np.float16), random(2, 6, 3, dtype=np.float16)
    wide = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(batched(cupy, a, b, HALF), wide.astype(np.float16))
    np.testing.assert_array_equal(batched(cupy, a, b, HALF, c_kind=FLOAT), wide)


def test_bfloat16_is_computed_in_float32_and_rounded_once(cupy: Any) -> None:
    bits = (random(2, 2, 5, 5).view(np.uint32) >> 16).astype(np.uint16)
    wide = [(one.astype(np.uint32) << 16).view(np.float32) for one in bits]
    got = (batched(cupy, *bits, BFLOAT).astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(got, wide[0] @ wide[1], rtol=2**-8)


def test_tf32_rounds_factors_to_ten_bits(cupy: Any) -> None:
    a = np.full((1, 1, 1), 1 + 2**-12, np.float32)
    b = np.ones((1, 1, 1), np.float32)
    assert batched(cupy, a, b, FLOAT).item() == 1 + 2**-12
    assert batched(cupy, a, b, FLOAT, compute=77).item() == 1
    handle = cupy.cuda.Device().cublas_handle
    cupy.cuda.cublas.setMathMode(handle, 3)
    assert batched(cupy, a, b, FLOAT).item() == 1


def test_empty_sums_are_zero(cupy: Any) -> None:
    assert (batched(cupy, np.zeros((2, 3, 0), np.float32), np.zeros((2, 0, 4), np.float32), FLOAT) == 0).all()


def test_matrices_outside_of_their_memory_are_caught(cupy: Any) -> None:
    x = cupy.zeros((4, 4), np.float32)
    alpha, handle = scalar(1), cupy.cuda.Device().cublas_handle
    address = ctypes.addressof(alpha)
    with pytest.raises(DeviceFault, match=r"gemm: .* go beyond"):
        cupy.cuda.cublas.sgemm(handle, 0, 0, 4, 5, 4, address, x.data.ptr, 4, x.data.ptr, 4, address, x.data.ptr, 4)
    with pytest.raises(cupy.cuda.cublas.CUBLASError, match="INVALID_VALUE"):
        cupy.cuda.cublas.sgemm(handle, 0, 0, 4, 4, 4, address, x.data.ptr, 3, x.data.ptr, 4, address, x.data.ptr, 4)


def test_products_can_fail(cupy: Any) -> None:
    with fault("gemm"), pytest.raises(cupy.cuda.cublas.CUBLASError, match="EXECUTION_FAILED"):
        batched(cupy, random(1, 2, 2), random(1, 2, 2), FLOAT)


def test_the_functions_of_the_library_give_a_status_and_want_a_workspace_when_captured(cupy: Any) -> None:
    library, alpha, beta = cupy.cuda.cublas.library, scalar(1), scalar(0)
    x, y, memory = cupy.ones((4, 4), np.float32), cupy.zeros((4, 4), np.float32), cupy.empty(4096, np.uint8)
    made = ctypes.c_void_p()
    assert library.cublasCreate_v2(ctypes.addressof(made)) == 0
    handle, one = made.value, ctypes.addressof(alpha)
    product = 4, 4, 4, one, x.data.ptr, 0, 4, x.data.ptr, 0, 4, ctypes.addressof(beta), y.data.ptr, 0, 4, 68, -1
    assert library.cublasGemmEx(handle, 0, 0, *product) == 0
    assert (y.get() == 4).all()
    assert library.cublasGemmEx(handle, 0, 0, *product[:6], 3, *product[7:]) == 7
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        assert library.cublasSetWorkspace_v2(handle, memory.data.ptr, 4096) == 0
        assert library.cublasSetStream_v2(handle, stream.ptr) == 0  # which takes the workspace away
        with pytest.raises(DeviceFault, match="workspace"):
            library.cublasGemmEx(handle, 0, 0, *product)
        assert library.cublasSetWorkspace_v2(handle, memory.data.ptr, 4096) == 0
        assert library.cublasGemmEx(handle, 0, 0, *product) == 0
        stream.end_capture()
    assert library.cublasDestroy_v2(handle) == 0
