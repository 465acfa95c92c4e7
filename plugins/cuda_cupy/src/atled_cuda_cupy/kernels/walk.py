"""Which threads visit which elements of a reduction: the plan behind walk.cuh."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

_THREADS = 256  # of a block
_WIDE = 2**30  # elements from which on places are counted in 64 bits: loops look ahead of the end
_WORTH_PEELING = 2048  # elements of a row from which on vectors are worth what is before and behind them


@dataclass(frozen=True)
class Walk:
    """Grid and block of a kernel that walks as walk.cuh says, what is defined for it, and the first of its words.

    results, count: how many results there are, and from how many elements each comes.  parts: into which one is cut.
    """

    defines: dict[str, object]
    words: tuple[int, ...]
    grid: tuple[int, int]
    block: int
    results: int
    count: int
    parts: int
    wide: bool


def plan_walk(
    shape: Sequence[int],
    axes: Collection[int],
    multiprocessors: int,
    *,
    vector: int = 1,
    peels: bool = False,
    batches: int = 2,
) -> Walk:
    """A walk over an array in C order, whose axes `axes` are reduced.

    vector: elements that may be moved at once, where sizes allow it.  peels: also of rows that begin between vectors.
    batches: of loads that a part of a result has at least; 0: results are not cut.
    """
    merged = _merged(shape, axes)
    is_rows = not merged or merged[-1][2]
    kept = [(size, stride) for size, stride, is_reduced in reversed(merged) if not is_reduced]
    reduced = [(size, stride) for size, stride, is_reduced in reversed(merged) if is_reduced]
    make = _rows if is_rows else _columns
    return make(kept, reduced, multiprocessors, vector, peels, batches, math.prod(shape) >= _WIDE)


def _merged(shape: Sequence[int], axes: Collection[int]) -> list[tuple[int, int, bool]]:
    """Size, stride and whether it is reduced, of each run of axes that are or are not."""
    merged: list[tuple[int, int, bool]] = []
    stride = 1
    for axis in reversed(range(len(shape))):
        size, is_reduced = shape[axis], axis in axes
        if size != 1 and merged and merged[0][2] == is_reduced:
            merged[0] = merged[0][0] * size, merged[0][1], is_reduced
        elif size != 1:
            merged.insert(0, (size, stride, is_reduced))
        stride *= size
    return merged


Axes = list[tuple[int, int]]


def _rows(kept: Axes, reduced: Axes, multiprocessors: int, vector: int, peels: bool, batches: int, wide: bool) -> Walk:
    (size, _), *others = reduced or [(1, 1)]
    results, outer = _product(kept), _product(others)
    peels = peels and vector > 1 and size % vector != 0 and size >= _WORTH_PEELING
    vector = vector if peels or size % vector == 0 else 1
    lanes, unroll = max(1, size // vector), 4 if vector > 1 else 8
    if outer == 1:
        tx, ty = min(_power(-(-lanes // 4)), _THREADS), 1
        while tx < min(lanes, _THREADS) and results * tx < 1024 * multiprocessors:
            tx *= 2
    else:
        tx = min(_power(lanes), _THREADS)
        ty = min(_power(outer), _THREADS // tx)
    along_outer = outer > 1 and lanes <= tx and not peels
    block = _block(results * tx * ty)
    blocks = -(-results // (block // (tx * ty)))
    parts = _parts(blocks, multiprocessors, outer * lanes, batches * tx * ty * unroll)
    outer_parts = min(parts, max(1, outer // ty))
    chunk_outer = max(1, -(-outer // outer_parts))
    outer_parts = max(1, -(-outer // chunk_outer))
    inner_parts = 1 if along_outer else max(1, parts // outer_parts)
    step = tx * vector
    chunk_inner = max(1, -(-size // (inner_parts * step)) * step)
    inner_parts = max(1, -(-size // chunk_inner))
    words = (results, size, outer, chunk_inner, chunk_outer, inner_parts, *_flat(kept), *_flat(others))
    defines = _defines(False, tx, ty, vector, block, unroll, kept, others, along_outer, peels)
    parts = inner_parts * outer_parts
    return Walk(defines, words, (blocks, parts), block, results, size * outer, parts, wide)


def _columns(
    kept: Axes, reduced: Axes, multiprocessors: int, vector: int, peels: bool, batches: int, wide: bool
) -> Walk:
    (size, _), *others = kept
    results, count, outer = _product(kept), _product(reduced), _product(others)
    vector = vector if size % vector == 0 else 1
    lanes, unroll = max(1, size // vector), 4 if vector > 1 else 8
    tx = min(_power(lanes), 32)
    ty = min(_power(-(-count // 8)), _THREADS // tx)
    while tx < lanes and tx * ty < _THREADS:
        tx *= 2
    block = _block(outer * tx * ty)
    tiles = -(-lanes // tx)
    blocks = tiles * -(-outer // (block // (tx * ty)))
    parts = _parts(blocks, multiprocessors, count, batches * ty * unroll)
    chunk = max(1, -(-count // parts))
    parts = max(1, -(-count // chunk))
    words = (results, size, count, chunk, tiles, outer, *_flat(others), *_flat(reduced))
    defines = _defines(True, tx, ty, vector, block, unroll, others, reduced, False, False)
    return Walk(defines, words, (blocks, parts), block, results, count, parts, wide)


def _defines(
    columns: bool, tx: int, ty: int, vector: int, block: int, unroll: int, kept: Axes, reduced: Axes, *modes: bool
) -> dict[str, object]:
    defines: dict[str, object] = {"COLUMNS": int(columns), "TX": tx, "TY": ty, "VEC": vector, "BLOCK": block}
    along_outer, peels = map(int, modes)
    axes = {"KEPT": len(kept), "REDUCED": len(reduced)}
    return {**defines, **axes, "UNROLL": unroll, "ALONG_OUTER": along_outer, "PEEL": peels}


def _parts(blocks: int, multiprocessors: int, places: int, least: int) -> int:
    """Into how many parts to cut each result, so that the device is full and each part has enough to load."""
    if blocks >= 4 * multiprocessors or not blocks or not least:
        return 1
    return max(1, min(-(-8 * multiprocessors // blocks), places // least))


def _block(threads: int) -> int:
    return max(32, min(_power(threads), _THREADS))


def _product(axes: Axes) -> int:
    return math.prod(size for size, _ in axes)


def _flat(axes: Axes) -> list[int]:
    return [word for axis in axes for word in axis]


def _power(count: int) -> int:
    """The smallest power of two that is not below count."""
    return 1 << max(count - 1, 0).bit_length()


def place_words(shape: Sequence[int], axes: Collection[int]) -> tuple[dict[str, object], tuple[int, ...]]:
    """Defines and words for kernels that only ask where an element of a result is: results, elements of each."""
    merged = _merged(shape, axes)
    kept = [(size, stride) for size, stride, is_reduced in reversed(merged) if not is_reduced]
    reduced = [(size, stride) for size, stride, is_reduced in reversed(merged) if is_reduced]
    words = (_product(kept), _product(reduced), 0, 0, 0, 0, *_flat(kept), *_flat(reduced))
    return _defines(False, 1, 1, 1, _THREADS, 1, kept, reduced, False, False), words
