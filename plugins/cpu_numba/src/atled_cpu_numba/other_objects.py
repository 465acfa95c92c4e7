"""Names that objects of Mach-O (macOS) and COFF (Windows) need from the process; `elf` does the same for the others.

What the IR declares is not enough: the code generator adds calls of its own, such as memset, or the probe of a large
stack on Windows. Formats: Apple's <mach-o/loader.h> and <mach-o/nlist.h>; Microsoft's "PE Format", COFF symbol table.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_MACH_O = b"\xcf\xfa\xed\xfe"  # 64 bits, lowest byte first
_LC_SYMTAB = 2
_N_STAB, _N_TYPE, _N_EXT = 0xE0, 0x0E, 0x01
_COFF_MACHINES = {0x8664, 0xAA64}  # x86-64, AArch64
_CLASS_EXTERNAL = 2


def is_known(code: bytes) -> bool:
    """Whether the object has one of the two formats."""
    return code.startswith(_MACH_O) or _is_coff(code)


def undefined_symbols(code: bytes) -> tuple[str, ...]:
    """The names, sorted, as they are in C: without the underscore that Mach-O puts before each."""
    return tuple(sorted(set(_in_coff(code) if _is_coff(code) else _in_mach_o(code))))


def _is_coff(code: bytes) -> bool:
    return len(code) >= 20 and int.from_bytes(code[:2], "little") in _COFF_MACHINES


def _in_mach_o(code: bytes) -> Iterator[str]:
    (commands,) = struct.unpack_from("<I", code, 16)
    at = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<II", code, at)
        if command == _LC_SYMTAB:
            symbols, count, strings, length = struct.unpack_from("<IIII", code, at + 8)
            names = code[strings : strings + length]
            for name_at, kind, section, _, _ in struct.iter_unpack("<IBBHQ", code[symbols : symbols + 16 * count]):
                if not kind & (_N_STAB | _N_TYPE) and kind & _N_EXT and not section:
                    yield _text(names, name_at).removeprefix("_")
        at += size


def _in_coff(code: bytes) -> Iterator[str]:
    at, count = struct.unpack_from("<II", code, 8)
    names = code[at + 18 * count :]
    number = 0
    while number < count:
        name, value, section, _, storage, more = struct.unpack_from("<8sIhHBB", code, at + 18 * number)
        if section == 0 and storage == _CLASS_EXTERNAL and value == 0:  # with a value it is common: made by the loader
            if name[:4] == bytes(4):
                yield _text(names, int.from_bytes(name[4:], "little"))
            else:
                yield name.rstrip(b"\0").decode()
        number += 1 + more


def _text(names: bytes, at: int) -> str:
    return names[at : names.index(b"\0", at)].decode()
