"""`cupy.cuda.driver`: the functions of CUDA's driver that kernels need."""

from __future__ import annotations

from typing import Any

from atled_cuda_emulator.errors import CUDADriverError
from atled_cuda_emulator.launching import MOST_SHARED_OPT_IN, Function, launch_kernel
from atled_cuda_emulator.stand_in.world import queue, world

__all__ = ["CUDADriverError"]

CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0
CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1
CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2
CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3
CU_FUNC_ATTRIBUTE_NUM_REGS = 4
CU_FUNC_ATTRIBUTE_PTX_VERSION = 5
CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6
CU_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7
CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9


def _function(f: int) -> Function:
    functions = world().functions
    if f not in functions:
        raise CUDADriverError(400)
    return functions[f]


def launchKernel(
    f: int,
    grid_dim_x: int,
    grid_dim_y: int,
    grid_dim_z: int,
    block_dim_x: int,
    block_dim_y: int,
    block_dim_z: int,
    shared_mem_bytes: int,
    stream: int,
    kernel_params: int,
    extra: int,
) -> None:
    """cuLaunchKernel; the arguments by `kernel_params` or packed by `extra`."""
    grid, block = (grid_dim_x, grid_dim_y, grid_dim_z), (block_dim_x, block_dim_y, block_dim_z)
    shape = (*grid, *block, shared_mem_bytes)
    launch_kernel(world().memory, queue(stream), _function(f), shape, kernel_params, extra)


def funcGetAttribute(attribute: int, f: int) -> int:
    """Registers and local memory are not known here: 0."""
    function: Any = _function(f)
    return {
        CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: function.most_threads,
        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: function.static_shared,
        CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: 0,
        CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: 0,
        CU_FUNC_ATTRIBUTE_NUM_REGS: 0,
        CU_FUNC_ATTRIBUTE_PTX_VERSION: 90,
        CU_FUNC_ATTRIBUTE_BINARY_VERSION: 90,
        CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: 0,
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: function.most_dynamic_shared,
        CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: -1,
    }[attribute]


def funcSetAttribute(f: int, attribute: int, value: int) -> None:
    """More than 48 KB of dynamic shared memory has to be asked for."""
    function = _function(f)
    if attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if value + function.static_shared > MOST_SHARED_OPT_IN:
            raise CUDADriverError(1)
        function.most_dynamic_shared = value
