"""Recurrent layers of few sequences on several threads: a loop over the steps, each of which is shared by units.

All units of a step need all of the state before, so that every step is handed to the threads anew, as a row of a loop.
A share takes whole panels of units through all of their maps; its part of the weight stays in the caches of its
processor. In the first step it multiplies its maps by x of all steps, and packs its part of the weight where no pack is
kept: whole panels, behind which PACK writes nothing. Products and cells are those of `sequences`, in the same order: so
are the results, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atled.plugin import LoopBlock, LoopRowWord, LoopWord, MoveWord, Native, Pack, Prepared
from atled_cpu_numba import pool
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import is_undivided
from atled_cpu_numba.kernels.shared.layout import NO_WORD, layout
from atled_cpu_numba.store import Kernel

# What a share should take of each step, about: handing a row over and waiting for it takes 1 us, and the state goes
# from one processor's caches to the other's.
_SHARE_US = 4.0
# Cautious rates of one core, for the number of shares: a few rows take the weight as quickly as it comes.
_FLOPS_PER_US = 150e3
_BYTES_PER_US = 60e3


@layout
class Forward:
    """What the forward kernels read."""

    pack: int  # address of PACK
    multiply: int  # address of MULTIPLY_ROWS or MULTIPLY_WIDE
    multiply_step: int  # address of the same or, for few sequences, of MULTIPLY_FEW
    steps: int
    batch: int
    depth: int  # of x
    size: int  # units
    reverse: int  # whether the last step comes first
    x: int  # addresses from here on
    h: int
    c: int
    weight: int
    bias: int  # or 0
    y: int
    h_n: int
    c_n: int  # or 0
    gates: int
    cells: int
    workspace: int
    share_bytes: int  # of the workspace, per share
    packed: int  # address of the weight as PACK_WEIGHT leaves it, or 0
    columns: int  # of its panels
    panels_start: int  # in shares of units, bytes of the workspace before the weight where it is packed by the shares
    number: int  # in shares of units, of the step, which the loop sets


def build(dtype: str, name: str) -> Callable[..., int]:
    """The kernel of one step, for cells of a name."""
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.recurrent.cells import cell_of
    from atled_cpu_numba.kernels.recurrent.products import pieces_of
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    element, floats, pieces = SIZES[dtype], Real(dtype).pointer, pieces_of(dtype)
    pack_columns, product, padded = pieces.pack_columns, pieces.product_of_columns, pieces.padded
    copy_row = pieces.copy_row
    cell = cell_of(name, dtype)
    maps, saved, separate, forward = cell.maps, cell.saved, cell.separate, cell.forward
    joined, width, columns = maps - separate, max(1, saved), lanes_of(dtype).columns

    @kernel
    def units_of_step(block, part, parts):
        w = words(block)
        pack, multiply, steps, batch = w[Forward.pack], w[Forward.multiply], w[Forward.steps], w[Forward.batch]
        depth, size, number = w[Forward.depth], w[Forward.size], w[Forward.number]
        weight, bias, y, cells = w[Forward.weight], w[Forward.bias], w[Forward.y], w[Forward.cells]
        gates = w[Forward.gates] if saved else y
        panels = size // columns
        first = panels * part // parts * columns
        count = panels * (part + 1) // parts * columns - first
        if count == 0:
            return 0
        inner = w[Forward.workspace] + part * w[Forward.share_bytes]
        zeros = inner + 8 * BLOCK_WORDS
        zero = floats(zeros)
        packed_x = w[Forward.packed]
        if packed_x == 0:
            packed_x = w[Forward.workspace] + w[Forward.panels_start]
        packed_h = packed_x + element * padded(maps * size, columns) * depth
        packed_new = packed_h + element * padded(joined * size, columns) * size
        row = depth + size
        for i in range(columns):
            zero[i] = 0.0
        s_column = 1 if bias != 0 else 0
        if number == 0:
            for number_of_map in range(maps):
                at = number_of_map * size + first
                if w[Forward.packed] == 0:
                    of_h = weight + element * depth
                    pack_columns(pack, inner, weight, row, 1, at, count, maps * size, depth, packed_x, columns)
                    if number_of_map < joined:
                        pack_columns(pack, inner, of_h, row, 1, at, count, joined * size, size, packed_h, columns)
                    else:
                        of_h += element * joined * size * row
                        at_new = at - joined * size
                        n_new = separate * size
                        pack_columns(pack, inner, of_h, row, 1, at_new, count, n_new, size, packed_new, columns)
                product(
                    multiply, inner, w[Forward.x], depth, steps * batch, depth, at, count, maps * size, packed_x,
                    gates + element * at, width * size, bias + element * at if bias != 0 else zeros, 0, s_column, 0,
                    columns,
                )  # fmt: skip
        last = number == steps - 1
        t = steps - 1 - number if w[Forward.reverse] != 0 else number
        before = t + 1 if w[Forward.reverse] != 0 else t - 1
        before_h = w[Forward.h] if number == 0 else y + element * before * batch * size
        before_c = w[Forward.c] if number == 0 else cells + element * before * batch * size
        maps_at = gates + element * t * batch * width * size
        for turn in range(maps):
            # Of the weight, what the step before read last is still in the caches.
            number_of_map = maps - 1 - turn if number & 1 else turn
            at, n, packed = number_of_map * size + first, joined * size, packed_h
            target = maps_at + element * at
            s, s_row, step = target, width * size, 1
            from_column = at
            if number_of_map >= joined:
                n, packed, from_column = separate * size, packed_new, at - joined * size
                target += element * separate * size
                s, s_row, step = bias + element * (at + separate * size) if bias != 0 else zeros, 0, s_column
            product(
                w[Forward.multiply_step], inner, before_h, size, batch, size, from_column, count, n, packed,
                target, width * size, s, s_row, step, number & 1, columns,
            )  # fmt: skip
        y_at, cells_at = y + element * (t * batch * size + first), cells + element * (t * batch * size + first)
        for r in range(batch):
            at = element * r * size
            forward(
                maps_at + width * at + element * first,
                before_h + at + element * first,
                before_c + at + element * first,
                y_at + at,
                cells_at + at,
                size,
                count,
            )
            if last:
                copy_row(y_at + at, w[Forward.h_n] + at + element * first, count)
                if w[Forward.c_n] != 0:
                    copy_row(cells_at + at, w[Forward.c_n] + at + element * first, count)
        return 0

    return units_of_step


def shares(steps: int, batch: int, size: int, maps: int, dtype: str) -> int:
    """How many shares each step is worth; 1 where sequences had better be computed one by one, as `sequences` does."""
    panels, rest = divmod(size, lanes_of(dtype).columns)
    if rest or steps < 2 or is_undivided():
        return 1
    weights = maps * size * size
    step_us = max(2.0 * batch * weights / _FLOPS_PER_US, SIZES[dtype] * weights / _BYTES_PER_US)
    return max(1, min(pool.thread_count(), panels, int(step_us / _SHARE_US)))


def prepare(
    kernel: Kernel,
    words: Sequence[int],
    parts: int,
    arguments: Sequence[int],
    share_bytes: int,
    panel_bytes: int,
    packed: Callable[[int], Pack],
    note: str,
) -> Prepared:
    """The loop whose row is the kernel on a block of these words, in `parts` shares.

    arguments: words of the kernel's block for the inputs, the outputs and the workspace.
    share_bytes: of workspace, for the pieces.  panel_bytes: of the weight in panels.
    packed: what the weight is packed by, for the word of its address.
    """
    address, own = pool.loop_kernel()
    loop = LoopBlock(own, moves=1, rows=1)
    block = loop.add(words)
    loop[block + Forward.share_bytes], loop[block + Forward.panels_start] = share_bytes, share_bytes * parts
    loop[LoopWord.COUNT] = words[Forward.steps]
    loop[loop.row(0, LoopRowWord.KERNEL)], loop[loop.row(0, LoopRowWord.PARTS)] = kernel.address(), parts
    loop.point(loop.row(0, LoopRowWord.BLOCK), block)
    # What moves is no array but the number of the step.
    loop[loop.move(0, MoveWord.STRIDE)] = 1
    loop.patch(block + Forward.number, 0)
    places = tuple(NO_WORD if word == NO_WORD else block + word for word in arguments)
    return Prepared(
        native=Native(address, loop.words, places, owner=kernel),
        workspace=share_bytes * parts + panel_bytes,
        packs=(packed(block + Forward.packed),),
        note=note,
    )
