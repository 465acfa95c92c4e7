"""Writes programs as LLVM IR: one function over whole arrays, made so that LLVM's loop vectorizer vectorizes it.

`int64 name(int64 block, int64 part, int64 parts)` computes the share `part` of `parts` of a broadcast elementwise
program and returns 0; `formula_layout` describes the block. All shares together write every element once. An output may
be exactly the same array as an input; overlapping in any other way is undefined. Compiling is the plugin's; `LIBRARY`
lists the C functions, all of float64, that the code may call.

For arrays that no cache holds, the code can write past the caches (`streamed`).

For a layout without outer axes there is a second form, `int64 name(int64 block, int64 start, int64 stop)`, which
computes the elements start <= i < stop: for kernels that have the formula computed on what they have just made.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atled.ops.formula import CONDITION, OPERATIONS, Apply, Expr, Number, Program, expand, postorder
from atled.ops.formula import name as name_node
from atled.ops.formula_layout import Layout, LayoutPlan, plan_layout
from atled.ops.formula_llvm_circular import CIRCULAR
from atled.ops.formula_llvm_math import (
    DOUBLE,
    FLOAT,
    INTRINSICS,
    WRITTEN,
    Code,
    Real,
    call_function,
    float_to_half,
    half_to_float,
)

__all__ = ["LIBRARY", "Layout", "LayoutPlan", "plan_layout", "write_llvm"]

_TYPES = {"float16": "half", "float32": FLOAT, "float64": DOUBLE, "int64": "i64", "int32": "i32"}
_TYPES |= {"uint8": "i8", "bool": "i8"}
_EXPANDED = frozenset(("sigmoid", "sign", "minimum", "maximum"))
_PREDICATES = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"}
_ARITHMETIC: dict[str, Callable[..., str]] = {"+": Real.add, "-": Real.sub, "*": Real.mul, "/": Real.div}
_ARITHMETIC |= {"neg": Real.neg, "where": Real.select}
_LOGIC = {"and": "and i1 {}, {}", "or": "or i1 {}, {}", "not": "xor i1 {}, true"}
_GRAIN = 16  # elements: shares of a row begin at multiples of it, a cache line of aligned float32
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
  store <16 x float> %values, ptr %target, align {_LINE_BYTES}, !nontemporal !3
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
    ranges: bool = False,
    streamed: bool = False,
) -> str:
    """Text of an IR module with the function `name`, an identifier.

    half_instructions: convert float16 by LLVM's own instructions instead of integer arithmetic. Quicker, but only for
        processors that have them (x86 with F16C, AArch64): elsewhere LLVM calls functions that the process may lack,
        and calling the kernel ends it.
    ranges: write the form that computes a range of elements.
    streamed: write past the caches, except where an output is an input; for layouts without outer axes.
    Raises ValueError where the layout has another number of operands than the program, and for ranges of a layout with
    outer axes.
    """
    operands = len(program.inputs) + len(program.output_names)
    if len(layout.dtypes) != operands:
        raise ValueError(f"{program!r} with {layout!r}: give a layout of {operands} operands.")
    if ranges and layout.rank:
        raise ValueError(f"ranges of {program!r} with {layout!r}: there are outer axes. Give a layout without.")
    return _Writer(program, layout, half_instructions).write(name, ranges=ranges, streamed=streamed)


class _Writer:
    def __init__(self, program: Program, layout: Layout, half_instructions: bool) -> None:
        self.program = program
        self.layout = layout
        self.half_instructions = half_instructions
        self.types = _TYPES if half_instructions else {**_TYPES, "float16": "i16"}
        self.inputs = frozenset(program.inputs)
        own = WRITTEN if layout.compute == "float32" else frozenset()
        self.expressions = [expand(expression, _EXPANDED - own) for expression in program.expressions]
        self.nodes = postorder(self.expressions)
        self.code = Code()
        self.real = Real(self.code, FLOAT if layout.compute == "float32" else DOUBLE)
        self.wide = Real(self.code, DOUBLE)
        self.values: dict[Expr, str] = {}  # of the type computed in
        self.uniform: dict[Expr, str] = {}  # of attributes and literals alone: float64

    def write(self, name: str, *, ranges: bool, streamed: bool) -> str:
        buffers = self.write_buffers() if streamed else []
        sizes = self.write_range() if ranges else self.write_bounds()
        addresses = self.words(self.layout.first_address, len(self.layout.dtypes))
        self.write_uniform()
        if sizes:
            self.write_rows(addresses, sizes)
        else:
            pointers = [self.code.let(f"inttoptr i64 {address} to ptr") for address in addresses]
            if streamed:
                self.write_streamed_row(addresses, pointers, buffers)
            else:
                self.write_row(pointers)
        self.code.do("br label %done")
        self.code.label("done")
        self.code.do("ret i64 0")
        what = "i64 %start, i64 %stop" if ranges else "i64 %part, i64 %parts"
        lines = [
            *self.code.declarations,
            *([_STREAM] if streamed else []),
            f"define i64 @{name}(i64 %block, {what}) nounwind {{",
        ]
        lines += ["entry:", *self.code.lines, "}"]
        # Each iteration loads its elements before it stores them, so no iteration depends on another, not even where
        # an output is an input. Saying so spares the vectorizer run-time checks, which in place would always fail.
        lines += ["!0 = distinct !{}", '!1 = !{!"llvm.loop.parallel_accesses", !0}', "!2 = distinct !{!2, !1}"]
        lines += ["!3 = !{i32 1}", ""]
        return "\n".join(lines)

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
        (length,) = self.words(0, 1)
        grains = let(f"udiv i64 {let(f'add i64 {length}, {_GRAIN - 1}')}, {_GRAIN}")
        ends = [let(f"mul i64 {bound}, {_GRAIN}") for bound in self.share(grains)]
        begin, end = [let(f"select i1 {let(f'icmp ult i64 {e}, {length}')}, i64 {e}, i64 {length}") for e in ends]
        sizes = self.words(1, self.layout.rank)
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
        """The same where the caller says which elements: no outer sizes."""
        self.code.do("%words = inttoptr i64 %block to ptr")
        self.code.do("%any = icmp ult i64 %start, %stop")
        self.code.do("br i1 %any, label %work, label %done")
        self.code.label("work")
        return []

    def write_uniform(self) -> None:
        """Loads the attributes and computes what depends on them alone, in float64."""
        attributes = self.program.attributes
        values = self.words(self.layout.first_attribute, len(attributes), DOUBLE)
        self.uniform.update(zip(map(name_node, attributes), values, strict=True))
        for node in self.nodes:
            if self.is_uniform(node):
                self.uniform[node] = self.compute(self.wide, node, self.uniform_value)

    def is_uniform(self, expr: Expr) -> bool:
        return expr.names.isdisjoint(self.inputs)

    def uniform_value(self, expr: Expr) -> str:
        return self.wide.literal(expr.value) if isinstance(expr, Number) else self.uniform[expr]

    # --- once per row ---

    def write_rows(self, addresses: list[str], sizes: list[str]) -> None:
        code, let = self.code, self.code.let
        rank, count = len(sizes), len(addresses)
        words = self.words(self.layout.first_stride, count * rank)
        strides = [words[operand * rank :][:rank] for operand in range(count)]
        code.do("br label %row")
        code.label("row")
        code.do("%r = phi i64 [ %row.start, %work ], [ %r.next, %row.end ]")
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

    def row_indices(self, sizes: list[str]) -> list[str]:
        """The outer indices of row %r."""
        rest, indices = "%r", []
        for size in reversed(sizes[1:]):
            indices.append(self.code.let(f"urem i64 {rest}, {size}"))
            rest = self.code.let(f"udiv i64 {rest}, {size}")
        return [rest, *reversed(indices)]

    # --- once per element ---

    def write_row(self, pointers: list[str]) -> None:
        self.load_fixed(pointers)
        self.code.do("br label %loop.head")
        self.code.label("loop.head")
        self.write_loop(pointers, "%start", "%loop.head", "%stop", lambda i: self.element(i, pointers[i]))

    def write_buffers(self) -> list[str]:
        """Memory of the call for some elements of each output."""
        types = [self.types[dtype] for dtype in self.layout.dtypes[len(self.program.inputs) :]]
        return [self.code.let(f"alloca [{_BUFFERED} x {type}], align {_LINE_BYTES}") for type in types]

    def write_streamed_row(self, addresses: list[str], pointers: list[str], buffers: list[str]) -> None:
        code, let = self.code, self.code.let
        first = len(self.program.inputs)
        outputs = range(first, len(pointers))
        self.load_fixed(pointers)
        past = [
            self.may_pass_caches(i, addresses, let(f"ptrtoint ptr {self.at(i, pointers[i], '%start')} to i64"))
            for i in outputs
        ]
        code.do("br label %piece.head")
        code.label("piece.head")
        code.do("br label %piece")
        code.label("piece")
        code.do("%from = phi i64 [ %start, %piece.head ], [ %full, %loop.end ]")
        code.do(f"%full = add nuw i64 %from, {_BUFFERED}")
        code.do("%is.last = icmp ule i64 %stop, %full")
        code.do("%to = select i1 %is.last, i64 %stop, i64 %full")
        self.write_loop(
            pointers, "%from", "%piece", "%to", lambda i: self.at(i, buffers[i - first], let("sub i64 %i, %from"))
        )
        count = let("sub i64 %to, %from")
        for i, flag in zip(outputs, past, strict=True):
            nbytes = let(f"mul i64 {count}, {np.dtype(self.layout.dtypes[i]).itemsize}")
            target = self.at(i, pointers[i], "%from")
            code.do(f"call void @stream(ptr {buffers[i - first]}, ptr {target}, i64 {nbytes}, i1 {flag})")
        code.do("br i1 %is.last, label %piece.done, label %piece")
        code.label("piece.done")
        # Other threads are told that the work is done by ordinary stores, which could overtake these.
        code.do("fence seq_cst")

    def may_pass_caches(self, output: int, addresses: list[str], begin: str) -> str:
        """An i1: whether an output begins on a line, and is no input, which is in the cache when it is written."""
        let = self.code.let
        result = let(f"icmp eq i64 {let(f'and i64 {begin}, {_LINE_BYTES - 1}')}, 0")
        for i in range(len(self.program.inputs)):
            result = let(f"and i1 {result}, {let(f'icmp ne i64 {addresses[i]}, {addresses[output]}')}")
        return result

    def load_fixed(self, pointers: list[str]) -> None:
        """Loads the inputs that are the same all along the row."""
        for i, name in enumerate(self.program.inputs):
            if not self.layout.inner_strides[i]:
                self.values[name_node(name)] = self.load(i, pointers[i], "")

    def write_loop(self, pointers: list[str], start: str, before: str, stop: str, place: Callable[[int], str]) -> None:
        """Computes the elements from `start` to `stop`; comes from the block `before`, ends in %loop.end.

        place: of an operand the pointer to where its element %i is written.
        """
        code, inputs = self.code, self.program.inputs
        code.do("br label %loop")
        code.label("loop")
        code.do(f"%i = phi i64 [ {start}, {before} ], [ %i.next, %loop ]")
        for i, name in enumerate(inputs):
            if self.layout.inner_strides[i]:
                element = self.element(i, pointers[i])
                self.values[name_node(name)] = self.load(i, element, ", !llvm.access.group !0")
        for node in self.nodes:
            if not self.is_uniform(node):
                self.values[node] = self.compute(self.real, node, self.real_value)
        for i, expression in enumerate(self.expressions, len(inputs)):
            self.store(i, place(i), self.real_value(expression))
        code.do("%i.next = add nuw i64 %i, 1")
        code.do(f"%i.more = icmp ult i64 %i.next, {stop}")
        code.do("br i1 %i.more, label %loop, label %loop.end, !llvm.loop !2")
        code.label("loop.end")

    def real_value(self, expr: Expr) -> str:
        if isinstance(expr, Number):
            return self.real.literal(expr.value)
        if expr not in self.values:
            # LLVM moves the conversion out of the loop.
            value = self.uniform[expr]
            self.values[expr] = value if expr.kind == CONDITION else self.wide.convert(value, self.real.type)
        return self.values[expr]

    def compute(self, real: Real, node: Apply, get: Callable[[Expr], str]) -> str:
        args = [get(arg) for arg in node.args]
        if node.op in _ARITHMETIC:
            return _ARITHMETIC[node.op](real, *args)
        if node.op in _PREDICATES:
            return real.compare(_PREDICATES[node.op], *args)
        if node.op in _LOGIC:
            return self.code.let(_LOGIC[node.op].format(*args))
        if real.type == FLOAT and node.op in CIRCULAR:
            return CIRCULAR[node.op](real, *args)
        return call_function(real, node.op, args)

    def element(self, operand: int, pointer: str) -> str:
        return self.at(operand, pointer, "%i")

    def at(self, operand: int, pointer: str, index: str) -> str:
        """The address of an element of an operand, whose first one is at `pointer`."""
        return self.code.let(
            f"getelementptr inbounds {self.types[self.layout.dtypes[operand]]}, ptr {pointer}, i64 {index}"
        )

    def load(self, operand: int, pointer: str, metadata: str) -> str:
        """The element at `pointer` in the type computed in."""
        dtype = self.layout.dtypes[operand]
        element_type, real = self.types[dtype], self.real.type
        value = self.code.let(f"load {element_type}, ptr {pointer}{metadata}")
        if dtype in ("uint8", "bool"):
            return self.code.let(f"uitofp i8 {value} to {real}")
        if dtype in ("int32", "int64"):
            return self.code.let(f"sitofp {element_type} {value} to {real}")
        if dtype == "float16":
            if self.half_instructions:
                value = self.code.let(f"fpext half {value} to float")
            else:
                value = half_to_float(Real(self.code, FLOAT), value)
            element_type = FLOAT
        return Real(self.code, element_type).convert(value, real)

    def store(self, operand: int, pointer: str, value: str) -> None:
        dtype = self.layout.dtypes[operand]
        if dtype == "float16":
            # By way of float: few processors round double to half.
            value = self.real.convert(value, FLOAT)
            if self.half_instructions:
                value = self.code.let(f"fptrunc float {value} to half")
            else:
                value = float_to_half(Real(self.code, FLOAT), value)
        else:
            value = self.real.convert(value, self.types[dtype])
        self.code.do(f"store {self.types[dtype]} {value}, ptr {pointer}, !llvm.access.group !0")
