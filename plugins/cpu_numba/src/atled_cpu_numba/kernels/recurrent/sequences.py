"""Recurrent layers over whole sequences, LSTMSequence and the like, and their gradients.

A share takes some of the sequences, which do not depend on each other, through all steps. It packs the weights once.
The products of all steps' x come first, many rows at a time; in the loop remains the product with h, then the cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from atled.plugin import Call, NamedTuple, Pack, Prepared
from atled_cpu_numba import pool
from atled_cpu_numba.kernels.products.matmul_plan import round_up
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, PACK_SLACK, ZERO_PANELS
from atled_cpu_numba.kernels.products.row_products import FEW_ROWS, MULTIPLY_FEW, MULTIPLY_ROWS
from atled_cpu_numba.kernels.products.wide_products import MULTIPLY_WIDE, WIDE_ROWS, are_wide, wide_columns
from atled_cpu_numba.kernels.recurrent import units
from atled_cpu_numba.kernels.recurrent.packed_weights import packed_bytes, weight_packed
from atled_cpu_numba.kernels.recurrent.units import Forward
from atled_cpu_numba.kernels.shared.lanes import SIZES, Lanes, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    REALS,
    SHARE_US,
    fitting_shares,
    has_empty,
    in_lines,
    kernels_by_dtype,
    launch,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, layout, words_of
from atled_cpu_numba.store import Kernel

K_STEP = 256  # a panel of B, k_step x 32 float32, and a tile of A stay in the level-1 cache
ROW_STEP = 192  # rows of A at a time, which stay in the level-2 cache
_SHARE_ROWS = 16  # the fewest sequences worth a share: each packs all of the weight, unless it is kept, and reads it
_FLOPS_PER_US = 150e3  # a cautious rate of one core, for the number of shares


@layout
class Backward:
    """What the kernels of the gradients read."""

    pack: int  # address of PACK
    multiply_step: int  # address of MULTIPLY_ROWS or MULTIPLY_WIDE or, for few sequences, of MULTIPLY_FEW
    columns: int  # of a panel of the weight
    steps: int
    batch: int
    depth: int  # of x
    size: int  # units
    reverse: int  # whether the last step came first
    gates: int  # addresses from here on
    cells: int
    c: int
    weight: int
    gy: int  # or 0
    gh_n: int  # or 0
    gc_n: int  # or 0
    of_x: int  # gradient of the maps of x
    of_h: int  # gradient of the maps of h, where it is another
    gh: int
    gc: int
    workspace: int
    share_bytes: int  # of the workspace, per share
    y: int
    h: int


def _build_forward(dtype: str, name: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.recurrent.cells import cell_of
    from atled_cpu_numba.kernels.recurrent.products import pieces_of
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    element, floats, pieces = SIZES[dtype], Real(dtype).pointer, pieces_of(dtype)
    copy_row, pack_weight, padded, product = pieces.copy_row, pieces.pack_weight, pieces.padded, pieces.product
    cell = cell_of(name, dtype)
    maps, saved, separate, forward = cell.maps, cell.saved, cell.separate, cell.forward
    width = max(1, saved)
    zero_count = ZERO_PANELS * lanes_of(dtype).columns

    @kernel
    def sequence(block, part, parts):
        w = words(block)
        pack, multiply, steps, batch = w[Forward.pack], w[Forward.multiply], w[Forward.steps], w[Forward.batch]
        multiply_step = w[Forward.multiply_step]
        depth, size, reverse = w[Forward.depth], w[Forward.size], w[Forward.reverse]
        weight, bias, y, cells = w[Forward.weight], w[Forward.bias], w[Forward.y], w[Forward.cells]
        columns = w[Forward.columns]
        gates = w[Forward.gates] if saved else y  # nothing but its output is kept of a cell that has no gates
        first, after = batch * part // parts, batch * (part + 1) // parts
        inner = w[Forward.workspace] + part * w[Forward.share_bytes]
        zeros = inner + 8 * BLOCK_WORDS
        packed_x = zeros + element * zero_count if w[Forward.packed] == 0 else w[Forward.packed]
        packed_h = packed_x + element * padded(maps * size, columns) * depth
        packed_new = packed_h + element * padded((maps - separate) * size, columns) * size
        zero = floats(zeros)
        for i in range(zero_count):
            zero[i] = 0.0
        row = depth + size
        joined = maps - separate
        if w[Forward.packed] == 0:
            pack_weight(pack, inner, weight, row, 1, maps * size, depth, packed_x, columns)
            pack_weight(pack, inner, weight + element * depth, row, 1, joined * size, size, packed_h, columns)
            if separate > 0:
                start = weight + element * (joined * size * row + depth)
                pack_weight(pack, inner, start, row, 1, separate * size, size, packed_new, columns)
        s, s_column = (bias, 1) if bias != 0 else (zeros, 0)
        # At a time x of all sequences and steps, if the share has all sequences, else of all steps of one, or of one
        # step, whichever is more.
        rows = after - first
        groups, at_once, group_step, row_step = steps, rows, batch, 1
        if rows == batch:
            groups, at_once = 1, steps * batch
        elif rows < steps:
            groups, at_once, group_step, row_step = rows, steps, 1, batch
        for group in range(groups):
            at = first + group * group_step
            product(
                multiply, inner, w[Forward.x] + element * at * depth, row_step * depth, at_once, depth, maps * size,
                packed_x, gates + element * at * width * size, row_step * width * size, s, 0, s_column, 0, columns,
            )  # fmt: skip
        before_h, before_c = w[Forward.h] + element * first * size, w[Forward.c] + element * first * size
        for number in range(steps):
            t = steps - 1 - number if reverse != 0 else number
            at = t * batch + first
            maps_at = gates + element * at * width * size
            # Every second step begins with what of the weight the step before read last.
            for turn in range(2 if separate > 0 else 1):
                if separate > 0 and turn != number & 1:
                    product(
                        multiply_step, inner, before_h, size, rows, size, separate * size, packed_new,
                        maps_at + element * maps * size, width * size, s + element * maps * size * s_column, 0,
                        s_column, number & 1, columns,
                    )  # fmt: skip
                else:
                    product(
                        multiply_step, inner, before_h, size, rows, size, joined * size, packed_h,
                        maps_at, width * size, maps_at, width * size, 1, number & 1, columns,
                    )  # fmt: skip
            y_at, cells_at = y + element * at * size, cells + element * at * size
            for r in range(rows):
                forward(
                    maps_at + element * r * width * size,
                    before_h + element * r * size,
                    before_c + element * r * size,
                    y_at + element * r * size,
                    cells_at + element * r * size,
                    size,
                    size,
                )
            before_h, before_c = y_at, cells_at
        copy_row(before_h, w[Forward.h_n] + element * first * size, rows * size)
        if w[Forward.c_n] != 0:
            copy_row(before_c, w[Forward.c_n] + element * first * size, rows * size)
        return 0

    return sequence


def _build_backward(dtype: str, name: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import words
    from atled_cpu_numba.kernels.recurrent.cells import cell_of
    from atled_cpu_numba.kernels.recurrent.products import pieces_of
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    element, floats, pieces = SIZES[dtype], Real(dtype).pointer, pieces_of(dtype)
    add_row, copy_row = pieces.add_row, pieces.copy_row
    pack_weight, padded, product = pieces.pack_weight, pieces.padded, pieces.product
    cell = cell_of(name, dtype)
    maps, saved, separate, carries, backward = cell.maps, cell.saved, cell.separate, cell.carries, cell.backward
    width = max(1, saved)
    zero_count = ZERO_PANELS * lanes_of(dtype).columns

    @kernel
    def sequence_grad(block, part, parts):
        w = words(block)
        pack, multiply, steps = w[Backward.pack], w[Backward.multiply_step], w[Backward.steps]
        batch, columns = w[Backward.batch], w[Backward.columns]
        depth, size, reverse = w[Backward.depth], w[Backward.size], w[Backward.reverse]
        gates, cells, gy = w[Backward.gates], w[Backward.cells], w[Backward.gy]
        gh, gc, y = w[Backward.gh], w[Backward.gc], w[Backward.y]
        of_x = w[Backward.of_x]
        of_h = w[Backward.of_h] if separate > 0 else of_x
        first, after = batch * part // parts, batch * (part + 1) // parts
        rows = after - first
        inner = w[Backward.workspace] + part * w[Backward.share_bytes]
        zeros = inner + 8 * BLOCK_WORDS
        packed_w = zeros + element * zero_count
        own = packed_w + element * padded(size, columns) * maps * size + element * PACK_SLACK
        zero = floats(zeros)
        for i in range(zero_count):
            zero[i] = 0.0
        pack_weight(
            pack, inner, w[Backward.weight] + element * depth, 1, depth + size, size, maps * size, packed_w, columns
        )
        # The outputs gh and gc hold what goes from step to step.
        gh, gc = gh + element * first * size, gc + element * first * size
        copy_row(w[Backward.gh_n] + element * first * size if w[Backward.gh_n] != 0 else 0, gh, rows * size)
        if w[Backward.gc] != 0:
            copy_row(w[Backward.gc_n] + element * first * size if w[Backward.gc_n] != 0 else 0, gc, rows * size)
        for number in range(steps):
            t = number if reverse != 0 else steps - 1 - number
            at = t * batch + first
            before = (t + 1 if reverse != 0 else t - 1) * batch + first
            start = number == steps - 1
            before_h = w[Backward.h] + element * first * size if start else y + element * before * size
            before_c = w[Backward.c] + element * first * size if start else cells + element * before * size
            if gy != 0:
                add_row(gy + element * at * size, gh, rows * size)
            for r in range(rows):
                backward(
                    gates + element * (at + r) * width * size,
                    before_h + element * r * size,
                    before_c + element * r * size,
                    y + element * (at + r) * size,
                    cells + element * (at + r) * size,
                    of_x + element * (at + r) * maps * size,
                    of_h + element * (at + r) * maps * size,
                    gh + element * r * size,
                    gc + element * r * size,
                    own,
                    size,
                )
            s, s_row, s_column = (gh, size, 1) if carries else (zeros, 0, 0)
            product(
                multiply, inner, of_h + element * at * maps * size, maps * size, rows, maps * size, size,
                packed_w, gh, size, s, s_row, s_column, number & 1, columns,
            )  # fmt: skip
        return 0

    return sequence_grad


class _Family(NamedTuple):
    """The kernels of one kind of cell, by dtype, and where their arguments are in the block.

    by_units: those of `units`, for the forward.
    block: the layout.  maps: affine maps per unit.  separate: of them, whose products with h are not added to those
        with x.
    inputs, outputs: words of the op's arguments by name, None for inputs that are not taken.
    """

    kernels: Mapping[str, Kernel]
    by_units: Mapping[str, Kernel]
    block: type[Forward | Backward]
    maps: int
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    separate: int = 0


def _forward(name: str, maps: int, inputs: tuple[str, ...], outputs: tuple[str, ...], *, separate: int = 0) -> _Family:
    kernels = kernels_by_dtype(f"{name.lower()}_sequence", _build_forward, name)
    by_units = kernels_by_dtype(f"{name.lower()}_units", units.build, name)
    return _Family(kernels, by_units, Forward, maps, inputs, outputs, separate)


def _backward(name: str, maps: int, inputs: tuple[str | None, ...], outputs: tuple[str, ...]) -> _Family:
    kernels = kernels_by_dtype(f"{name.lower()}_sequence_grad", _build_backward, name)
    return _Family(kernels, {}, Backward, maps, inputs, outputs)


_FORWARD = {
    "LSTM": _forward("LSTM", 4, ("x", "h", "c", "weight", "bias"), ("y", "h_n", "c_n", "gates", "cells")),
    "GRU": _forward("GRU", 3, ("x", "h", "weight", "bias"), ("y", "h_n", "gates"), separate=1),
    "TANH": _forward("TANH", 1, ("x", "h", "weight", "bias"), ("y", "h_n")),
    "RELU": _forward("RELU", 1, ("x", "h", "weight", "bias"), ("y", "h_n")),
}
_BACKWARD = {
    "LSTM": _backward(
        "LSTM",
        4,
        ("gates", "cells", "c", "weight", "gy", "gh_n", "gc_n", None, None),
        ("of_x", "gh", "gc"),
    ),
    "GRU": _backward("GRU", 3, ("gates", "y", "h", "weight", "gy", "gh_n", None), ("of_x", "of_h", "gh")),
    "TANH": _backward("TANH", 1, ("y", "weight", "gy", "gh_n"), ("of_x", "gh")),
    "RELU": _backward("RELU", 1, ("y", "weight", "gy", "gh_n"), ("of_x", "gh")),
}


def _is_gradient(call: Call) -> bool:
    return call.spec.name.endswith("Grad")


def _family(call: Call) -> _Family:
    families = _BACKWARD if _is_gradient(call) else _FORWARD
    kind = call.spec.name.partition("Sequence")[0]
    return families[call.attributes["nonlinearity"].upper() if kind == "RNN" else kind]


def accepts(call: Call) -> bool | str:
    """Whether the call is float32 or float64, of no empty arrays, and not one of a gradient of a gradient."""
    refused = refuse_floats(call, REALS, floats=range(len(call.inputs)), outputs=len(call.outputs))
    if refused:
        return refused
    for desc, name in zip(call.inputs, _family(call).inputs, strict=True):
        if name is None and desc is not None:
            return "takes no gradients of gates and cells, which only gradients of gradients have"
    return "takes no empty arrays" if has_empty(call) else True


def _share_rows(batch: int, forward: bool, lanes: Lanes) -> int:
    """The fewest sequences worth a share.

    Under AVX2 a tile has so few rows that it takes weights as quickly as they come from the level-3 cache. Where there
    is one for every thread, threads wait for each other once, and not at each step as with shares of units.
    """
    rows = batch // pool.thread_count()
    return min(_SHARE_ROWS, rows) if forward and lanes.has_short_tiles and rows >= WIDE_ROWS else _SHARE_ROWS


def prepare(call: Call) -> Prepared:
    """The inputs and outputs of the op spec, and workspace."""
    forward, family = not _is_gradient(call), _family(call)
    sequence, weight = call.inputs[0], call.inputs[family.inputs.index("weight")]
    assert sequence is not None
    assert weight is not None
    steps, batch = sequence.shape[:2]
    size = weight.shape[1]
    depth = weight.shape[2] - size
    dtype = sequence.dtype.name
    lanes, element = lanes_of(dtype), SIZES[dtype]
    inner = depth + size if forward else family.maps * size
    n = family.maps * size if forward else size
    words = filled(
        family.block,
        pack=PACK[dtype].address(),
        steps=steps,
        batch=batch,
        depth=depth,
        size=size,
        reverse=int(call.attributes["reverse"]),
    )
    given = [None if desc is None else name for desc, name in zip(call.inputs, family.inputs, strict=True)]
    arguments = words_of(family.block, *given, *family.outputs, "workspace")
    piece_bytes = in_lines(8 * BLOCK_WORDS + element * ZERO_PANELS * lanes.columns)
    work_us = 2.0 * steps * batch * inner * n / _FLOPS_PER_US
    parts = share_count(work_us, max(1, batch // _share_rows(batch, forward, lanes)))
    shares = 1
    if forward and parts == 1 and work_us >= 2 * SHARE_US:
        shares = units.shares(steps, batch, size, family.maps, dtype)
    # Shares of units are whole panels of `Lanes.columns`.
    is_wide = shares == 1 and batch > FEW_ROWS and are_wide(batch // parts, n, lanes)
    columns = wide_columns(lanes) if is_wide else lanes.columns
    multiply = (MULTIPLY_WIDE if is_wide else MULTIPLY_ROWS)[dtype].address()
    words[family.block.multiply_step] = MULTIPLY_FEW[dtype].address() if batch <= FEW_ROWS else multiply
    words[family.block.columns] = columns
    note = f"packed once, {WIDE_ROWS if is_wide else lanes.rows}x{columns} tiles"
    packs = []
    if forward:
        words[Forward.multiply] = multiply
        sizes = {"maps": family.maps, "separate": family.separate, "depth": depth, "size": size, "columns": columns}
        operand = family.inputs.index("weight")

        def packed(word: int) -> Pack:
            return weight_packed(word, operand, dtype, **sizes)

        if shares > 1:
            panels = packed_bytes(**sizes, dtype=dtype)
            kernel, note = family.by_units[dtype], f"{note}, steps shared by units"
            return units.prepare(kernel, words, shares, arguments, piece_bytes, panels, packed, note)
        packs.append(packed(Forward.packed))
    # Per share: blocks and zeros, the packed weight, a row for the cells.
    share_bytes = piece_bytes + element * ((round_up(n, columns) + 2 * columns) * inner + 2 * PACK_SLACK + size)
    share_bytes = in_lines(share_bytes)
    parts = fitting_shares(parts, share_bytes)
    words[family.block.share_bytes] = share_bytes
    return launch(
        family.kernels[dtype],
        words,
        arguments,
        parts=parts,
        workspace=share_bytes * parts,
        packs=packs,
        note=note,
    )
