"""The exceptions of CuPy by their texts and codes, and the one that a GPU has no name for."""

from __future__ import annotations

RUNTIME_ERRORS = {
    1: ("cudaErrorInvalidValue", "invalid argument"),
    2: ("cudaErrorMemoryAllocation", "out of memory"),
    3: ("cudaErrorInitializationError", "initialization error"),
    35: ("cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"),
    46: ("cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable"),
    100: ("cudaErrorNoDevice", "no CUDA-capable device is detected"),
    101: ("cudaErrorInvalidDevice", "invalid device ordinal"),
    217: ("cudaErrorPeerAccessUnsupported", "peer access is not supported between these two devices"),
    400: ("cudaErrorInvalidResourceHandle", "invalid resource handle"),
    600: ("cudaErrorNotReady", "device not ready"),
    700: ("cudaErrorIllegalAddress", "an illegal memory access was encountered"),
    701: ("cudaErrorLaunchOutOfResources", "too many resources requested for launch"),
    704: ("cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"),
    719: ("cudaErrorLaunchFailure", "unspecified launch failure"),
    900: ("cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"),
    901: ("cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"),
    904: (
        "cudaErrorStreamCaptureUnjoined",
        "capture sequence contains a fork that was not joined to the primary stream",
    ),
    905: ("cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"),
    906: (
        "cudaErrorStreamCaptureImplicit",
        "operation would make the legacy stream depend on a capturing blocking stream",
    ),
    907: ("cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"),
    999: ("cudaErrorUnknown", "unknown error"),
}
DRIVER_ERRORS = {
    1: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    3: ("CUDA_ERROR_NOT_INITIALIZED", "initialization error"),
    201: ("CUDA_ERROR_INVALID_CONTEXT", "invalid device context"),
    400: ("CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"),
    500: ("CUDA_ERROR_NOT_FOUND", "named symbol not found"),
    700: ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
    701: ("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"),
    719: ("CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
    900: ("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"),
    901: ("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"),
    906: (
        "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
        "operation would make the legacy stream depend on a capturing blocking stream",
    ),
    999: ("CUDA_ERROR_UNKNOWN", "unknown error"),
}
CUBLAS_ERRORS = {
    1: "CUBLAS_STATUS_NOT_INITIALIZED",
    3: "CUBLAS_STATUS_ALLOC_FAILED",
    7: "CUBLAS_STATUS_INVALID_VALUE",
    13: "CUBLAS_STATUS_EXECUTION_FAILED",
    14: "CUBLAS_STATUS_INTERNAL_ERROR",
    15: "CUBLAS_STATUS_NOT_SUPPORTED",
}


class DeviceFault(Exception):
    """What is wrong on a GPU too, where it shows late or never. No RuntimeError: nobody is to handle it."""


class CUDARuntimeError(RuntimeError):
    """`cupy.cuda.runtime.CUDARuntimeError`."""

    def __init__(self, status: int) -> None:
        name, text = RUNTIME_ERRORS[status]
        super().__init__(f"{name}: {text}")
        self.status = status

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return (type(self), (self.status,))


class CUDADriverError(RuntimeError):
    """`cupy.cuda.driver.CUDADriverError`."""

    def __init__(self, status: int) -> None:
        name, text = DRIVER_ERRORS[status]
        super().__init__(f"{name}: {text}")
        self.status = status

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return (type(self), (self.status,))


class CUBLASError(RuntimeError):
    """`cupy.cuda.cublas.CUBLASError`."""

    def __init__(self, status: int) -> None:
        super().__init__(CUBLAS_ERRORS[status])
        self.status = status


class OutOfMemoryError(MemoryError):
    """`cupy.cuda.memory.OutOfMemoryError`."""

    def __init__(self, size: int, total: int, limit: int = 0) -> None:
        allocated = f"allocated so far: {total:,} bytes" + (f", limit set to: {limit:,} bytes" if limit else "")
        super().__init__(f"Out of memory allocating {size:,} bytes ({allocated}).")
        self._size, self._total, self._limit = size, total, limit
