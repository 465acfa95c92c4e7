"""Sums of products in tiles: how large they are, into how many parts long sums are cut, and their launches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from atled.plugin import Call
from atled_cuda_cupy.compiling import template
from atled_cuda_cupy.devices import Device, device
from atled_cuda_cupy.kernels.sized import computed_bytes, is_wide, sized, storing, types
from atled_cuda_cupy.launching import Launch

_EACH = {
    (128, 128): (8, 8),
    (64, 128): (8, 8),
    (128, 64): (8, 8),
    (64, 64): (8, 4),
    (32, 128): (8, 4),
    (128, 32): (8, 4),
    (32, 64): (4, 4),
    (64, 32): (4, 4),
    (16, 128): (4, 4),
    (32, 32): (2, 4),
    (16, 64): (2, 4),
    (16, 32): (2, 2),
}
"""Rows and columns of a tile, and those of them that a thread computes: 128 threads, or 256."""
_EACH_DOUBLE = {tile: each for tile, each in _EACH.items() if each[0] * each[1] <= 16} | {(64, 64): (4, 4)}

# A model of the time that tiles take, in clocks of a multiprocessor, which multiplies 128 pairs in one.
_PAIRS = 128
_LARGE = 128 * 64
_FILLING = 0.15  # for each element of a tile's two sides
_FINISHING = 4000  # of a launch that adds up parts
_LEAST_DEPTH = 128  # of a part


class Tiling(NamedTuple):
    """Rows and columns of a tile; those of a thread; products in a stage, in a part of a sum; the parts."""

    rows: int
    columns: int
    tall: int
    broad: int
    stage: int
    part_depth: int
    parts: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.rows // self.tall * (self.columns // self.broad)

    def __str__(self) -> str:
        parts = f", {self.parts} parts" if self.parts > 1 else ""
        return f"{self.rows}x{self.columns} tiles{parts}"


def choose(
    rows: int, columns: int, depth: int, copies: int, multiprocessors: int, is_double: bool, *, has_largest: bool
) -> Tiling:
    """The tiling that the model finds fastest for so many products of matrices of one size.

    has_largest: whether the largest tiles are among them. Some kinds of product have no registers left for these.
    """

    def clocks(tiling: Tiling) -> float:
        blocks = -(-rows // tiling.rows) * -(-columns // tiling.columns) * copies * tiling.parts
        each = tiling.rows * tiling.columns / _PAIRS + _FILLING * (tiling.rows + tiling.columns)
        return -(-blocks // multiprocessors) * each * tiling.part_depth + _FINISHING * (tiling.parts > 1)

    candidates = []
    for (tall, broad), each in (_EACH_DOUBLE if is_double else _EACH).items():
        if tall * broad > _LARGE and not has_largest:
            continue
        stage = 8 if tall * broad >= 4096 and not is_double else 16
        blocks = -(-rows // tall) * -(-columns // broad) * copies
        for wanted in {1, min(2 * multiprocessors // max(blocks, 1), depth // _LEAST_DEPTH)} - {0}:
            part = -(-depth // (wanted * stage)) * stage
            candidates.append(Tiling(tall, broad, *each, stage, part, max(1, -(-depth // max(part, 1)))))
    return min(candidates, key=clocks)


class Tiled(NamedTuple):
    """The launches of products in tiles: of the products, and of the end if they are computed in parts."""

    products: Launch
    finish: Launch | None
    workspace: int
    note: str

    def steps(self, own: Sequence[Any], attached: Sequence[Any], workspace: Sequence[Any]) -> list[Any]:
        """For the arrays a, b, bias, y, and others; Any: arrays of the device, or None."""
        a, b, bias, y = own
        if self.finish is None:
            return [(self.products, (a, b, bias, y, *attached), 0)]
        return [(self.products, (a, b, None, *workspace), 0), (self.finish, (*workspace, bias, y, *attached), 0)]


def tiled(
    call: Call,
    kind: str,
    shape: tuple[int, int, int],
    groups: int,
    sizes: Mapping[str, int],
    tiling: Tiling,
    copies: int,
    defines: Mapping[str, object],
    bias: tuple[int, int],
    divisors: Collection[str] = (),
) -> Tiled:
    """The launches of a call.

    shape: rows, columns, depth of a product.  groups, copies: of products, and those times phases.
    sizes: those that the kind of product needs besides, in tiles.cuh.
    bias: how many elements of y in a row have the same, and how many biases there are.
    divisors: sizes that the kernel divides by.
    """
    where, y = device(call.device_id), call.outputs[0]
    rows, columns, depth = shape
    row_tiles, column_tiles = -(-rows // tiling.rows), -(-columns // tiling.columns)
    counts = {"ROW_COUNT": rows, "COLUMN_COUNT": columns, "DEPTH_COUNT": depth}
    tiles = {"ROW_TILES": row_tiles, "COLUMN_TILES": column_tiles, "GROUPS": groups}
    sizes = {**counts, **tiles, **sizes, "PARTS": tiling.parts, "PART_DEPTH": tiling.part_depth, "PART_SIZE": y.size}
    tile = {"ROWS": tiling.rows, "COLUMNS": tiling.columns, "TALL": tiling.tall, "BROAD": tiling.broad}
    is_part = tiling.parts > 1
    named = {"KIND": kind, **tile, "DEPTH": tiling.stage, "IS_PART": int(is_part), **types(y), **defines}
    text = ("#define OPERANDS\n" if is_part else storing(call)) + template("tiles")
    floats = 0 if is_part else call.float_count
    wide = is_wide(call) or y.size * tiling.parts >= 2**30
    grid = row_tiles * column_tiles * copies * tiling.parts if y.size else 0
    products = sized(
        where, text, "tiles", sizes, grid, tiling.threads, named, divisors=divisors, floats=floats, wide=wide
    )
    if not is_part:
        return Tiled(products, None, 0, str(tiling))
    end = finish(where, call, tiling.parts, *bias, source=types(y)["A"])
    return Tiled(products, end, tiling.parts * y.size * computed_bytes(y), str(tiling))


def finish(where: Device, call: Call, parts: int, bias_step: int, biases: int, source: str) -> Launch:
    """What adds up parts of output 0, adds the bias, and stores by the formula; source: type of the parts."""
    y = call.outputs[0]
    sizes = {"COUNT": y.size, "PARTS": parts, "BIAS_STEP": bias_step, "BIASES": biases}
    text = storing(call) + template("finish")
    grid = where.blocks(y.size) if y.size else 0
    wide = y.size * parts >= 2**30
    return sized(where, text, "finish", sizes, grid, 256, {"S": source, **types(y)}, floats=call.float_count, wide=wide)
