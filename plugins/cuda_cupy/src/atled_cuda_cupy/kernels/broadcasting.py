"""How the operands of a formula lie in memory: what its kernel is written for, and what it is told at each launch."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

from atled.plugin import Program, plan_layout, postorder
from atled_cuda_cupy.kernels.division import divisor

PACK_BYTES = 16
"""What a thread reads or writes at once."""
_MOST_ELEMENTS = 8  # of a pack: each has its copy of the formula, and long ones take long to compile
_MOST_OF_LONG, _LONG = 4, 8  # elements where a formula calls more functions than that: it is no matter of loads then
MOST_NARROW = 2**31 - 2**24
"""Elements that are counted in 32 bits: an index and the step of a grid together fit."""

_CHEAP = "+ - * neg abs < <= > >= == != and or not where minimum maximum sign floor ceil trunc rint"


class Pattern(NamedTuple):
    """What the text of a kernel depends on.

    kinds: of each operand: "full", an element for each one of the result; "one" for all; "row", one for each place on
        the inner axis, and "column", one for all of them, each with strides along the outer axes.
    rank: count of outer axes.  pack: elements that are computed at once.
    per_element: whether packs do not fit into the inner axis: rows and columns are looked up for each element.
    """

    kinds: tuple[str, ...]
    rank: int
    pack: int
    per_element: bool

    @property
    def placed(self) -> list[int]:
        """The operands whose elements are looked up."""
        return [n for n, kind in enumerate(self.kinds) if kind in ("row", "column")]


class Broadcasting(NamedTuple):
    """Operands of a formula.

    pattern: as above.  size: elements of a result.  is_wide: whether indices need 64 bits.
    words: for the kernel: size; then, if elements are looked up, the length of the inner axis and its divisor, those
        of the outer axes but the outermost, innermost first, strides of each row and column in the same order.
    """

    pattern: Pattern
    size: int
    is_wide: bool
    words: list[int]


@functools.lru_cache(maxsize=4096)
def pack_of(program: Program, itemsize: int) -> int:
    """Elements of a pack where the smallest ones have so many bytes."""
    cheap = _CHEAP.split()
    functions = sum(node.op not in cheap for node in postorder(program.expressions))
    return min(PACK_BYTES // itemsize, _MOST_OF_LONG if functions > _LONG else _MOST_ELEMENTS)


def broadcasting(program: Program, shapes: Sequence[tuple[int, ...]], itemsizes: Sequence[int]) -> Broadcasting:
    """How operands of these shapes, inputs, then outputs, with elements of so many bytes, lie."""
    # Only shapes and strides matter here; a copy may have any dtype.
    layout, words, _, _ = plan_layout(program, shapes, ["float32"] * len(shapes))
    length, rank = int(words[layout.length_word]), layout.rank
    sizes = [int(size) for size in words[layout.first_size : layout.first_size + rank]]
    table = words[layout.first_stride : layout.first_stride + len(shapes) * rank].reshape(len(shapes), rank)
    strides = [[int(stride) for stride in row] for row in table]
    full = [length * math.prod(sizes[axis + 1 :]) for axis in range(rank)]
    kinds = tuple(_kind(inner, outer, full) for inner, outer in zip(layout.inner_strides, strides, strict=True))
    itemsize = min(size for size, kind in zip(itemsizes, kinds, strict=True) if kind in ("full", "row"))
    is_placed = "row" in kinds or "column" in kinds
    pattern = Pattern(kinds, rank, *_packing(pack_of(program, itemsize), itemsize, length if is_placed else 0))
    size = length * math.prod(sizes)
    is_wide = size >= MOST_NARROW
    told = [size]
    if is_placed:
        told += [length, *divisor(length, is_wide)]
        for inner_size in sizes[:0:-1]:
            told += [inner_size, *divisor(inner_size, is_wide)]
        told += [stride for n in pattern.placed for stride in strides[n][::-1]]
    return Broadcasting(pattern, size, is_wide, told)


def _kind(inner: int, outer: Sequence[int], full: Sequence[int]) -> str:
    if inner and list(outer) == list(full):
        return "full"
    if not inner and not any(outer):
        return "one"
    return "row" if inner else "column"


def _packing(largest: int, itemsize: int, length: int) -> tuple[int, bool]:
    """Elements of a pack, and whether packs do not fit into an inner axis of that length."""
    pack = largest
    while length % pack:
        pack //= 2
    return (largest, True) if pack * itemsize < PACK_BYTES // 2 and pack < largest else (pack, False)
