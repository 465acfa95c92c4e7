"""What an ELF object of x86-64 becomes in memory: where its sections lie, and which words depend on addresses.

Nothing is placed here, and no address is known yet. In front is what stays as it is, code and constants; behind that,
from a page of its own on, what code may write. Words of 32 bits reach all of it. Functions of the process may be
further away: calls of them by such words go to stubs, jumps with 64 bits that are part of the image.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from atled.plugin import NamedTuple
from atled_cpu_numba import elf
from atled_cpu_numba.elf import COMMON, NOBITS, PROGBITS, UNDEFINED, Object, Relocation, Section, Symbol, require

PAGE = 4096  # bytes; of x86-64

# Relocations, by the x86-64 supplement of the System V ABI. S is the symbol's address, A what is added, P the place's.
_ABSOLUTE, _RELATIVE, _CALL, _FAR_RELATIVE = 1, 2, 4, 24  # 64: S + A; PC32, PLT32, PC64: S + A - P
_BYTES = {_ABSOLUTE: 8, _RELATIVE: 4, _CALL: 4, _FAR_RELATIVE: 8}
_FROM_BEHIND = -4  # what is added for a call: it counts from behind the word

_STUB = b"\xff\x25\x00\x00\x00\x00" + bytes(8)  # jmp *0(%rip), and behind it the word it reads
_STUB_ADDRESS = 6
_STUB_BYTES = 16

_WRITABLE, _ALLOCATED, _EXECUTABLE = 0x1, 0x2, 0x4  # sh_flags


class Outside(NamedTuple):
    """A word of 64 bits for an address in the process: that of `name`, plus `addend`; relative: less the word's own."""

    at: int
    name: str
    addend: int
    is_relative: bool


class Image(NamedTuple):
    """What is written to memory, and changed by where that is.

    content: the bytes from the first one on; zeros follow.  size: bytes of memory, whole pages.
    writable: offset from which on the code may write, at the begin of a page.  entry: offset of the wanted function.
    inside: offsets of words to which the address of the image is added.  outside: words that the process fills in.
    """

    content: bytes
    size: int
    writable: int
    entry: int
    inside: Sequence[int]
    outside: Sequence[Outside]


def image_of(code: bytes, wanted: str) -> Image:
    """The image of an object file that defines the function `wanted`.

    Raises ElfError for a file that is damaged, is for another kind of machine, or has what is not placed here:
    relocations to the lowest 2 GiB, data of the process by words of 32 bits, variables of threads.
    """
    found = elf.parsed(code, wanted)
    require(found.machine == elf.X86_64 and found.order == "<", f"machine {found.machine}")
    return _Placing(code, found).image(wanted)


