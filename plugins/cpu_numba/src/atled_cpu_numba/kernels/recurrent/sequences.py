"""Recurrent layers over whole sequences, LSTMSequence and the like, and their gradients, in float32.

A share takes some of the sequences, which do not depend on each other, through all steps. It packs the weights once.
The products of all steps' x come first, many rows at a time; in the loop remains the product with h, then the cell.

Block of the forward kernels (64-bit words):
    0 PACK, 1 MULTIPLY_ROWS    addresses of the pieces
    2 steps, 3 batch, 4 depth, 5 size, 6 reverse
    7 x, 8 h, 9 c, 10 weight, 11 bias or 0, 12 y, 13 h_n, 14 c_n, 15 gates, 16 cells
    17 workspace, 18 bytes of it per share
Block of the gradients' kernels:
    0 to 6 likewise
    7 gates, 8 cells, 9 c, 10 weight, 11 gy, 12 gh_n, 13 gc_n (each 0 if absent), 14 of_x, 15 of_h, 16 gh, 17 gc
    18 workspace, 19 bytes of it per share, 20 y, 21 h
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK, PACK_SLACK
from atled_cpu_numba.kernels.products.row_products import MULTIPLY_ROWS
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, has_empty, launch, refuse_floats, share_count
from atled_cpu_numba.store import Kernel

K_STEP = 256  # a panel of B, k_step x 32 float32, and a tile of A stay in the level-1 cache
ROW_STEP = 192  # rows of A at a time, which stay in the level-2 cache
_SHARE_ROWS = 16  # the fewest sequences worth a share: each share packs and reads all of the weight
_WEIGHT = 10  # its word in both blocks
_FLOPS_PER_US = 150e3  # a cautious rate of one core, for the number of shares


def _build_forward(name: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats32, words
    from atled_cpu_numba.kernels.recurrent import cells as recurrent_cells
    from atled_cpu_numba.kernels.recurrent.products import copy_row, pack_weight, padded, product
    from atled_cpu_numba.kernels.shared.options import kernel

    cell: recurrent_cells.Cell = getattr(recurrent_cells, name)
    maps, saved, separate, forward = cell.maps, cell.saved, cell.separate, cell.forward
    width = max(1, saved)
    zero_count = host_lanes().columns

    @kernel
    def sequence(block, part, parts):
        w = words(block)
        pack, multiply, steps, batch, depth, size, reverse = w[0], w[1], w[2], w[3], w[4], w[5], w[6]
        weight, bias, y, cells = w[10], w[11], w[12], w[16]
        gates = w[15] if saved else y  # nothing but its output is kept of a cell that has no gates
        first, after = batch * part // parts, batch * (part + 1) // parts
        inner = w[17] + part * w[18]
        zeros = inner + 8 * BLOCK_WORDS
        packed_x = zeros + 4 * zero_count
        packed_h = packed_x + 4 * padded(maps * size) * depth
        packed_new = packed_h + 4 * padded((maps - separate) * size) * size
        zero = floats32(zeros)
        for i in range(zero_count):
            zero[i] = 0.0
        row = depth + size
        joined = maps - separate
        pack_weight(pack, inner, weight, row, 1, maps * size, depth, packed_x)
        pack_weight(pack, inner, weight + 4 * depth, row, 1, joined * size, size, packed_h)
        if separate > 0:
            pack_weight(
                pack, inner, weight + 4 * (joined * size * row + depth), row, 1, separate * size, size, packed_new
            )
        s, s_column = (bias, 1) if bias != 0 else (zeros, 0)
        # All rows of x follow each other if the share has all sequences, else those of one step do.
        groups = 1 if after - first == batch else steps
        rows = (after - first) * (steps // groups)
        for group in range(groups):
            at = group * batch + first
            product(
                multiply, inner, w[7] + 4 * at * depth, depth, rows, depth, maps * size, packed_x,
                gates + 4 * at * width * size, width * size, s, 0, s_column,
            )  # fmt: skip
        rows = after - first
        before_h, before_c = w[8] + 4 * first * size, w[9] + 4 * first * size
        for number in range(steps):
            t = steps - 1 - number if reverse != 0 else number
            at = t * batch + first
            maps_at = gates + 4 * at * width * size
            product(
                multiply, inner, before_h, size, rows, size, joined * size, packed_h,
                maps_at, width * size, maps_at, width * size, 1,
            )  # fmt: skip
            if separate > 0:
                product(
                    multiply, inner, before_h, size, rows, size, separate * size, packed_new,
                    maps_at + 4 * maps * size, width * size, s + 4 * maps * size * s_column, 0, s_column,
                )  # fmt: skip
            y_at, cells_at = y + 4 * at * size, cells + 4 * at * size
            for r in range(rows):
                forward(
                    maps_at + 4 * r * width * size,
                    before_h + 4 * r * size,
                    before_c + 4 * r * size,
                    y_at + 4 * r * size,
                    cells_at + 4 * r * size,
                    size,
                )
            before_h, before_c = y_at, cells_at
        copy_row(before_h, w[13] + 4 * first * size, rows * size)
        if w[14] != 0:
            copy_row(before_c, w[14] + 4 * first * size, rows * size)
        return 0

    return sequence


def _build_backward(name: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import floats32, words
    from atled_cpu_numba.kernels.recurrent import cells as recurrent_cells
    from atled_cpu_numba.kernels.recurrent.products import add_row, copy_row, pack_weight, padded, product
    from atled_cpu_numba.kernels.shared.options import kernel

    cell: recurrent_cells.Cell = getattr(recurrent_cells, name)
    maps, saved, separate, carries, backward = cell.maps, cell.saved, cell.separate, cell.carries, cell.backward
    width = max(1, saved)
    zero_count = host_lanes().columns

    @kernel
    def sequence_grad(block, part, parts):
        w = words(block)
        pack, multiply, steps, batch, depth, size, reverse = w[0], w[1], w[2], w[3], w[4], w[5], w[6]
        gates, cells, gy, gh, gc, y = w[7], w[8], w[11], w[16], w[17], w[20]
        of_x = w[14]
        of_h = w[15] if separate > 0 else of_x
        first, after = batch * part // parts, batch * (part + 1) // parts
        rows = after - first
        inner = w[18] + part * w[19]
        zeros = inner + 8 * BLOCK_WORDS
        packed_w = zeros + 4 * zero_count
        scratch = packed_w + 4 * padded(size) * maps * size + 4 * PACK_SLACK
        zero = floats32(zeros)
        for i in range(zero_count):
            zero[i] = 0.0
        pack_weight(pack, inner, w[10] + 4 * depth, 1, depth + size, size, maps * size, packed_w)
        # The outputs gh and gc hold what goes from step to step.
        gh, gc = gh + 4 * first * size, gc + 4 * first * size
        copy_row(w[12] + 4 * first * size if w[12] != 0 else 0, gh, rows * size)
        if w[17] != 0:
            copy_row(w[13] + 4 * first * size if w[13] != 0 else 0, gc, rows * size)
        for number in range(steps):
            t = number if reverse != 0 else steps - 1 - number
            at = t * batch + first
            before = (t + 1 if reverse != 0 else t - 1) * batch + first
            start = number == steps - 1
            before_h = w[21] + 4 * first * size if start else y + 4 * before * size
            before_c = w[9] + 4 * first * size if start else cells + 4 * before * size
            if gy != 0:
                add_row(gy + 4 * at * size, gh, rows * size)
            for r in range(rows):
                backward(
                    gates + 4 * (at + r) * width * size,
                    before_h + 4 * r * size,
                    before_c + 4 * r * size,
                    y + 4 * (at + r) * size,
                    cells + 4 * (at + r) * size,
                    of_x + 4 * (at + r) * maps * size,
                    of_h + 4 * (at + r) * maps * size,
                    gh + 4 * r * size,
                    gc + 4 * r * size,
                    scratch,
                    size,
                )
            s, s_row, s_column = (gh, size, 1) if carries else (zeros, 0, 0)
            product(
                multiply, inner, of_h + 4 * at * maps * size, maps * size, rows, maps * size, size,
                packed_w, gh, size, s, s_row, s_column,
            )  # fmt: skip
        return 0

    return sequence_grad


class _Family(NamedTuple):
    """The kernels of one kind of cell, and the places of their arguments in the block.

    maps: affine maps per unit.  inputs, outputs: words of the op's arguments, -1 for those that are not taken.
    """

    kernel: Kernel
    maps: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def _forward(name: str, maps: int, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> _Family:
    kernel = Kernel(f"{name.lower()}_sequence", partial(_build_forward, name), parameters=(name,))
    return _Family(kernel, maps, inputs, outputs)


def _backward(name: str, maps: int, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> _Family:
    kernel = Kernel(f"{name.lower()}_sequence_grad", partial(_build_backward, name), parameters=(name,))
    return _Family(kernel, maps, inputs, outputs)


_FORWARD = {
    "LSTM": _forward("LSTM", 4, (7, 8, 9, 10, 11), (12, 13, 14, 15, 16)),
    "GRU": _forward("GRU", 3, (7, 8, 10, 11), (12, 13, 15)),
    "TANH": _forward("TANH", 1, (7, 8, 10, 11), (12, 13)),
    "RELU": _forward("RELU", 1, (7, 8, 10, 11), (12, 13)),
}
_BACKWARD = {
    "LSTM": _backward("LSTM", 4, (7, 8, 9, 10, 11, 12, 13, -1, -1), (14, 16, 17)),
    "GRU": _backward("GRU", 3, (7, 20, 21, 10, 11, 12, -1), (14, 15, 16)),
    "TANH": _backward("TANH", 1, (20, 10, 11, 12), (14, 16)),
    "RELU": _backward("RELU", 1, (20, 10, 11, 12), (14, 16)),
}


def _is_gradient(call: Call) -> bool:
    return call.spec.name.endswith("Grad")


def _family(call: Call) -> _Family:
    families = _BACKWARD if _is_gradient(call) else _FORWARD
    kind = call.spec.name.partition("Sequence")[0]
    return families[call.attributes["nonlinearity"].upper() if kind == "RNN" else kind]


def accepts(call: Call) -> bool | str:
    """Whether the call is float32, of no empty arrays, and not one of a gradient of a gradient."""
    refused = refuse_floats(call, ("float32",), floats=range(len(call.inputs)), outputs=len(call.outputs))
    if refused:
        return refused
    for desc, word in zip(call.inputs, _family(call).inputs, strict=True):
        if word < 0 and desc is not None:
            return "takes no gradients of gates and cells, which only gradients of gradients have"
    return "takes no empty arrays" if has_empty(call) else True


def prepare(call: Call) -> Prepared:
    """The inputs and outputs of the op spec, and workspace."""
    forward, family = not _is_gradient(call), _family(call)
    sequence, weight = call.inputs[0], call.inputs[family.inputs.index(_WEIGHT)]
    assert sequence is not None
    assert weight is not None
    steps, batch = sequence.shape[:2]
    size = weight.shape[1]
    depth = weight.shape[2] - size
    # Per share: blocks, zeros, the packed weight, a scratch row.
    columns = host_lanes().columns
    inner = depth + size if forward else family.maps * size
    n = family.maps * size if forward else size
    share_bytes = 8 * BLOCK_WORDS + 4 * columns
    share_bytes += 4 * (_round_up(n, columns) + 2 * columns) * inner + 8 * PACK_SLACK + 4 * size
    share_bytes = _round_up(share_bytes, 64)
    work_us = 2.0 * steps * batch * inner * n / _FLOPS_PER_US
    parts = fitting_shares(share_count(work_us, max(1, batch // _SHARE_ROWS)), share_bytes)
    words = [PACK.address(), MULTIPLY_ROWS.address(), steps, batch, depth, size, int(call.attributes["reverse"])]
    workspace_word = 17 if forward else 18
    words += [0] * (22 - len(words))
    words[workspace_word + 1] = share_bytes
    given = tuple(-1 if desc is None else word for desc, word in zip(call.inputs, family.inputs, strict=True))
    return launch(
        family.kernel,
        words,
        (*given, *family.outputs, workspace_word),
        parts=parts,
        workspace=share_bytes * parts,
        note=f"packed once, {host_lanes().rows}x{columns} tiles",
    )


def _round_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
