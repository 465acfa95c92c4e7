"""AMX, the matrix unit of some x86 processors: whether kernels may use its tiles.

Its tiles are state that Linux saves for a thread only in processes that asked for it. What is asked for stays granted
to all threads, and to children by fork. The kernel's documentation has it under "Using XSTATE features in user space
applications".
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys

from atled_cpu_numba import processor

PARAMETERS = ("bfloat16", "amx")
"""Of kernels that multiply tiles of bfloat16: LLVM makes code of them only for processors that do."""

_FEATURES = ("amx-tile", "amx-bf16")  # LLVM's names
_ARCH_PRCTL = 158  # the system call's number on x86-64
_ARCH_REQ_XCOMP_PERM = 0x1023
_XTILEDATA = 18  # the component of the state: the tiles' contents


@functools.cache
def why_unused() -> str:
    """Why kernels may not multiply tiles of bfloat16, in words; empty where they may."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "not in use: only on Linux with x86-64"
    if not all(processor.has(feature) for feature in _FEATURES):
        return "not in use: the processor has none for bf16, or hides it"
    # Code for a processor that is not at hand is compiled, to be run elsewhere; here it is refused before it runs.
    if processor.missing_here(processor.target()) or _is_granted():
        return ""
    return "not in use: Linux does not lend it to this process"


def multiplies_bf16() -> bool:
    """Whether the processor to compile for multiplies tiles of bfloat16, and the system lets this process do so."""
    return not why_unused()


def _is_granted() -> bool:
    """Ask Linux for tiles: before 5.16 it knows none, and it refuses where a signal's stack has no room for them."""
    system_call = ctypes.CDLL(None, use_errno=True).syscall
    return int(system_call(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XTILEDATA)) == 0
