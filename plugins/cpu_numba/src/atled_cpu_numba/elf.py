"""What must be known of an ELF object before LLVM's loader may have it: that loader ends the process over a wrong one.

Only relocatable ELF64 (System V ABI, "Object Files"): what LLVM writes on Linux and the BSDs.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Sequence
from typing import NamedTuple

_EXECUTABLE_KINDS = {"x86_64": 62, "AMD64": 62, "amd64": 62, "aarch64": 183, "arm64": 183}  # e_machine

# Relocations that LLVM's loader knows, of those that code for one function needs; at another type it ends the process.
_RELOCATIONS = {
    62: {1, 2, 4, 10, 11, 24},  # 64, PC32, PLT32, 32, 32S, PC64
    183: {*range(257, 270), *range(273, 281), 282, 283, 284, 285, 286, 299, 311, 312},
}
_RELOCATED_BYTES = 8  # at most

_NULL, _PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOTE = 0, 1, 2, 3, 4, 7  # sh_type
_KINDS = {_NULL, _PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOTE, 0x70000001, 0x6FFF4C03}  # X86_64_UNWIND, LLVM_ADDRSIG
_FLAGS = 0x1 | 0x2 | 0x4 | 0x10 | 0x20 | 0x40 | 0x80 | 0x10000000  # neither of threads nor compressed
_UNDEFINED, _RESERVED, _ABSOLUTE, _COMMON = 0, 0xFF00, 0xFFF1, 0xFFF2  # section numbers of symbols
_LARGEST_ALIGNMENT = 4096
_LARGEST_COMMON = 1 << 16


class ElfError(ValueError):
    """The bytes are no object that the loader can be given."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


def is_elf(code: bytes) -> bool:
    """Whether the bytes say that they are ELF of 64 bits."""
    return code.startswith(b"\x7fELF\x02")


def undefined_symbols(code: bytes, wanted: str, *, for_loader: bool = False) -> tuple[str, ...]:
    """Names that an object needs from the process, sorted.

    wanted: a symbol that it must define.
    for_loader: whether to look for what the loader might end the process over, too: another kind of machine, and
        relocations that it does not know or that lie outside of what they change.
    Raises ElfError for that, and where tables contradict each other; what passes does what its code does.
    """
    try:
        order, machine, sections, table = _tables(code)
        if for_loader:
            _require(machine == _EXECUTABLE_KINDS.get(platform.machine(), machine), f"machine {machine}")
            for section in sections:
                if section.kind == _RELA:
                    _check_relocations(code, order, sections, section, machine, table.size // 24)
        return _undefined(code, order, sections, table, wanted)
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise ElfError(f"it is cut off or damaged: {error}") from error


def _tables(code: bytes) -> tuple[str, int, Sequence[_Section], _Section]:
    """The order of bytes, the machine, the sections, and that of the symbols."""
    order = "<" if code[5] == 1 else ">"
    kind, machine = struct.unpack_from(order + "HH", code, 16)
    _require(is_elf(code) and code[6] == 1 and kind == 1, "not a relocatable ELF object of 64 bits")
    sections = _sections(code, order)
    tables = [section for section in sections if section.kind == _SYMTAB]
    _require(len(tables) == 1, "not one table of symbols")
    return order, machine, sections, tables[0]


def _sections(code: bytes, order: str) -> Sequence[_Section]:
    (at,) = struct.unpack_from(order + "Q", code, 40)
    entry_size, count, names = struct.unpack_from(order + "HHH", code, 58)
    _require(entry_size == 64 and 0 < count < _RESERVED and names < count, "no table of sections")
    sections = [_Section(*fields) for fields in struct.iter_unpack(order + "IIQQQQIIQQ", code[at : at + 64 * count])]
    _require(len(sections) == count, "sections outside the file")
    for section in sections:
        _require(_is_alignment(section.alignment), "an odd alignment")
        _require(section.kind in _KINDS and not section.flags & ~_FLAGS, "a section of another kind")
        _require(section.kind == _NULL or section.offset + section.size <= len(code), "a section outside the file")
        _require(section.link < count, "a link to no section")
        if section.kind == _SYMTAB:
            _require(section.entry_size == 24 and section.size % 24 == 0, "symbols of another size")
            _require(sections[section.link].kind == _STRTAB, "symbols without names")
    table = sections[names]
    _require(table.kind == _STRTAB, "sections without names")
    for section in sections:
        _name(code, table, section.name)
    return sections


def _check_relocations(
    code: bytes, order: str, sections: Sequence[_Section], section: _Section, machine: int, count: int
) -> None:
    _require(section.entry_size == 24 and section.size % 24 == 0, "relocations of another form")
    _require(section.info < len(sections) and sections[section.link].kind == _SYMTAB, "relocations of nothing")
    target = sections[section.info]
    _require(target.kind not in (_NULL, _SYMTAB, _STRTAB, _RELA), "relocations of a table")
    known = _RELOCATIONS.get(machine)
    last = target.size - _RELOCATED_BYTES
    for offset, info, _ in struct.iter_unpack(order + "QQq", code[section.offset : section.offset + section.size]):
        # PC-relative words of four bytes may end a section.
        _require(offset <= last or (offset <= last + 4 and info & 0xFFFFFFFF != 1), "a relocation outside its section")
        _require(info >> 32 < count, "a relocation to no symbol")
        _require(known is None or info & 0xFFFFFFFF in known, "an unknown relocation")


def _undefined(code: bytes, order: str, sections: Sequence[_Section], table: _Section, wanted: str) -> tuple[str, ...]:
    names = sections[table.link]
    found = set()
    is_defined = False
    entries = struct.iter_unpack(order + "IBBHQQ", code[table.offset : table.offset + table.size])
    for number, (name_at, info, _, place, value, size) in enumerate(entries):
        name = _name(code, names, name_at)
        _require(info & 15 <= 4 and info >> 4 <= 2, "a symbol of another kind")  # STT_FILE, STB_WEAK
        if number == 0:
            continue
        if place == _UNDEFINED:
            if name:
                found.add(name)
            continue
        if place == _COMMON:  # zeros that the loader makes: `size` bytes at a multiple of `value`
            _require(size <= _LARGEST_COMMON and _is_alignment(value), "a large common symbol")
            continue
        if place == _ABSOLUTE:
            _require(info & 15 == 4, "an absolute symbol")  # STT_FILE: the name of the source
            continue
        _require(place < len(sections), "a symbol in no section")
        _require(value + size <= sections[place].size, "a symbol outside its section")
        is_defined = is_defined or (name == wanted and info & 15 == 2)  # STT_FUNC
    _require(is_defined, f"it does not define {wanted!r}")
    return tuple(sorted(found))


def _name(code: bytes, table: _Section, at: int) -> str:
    _require(at < table.size, "a name outside its table")
    start = table.offset + at
    end = code.find(b"\0", start, table.offset + table.size)
    _require(end >= 0, "a name without an end")
    return code[start:end].decode()


def _is_alignment(number: int) -> bool:
    return number <= _LARGEST_ALIGNMENT and number & (number - 1) == 0


def _require(holds: bool, wrong: str) -> None:
    if not holds:
        raise ElfError(wrong)
