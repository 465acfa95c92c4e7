"""A processor that this machine need not be: it executes functions of this process, in this process's memory.

It is Bochs, by the package bochscpu-python, as Intel's Sapphire Rapids without AMX: instruction by instruction, some
million in a second. Virtual addresses of the process are those of the emulated processor, so a function finds there
what it would find here: arguments, constants, the C library.
"""

from __future__ import annotations

import ctypes
import importlib
import mmap
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

_PAGE = 1 << 12
_LARGE_PAGE = 1 << 30
_STACK_BYTES = 1 << 22
_PRESENT = 0x7  # in an entry of a page table: writable, for all levels of privilege
_IS_LARGE = 0x80
# The emulated processor addresses 2 ** 40 bytes of physical memory, and processes use a few pieces of 2 ** 47. In the
# first 4 GiB are the tables themselves and, below the end, the interrupt controller.
_FIRST_LARGE, _LARGE_COUNT = 4, 1 << 10
_HLT, _RET = b"\xf4", b"\xc3"
_ALL_STATES = 0xE7  # XCR0: x87, SSE, AVX, and the three of AVX-512


class EmulationError(RuntimeError):
    """The emulated processor met an exception, or cannot be had."""


class EmulatedProcessor:
    """One processor; calls from several threads take turns.

    replaced: addresses of pages that it is to see others in place of; to be set before one of them is first used.
    """

    def __init__(self) -> None:
        self.replaced: dict[int, int] = {}
        self._lock = threading.Lock()
        self._bochs = _load()
        self._memory = importlib.import_module("bochscpu.memory")
        self._fault = ""
        self._large_pages: list[int] = []  # virtual addresses, in physical order
        self._tables: list[int] = []  # addresses, by physical page
        self._root = self._new_table()
        self._directories: dict[int, int] = {}
        self._stack = pages(_STACK_BYTES)
        self._end = pages(_PAGE)
        ctypes.memmove(self._end, _HLT, len(_HLT))
        self._session = self._bochs.Session()
        self._session.missing_page_handler = self._insert_page
        self._hook = self._bochs.Hook()
        self._hook.hlt = lambda session, _: session.stop()
        self._hook.exception = self._note_fault
        self._state = self._initial_state()

    def call(self, address: int, *words: int) -> int:
        """Execute the function at `address`, of up to three 64-bit integers; what it returns, as a signed one.

        Raises EmulationError for an exception of the processor, such as an instruction that it does not have.
        """
        with self._lock:
            self._map_memory()
            state = self._state
            state.rip, state.rsp = address, self._stack + _STACK_BYTES - _PAGE - 8  # as if just called
            ctypes.c_uint64.from_address(state.rsp).value = self._end
            for register, word in zip(("rdi", "rsi", "rdx"), words, strict=False):
                setattr(state, register, word % (1 << 64))
            self._session.cpu.state = state
            self._fault = ""
            self._session.run([self._hook])
            if self._fault:
                raise EmulationError(f"the function at {address:#x}: {self._fault}")
            return ctypes.c_int64(self._session.cpu.state.rax).value

    def _note_fault(self, session: Any, _: int, vector: int, code: int) -> None:
        state = session.cpu.state
        self._fault = f"exception {vector} (code {code}) at {state.rip:#x}, of address {state.cr2:#x} if it is a page"
        session.stop()

    def _map_memory(self) -> None:
        """Enter what this process has of memory by now into the page tables."""
        for address in _large_pages_in_use():
            if address in self._large_pages:
                continue
            number = _FIRST_LARGE + len(self._large_pages)
            if number == _LARGE_COUNT:
                raise EmulationError(f"this process uses more than {_LARGE_COUNT - _FIRST_LARGE} pieces of 1 GiB")
            self._large_pages.append(address)
            high, low = divmod(address // _LARGE_PAGE, 512)
            if high not in self._directories:
                self._directories[high] = self._new_table()
                self._enter(self._root, high, self._directories[high] * _PAGE)
            self._enter(self._directories[high], low, number * _LARGE_PAGE | _IS_LARGE)

    def _new_table(self) -> int:
        """The number of an empty page for entries, at the beginning of physical memory."""
        self._tables.append(pages(_PAGE))
        number = len(self._tables) - 1
        self._memory.page_insert(number * _PAGE, self._tables[number])
        return number

    def _enter(self, table: int, index: int, entry: int) -> None:
        ctypes.c_uint64.from_address(self._tables[table] + 8 * index).value = entry | _PRESENT

    def _insert_page(self, physical: int) -> None:
        number, offset = divmod(physical & -_PAGE, _LARGE_PAGE)
        address = self._large_pages[number - _FIRST_LARGE] + offset
        self._memory.page_insert(physical & -_PAGE, self.replaced.get(address, address))

    def _initial_state(self) -> Any:
        """64-bit mode, at the level of privilege at which HLT may be executed."""
        state = self._bochs.State()
        state.cr0 = 0x80050033  # paging, write protection, numeric errors, no trap at an instruction of the x87
        state.cr3 = self._root * _PAGE
        state.cr4 = 0x40620  # physical addresses of 52 bits, SSE, its exceptions, XSAVE
        state.efer = 0xD00  # 64-bit mode, is in use; pages may forbid execution
        state.xcr0 = _ALL_STATES
        state.mxcsr, state.mxcsr_mask = 0x1F80, 0x2FFFF
        state.fpcw, state.fptw = 0x37F, 0xFFFF
        state.rflags = 0x2
        state.cs = self._segment(0x08, 0xA09B)
        state.ds = state.es = state.fs = state.gs = state.ss = self._segment(0x10, 0xC093)
        return state

    def _segment(self, selector: int, attributes: int) -> Any:
        segment = self._bochs.Segment()
        segment.present, segment.selector, segment.attr = True, selector, attributes
        segment.base, segment.limit = 0, 0xFFFFFFFF
        return segment


def pages(size: int) -> int:
    """The address of new memory that may be executed, of whole pages, for the rest of the process."""
    memory = mmap.mmap(-1, size, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    _kept.append(memory)
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


_kept: list[mmap.mmap] = []


def _large_pages_in_use() -> Iterator[int]:
    with open("/proc/self/maps") as lines:
        for line in lines:
            start, stop = (int(word, 16) for word in line.split(maxsplit=1)[0].split("-"))
            if stop < 1 << 47:  # above is what the kernel lends all processes
                yield from range(start & -_LARGE_PAGE, stop, _LARGE_PAGE)


def _load() -> Any:
    """The module bochscpu, of which sessions are from now on of a processor with all of AVX-512.

    Raises EmulationError where it is not installed, or is another version.
    """
    flags = sys.getdlopenflags()
    # Wheels name two functions of the C library's that only those since 2.38 have, and call neither.
    sys.setdlopenflags(os.RTLD_LAZY)
    try:
        bochs: Any = importlib.import_module("bochscpu")
    except ImportError as error:
        raise EmulationError("bochscpu is not to be had: pip install bochscpu-python==0.4.0") from error
    finally:
        sys.setdlopenflags(flags)
    try:
        _choose_model(bochs._bochscpu.__file__)
    except AttributeError as error:
        raise EmulationError("the library has other names: pip install bochscpu-python==0.4.0") from error
    return bochs


def _choose_model(file: str) -> None:
    """Have the model that sessions begin with, Cannon Lake, made by the function that makes a Sapphire Rapids.

    The package has no setting for it, and Cannon Lake has no bfloat16 and no arithmetic of float16.
    """
    library = ctypes.CDLL(file, mode=os.RTLD_LAZY | os.RTLD_NOLOAD)
    former, chosen = (
        ctypes.cast(library[f"_Z{len(name)}{name}P8BX_CPU_C"], ctypes.c_void_p).value or 0
        for name in ("create_corei3_cnl_cpuid", "create_sapphire_rapids_cpuid")
    )
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    page = ctypes.c_void_p(former & -_PAGE)
    if protect(page, 2 * _PAGE, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC):
        raise EmulationError(f"the library's code cannot be changed: {os.strerror(ctypes.get_errno())}")
    write_jump(former, chosen)
    protect(page, 2 * _PAGE, mmap.PROT_READ | mmap.PROT_EXEC)


def write_jump(at: int, to: int) -> None:
    """Write 13 bytes: a jump to any address, by a register that no function expects anything in."""
    code = b"\x49\xbb" + to.to_bytes(8, "little") + b"\x41\xff\xe3"  # movabs r11, to; jmp r11
    ctypes.memmove(at, code, len(code))
