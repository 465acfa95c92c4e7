"""`cupy.cuda.cublas.library`, which CuPy has not: the functions of libcublas.so that are called without CuPy.

They give a status, as in C, and take addresses as whole numbers.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from atled_cuda_emulator.errors import CUBLASError, DeviceFault
from atled_cuda_emulator.stand_in import cublas
from atled_cuda_emulator.stand_in.world import queue, thread, world

_workspaces: dict[int, tuple[int, int]] = {}
"""Address and bytes of the workspace of a handle that was given one."""


def _status(function: Callable[..., None]) -> Callable[..., int]:
    @functools.wraps(function)
    def answering(*arguments: Any) -> int:
        try:
            function(*arguments)
        except CUBLASError as error:
            return error.status
        return 0

    return answering


@_status
def cublasCreate_v2(handle: int) -> None:
    """Write a new handle to this address."""
    ctypes.c_void_p.from_address(handle).value = cublas.create()


@_status
def cublasDestroy_v2(handle: int) -> None:
    """Forget it."""
    _workspaces.pop(handle, None)
    cublas.destroy(handle)


@_status
def cublasSetMathMode(handle: int, mode: int) -> None:
    """Which roundings are allowed."""
    cublas.setMathMode(handle, mode)


@_status
def cublasSetStream_v2(handle: int, stream: int) -> None:
    """Where products are queued; takes the workspace away."""
    _workspaces.pop(handle, None)
    cublas.setStream(handle, stream)


@_status
def cublasSetWorkspace_v2(handle: int, address: int, size: int) -> None:
    """Memory for the products to come."""
    if address % 256:
        raise CUBLASError(7)
    _workspaces[handle] = address, size


@_status
def cublasGemmEx(handle: int, *arguments: Any) -> None:
    """One product."""
    _check_workspace(handle)
    cublas.gemmEx(handle, *arguments)


@_status
def cublasGemmStridedBatchedEx(handle: int, *arguments: Any) -> None:
    """Several products."""
    _check_workspace(handle)
    cublas.gemmStridedBatchedEx(handle, *arguments)


def _check_workspace(handle: int) -> None:
    """A workspace is memory; without one, what is captured would allocate."""
    if handle in _workspaces:
        world().memory.at(*_workspaces[handle], "the workspace of cuBLAS", thread.device)
    elif queue(cublas.getStream(handle)).capture is not None:
        raise DeviceFault("cuBLAS allocates memory while a stream captures: give it a workspace behind its stream")
