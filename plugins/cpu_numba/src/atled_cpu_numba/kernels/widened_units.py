"""Calls in half and bf16 of ops whose units, rows or planes or columns, do not depend on each other: some at a time.

Each share widens some units, runs the kernel of float32 on them, and rounds what it made, all in memory of its own that
stays in the cache. `widened` asks for it where what the casts move takes as long as what the kernel computes; which
units an op has says `narrow_units`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from atled.plugin import ArrayDesc, Call, Native, Prepared, is_narrow
from atled_cpu_numba.kernels.narrow_units import Piece, Units
from atled_cpu_numba.kernels.shared.launch import fitting_shares, in_lines, launch, share_count, undivided
from atled_cpu_numba.kernels.shared.layout import NO_WORD, filled, layout, size_of
from atled_cpu_numba.store import Kernel

_CHUNK_ELEMENTS = 1 << 15  # of all arrays: in the level-2 cache; fewer, and the calls take a tenth of a filter's time
_ELEMENTS_PER_US = 1000.0  # a cautious rate of one core, for the number of shares


@layout
class Block:
    """What the kernel reads; the arguments follow, then blocks."""

    kernel: int
    inner_at: int  # word where its block begins
    inner_words: int
    chunks: int
    period: int  # chunks, after which their places are those of the first ones, a far step on
    workspace: int
    share_bytes: int  # of the workspace, which begins with the inner block
    inner_workspace: int  # word of the inner block, or NO_WORD
    inner_workspace_start: int  # bytes from the share's workspace
    arguments: int
    table: int = 0


@layout
class Argument:
    """An argument of the inner kernel."""

    address: int
    far_bytes: int
    chunk_bytes: int  # 0, and a far step of 0: the same for all
    rows: int  # of a chunk
    row_bytes: int  # from row to row, where the array is
    word: int  # of the inner block
    cast: int  # range kernel, or 0 where it is taken as it is
    cast_at: int  # word where its block begins
    cast_words: int
    outside: int  # word of that for the array
    inside: int  # and for the floats
    count: int  # of elements in a row
    floats_start: int  # bytes from the share's workspace
    block_start: int
    is_written: int


_ARGUMENT_WORDS = size_of(Argument)


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import kernel, piece

    @piece
    def convert(w, share, chunk, first, written):
        """Cast all arguments that are read, or all that are written."""
        for number in range(w[Block.arguments]):
            at = Block.table + _ARGUMENT_WORDS * number
            is_due = w[at + Argument.chunk_bytes] != 0 or w[at + Argument.far_bytes] != 0 or chunk == first
            if is_due and w[at + Argument.cast] != 0 and w[at + Argument.is_written] == written:
                own, count = share + w[at + Argument.block_start], w[at + Argument.count]
                call3(w[at + Argument.cast], own, 0, count)
                for _ in range(1, w[at + Argument.rows]):
                    words(own)[w[at + Argument.outside]] += w[at + Argument.row_bytes]
                    words(own)[w[at + Argument.inside]] += 4 * count
                    call3(w[at + Argument.cast], own, 0, count)

    @kernel
    def widened_units(block, part, parts):
        w = words(block)
        share = w[Block.workspace] + part * w[Block.share_bytes]
        inner = words(share)
        first, after = w[Block.chunks] * part // parts, w[Block.chunks] * (part + 1) // parts
        for i in range(w[Block.inner_words]):
            inner[i] = w[w[Block.inner_at] + i]
        if w[Block.inner_workspace] >= 0:
            inner[w[Block.inner_workspace]] = share + w[Block.inner_workspace_start]
        for chunk in range(first, after):
            far = chunk // w[Block.period]
            near = chunk - far * w[Block.period]
            for number in range(w[Block.arguments]):
                at = Block.table + _ARGUMENT_WORDS * number
                place = (
                    w[at + Argument.address] + far * w[at + Argument.far_bytes] + near * w[at + Argument.chunk_bytes]
                )
                if w[at + Argument.cast] != 0:
                    own = words(share + w[at + Argument.block_start])
                    if chunk == first:
                        for i in range(w[at + Argument.cast_words]):
                            own[i] = w[w[at + Argument.cast_at] + i]
                    own[w[at + Argument.outside]] = place
                    place = share + w[at + Argument.floats_start]
                    own[w[at + Argument.inside]] = place
                inner[w[at + Argument.word]] = place
            convert(w, share, chunk, first, 0)
            code = call3(w[Block.kernel], share, 0, 1)
            if code != 0:
                return code
            convert(w, share, chunk, first, 1)
        return 0

    return widened_units


WIDENED_UNITS = Kernel("widened_units", _build)


def prepare(
    call: Call, units: Units, prepare_wide: Callable[[Call], Prepared], cast: Callable[[ArrayDesc, ArrayDesc], Native]
) -> Prepared | None:
    """The call in chunks of its units; None where a chunk would be the whole."""
    descs = [*call.inputs, *call.outputs]
    elements = sum(desc.size for n, desc in enumerate(descs) if desc is not None and units.pieces[n] is not None)
    at_once = _units_at_once(units, elements)
    if at_once in (0, units.total):
        return None
    with undivided():
        inner = prepare_wide(units.of(at_once))
    native, wide = inner.native, units.of(at_once)
    assert native is not None
    assert not native.attributes, "numbers given at each run would not reach the block of a share"
    chunks = units.total // at_once
    start, table, blocks, owners = in_lines(8 * len(native.block)), [], [native.block.tolist()], [native.owner]
    present = [(n, desc) for n, desc in enumerate(descs) if desc is not None and native.arguments[n] != NO_WORD]
    blocks_at = size_of(Block) + _ARGUMENT_WORDS * len(present)
    wides = [*wide.inputs, *wide.outputs]
    for position, desc in present:
        is_written, other = position >= len(call.inputs), wides[position]
        piece = units.pieces[position] or Piece(0)
        entry = {
            "far_bytes": piece.far * desc.dtype.itemsize,
            "chunk_bytes": at_once * piece.step * desc.dtype.itemsize,
            "rows": piece.rows,
            "row_bytes": piece.row * desc.dtype.itemsize,
            "word": native.arguments[position],
            "is_written": int(is_written),
        }
        if is_narrow(desc.dtype) and other is not None:
            narrow = other.astype(desc.dtype)
            made = cast(other, narrow) if is_written else cast(narrow, other)
            assert made.ranges is not None
            source, target = made.arguments[:2]
            entry |= {"cast": made.ranges(), "cast_words": len(made.block), "count": other.size // piece.rows}
            entry |= {"outside": target if is_written else source, "inside": source if is_written else target}
            entry |= {"cast_at": blocks_at + sum(map(len, blocks)), "block_start": start}
            start += in_lines(8 * len(made.block))
            entry["floats_start"] = start
            start += in_lines(other.nbytes)
            blocks.append(made.block.tolist())
            owners += [made, made.owner]
        elif piece.rows > 1:
            return None  # what is not cast would have to be copied
        table += filled(Argument, **entry)
    share_bytes = start + in_lines(inner.workspace)
    parts = fitting_shares(share_count(elements / _ELEMENTS_PER_US, chunks), share_bytes)
    words = filled(
        Block,
        kernel=native.address,
        inner_at=blocks_at,
        inner_words=len(native.block),
        chunks=chunks,
        period=units.per // at_once,
        share_bytes=share_bytes,
        inner_workspace=native.arguments[len(descs)] if inner.workspace else NO_WORD,
        inner_workspace_start=start,
        arguments=len(present),
    )
    places = {n: size_of(Block) + _ARGUMENT_WORDS * k + Argument.address for k, (n, _) in enumerate(present)}
    return launch(
        WIDENED_UNITS,
        [*words, *table, *(word for block in blocks for word in block)],
        (*(places.get(n, NO_WORD) for n in range(len(descs))), Block.workspace),
        parts=parts,
        workspace=share_bytes * parts,
        errors=native.errors,
        owner=(WIDENED_UNITS, *owners),
        note=f"{inner.note}, {at_once} units at once" if inner.note else f"{at_once} units at once",
    )


def _units_at_once(units: Units, elements: int) -> int:
    """How many units are a chunk: a divisor of those in a row, the largest up to the wanted size or the smallest."""
    per, wanted = units.per, _CHUNK_ELEMENTS * units.total // max(1, elements)
    for n in chain(range(min(wanted, per), units.least - 1, -1), range(units.least, per + 1)):
        if per % n == 0:
            return n
    return 0
