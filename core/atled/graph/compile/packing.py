"""Packing: offsets of pieces of memory in one arena, such that pieces which are needed at one time share no byte."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

_FEW = 1000  # pieces; of more, only one order is tried: each costs time with their square


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
    Inference, 2020, section 5).
    """
    aligned = [piece._replace(nbytes=max(1, -(-piece.nbytes // alignment)) * alignment) for piece in pieces]
    least = most_alive(aligned)
    best = Packing([], -1)
    for order in _ORDERS if len(pieces) <= _FEW else _ORDERS[:1]:
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
