"""The tables of an ELF object, read and examined before its code is placed in memory, be it by `elf_image` or by LLVM.

LLVM's loader ends the process over a wrong one. Only relocatable ELF64 (System V ABI, "Object Files"): what LLVM writes
on Linux and the BSDs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from atled.plugin import NamedTuple
from atled_cpu_numba.machine_kind import machine_kind

X86_64 = 62  # e_machine
_EXECUTABLE_KINDS = {"x86_64": X86_64, "aarch64": 183}

# Relocations that LLVM's loader knows, of those that code for one function needs; at another type it ends the process.
_RELOCATIONS = {
    X86_64: {1, 2, 4, 10, 11, 24},  # 64, PC32, PLT32, 32, 32S, PC64
    183: {*range(257, 270), *range(273, 281), 282, 283, 284, 285, 286, 299, 311, 312},
}
_RELOCATED_BYTES = 8  # at most

_NULL, PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOTE, NOBITS = 0, 1, 2, 3, 4, 7, 8  # sh_type
_KINDS = {
    _NULL,
    PROGBITS,
    _SYMTAB,
    _STRTAB,
    _RELA,
    _NOTE,
    NOBITS,
    0x70000001,
    0x6FFF4C03,
}  # X86_64_UNWIND, LLVM_ADDRSIG
_FLAGS = 0x1 | 0x2 | 0x4 | 0x10 | 0x20 | 0x40 | 0x80 | 0x10000000  # neither of threads nor compressed
UNDEFINED, _RESERVED, _ABSOLUTE, COMMON = 0, 0xFF00, 0xFFF1, 0xFFF2  # section numbers of symbols
_LARGEST_ALIGNMENT = 4096
_LARGEST_ZEROS = 1 << 16  # bytes that one symbol or section adds to what is in the file
LARGEST_FILE = 64 << 20


class ElfError(ValueError):
    """The bytes are no object that the loader can be given."""


class Section(NamedTuple):
    """A row of the table of sections, its words in their order."""

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


class Symbol(NamedTuple):
    """section: its number, or UNDEFINED or COMMON.  value: offset there; of a COMMON one its alignment."""

    name: str
    section: int
    value: int
    size: int
    is_function: bool


class Relocation(NamedTuple):
    """A word to be changed: where it is, its kind (by the machine), and the number of the symbol that it depends on."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


class Object(NamedTuple):
    """What an object file says.

    order: of the bytes, "<" or ">".  machine: e_machine.
    """

    order: str
    machine: int
    sections: Sequence[Section]
    symbols: Sequence[Symbol]
    relocations: Sequence[Relocation]


def is_elf(code: bytes) -> bool:
    """Whether the bytes say that they are ELF of 64 bits."""
    return code.startswith(b"\x7fELF\x02")


def parsed(code: bytes, wanted: str) -> Object:
    """What the object says, which must define the function `wanted`.

    Raises ElfError where tables contradict each other or lie outside of the file. Relocations are as they stand there:
    whether one is known, and where its place is, is for who places the code.
    """
    try:
        require(is_elf(code) and code[6] == 1 and len(code) <= LARGEST_FILE, "not an ELF object of 64 bits")
        order = "<" if code[5] == 1 else ">"
        kind, machine = struct.unpack_from(order + "HH", code, 16)
        require(kind == 1, "not a relocatable object")
        sections = _sections(code, order)
        tables = [section for section in sections if section.kind == _SYMTAB]
        require(len(tables) == 1, "not one table of symbols")
        symbols = _symbols(code, order, sections, tables[0])
        require(any(one.is_function and one.name == wanted for one in symbols), f"it does not define {wanted!r}")
        return Object(order, machine, sections, symbols, _relocations(code, order, sections, len(symbols)))
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise ElfError(f"it is cut off or damaged: {error}") from error


def undefined_symbols(found: Object) -> tuple[str, ...]:
    """Names that an object needs from the process, sorted."""
    return tuple(sorted({one.name for one in found.symbols[1:] if one.section == UNDEFINED and one.name}))