class _Placing:
    """The image while it is made."""

    def __init__(self, code: bytes, found: Object) -> None:
        self._found = found
        self._content = bytearray()
        self._inside: list[int] = []
        self._outside: list[Outside] = []
        self._stubs: dict[str, int] = {}
        taken = [number for number, section in enumerate(found.sections) if _is_taken(section)]
        fixed = [number for number in taken if not found.sections[number].flags & _WRITABLE]
        self._places = {number: self._put(code, found.sections[number]) for number in fixed}
        for name in sorted({found.symbols[each.symbol].name for each in self._relocations() if self._is_far(each)}):
            self._stubs[name] = self._put_stub(name)
        self._size = self._writable = _up(len(self._content), PAGE)
        changed = [number for number in taken if number not in self._places]
        require(not any(found.sections[number].flags & _EXECUTABLE for number in changed), "code that may be written")
        # Zeros last: they are not part of the content.
        for number in sorted(changed, key=lambda number: found.sections[number].kind == NOBITS):
            self._places[number] = self._put_writable(code, found.sections[number])
        self._commons = {
            number: self._reserve(symbol.size, symbol.value)
            for number, symbol in enumerate(found.symbols)
            if symbol.section == COMMON
        }

    def image(self, wanted: str) -> Image:
        """The whole, with what does not depend on its address filled in."""
        end = 0
        for at, each in sorted((self._places[each.section] + each.offset, each) for each in self._relocations()):
            require(at >= end, "two relocations of one word")
            end = at + self._relocate(at, each)
        symbol = next(one for one in self._found.symbols if one.is_function and one.name == wanted)
        section = self._found.sections[symbol.section]
        is_code = _is_taken(section) and bool(section.flags & _EXECUTABLE) and symbol.value < section.size
        require(is_code, f"{wanted!r} is no code")
        entry = self._places[symbol.section] + symbol.value
        return Image(bytes(self._content), _up(self._size, PAGE), self._writable, entry, self._inside, self._outside)

    def _put(self, code: bytes, section: Section) -> int:
        require(section.kind == PROGBITS, "zeros that nothing may write")
        _fill(self._content, section.alignment)
        place = len(self._content)
        require(place + section.size <= elf.LARGEST_FILE, "sections that overlap")
        self._content += code[section.offset : section.offset + section.size]
        return place

    def _put_stub(self, name: str) -> int:
        _fill(self._content, _STUB_BYTES)
        place = len(self._content)
        self._content += _STUB
        self._outside.append(Outside(place + _STUB_ADDRESS, name, 0, False))
        return place

    def _put_writable(self, code: bytes, section: Section) -> int:
        if section.kind == NOBITS:
            return self._reserve(section.size, section.alignment)
        self._content += bytes(_up(self._size, section.alignment or 1) - len(self._content))
        place = self._put(code, section)
        self._size = len(self._content)
        return place

    def _reserve(self, size: int, alignment: int) -> int:
        place = _up(self._size, alignment or 1)
        self._size = place + size
        require(self._size <= elf.LARGEST_FILE, "too many zeros")
        return place

    def _relocations(self) -> list[Relocation]:
        return [each for each in self._found.relocations if _is_taken(self._found.sections[each.section])]

    def _is_far(self, each: Relocation) -> bool:
        """Whether it is a call of a function of the process."""
        symbol = self._found.symbols[each.symbol]
        return each.kind == _CALL and symbol.section == UNDEFINED and bool(symbol.name)

    def _relocate(self, at: int, each: Relocation) -> int:
        """Fill in the word at an offset, or note it for who knows addresses; its bytes."""
        require(each.kind in _BYTES, f"relocation {each.kind}")
        size, target = _BYTES[each.kind], self._found.sections[each.section]
        require(target.kind == PROGBITS and each.offset + size <= target.size, "a relocation outside")
        symbol = self._found.symbols[each.symbol]
        if self._is_far(each):
            require(each.addend == _FROM_BEHIND, "a call into the middle of a function of the process")
            self._write(at, "i", self._stubs[symbol.name] + each.addend - at)
        elif symbol.section == UNDEFINED and symbol.name:
            require(each.kind in (_ABSOLUTE, _FAR_RELATIVE), f"{symbol.name!r} may be out of reach")
            self._outside.append(Outside(at, symbol.name, each.addend, each.kind == _FAR_RELATIVE))
        else:
            place = self._place_of(symbol, each.symbol) + each.addend
            require(abs(place) <= elf.LARGEST_FILE, "an address far outside")  # so words of 32 bits have room for it
            if each.kind == _ABSOLUTE:
                self._write(at, "q", place)
                self._inside.append(at)
            else:
                self._write(at, "q" if each.kind == _FAR_RELATIVE else "i", place - at)
        return size

    def _place_of(self, symbol: Symbol, number: int) -> int:
        if symbol.section == COMMON:
            return self._commons[number]
        require(symbol.section in self._places, "an address of what is not in memory")
        return self._places[symbol.section] + symbol.value

    def _write(self, at: int, form: str, value: int) -> None:
        struct.pack_into("<" + form, self._content, at, value)


def _is_taken(section: Section) -> bool:
    """Whether it is needed to run the code: frames of exceptions are not, kernels raise none."""
    return bool(section.flags & _ALLOCATED) and section.kind in (PROGBITS, NOBITS)


def _fill(content: bytearray, alignment: int) -> None:
    content += bytes(_up(len(content), alignment or 1) - len(content))


def _up(number: int, alignment: int) -> int:
    return -(-number // alignment) * alignment
