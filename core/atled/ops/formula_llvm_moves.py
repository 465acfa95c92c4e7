"""LLVM IR that copies between a matrix with strides and a buffer whose rows are contiguous.

`void gather.iN(ptr array, i64 row, i64 step, ptr buffer, i64 pitch, i64 rows, i64 columns)` reads element (r, c), of N
bits, at `array + r * row + c * step` and writes it at `buffer + r * pitch + c`; `scatter.iN` goes back. Both have quick
ways where row is 1 (a transposed matrix) and where step is 2 or -1, which read and write nothing between the elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from atled.ops.formula_llvm_math import Code

_LANE_BITS = 128  # within so many bits of a register elements change places quickest
_VECTOR_BITS = 512
_AHEAD = 32  # columns
_PREFETCH = "llvm.prefetch.p0"
_PARAMETERS = "ptr noalias %array, i64 %row, i64 %step, ptr noalias %buffer, i64 %pitch, i64 %rows, i64 %columns"
_PLACES = ("ptr noalias %from, i64 %from.row, i64 %from.step", "ptr noalias %to, i64 %to.row, i64 %to.step")


def moves(names: Iterable[str], *, masks: bool) -> str:
    """The functions of these names; masks: store every other element of a vector by one instruction."""
    declarations: dict[str, None] = {}
    texts: dict[str, str] = {}
    for name in names:
        way, _, element = name.partition(".i")
        bits = int(element)
        move = _Move(bits, way == "gather", masks)
        texts[f"move.{bits}"] = _element_wise(bits)
        texts[name] = move.text()
        declarations |= move.code.declarations
    return "\n".join([*declarations, *texts.values()])


class _Body:
    """A function over elements of `bits` bits, under construction."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.element = f"i{bits}"
        self.code = Code()
        self.loop_count = 0

    def function(self, name: str, parameters: str) -> str:
        """Its text."""
        head = f"define internal void @{name}.{self.element}({parameters}) noinline nounwind {{"
        return "\n".join([head, "entry:", "  br label %begin", *self.code.lines, "}"])

    @contextmanager
    def loop(self, stop: str, by: int = 1, metadata: str = "") -> Iterator[str]:
        """A loop from 0 on, which may be empty; gives its index. What is written behind it is done behind it."""
        code = self.code
        name = f"loop{self.loop_count}"
        self.loop_count += 1
        code.do(f"br label %{name}.head")
        code.label(f"{name}.head")
        code.do(f"br i1 {code.let(f'icmp slt i64 0, {stop}')}, label %{name}, label %{name}.done")
        code.label(name)
        code.do(f"%{name}.i = phi i64 [ 0, %{name}.head ], [ %{name}.next, %{name}.end ]")
        yield f"%{name}.i"
        code.do(f"br label %{name}.end")
        code.label(f"{name}.end")
        code.do(f"%{name}.next = add nuw nsw i64 %{name}.i, {by}")
        more = code.let(f"icmp slt i64 %{name}.next, {stop}")
        code.do(f"br i1 {more}, label %{name}, label %{name}.done{metadata}")
        code.label(f"{name}.done")

    def place(self, pointer: str, *steps: tuple[str, str]) -> str:
        """The pointer, moved by products of elements."""
        for index, stride in steps:
            offset = self.code.let(f"mul i64 {index}, {stride}")
            pointer = self.code.let(f"getelementptr {self.element}, ptr {pointer}, i64 {offset}")
        return pointer

    def load(self, lanes: int, pointer: str) -> str:
        """A vector, from anywhere."""
        return self.code.let(f"load <{lanes} x {self.element}>, ptr {pointer}, align {self.bits // 8}")

    def store(self, lanes: int, value: str, pointer: str) -> None:
        """The other way."""
        self.code.do(f"store <{lanes} x {self.element}> {value}, ptr {pointer}, align {self.bits // 8}")

    def shuffle(self, lanes: int, a: str, b: str, order: Sequence[int]) -> str:
        """The elements of two vectors in this order; below 0: whatever."""
        mask = ", ".join(f"i32 {i}" if i >= 0 else "i32 poison" for i in order)
        kind = f"<{lanes} x {self.element}>"
        return self.code.let(f"shufflevector {kind} {a}, {kind} {b}, <{len(order)} x i32> <{mask}>")


