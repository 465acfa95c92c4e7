"""Packing: offsets of pieces of memory in one arena, such that pieces which are needed at one time share no byte."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import accumulate

from atled.named_tuple import NamedTuple

_FEW = 1000  # pieces; what is done for so many takes time with their square, some tenths of a second at most


class Piece(NamedTuple):
    """What is to be placed: its size in bytes, and the first and the last step that need it."""

    nbytes: int
    first: int
    last: int


class Packing(NamedTuple):
    """The offset of each piece, and the size of the arena, in bytes."""

    offsets: list[int]
    nbytes: int


def pack(pieces: Sequence[Piece], alignment: int) -> Packing:
    """Offsets, all multiples of the alignment; no two pieces are at one place, not even empty ones.

    Pieces are placed one by one into the smallest gap that fits, the largest first; other orders are tried while
    the arena is larger than what is alive at once (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net
    Inference, 2020, section 5). More than a thousand are placed in the order of time, which wastes more.
    """
    aligned = [piece._replace(nbytes=max(1, -(-piece.nbytes // alignment)) * alignment) for piece in pieces]
    if len(pieces) > _FEW:
        return _placed_in_turn(aligned)
    least = most_alive(aligned)
    best = Packing([], -1)
    for order in _ORDERS:
        found = _placed(aligned, [number for number, _ in sorted(enumerate(aligned), key=lambda each: order(each[1]))])
        if best.nbytes < 0 or found.nbytes < best.nbytes:
            best = found
        if best.nbytes == least:
            break
    return best


def most_alive(pieces: Sequence[Piece]) -> int:
    """The largest sum of bytes of the pieces that one step needs: no arena can be smaller."""
    changes: dict[int, int] = {}
    for piece in pieces:
        changes[piece.first] = changes.get(piece.first, 0) + piece.nbytes
        changes[piece.last + 1] = changes.get(piece.last + 1, 0) - piece.nbytes
    return max(accumulate(changes[step] for step in sorted(changes)), default=0)


_ORDERS: tuple[Callable[[Piece], tuple[int, ...]], ...] = (
    lambda piece: (-piece.nbytes, piece.first - piece.last, piece.first),
    lambda piece: ((piece.first - piece.last - 1) * piece.nbytes, piece.first),
    lambda piece: (piece.first - piece.last, -piece.nbytes, piece.first),
    lambda piece: (piece.first, -piece.nbytes),
)


def _placed(pieces: Sequence[Piece], order: Sequence[int]) -> Packing:
    """Each piece in the smallest gap between those placed before it that are needed at the same time."""
    offsets = [0] * len(pieces)
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last; by offset
    for number in order:
        nbytes, first, last = pieces[number]
        free = 0
        chosen, smallest = -1, 0
        for begin, end, its_first, its_last in placed:
            if its_first <= last and first <= its_last:
                gap = begin - free
                if gap >= nbytes and (chosen < 0 or gap < smallest):
                    chosen, smallest = free, gap
                free = max(free, end)
        offsets[number] = offset = free if chosen < 0 else chosen
        insort(placed, (offset, offset + nbytes, first, last))
    return Packing(offsets, max((end for _, end, _, _ in placed), default=0))


def _placed_in_turn(pieces: Sequence[Piece]) -> Packing:
    """Each piece in the smallest gap that there is when it is needed first, as an allocator would place it."""
    offsets = [0] * len(pieces)
    gaps: list[tuple[int, int]] = []  # begin and end, by offset; no two touch
    ending: list[tuple[int, int]] = []  # last step, number
    size = 0
    for number in sorted(range(len(pieces)), key=lambda number: (pieces[number].first, -pieces[number].nbytes)):
        nbytes, first, last = pieces[number]
        while ending and ending[0][0] < first:
            _, gone = heappop(ending)
            _free(gaps, offsets[gone], offsets[gone] + pieces[gone].nbytes)
        fitting = [gap for gap in gaps if gap[1] - gap[0] >= nbytes]
        if fitting:
            gap = min(fitting, key=lambda gap: gap[1] - gap[0])
        else:  # at the end, with the gap that is there
            gap = gaps[-1] if gaps and gaps[-1][1] == size else (size, size)
        begin, end = gap
        if begin < end:
            gaps.remove(gap)
        size = max(size, begin + nbytes)
        offsets[number] = begin
        if begin + nbytes < end:
            insort(gaps, (begin + nbytes, end))
        heappush(ending, (last, number))
    return Packing(offsets, size)


def _free(gaps: list[tuple[int, int]], begin: int, end: int) -> None:
    """Add a gap to those that it may touch."""
    position = bisect_left(gaps, (begin, end))
    if position < len(gaps) and gaps[position][0] == end:
        end = gaps.pop(position)[1]
    if position and gaps[position - 1][1] == begin:
        begin = gaps.pop(position - 1)[0]
    insort(gaps, (begin, end))
