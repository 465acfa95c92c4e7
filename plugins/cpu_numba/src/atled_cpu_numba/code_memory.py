"""Memory for machine code on Linux: written first, then made executable; no page is ever both.

The system gives each piece pages of its own, so that nothing is shared on which threads would have to agree; a forked
child goes on with its parent's code. Nothing is freed at the end of the process, when a daemon thread may be inside.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import sys

from atled_cpu_numba.elf_image import Image
from atled_cpu_numba.machine_kind import machine_kind

IS_KNOWN = sys.platform == "linux" and machine_kind() == "x86_64" and struct.calcsize("P") == 8
"""Whether this is a machine that code is placed on; elsewhere nothing below may be called."""

_READ, _WRITE, _EXECUTE = 1, 2, 4  # PROT_, as Linux has them on all processors
_PRIVATE, _ANONYMOUS = 0x02, 0x20  # MAP_
_FAILED = -1
_WORD = 1 << 64


def place(image: Image) -> int:
    """The address of a copy of `image` in memory, ready to be called at `entry`.

    Raises OSError where the system has no memory, or refuses to make any executable; AttributeError for a name that the
    process does not have. Nothing is left behind then.
    """
    content = bytearray(image.content)
    outside = [(each, address_of(each.name)) for each in image.outside]
    address = _mapped(image.size)
    try:
        for at in image.inside:
            _write(content, at, struct.unpack_from("<q", content, at)[0] + address)
        for each, found in outside:
            _write(content, each.at, found + each.addend - (address + each.at if each.is_relative else 0))
        ctypes.memmove(address, bytes(content), len(content))
        if _library().mprotect(address, image.writable, _READ | _EXECUTE):
            raise _error("to make memory executable")
    except BaseException:
        free(address, image.size)
        raise
    return address


def free(address: int, size: int) -> None:
    """Give memory back that `place` took; nobody may be in it, or call it again."""
    if _library().munmap(address, size):
        raise _error("to take memory back")


def address_of(name: str) -> int:
    """The address of a function or variable of the process. Raises AttributeError where there is none."""
    address = ctypes.cast(_process()[name], ctypes.c_void_p).value
    assert address is not None, name
    return address


def has(name: str) -> bool:
    """Whether the process has a function or variable of that name."""
    try:
        address_of(name)
    except AttributeError:
        return False
    return True


def _mapped(size: int) -> int:
    address: int = _library().mmap(None, size, _READ | _WRITE, _PRIVATE | _ANONYMOUS, -1, 0)
    if address == _FAILED:
        raise _error(f"{size} bytes of memory")
    return address


def _write(content: bytearray, at: int, value: int) -> None:
    struct.pack_into("<Q", content, at, value % _WORD)


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(
        number,
        f"the system refuses {what} for compiled kernels: {os.strerror(number)}. They need pages that are written "
        "first and executed then: allow that (a policy such as SELinux's execmem may forbid it), or more memory "
        "(ulimit -v).",
    )


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_ssize_t
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


@functools.cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)
