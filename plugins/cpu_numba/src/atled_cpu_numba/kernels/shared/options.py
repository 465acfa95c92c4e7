"""The numba options that the kernels of this folder are compiled with.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types

from atled_cpu_numba.codegen import JIT, floats32, floats64

KernelFunction = Callable[[int, int, int], int]


def kernel(function: KernelFunction) -> KernelFunction:
    """Mark a function as a kernel: its floating-point operations stay in the order they are written in."""
    # Inlined into the entry point that numba puts around it: LLVM sees there that nothing can raise and drops the
    # error handling, which would need numba's run time.
    function.jit_options = {**JIT, "forceinline": True}  # type: ignore[attr-defined]  # read by machine_code
    return function


def piece(function: Callable[..., Any]) -> Any:  # numba ships no types
    """Mark a function as a piece of one kernel, inlined where it is called; to be called once, for the code's size."""
    return njit(**JIT, forceinline=True)(function)


def inlined(function: Callable[..., Any]) -> Any:  # numba ships no types
    """Mark a small function as inlined wherever kernels call it."""
    return njit(**JIT, forceinline=True)(function)


class Real:
    """What a kernel's source needs to be built for one dtype: "float32" or "float64".

    kind: numba's type, which also converts.  pointer: from an address to a typed pointer.  size: bytes per element.
    """

    def __init__(self, dtype: str) -> None:
        self.kind = {"float32": types.float32, "float64": types.float64}[dtype]
        self.pointer = {"float32": floats32, "float64": floats64}[dtype]
        self.size = {"float32": 4, "float64": 8}[dtype]
