"""Formulas in tiles, for operands that do not lie along the inner axis: copied to or from small buffers, tile by tile.

A tile is a matrix: `height` elements along the innermost outer axis, `width` along the inner one. Rows of buffers and
of all other operands are then what rows of contiguous arrays are, and computed by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from atled.named_tuple import NamedTuple
from atled.ops.formula_layout import STRIDED, Layout, item_bytes
from atled.ops.formula_llvm_math import Code
from atled.ops.formula_llvm_moves import moves

_ALIGNED = 64  # bytes: a line of memory


class _Sizes(NamedTuple):
    """Loaded or computed once per call.

    outer: sizes of the axes beyond the tiles.  rows, columns: of all tiles together.  height, width: of one.
    down, across: how many there are.
    """

    outer: list[str]
    rows: str
    columns: str
    height: str
    width: str
    down: str
    across: str


class Tiles:
    """Writes what is around the rows of a tiled layout.

    unread: inputs that the formula does not use, such as the array to which it is assigned.
    types: of the elements in memory, by the name of the dtype.  words: (first, count) -> values of words of the block.
    """

    def __init__(
        self,
        code: Code,
        layout: Layout,
        input_count: int,
        unread: Collection[int],
        types: Mapping[str, str],
        words: Callable[[int, int], list[str]],
    ) -> None:
        self.input_count = input_count
        self.code = code
        self.layout = layout
        self.types = [types[dtype] for dtype in layout.dtypes]
        self.words = words
        elements = layout.tile_elements
        self.buffers = {
            operand: code.let(f"alloca [{elements} x {self.types[operand]}], align {_ALIGNED}")
            for operand, inner in enumerate(layout.inner_strides)
            if inner == STRIDED and operand not in unread
        }

    def helper(self, operand: int) -> str:
        """The function that copies an operand."""
        way = "gather" if operand < self.input_count else "scatter"
        return f"{way}.i{8 * item_bytes(self.layout.dtypes[operand])}"

    def helpers(self, *, masks: bool) -> str:
        """The text of the functions that are called."""
        return moves(sorted({self.helper(operand) for operand in self.buffers}), masks=masks)

    def write_bounds(self, share: Callable[[str], tuple[str, str]]) -> None:
        """Defines %tile.start and %tile.stop; an empty share goes straight to the end."""
        code, let, layout = self.code, self.code.let, self.layout
        code.do("%words = inttoptr i64 %block to ptr")
        (columns,) = self.words(layout.length_word, 1)
        *outer, rows = self.words(layout.first_size, layout.rank)
        height, width = self.words(layout.first_tile, 2)

        def count(size: str, step: str) -> str:
            up = let(f"sub i64 {step}, 1")
            return let(f"udiv i64 {let(f'add i64 {size}, {up}')}, {step}")

        self.sizes = _Sizes(outer, rows, columns, height, width, count(rows, height), count(columns, width))
        total = let(f"mul i64 {self.sizes.down}, {self.sizes.across}")
        for size in outer:
            total = let(f"mul i64 {total}, {size}")
        self.start, self.stop = share(total)
        code.do(f"br i1 {let(f'icmp ult i64 {self.start}, {self.stop}')}, label %work, label %done")
        code.label("work")

    def write(self, addresses: Sequence[str], write_row: Callable[[list[str]], None]) -> None:
        """All tiles of the share; write_row: writes the code of the elements %start to %stop behind pointers."""
        code, let = self.code, self.code.let
        code.do("br label %tiles")
        code.label("tiles")
        rank, count = self.layout.rank, len(addresses)
        words = self.words(self.layout.first_stride, count * rank)
        strides = [words[operand * rank :][:rank] for operand in range(count)]
        inner = self.words(self.layout.first_inner_stride, count)
        code.do("br label %tile")
        code.label("tile")
        code.do(f"%t = phi i64 [ {self.start}, %tiles ], [ %t.next, %tile.end ]")
        indices, first, rows, column, columns = self.place()
        corners = []
        for operand, address in enumerate(addresses):
            pointer = let(f"inttoptr i64 {address} to ptr")
            steps = [*strides[operand], inner[operand]]
            for index, step in zip([*indices, first, column], steps, strict=True):
                pointer = self.moved(operand, pointer, index, step)
            corners.append(pointer)
        code.do("%start = add i64 0, 0")
        code.do(f"%stop = add i64 {columns}, 0")
        copies = {
            operand: self.copied(operand, corners[operand], strides[operand][-1], inner[operand], rows, columns)
            for operand in self.buffers
        }
        for operand in self.buffers:
            if operand < self.input_count:
                code.do(f"call void @{self.helper(operand)}({copies[operand]})")
        code.do("br label %rows")
        code.label("rows")
        code.do("br label %row")
        code.label("row")
        code.do("%r = phi i64 [ 0, %rows ], [ %r.next, %row.end ]")
        write_row(
            [
                self.moved(operand, self.buffers[operand], "%r", self.sizes.width)
                if operand in self.buffers
                else self.moved(operand, corner, "%r", strides[operand][-1])
                for operand, corner in enumerate(corners)
            ]
        )
        code.do("br label %row.end")
        code.label("row.end")
        code.do("%r.next = add nuw i64 %r, 1")
        code.do(f"%r.more = icmp ult i64 %r.next, {rows}")
        code.do("br i1 %r.more, label %row, label %row.done")
        code.label("row.done")
        for operand in self.buffers:
            if operand >= self.input_count:
                code.do(f"call void @{self.helper(operand)}({copies[operand]})")
        code.do("br label %tile.end")
        code.label("tile.end")
        code.do("%t.next = add nuw i64 %t, 1")
        code.do(f"%t.more = icmp ult i64 %t.next, {self.stop}")
        code.do("br i1 %t.more, label %tile, label %tile.done")
        code.label("tile.done")

    def place(self) -> tuple[list[str], str, str, str, str]:
        """Where tile %t is: indices of the outer axes; first row, rows; first column, columns.

        Tiles go along the rows first, in which most of the operands lie.
        """
        let, sizes = self.code.let, self.sizes
        rest, column = self.divided("%t", sizes.across)
        rest, first = self.divided(rest, sizes.down)
        indices: list[str] = []
        for size in reversed(sizes.outer):
            rest, index = self.divided(rest, size)
            indices.insert(0, index)
        places = []
        for index, step, size in ((first, sizes.height, sizes.rows), (column, sizes.width, sizes.columns)):
            begin = let(f"mul i64 {index}, {step}")
            left = let(f"sub i64 {size}, {begin}")
            places += [begin, let(f"call i64 @llvm.umin.i64(i64 {left}, i64 {step})")]
        self.code.declarations["declare i64 @llvm.umin.i64(i64, i64)"] = None
        return indices, places[0], places[1], places[2], places[3]

    def divided(self, value: str, by: str) -> tuple[str, str]:
        """Quotient and remainder."""
        return self.code.let(f"udiv i64 {value}, {by}"), self.code.let(f"urem i64 {value}, {by}")

    def moved(self, operand: int, pointer: str, index: str, stride: str) -> str:
        """The address `index` strides behind a pointer."""
        offset = self.code.let(f"mul i64 {index}, {stride}")
        return self.code.let(f"getelementptr {self.types[operand]}, ptr {pointer}, i64 {offset}")

    def copied(self, operand: int, corner: str, row: str, step: str, rows: str, columns: str) -> str:
        """The arguments of a copy between array and buffer."""
        return (
            f"ptr {corner}, i64 {row}, i64 {step}, ptr {self.buffers[operand]}, i64 {self.sizes.width}, "
            f"i64 {rows}, i64 {columns}"
        )
