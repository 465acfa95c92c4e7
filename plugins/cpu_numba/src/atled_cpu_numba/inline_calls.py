"""The built-in functions that make calls again out of inline caches."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from atled_cpu_numba import inline_calls_ir, processor
from atled_cpu_numba.native_builtins import Definition, builtin
from atled_cpu_numba.store import IRKernel

_DOC = """inline_call(table, *given, /)
--

Make a call again that an inline cache has; None if it has none such.

table: of the calls that were made before.  given: the inputs, NdArrays or Variables as the cache has them, or None,
then the attributes.
"""


def native_function() -> IRKernel:
    """The function of them all, as a kernel that returns its address."""
    return IRKernel("atled_inline_calls", inline_calls_ir.inline_calls_ir(), python_api=True)


def inline_call(cache_address: int) -> Callable[..., Any]:
    """The built-in of one inline cache (`InlineWord`); it refers to the address, which keeps the cache alive."""
    return builtin(_definition(), cache_address, __name__)


@functools.cache
def _definition() -> Definition:
    processor.require_executable()
    address: int = ctypes.CFUNCTYPE(ctypes.c_int64)(native_function().address())()
    return Definition("inline_call", address, _DOC)
