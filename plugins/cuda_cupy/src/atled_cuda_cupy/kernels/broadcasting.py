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
        the inner axis, and "column", one for all of them, each with strides along the outer axes; "strided", a row with
        a stride of its own, or whose packs would begin anywhere.
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
        return [n for n, kind in enumerate(self.kinds) if kind in ("row", "column", "strided")]

    @property
    def strided(self) -> list[int]:
        """Those of them that have a stride of their own along the inner axis."""
        return [n for n, kind in enumerate(self.kinds) if kind == "strided"]


class Broadcasting(NamedTuple):
    """Operands of a formula.

    pattern: as above.  size: elements of a result.  is_wide: whether indices need 64 bits.
    words: for the kernel: size; then, if elements are looked up, the length of the inner axis and its divisor, those
        of the outer axes but the outermost, innermost first, strides of each operand that is looked up in the same
        order, then the inner strides of strided ones.
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


def broadcasting(
    program: Program,
    shapes: Sequence[tuple[int, ...]],
    itemsizes: Sequence[int],
    given: Sequence[tuple[int, ...] | None] = (),
) -> Broadcasting:
    """How operands of these shapes, inputs, then outputs, with elements of so many bytes, lie.

    given: their strides; None, or nothing at all, means C-contiguous.
    """
    # Only shapes and strides matter here; a copy may have any dtype.
    layout, words, _, _ = plan_layout(program, shapes, ["float32"] * len(shapes), None, given)
    length, rank = int(words[layout.length_word]), layout.rank
    sizes = [int(size) for size in words[layout.first_size : layout.first_size + rank]]
    table = words[layout.first_stride : layout.first_stride + len(shapes) * rank].reshape(len(shapes), rank)
    strides = [[int(stride) for stride in row] for row in table]
    full = [length * math.prod(sizes[axis + 1 :]) for axis in range(rank)]
    inner = list(layout.inner_strides)
    if layout.is_tiled:
        inner = [int(stride) for stride in words[layout.first_inner_stride : layout.first_tile]]
    kinds = [_kind(step, outer, full) for step, outer in zip(inner, strides, strict=True)]
    packed = [size for size, kind in zip(itemsizes, kinds, strict=True) if kind in ("full", "row")]
    itemsize = min(packed or itemsizes)
    is_placed = any(kind not in ("full", "one") for kind in kinds)
    pack, per_element = _packing(pack_of(program, itemsize), itemsize, length if is_placed else 0)
    if not per_element:
        for n, kind in enumerate(kinds):
            if kind == "row" and any(stride % pack for stride in strides[n]):
                kinds[n] = "strided"
    pattern = Pattern(tuple(kinds), rank, pack, per_element)
    size = length * math.prod(sizes)
    is_wide = max(size, *(_reach((length, *sizes), (inner[n], *strides[n])) for n in pattern.placed), 0) >= MOST_NARROW
    told = [size]
    if is_placed:
        told += [length, *divisor(length, is_wide)]
        for inner_size in sizes[:0:-1]:
            told += [inner_size, *divisor(inner_size, is_wide)]
        told += [stride for n in pattern.placed for stride in strides[n][::-1]]
        told += [inner[n] for n in pattern.strided]
    return Broadcasting(pattern, size, is_wide, told)


def _reach(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Elements between the first and the last one of an operand."""
    return sum(abs(stride) * (size - 1) for size, stride in zip(sizes, strides, strict=True))


def _kind(inner: int, outer: Sequence[int], full: Sequence[int]) -> str:
    if inner == 1 and list(outer) == list(full):
        return "full"
    if not inner and not any(outer):
        return "one"
    if not inner:
        return "column"
    return "row" if inner == 1 else "strided"


def _packing(largest: int, itemsize: int, length: int) -> tuple[int, bool]:
    """Elements of a pack, and whether packs do not fit into an inner axis of that length."""
    pack = largest
    while length % pack:
        pack //= 2
    return (largest, True) if pack * itemsize < PACK_BYTES // 2 and pack < largest else (pack, False)