def _element_wise(bits: int) -> str:
    """Copies any matrix to any other, one element after the other."""
    body = _Body(bits)
    body.code.label("begin")
    with body.loop("%rows") as r:
        source, target = body.place("%from", (r, "%from.row")), body.place("%to", (r, "%to.row"))
        with body.loop("%columns", metadata=f", !llvm.loop !{1000 * bits}") as c:
            value = body.code.let(f"load {body.element}, ptr {body.place(source, (c, '%from.step'))}")
            body.code.do(f"store {body.element} {value}, ptr {body.place(target, (c, '%to.step'))}")
    body.code.do("ret void")
    number = 1000 * bits  # of metadata: kernels number theirs from 0
    return "\n".join(
        [
            body.function("move", f"{', '.join(_PLACES)}, i64 %rows, i64 %columns"),
            f"!{number} = distinct !{{!{number}, !{number + 1}, !{number + 2}}}",
            f'!{number + 1} = !{{!"llvm.loop.vectorize.enable", i1 false}}',
            f'!{number + 2} = !{{!"llvm.loop.unroll.count", i32 8}}',
        ]
    )


class _Move(_Body):
    """Gather, from array to buffer, or scatter, from buffer to array."""

    def __init__(self, bits: int, gathers: bool, masks: bool) -> None:
        super().__init__(bits)
        self.gathers = gathers
        self.has_pairs = gathers or masks
        self.side = {8: 16, 16: 8, 32: 8, 64: 4}[bits]  # of transposed blocks
        self.lanes = min(16, _VECTOR_BITS // bits)

    def text(self) -> str:
        """The whole function."""
        self.code.label("begin")
        self.write_case("turned", "%row", 1, self.write_turned)
        if self.has_pairs:
            self.write_case("pairs", "%step", 2, lambda: self.write_rows(self.write_pairs))
        self.write_case("backwards", "%step", -1, lambda: self.write_rows(self.write_backwards))
        self.write_elements("0", "0", "%rows", "%columns")
        self.code.do("ret void")
        return self.function("gather" if self.gathers else "scatter", _PARAMETERS)

    def write_case(self, name: str, word: str, value: int, write: Callable[[], None]) -> None:
        """A way of its own where a word has this value."""
        code = self.code
        code.do(f"br i1 {code.let(f'icmp eq i64 {word}, {value}')}, label %{name}, label %not.{name}")
        code.label(name)
        write()
        code.do("ret void")
        code.label(f"not.{name}")

    def write_elements(self, row: str, column: str, rows: str, columns: str) -> None:
        """What is left of the matrix from (row, column) on, so many rows and columns, one after the other."""
        array = self.place("%array", (row, "%row"), (column, "%step"))
        buffer = self.place("%buffer", (row, "%pitch"), (column, "1"))
        places = [f"ptr {array}, i64 %row, i64 %step", f"ptr {buffer}, i64 %pitch, i64 1"]
        arguments = ", ".join(places if self.gathers else places[::-1])
        self.code.do(f"call void @move.{self.element}({arguments}, i64 {rows}, i64 {columns})")

    def whole(self, size: str, step: int) -> str:
        """The multiple of `step`, a power of two, that fits into a size."""
        return self.code.let(f"and i64 {size}, {-step}")

    # --- rows ---

    def write_rows(self, write: Callable[[str, str], None]) -> None:
        """All rows, vector by vector; write: (array, buffer) -> one vector."""
        whole = self.whole("%columns", self.lanes)
        with self.loop("%rows") as r, self.loop(whole, self.lanes) as c:
            write(self.place("%array", (r, "%row"), (c, "%step")), self.place("%buffer", (r, "%pitch"), (c, "1")))
        self.write_elements("0", whole, "%rows", self.code.let(f"sub i64 %columns, {whole}"))

    def write_pairs(self, array: str, buffer: str) -> None:
        """Every other element."""
        lanes = self.lanes
        if self.gathers:
            # The second vector ends with the last element: what is behind that is not the array's.
            low, high = self.load(lanes, array), self.load(lanes, self.place(array, (str(lanes - 1), "1")))
            order = [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)]
            self.store(lanes, self.shuffle(lanes, low, high, order), buffer)
            return
        spread = [i // 2 if i % 2 == 0 else -1 for i in range(2 * lanes)]
        kind = f"<{lanes} x {self.element}>"
        mask = ", ".join(f"i1 {i % 2 == 0}".lower() for i in range(lanes))
        function = f"llvm.masked.store.v{lanes}i{self.bits}.p0"
        self.code.declarations[f"declare void @{function}({kind}, ptr, i32, <{lanes} x i1>)"] = None
        value = self.load(lanes, buffer)
        for half in range(2):
            part = self.shuffle(lanes, value, "poison", spread[half * lanes :][:lanes])
            target = self.place(array, (str(half * lanes), "1"))
            self.code.do(
                f"call void @{function}({kind} {part}, ptr {target}, i32 {self.bits // 8}, <{lanes} x i1> <{mask}>)"
            )

    def write_backwards(self, array: str, buffer: str) -> None:
        """The elements in the other direction."""
        lanes = self.lanes
        array = self.place(array, (str(1 - lanes), "1"))
        source, target = (array, buffer) if self.gathers else (buffer, array)
        self.store(lanes, self.shuffle(lanes, self.load(lanes, source), "poison", range(lanes - 1, -1, -1)), target)

    # --- transposed matrices ---

    def write_turned(self) -> None:
        """Square blocks through registers, then what is left beside and below them."""
        side = self.side
        rows, columns = self.whole("%rows", side), self.whole("%columns", side)
        with self.loop(columns, side) as c, self.loop(rows, side) as r:
            array = self.place("%array", (r, "1"), (c, "%step")), "%step"
            buffer = self.place("%buffer", (r, "%pitch"), (c, "1")), "%pitch"
            self.write_fetch(array[0])
            source, target = (array, buffer) if self.gathers else (buffer, array)
            self.write_block(source, target)
        self.write_elements("0", columns, rows, self.code.let(f"sub i64 %columns, {columns}"))
        self.write_elements(rows, "0", self.code.let(f"sub i64 %rows, {rows}"), "%columns")

    def write_fetch(self, array: str) -> None:
        """Asks for what comes next: the processor does not foresee it, for it is a line of memory in another page."""
        for k in range(self.side):
            line = self.place(array, (str(_AHEAD + k), "%step"))
            self.code.do(f"call void @{_PREFETCH}(ptr {line}, i32 {int(not self.gathers)}, i32 3, i32 1)")
        self.code.declarations[f"declare void @{_PREFETCH}(ptr, i32, i32, i32)"] = None

    def write_block(self, source: tuple[str, str], target: tuple[str, str]) -> None:
        """Row k of the target is column k of the source; both are (address, stride between rows)."""
        side, lane = self.side, min(self.side, _LANE_BITS // self.bits)
        parts = side // lane  # of a register, which a block within the lanes does not leave
        halves = [
            [self.load(lane, self.place(source[0], (str(k), source[1]), (str(lane * part), "1"))) for k in range(side)]
            for part in range(parts)
        ]
        for part, rows in enumerate(halves):
            vectors = rows
            if parts == 2:
                joined = range(2 * lane)
                vectors = [self.shuffle(lane, rows[k], rows[k + lane], joined) for k in range(lane)]
            for number, vector in enumerate(self.turned(vectors, lane)):
                place = self.place(target[0], (str(lane * part + number), target[1]))
                self.store(side, vector, place)

    def turned(self, vectors: list[str], lane: int) -> list[str]:
        """Blocks of lane by lane elements, one beside the other in the vectors, each transposed.

        Vectors are interleaved with those half of them away, as often as the number of a lane has bits.
        """
        width, half = self.side, lane // 2
        orders = []
        for begin in (0, half):
            order = []
            for first in range(0, width, lane):
                for i in range(first + begin, first + begin + half):
                    order += [i, width + i]
            orders.append(order)
        for _ in range(lane.bit_length() - 1):
            pairs = zip(vectors[:half], vectors[half:], strict=True)
            vectors = [self.shuffle(width, a, b, order) for a, b in pairs for order in orders]
        return vectors
