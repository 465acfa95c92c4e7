"""Writes programs as LLVM IR: one function over whole arrays, made so that LLVM's loop vectorizer vectorizes it.

`int64 name(int64 block, int64 part, int64 parts)` computes the share `part` of `parts` of a broadcast elementwise
program and returns 0; `formula_layout` describes the block. All shares together write every element once. An output may
be exactly the same array as an input; overlapping in any other way is undefined. Compiling is the plugin's; `LIBRARY`
lists the C functions, all of float64, that the code may call.

For arrays that no cache holds, the code can write past the caches (`streamed`).

There is a second form, `int64 name(int64 block, int64 begin, int64 end)`, which computes the elements
begin <= i < end of the flat outputs: for kernels that have the formula computed on what they have just made or are
about to read. The address of an output may be one from which those elements alone can be reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from atled.ops.formula import CONDITION, OPERATIONS, Apply, Expr, Number, Program, expand, postorder, without_rounding
from atled.ops.formula import name as name_node
from atled.ops.formula_layout import Layout, LayoutPlan, item_bytes, plan_layout
from atled.ops.formula_llvm_angles import LARGE_ANGLES, LARGEST_SMALL_ANGLE, SMALL_ANGLES
from atled.ops.formula_llvm_circular import CIRCULAR
from atled.ops.formula_llvm_double import DOUBLE_FUNCTIONS
from atled.ops.formula_llvm_math import (
    DOUBLE,
    FLOAT,
    INTRINSICS,
    WRITTEN,
    Code,
    Real,
    bfloat_to_float,
    call_function,
    float_to_bfloat,
    float_to_half,
    half_to_float,
)
from atled.ops.formula_llvm_tiles import Tiles
from atled.ops.formula_llvm_whole import WHOLE_TYPES, Whole

__all__ = ["LIBRARY", "Layout", "LayoutPlan", "plan_layout", "write_llvm"]

_TYPES = {"float16": "half", "bfloat16": "i16", "float32": FLOAT, "float64": DOUBLE, **WHOLE_TYPES}
_EXPANDED = frozenset(("sigmoid", "sign", "minimum", "maximum"))
_PREDICATES = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"}
_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "neg": "neg", "where": "select"}  # methods of Real
_ONCE = {"sigmoid": DOUBLE_FUNCTIONS["sigmoid"]}  # of attributes alone: the others are in the C library
_LOGIC = {"and": "and i1 {}, {}", "or": "or i1 {}, {}", "not": "xor i1 {}, true"}
_GRAIN = 16  # elements: shares of a row begin at multiples of it, a cache line of aligned float32
_CHUNK = 1024  # elements among which one large angle is enough for the slower code; they stay in the nearest cache
_SHARE_UNITS = 4  # rows or grains per part; below that, shares of them are too uneven

# Past the caches: what is computed goes into a buffer, which stays in the first-level cache, and from there in whole
# lines to memory. So memory is not read before it is overwritten, which is a third of the traffic of most formulas.
_BUFFERED = 512  # elements
_LINE_BYTES = 64
_STREAM = f"""\
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define internal void @stream(ptr %from, ptr %to, i64 %bytes, i1 %past) nounwind {{
entry:
  %lines = udiv i64 %bytes, {_LINE_BYTES}
  %any = icmp ne i64 %lines, 0
  %go = and i1 %any, %past
  br i1 %go, label %line, label %rest
line:
  %n = phi i64 [ 0, %entry ], [ %n.next, %line ]
  %at = mul i64 %n, {_LINE_BYTES}
  %source = getelementptr inbounds i8, ptr %from, i64 %at
  %target = getelementptr inbounds i8, ptr %to, i64 %at
  %values = load <16 x float>, ptr %source, align {_LINE_BYTES}
  store <16 x float> %values, ptr %target, align {_LINE_BYTES}, !nontemporal !2
  %n.next = add nuw i64 %n, 1
  %copied = mul i64 %n.next, {_LINE_BYTES}
  %more = icmp ult i64 %n.next, %lines
  br i1 %more, label %line, label %rest
rest:
  %done = phi i64 [ 0, %entry ], [ %copied, %line ]
  %left = sub i64 %bytes, %done
  %last.source = getelementptr inbounds i8, ptr %from, i64 %done
  %last.target = getelementptr inbounds i8, ptr %to, i64 %done
  call void @llvm.memcpy.p0.p0.i64(ptr %last.target, ptr %last.source, i64 %left, i1 false)
  ret void
}}"""

_functions = {operation.name for operation in OPERATIONS.values() if operation.is_function}
LIBRARY = tuple(sorted(({"pow"} | _functions) - _EXPANDED - INTRINSICS.keys() - _ARITHMETIC.keys()))


def write_llvm(
    program: Program,
    layout: Layout,
    name: str,
    *,
    half_instructions: bool = False,
    fused_instructions: bool = True,
    ranges: bool = False,
    streamed: bool = False,
    masks: bool = False,
) -> str:
    """Text of an IR module with the function `name`, an identifier.

    half_instructions: convert float16 by LLVM's own instructions instead of integer arithmetic. Quicker, but only for
        processors that have them (x86 with F16C, AArch64): elsewhere LLVM calls functions that the process may lack,
        and calling the kernel ends it.
    fused_instructions: compute a * b + c at once where its rounding matters. Without the instruction (x86 before FMA)
        LLVM calls a function for every element; then float64 does the same.
    ranges: write the form that computes a range of elements.
    streamed: write past the caches, except where an output is an input; for layouts without outer axes.
    masks: store parts of vectors by one instruction. Quicker for operands with inner stride 2, but only for processors
        that have it (x86 with AVX-512).
    Raises ValueError where the layout has another number of operands than the program, or does not go with `ranges`.
    """
    operands = len(program.inputs) + len(program.output_names)
    if len(layout.dtypes) != operands:
        raise ValueError(f"{program!r} with {layout!r}: give a layout of {operands} operands.")
    if ranges and not layout.in_order:
        raise ValueError(f"{program!r} with {layout!r} has no form on ranges: give a layout in C order.")
    writer = _Writer(program, layout, half_instructions, fused_instructions, masks)
    return writer.write(name, ranges=ranges, streamed=streamed)


class _Writer:
    def __init__(self, program: Program, layout: Layout, half_instructions: bool, fused: bool, masks: bool) -> None:
        self.program = program
        self.masks = masks
        self.layout = layout
        self.half_instructions = half_instructions
        self.types = _TYPES if half_instructions else {**_TYPES, "float16": "i16"}
        self.inputs = frozenset(program.inputs)
        self.is_whole = layout.compute in WHOLE_TYPES
        own = frozenset() if self.is_whole else WRITTEN
        given = [without_rounding(item) for item in program.expressions] if self.is_whole else program.expressions
        self.expressions = [expand(expression, _EXPANDED - own) for expression in given]
        self.nodes = postorder(self.expressions)
        self.code = Code(fused=fused)
        real = Real(self.code, FLOAT if layout.compute == "float32" else DOUBLE)
        self.real: Real | Whole = Whole(self.code, layout.compute) if self.is_whole else real
        self.wide = Real(self.code, DOUBLE)
        self.values: dict[Expr, str] = {}  # of the type computed in
        self.uniform: dict[Expr, str] = {}  # of attributes and literals alone: float64
        self.loop_count = 0

    def write(self, name: str, *, ranges: bool, streamed: bool) -> str:
        # Not where large angles are looked for first: such formulas are not bound by memory.
        streamed = streamed and not self.varying_angles()
        buffers = self.write_buffers() if streamed else []
        tiles = self.tiles() if self.layout.is_tiled else None
        sizes: list[str] = []
        if tiles is not None:
            tiles.write_bounds(self.share)
        else:
            sizes = self.write_range() if ranges else self.write_bounds()
        addresses = self.words(self.layout.first_address, len(self.layout.dtypes))
        self.write_uniform()
        if tiles is not None:
            tiles.write(addresses, self.write_row)
        elif sizes:
            self.write_rows(addresses, sizes, ranges=ranges)
        else:
            pointers = [self.code.let(f"inttoptr i64 {address} to ptr") for address in addresses]
            if streamed:
                self.write_streamed_row(addresses, pointers, buffers)
            else:
                self.write_row(pointers)
        self.code.do("br label %done")
        self.code.label("done")
        self.code.do("ret i64 0")
        names = self.range_names() if ranges else ("%part", "%parts")
        helpers = [_STREAM] if streamed else []
        helpers += [tiles.helpers(masks=self.masks)] if tiles else []
        lines = [
            *self.code.declarations,
            *helpers,
            f"define i64 @{name}(i64 %block, i64 {names[0]}, i64 {names[1]}) nounwind {{",
        ]
        lines += ["entry:", *self.code.lines, "}"]
        # Each iteration loads its elements before it stores them, so no iteration depends on another, not even where
        # an output is an input. Saying so spares the vectorizer run-time checks, which in place would always fail.
        lines += ["!0 = distinct !{}", '!1 = !{!"llvm.loop.parallel_accesses", !0}', "!2 = !{i32 1}"]
        lines += [f"!{loop} = distinct !{{!{loop}, !1}}" for loop in range(3, 3 + self.loop_count)]
        return "\n".join([*lines, ""])

    def tiles(self) -> Tiles:
        """What is around the rows where operands are copied to buffers."""
        read = frozenset().union(*(expression.names for expression in self.expressions))
        inputs = self.program.inputs
        unread = [number for number, name in enumerate(inputs) if name not in read]
        return Tiles(self.code, self.layout, len(inputs), unread, self.types, self.words)

    # --- once per call ---

    def words(self, first: int, count: int, type: str = "i64") -> list[str]:
        """Loads `count` words of the block."""
        let = self.code.let
        places = [let(f"getelementptr inbounds i64, ptr %words, i64 {first + i}") for i in range(count)]
        return [let(f"load {type}, ptr {place}") for place in places]

    def share(self, total: str) -> tuple[str, str]:
        """Begin and end of this part's share of `total`, without a product that could overflow."""
        let = self.code.let
        quotient, rest = let(f"udiv i64 {total}, %parts"), let(f"urem i64 {total}, %parts")
        has_extra = let(f"icmp ult i64 %part, {rest}")
        extras_before = let(f"select i1 {has_extra}, i64 %part, i64 {rest}")
        begin = let(f"add i64 {let(f'mul i64 {quotient}, %part')}, {extras_before}")
        length = let(f"add i64 {quotient}, {let(f'zext i1 {has_extra} to i64')}")
        return begin, let(f"add i64 {begin}, {length}")

    def write_bounds(self) -> list[str]:
        """Defines the share: %start and %stop within rows, %row.start and %row.stop; returns the outer sizes.

        An empty share goes straight to the end, so that all loops run at least once and no address of an empty array
        is touched.
        """
        code, let = self.code, self.code.let
        code.do("%words = inttoptr i64 %block to ptr")
        (length,) = self.words(self.layout.length_word, 1)
        grains = let(f"udiv i64 {let(f'add i64 {length}, {_GRAIN - 1}')}, {_GRAIN}")
        ends = [let(f"mul i64 {bound}, {_GRAIN}") for bound in self.share(grains)]
        begin, end = [let(f"select i1 {let(f'icmp ult i64 {e}, {length}')}, i64 {e}, i64 {length}") for e in ends]
        sizes = self.words(self.layout.first_size, self.layout.rank)
        rows = sizes[0] if sizes else "1"
        for size in sizes[1:]:
            rows = let(f"mul i64 {rows}, {size}")
        first_row, last_row = self.share(rows)
        # Whole rows where there are enough of them, or where the rows are too short to be cut.
        wanted = let(f"mul i64 %parts, {_SHARE_UNITS}")
        many, short = let(f"icmp uge i64 {rows}, {wanted}"), let(f"icmp ult i64 {grains}, {wanted}")
        by_rows = let(f"or i1 {many}, {short}") if sizes else "false"
        code.do(f"%row.start = select i1 {by_rows}, i64 {first_row}, i64 0")
        code.do(f"%row.stop = select i1 {by_rows}, i64 {last_row}, i64 {rows}")
        code.do(f"%start = select i1 {by_rows}, i64 0, i64 {begin}")
        code.do(f"%stop = select i1 {by_rows}, i64 {length}, i64 {end}")
        has_rows, has_elements = let("icmp ult i64 %row.start, %row.stop"), let("icmp ult i64 %start, %stop")
        code.do(f"br i1 {let(f'and i1 {has_rows}, {has_elements}')}, label %work, label %done")
        code.label("work")
        return sizes

    def write_range(self) -> list[str]:
        """The same where the caller says which elements, with outer axes as flat %begin and %end."""
        self.code.do("%words = inttoptr i64 %block to ptr")
        self.code.do(f"%any = icmp ult i64 {', '.join(self.range_names())}")
        self.code.do("br i1 %any, label %work, label %done")
        self.code.label("work")
        return self.words(self.layout.first_size, self.layout.rank)

    def range_names(self) -> tuple[str, str]:
        """The arguments of the form that computes a range."""
        return ("%begin", "%end") if self.layout.rank else ("%start", "%stop")

    def write_uniform(self) -> None:
        """Loads the attributes and computes what depends on them alone, in float64."""
        attributes = self.program.attributes
        values = self.words(self.layout.first_attribute, len(attributes), DOUBLE)
        self.uniform.update(zip(map(name_node, attributes), values, strict=True))
        for node in self.nodes:
            if self.is_uniform(node):
                self.uniform[node] = self.compute(self.wide, node, self.uniform_value, _ONCE)

    def is_uniform(self, expr: Expr) -> bool:
        # Of integers nothing is computed in float64, attributes are converted one by one.
        return not self.is_whole and expr.names.isdisjoint(self.inputs)

    def uniform_value(self, expr: Expr) -> str:
        return self.wide.literal(expr.value) if isinstance(expr, Number) else self.uniform[expr]

    # --- once per row ---

    def write_rows(self, addresses: list[str], sizes: list[str], *, ranges: bool) -> None:
        code, let = self.code, self.code.let
        rank, count = len(sizes), len(addresses)
        words = self.words(self.layout.first_stride, count * rank)
        strides = [words[operand * rank :][:rank] for operand in range(count)]
        (length,) = self.words(self.layout.length_word, 1)
        if ranges:
            last = let("sub i64 %end, 1")
            code.do(f"%row.start = udiv i64 %begin, {length}")
            code.do(f"%row.stop = add i64 {let(f'udiv i64 {last}, {length}')}, 1")
        code.do("br label %row")
        code.label("row")
        code.do("%r = phi i64 [ %row.start, %work ], [ %r.next, %row.end ]")
        if ranges:
            self.write_row_range(length)
        indices = self.row_indices(sizes)
        pointers = []
        for address, operand_strides, dtype in zip(addresses, strides, self.layout.dtypes, strict=True):
            pointer = let(f"inttoptr i64 {address} to ptr")
            for index, stride in zip(indices, operand_strides, strict=True):
                offset = let(f"mul i64 {index}, {stride}")
                pointer = let(f"getelementptr inbounds {self.types[dtype]}, ptr {pointer}, i64 {offset}")
            pointers.append(pointer)
        self.write_row(pointers)
        code.do("br label %row.end")
        code.label("row.end")
        code.do("%r.next = add nuw i64 %r, 1")
        code.do("%r.more = icmp ult i64 %r.next, %row.stop")
        code.do("br i1 %r.more, label %row, label %row.done")
        code.label("row.done")

    def write_row_range(self, length: str) -> None:
        """Defines %start and %stop in row %r: what of the range lies there."""
        code, let = self.code, self.code.let
        before = let(f"mul i64 %r, {length}")
        is_first, begin = let(f"icmp ult i64 {before}, %begin"), let(f"sub i64 %begin, {before}")
        code.do(f"%start = select i1 {is_first}, i64 {begin}, i64 0")
        rest = let(f"sub i64 %end, {before}")
        code.do(f"%stop = select i1 {let(f'icmp ult i64 {rest}, {length}')}, i64 {rest}, i64 {length}")

    def row_indices(self, sizes: list[str]) -> list[str]:
        """The outer indices of row %r."""
        rest, indices = "%r", []
        for size in reversed(sizes[1:]):
            indices.append(self.code.let(f"urem i64 {rest}, {size}"))
            rest = self.code.let(f"udiv i64 {rest}, {size}")
        return [rest, *reversed(indices)]

    # --- once per element ---

    def write_row(self, pointers: list[str]) -> None:
        varying = self.load_fixed(pointers)
        angles = self.varying_angles()
        if angles:
            self.write_chunks(pointers, varying, angles)
        else:
            self.write_elements("loop", "%start", "%stop", pointers, varying, CIRCULAR)

    def load_fixed(self, pointers: list[str]) -> list[tuple[int, Expr]]:
        """Loads the inputs that are the same all along the row; returns the others as (operand, node)."""
        varying = []
        for i, name in enumerate(self.program.inputs):
            if self.layout.inner_strides[i]:
                varying.append((i, name_node(name)))
            else:
                self.values[name_node(name)] = self.load(i, pointers[i], "")
        return varying

    def write_buffers(self) -> list[str]:
        """Memory of the call for some elements of each output."""
        types = [self.types[dtype] for dtype in self.layout.dtypes[len(self.program.inputs) :]]
        return [self.code.let(f"alloca [{_BUFFERED} x {type}], align {_LINE_BYTES}") for type in types]

    def write_streamed_row(self, addresses: list[str], pointers: list[str], buffers: list[str]) -> None:
        """The row in pieces, each computed into the buffers and written from there."""
        code, let = self.code, self.code.let
        first = len(self.program.inputs)
        outputs = range(first, len(pointers))
        varying = self.load_fixed(pointers)
        begins = [let(f"ptrtoint ptr {self.element(i, pointers[i], '%start')} to i64") for i in outputs]
        past = [self.may_pass_caches(i, addresses, begin) for i, begin in zip(outputs, begins, strict=True)]
        code.do("br label %pieces")
        code.label("pieces")
        code.do("br label %piece")
        code.label("piece")
        code.do("%from = phi i64 [ %start, %pieces ], [ %full, %loop.end ]")
        code.do(f"%full = add nuw i64 %from, {_BUFFERED}")
        code.do("%is.last = icmp ule i64 %stop, %full")
        code.do("%to = select i1 %is.last, i64 %stop, i64 %full")

        def place(operand: int, index: str) -> str:
            return self.element(operand, buffers[operand - first], let(f"sub i64 {index}, %from"))

        self.write_elements("loop", "%from", "%to", pointers, varying, CIRCULAR, place)
        count = let("sub i64 %to, %from")
        for i, flag in zip(outputs, past, strict=True):
            nbytes = let(f"mul i64 {count}, {item_bytes(self.layout.dtypes[i])}")
            target = self.element(i, pointers[i], "%from")
            code.do(f"call void @stream(ptr {buffers[i - first]}, ptr {target}, i64 {nbytes}, i1 {flag})")
        code.do("br i1 %is.last, label %piece.done, label %piece")
        code.label("piece.done")
        # Ordinary stores tell other threads that the work is done, and could overtake these.
        code.do("fence seq_cst")

    def may_pass_caches(self, output: int, addresses: list[str], begin: str) -> str:
        """An i1: whether an output begins on a line, and is no input, which is in the cache when it is written."""
        let = self.code.let
        result = let(f"icmp eq i64 {let(f'and i64 {begin}, {_LINE_BYTES - 1}')}, 0")
        for i in range(len(self.program.inputs)):
            result = let(f"and i1 {result}, {let(f'icmp ne i64 {addresses[i]}, {addresses[output]}')}")
        return result

    def varying_angles(self) -> list[Expr]:
        """The arguments of sine, cosine and tangent that are computed in float32, element by element."""
        if self.real.type != FLOAT:
            return []
        found = [node.args[0] for node in self.nodes if node.op in LARGE_ANGLES and not self.is_uniform(node)]
        return list(dict.fromkeys(found))

    def write_chunks(self, pointers: list[str], varying: list[tuple[int, Expr]], angles: list[Expr]) -> None:
        """The row in chunks, each by the quick code unless it holds a large angle.

        Looked at first instead of mended later: the outputs may have overwritten the inputs by then.
        """
        code, let = self.code, self.code.let
        code.do("br label %chunks")
        code.label("chunks")
        code.do("br label %chunk")
        code.label("chunk")
        code.do("%chunk.start = phi i64 [ %start, %chunks ], [ %chunk.stop, %chunk.end ]")
        code.do(f"%chunk.full = add i64 %chunk.start, {_CHUNK}")
        cut = let("icmp ult i64 %chunk.full, %stop")
        code.do(f"%chunk.stop = select i1 {cut}, i64 %chunk.full, i64 %stop")
        found = self.write_search(pointers, varying, angles)
        code.do(f"br i1 {let(f'icmp eq i32 {found}, 0')}, label %small, label %large")
        for name, functions in (("small", SMALL_ANGLES), ("large", LARGE_ANGLES)):
            code.label(name)
            table = CIRCULAR | functions
            self.write_elements(f"{name}.loop", "%chunk.start", "%chunk.stop", pointers, varying, table)
            code.do("br label %chunk.end")
        code.label("chunk.end")
        code.do("%chunk.more = icmp ult i64 %chunk.stop, %stop")
        code.do("br i1 %chunk.more, label %chunk, label %chunk.done")
        code.label("chunk.done")

    def write_search(self, pointers: list[str], varying: list[tuple[int, Expr]], angles: list[Expr]) -> str:
        """Whether the chunk holds an angle beyond LARGEST_SMALL_ANGLE, infinity included and NaN not: an i32, 0 if not.

        An angle that depends on a large one may come out wrong here, but then the large one is found.
        """
        code, let, real = self.code, self.code.let, self.real
        before = dict(self.values)
        index = self.begin_loop(
            "search", "%chunk.start", "%found = phi i32 [ 0, %search.head ], [ %found.next, %search ]"
        )
        used = postorder(angles)
        names = frozenset().union(*(angle.names for angle in angles))
        self.load_varying(index, pointers, [(i, node) for i, node in varying if node.names <= names])
        self.compute_all(used, CIRCULAR | SMALL_ANGLES)
        is_large = "false"
        for angle in angles:
            size = real.intrinsic("fabs", self.real_value(angle))
            is_large = let(f"or i1 {is_large}, {real.compare('ogt', size, real.literal(LARGEST_SMALL_ANGLE))}")
        code.do(f"%found.next = or i32 %found, {let(f'zext i1 {is_large} to i32')}")
        self.end_loop("search", "%chunk.stop")
        self.values = before
        return "%found.next"

    def write_elements(
        self,
        loop: str,
        start: str,
        stop: str,
        pointers: list[str],
        varying: list[tuple[int, Expr]],
        functions: Mapping[str, Callable[[Real, str], str]],
        place: Callable[[int, str], str] | None = None,
    ) -> None:
        """The elements of a row from start to stop, at least one, with these functions of float32.

        place: (operand, index) -> where an element of an output is written; in its array if not given.
        """
        before = dict(self.values)
        index = self.begin_loop(loop, start)
        self.load_varying(index, pointers, varying)
        self.compute_all(self.nodes, functions)
        for i, expression in enumerate(self.expressions, len(self.program.inputs)):
            target = self.element(i, pointers[i], index) if place is None else place(i, index)
            self.store(i, target, self.real_value(expression))
        self.end_loop(loop, stop)
        self.values = before  # values of one loop are none in another

    def begin_loop(self, loop: str, start: str, *phis: str) -> str:
        """Opens a loop; returns its index."""
        code = self.code
        code.do(f"br label %{loop}.head")
        code.label(f"{loop}.head")
        code.do(f"br label %{loop}")
        code.label(loop)
        code.do(f"%{loop}.i = phi i64 [ {start}, %{loop}.head ], [ %{loop}.i.next, %{loop} ]")
        for phi in phis:
            code.do(phi)
        return f"%{loop}.i"

    def end_loop(self, loop: str, stop: str) -> None:
        code = self.code
        code.do(f"%{loop}.i.next = add nuw i64 %{loop}.i, 1")
        code.do(f"%{loop}.more = icmp ult i64 %{loop}.i.next, {stop}")
        code.do(f"br i1 %{loop}.more, label %{loop}, label %{loop}.end, !llvm.loop !{3 + self.loop_count}")
        code.label(f"{loop}.end")
        self.loop_count += 1

    def load_varying(self, index: str, pointers: list[str], varying: list[tuple[int, Expr]]) -> None:
        for i, node in varying:
            self.values[node] = self.load(i, self.element(i, pointers[i], index), ", !llvm.access.group !0")

    def compute_all(self, nodes: Sequence[Apply], functions: Mapping[str, Callable[[Real, str], str]]) -> None:
        if self.real.type == DOUBLE:
            functions = DOUBLE_FUNCTIONS
        for node in nodes:
            if not self.is_uniform(node):
                self.values[node] = self.compute(self.real, node, self.real_value, functions)

    def real_value(self, expr: Expr) -> str:
        if isinstance(expr, Number):
            return self.real.literal(expr.value)
        if expr not in self.values:
            # LLVM moves the conversion out of the loop.
            value = self.uniform[expr]
            if isinstance(self.real, Whole):
                self.values[expr] = self.real.from_attribute(value)
            else:
                self.values[expr] = value if expr.kind == CONDITION else self.wide.convert(value, self.real.type)
        return self.values[expr]

    def compute(
        self,
        real: Real | Whole,
        node: Apply,
        get: Callable[[Expr], str],
        functions: Mapping[str, Callable[[Real, str], str]],
    ) -> str:
        args = [get(arg) for arg in node.args]
        if node.op in _ARITHMETIC:
            written: str = getattr(real, _ARITHMETIC[node.op])(*args)
            return written
        if node.op in _PREDICATES:
            return real.compare(_PREDICATES[node.op], *args)
        if node.op in _LOGIC:
            return self.code.let(_LOGIC[node.op].format(*args))
        if isinstance(real, Whole):
            assert node.op == "abs", f"{node.op} of integers"
            return real.abs(*args)
        if node.op in functions:
            return functions[node.op](real, *args)
        return call_function(real, node.op, args)

    def element(self, operand: int, pointer: str, index: str) -> str:
        element_type = self.types[self.layout.dtypes[operand]]
        return self.code.let(f"getelementptr inbounds {element_type}, ptr {pointer}, i64 {index}")

    def load(self, operand: int, pointer: str, metadata: str) -> str:
        """The element at `pointer` in the type computed in."""
        dtype = self.layout.dtypes[operand]
        element_type, real = self.types[dtype], self.real
        value = self.code.let(f"load {element_type}, ptr {pointer}{metadata}")
        if dtype in WHOLE_TYPES:
            if isinstance(real, Whole):
                return real.from_whole(value, dtype)
            return Whole(self.code, dtype).to_real(value, real.type)
        if dtype == "float16":
            if self.half_instructions:
                value = self.code.let(f"fpext half {value} to float")
            else:
                value = half_to_float(Real(self.code, FLOAT), value)
            element_type = FLOAT
        elif dtype == "bfloat16":
            value, element_type = bfloat_to_float(Real(self.code, FLOAT), value), FLOAT
        if isinstance(real, Whole):
            return real.from_real(value, element_type)
        return Real(self.code, element_type).convert(value, real.type)

    def store(self, operand: int, pointer: str, value: str) -> None:
        dtype = self.layout.dtypes[operand]
        real = self.real
        if dtype in WHOLE_TYPES:
            stored = Whole(self.code, dtype)
            if isinstance(real, Whole):
                value = stored.from_whole(value, real.dtype)
            else:
                value = stored.from_real(value, real.type)
            self.code.do(f"store {stored.type} {value}, ptr {pointer}, !llvm.access.group !0")
            return
        if isinstance(real, Whole):
            # Integers become float16 by way of float, as NumPy has it.
            target = DOUBLE if dtype == "float64" else FLOAT
            value, real = real.to_real(value, target), Real(self.code, target)
        if dtype == "float16":
            # By way of float: few processors round double to half.
            value = real.convert(value, FLOAT)
            if self.half_instructions:
                value = self.code.let(f"fptrunc float {value} to half")
            else:
                value = float_to_half(Real(self.code, FLOAT), value)
        elif dtype == "bfloat16":
            value = float_to_bfloat(Real(self.code, FLOAT), real.convert(value, FLOAT))
        else:
            value = real.convert(value, self.types[dtype])
        self.code.do(f"store {self.types[dtype]} {value}, ptr {pointer}, !llvm.access.group !0")
