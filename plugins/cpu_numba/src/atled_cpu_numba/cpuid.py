"""What an x86-64 processor says of itself: features that it has, and all from which LLVM makes its name and features.

Asked by the processor's own instruction: what files of the system say may be of another machine, from which the process
was moved, or that a container was made on.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator

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

_A, _B, _C, _D = range(4)  # the registers

# Registers, by the bits of XCR0 of those that the system saves: without them LLVM says that there is no such feature.
_ALL, _YMM, _ZMM, _TILES = 0, 0x6, 0xE6, 0x60000

# By LLVM's name: leaf, register and bit (of subleaf 0), and the registers that its instructions are for.
_FEATURES = {
    "sse3": (1, _C, 0, _ALL),
    "ssse3": (1, _C, 9, _ALL),
    "fma": (1, _C, 12, _YMM),
    "cx16": (1, _C, 13, _ALL),
    "sse4.1": (1, _C, 19, _ALL),
    "sse4.2": (1, _C, 20, _ALL),
    "movbe": (1, _C, 22, _ALL),
    "popcnt": (1, _C, 23, _ALL),
    "xsave": (1, _C, 26, _YMM),
    "avx": (1, _C, 28, _YMM),
    "f16c": (1, _C, 29, _YMM),
    "bmi": (7, _B, 3, _ALL),
    "avx2": (7, _B, 5, _YMM),
    "bmi2": (7, _B, 8, _ALL),
    "avx512f": (7, _B, 16, _ZMM),
    "avx512dq": (7, _B, 17, _ZMM),
    "avx512cd": (7, _B, 28, _ZMM),
    "avx512bw": (7, _B, 30, _ZMM),
    "avx512vl": (7, _B, 31, _ZMM),
    "amx-bf16": (7, _D, 22, _TILES),
    "amx-tile": (7, _D, 24, _TILES),
    "sahf": (0x80000001, _C, 0, _ALL),
    "lzcnt": (0x80000001, _C, 5, _ALL),
    "fma4": (0x80000001, _C, 16, _YMM),
}

# (leaf, subleaf) -> EAX, EBX, ECX, EDX
_Registers = Callable[[int, int], tuple[int, ...]]


@functools.cache
def features() -> dict[str, bool] | None:
    """Whether the processor and the system have each of some features, by LLVM's names; None if nobody is to be asked.

    Those that kernels are chosen by, and those of the levels x86-64-v2 to v4.
    """
    if not code_memory.IS_KNOWN:
        return None
    with _asked() as (registers, saved):
        last = {first: registers(first, 0)[_A] for first in (0, 0x80000000)}
        leaves = {leaf for leaf, *_ in _FEATURES.values()}
        found = {leaf: registers(leaf, 0) if leaf <= last[leaf & 0x80000000] else (0,) * 4 for leaf in leaves}
    return {
        name: bool(found[leaf][register] >> bit & 1) and saved & needed == needed
        for name, (leaf, register, bit, needed) in _FEATURES.items()
    }


@functools.cache
def identity() -> tuple[int, ...] | None:
    """Numbers in which processors differ that LLVM tells apart; None where there is nobody to ask."""
    if not code_memory.IS_KNOWN:
        return None
    with _asked() as (registers, saved):
        found = [number for first in (_LEAVES, _EXTENDED) for number in _answers(registers, first)]
    return (*found, saved)


@contextlib.contextmanager
def _asked() -> Iterator[tuple[_Registers, int]]:
    """What asks the processor for a leaf, and XCR0: 0 where there is none."""
    code = _CPUID.ljust(_XGETBV_AT, b"\xcc") + _XGETBV
    image = Image(code, PAGE, PAGE, 0, (), ())
    address = code_memory.place(image)
    try:
        ask = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(address)

        def registers(leaf: int, subleaf: int) -> tuple[int, ...]:
            found = (ctypes.c_uint32 * 4)()
            ask(leaf, subleaf, ctypes.addressof(found))
            return tuple(found)

        saves = registers(1, 0)[_C] & _SAVES_REGISTERS
        yield registers, ctypes.CFUNCTYPE(ctypes.c_uint64)(address + _XGETBV_AT)() if saves else 0
    finally:
        code_memory.free(address, image.size)


def _answers(registers: _Registers, leaves: dict[int, int]) -> list[int]:
    """Of those of `leaves` that the processor has, of which the first one tells the last."""
    last = registers(min(leaves), 0)[_A]
    found: list[int] = []
    for leaf, count in leaves.items():
        for subleaf in range(count if leaf <= last else 0):
            a, b, c, d = registers(leaf, subleaf)
            found += [leaf, subleaf, a, 0 if leaf in _CHANGING else b, c, d]
    return found