def check_for_llvm(found: Object) -> None:
    """Raise ElfError for what LLVM's loader might end the process over.

    Which are another kind of machine, and relocations that it does not know or that lie outside of what they change.
    """
    require(found.machine == _EXECUTABLE_KINDS.get(machine_kind(), found.machine), f"machine {found.machine}")
    known = _RELOCATIONS.get(found.machine)
    for each in found.relocations:
        last = found.sections[each.section].size - _RELOCATED_BYTES
        # PC-relative words of four bytes may end a section.
        require(each.offset <= last or (each.offset <= last + 4 and each.kind != 1), "a relocation outside its section")
        require(known is None or each.kind in known, "an unknown relocation")


def _sections(code: bytes, order: str) -> Sequence[Section]:
    (at,) = struct.unpack_from(order + "Q", code, 40)
    entry_size, count, names = struct.unpack_from(order + "HHH", code, 58)
    require(entry_size == 64 and 0 < count < _RESERVED and names < count, "no table of sections")
    sections = [Section(*fields) for fields in struct.iter_unpack(order + "IIQQQQIIQQ", code[at : at + 64 * count])]
    require(len(sections) == count, "sections outside the file")
    for section in sections:
        require(_is_alignment(section.alignment), "an odd alignment")
        require(section.kind in _KINDS and not section.flags & ~_FLAGS, "a section of another kind")
        if section.kind == NOBITS:
            require(section.size <= _LARGEST_ZEROS, "a large section of zeros")
        else:
            require(section.kind == _NULL or section.offset + section.size <= len(code), "a section outside the file")
        require(section.link < count, "a link to no section")
        if section.kind == _SYMTAB:
            require(section.entry_size == 24 and section.size % 24 == 0, "symbols of another size")
            require(sections[section.link].kind == _STRTAB, "symbols without names")
    table = sections[names]
    require(table.kind == _STRTAB, "sections without names")
    for section in sections:
        _name(code, table, section.name)
    return sections


def _symbols(code: bytes, order: str, sections: Sequence[Section], table: Section) -> list[Symbol]:
    names = sections[table.link]
    found = []
    entries = struct.iter_unpack(order + "IBBHQQ", code[table.offset : table.offset + table.size])
    for number, (name_at, info, _, place, value, size) in enumerate(entries):
        kind = info & 15
        require(kind <= 4 and info >> 4 <= 2, "a symbol of another kind")  # STT_FILE, STB_WEAK
        if number and place == COMMON:  # zeros that the loader makes: `size` bytes at a multiple of `value`
            require(size <= _LARGEST_ZEROS and _is_alignment(value), "a large common symbol")
        elif number and place == _ABSOLUTE:
            require(kind == 4, "an absolute symbol")  # STT_FILE: the name of the source
        elif number and place != UNDEFINED:
            require(place < len(sections), "a symbol in no section")
            require(value + size <= sections[place].size, "a symbol outside its section")
        is_function = kind == 2 and place not in (UNDEFINED, COMMON)  # STT_FUNC
        found.append(Symbol(_name(code, names, name_at), place, value, size, is_function))
    return found


def _relocations(code: bytes, order: str, sections: Sequence[Section], symbol_count: int) -> list[Relocation]:
    found = []
    for section in sections:
        if section.kind != _RELA:
            continue
        require(section.entry_size == 24 and section.size % 24 == 0, "relocations of another form")
        require(section.info < len(sections) and sections[section.link].kind == _SYMTAB, "relocations of nothing")
        require(sections[section.info].kind not in (_NULL, _SYMTAB, _STRTAB, _RELA), "relocations of a table")
        rows = struct.iter_unpack(order + "QQq", code[section.offset : section.offset + section.size])
        found += [Relocation(section.info, offset, info & 0xFFFFFFFF, info >> 32, add) for offset, info, add in rows]
    require(all(each.symbol < symbol_count for each in found), "a relocation to no symbol")
    return found


def _name(code: bytes, table: Section, at: int) -> str:
    require(at < table.size, "a name outside its table")
    start = table.offset + at
    end = code.find(b"\0", start, table.offset + table.size)
    require(end >= 0, "a name without an end")
    return code[start:end].decode()


def _is_alignment(number: int) -> bool:
    return number <= _LARGEST_ALIGNMENT and number & (number - 1) == 0


def require(holds: bool, wrong: str) -> None:
    """Raise ElfError where something does not hold; wrong: what is the case then."""
    if not holds:
        raise ElfError(wrong)
