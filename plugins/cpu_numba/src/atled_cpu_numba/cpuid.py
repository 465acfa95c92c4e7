"""What an x86-64 processor says of itself, from which LLVM makes its name and features: the key of LLVM's answers.

Asked by the processor's own instruction: what files of the system say may be of another machine, from which the process
was moved, or that a container was made on.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

from atled_cpu_numba import code_memory
from atled_cpu_numba.elf_image import PAGE, Image

# void f(uint32 leaf, uint32 subleaf, uint32 *registers): CPUID's EAX, EBX, ECX, EDX.
_CPUID = bytes.fromhex("53 4989d0 89f8 89f1 0fa2 418900 41895804 41894808 4189500c 5b c3")

# uint64 f(): XGETBV of 0: which registers the system saves, without which LLVM names no features that need them.
_XGETBV = bytes.fromhex("31c9 0f01d0 48c1e220 4809d0 c3")

_XGETBV_AT = 64
_SAVES_REGISTERS = 1 << 27  # of ECX of leaf 1: whether there is XGETBV

# Leaves with features, each with the count of its subleaves: those that LLVM 20 to 22 read, and some that it does not.
# Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, CPUID; AMD64 Architecture Programmer's Manual,
# volume 3, appendix E.
_LEAVES = {0: 1, 1: 1, 7: 3, 0xD: 2, 0x14: 1, 0x19: 1, 0x1D: 2, 0x1E: 2, 0x24: 2, 0x29: 1}
_EXTENDED = {0x80000000: 1, 0x80000001: 1, 0x80000008: 1, 0x80000021: 1}

# Leaves whose EBX is no feature, and changes: the number of the core, and bytes that registers in use take.
_CHANGING = (1, 0xD)


@functools.cache
def identity() -> tuple[int, ...] | None:
    """Numbers in which processors differ that LLVM tells apart; None where there is nobody to ask."""
    if not code_memory.IS_KNOWN:
        return None
    code = _CPUID.ljust(_XGETBV_AT, b"\xcc") + _XGETBV
    image = Image(code, PAGE, PAGE, 0, (), ())
    address = code_memory.place(image)
    try:
        asked = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(address)
        found = [number for first in (_LEAVES, _EXTENDED) for number in _answers(asked, first)]
        if _registers(asked, 1, 0)[2] & _SAVES_REGISTERS:
            found.append(ctypes.CFUNCTYPE(ctypes.c_uint64)(address + _XGETBV_AT)())
    finally:
        code_memory.free(address, image.size)
    return tuple(found)


def _answers(asked: Callable[..., None], leaves: dict[int, int]) -> list[int]:
    """Of those of `leaves` that the processor has, of which the first one tells the last."""
    last = _registers(asked, min(leaves), 0)[0]
    found: list[int] = []
    for leaf, count in leaves.items():
        for subleaf in range(count if leaf <= last else 0):
            a, b, c, d = _registers(asked, leaf, subleaf)
            found += [leaf, subleaf, a, 0 if leaf in _CHANGING else b, c, d]
    return found


def _registers(asked: Callable[..., None], leaf: int, subleaf: int) -> tuple[int, ...]:
    registers = (ctypes.c_uint32 * 4)()
    asked(leaf, subleaf, ctypes.addressof(registers))
    return tuple(registers)
