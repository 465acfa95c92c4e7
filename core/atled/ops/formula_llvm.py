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

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from atled.named_tuple import NamedTuple
from atled.ops.formula import (
    CONDITION,
    OPERATIONS,
    ROUNDING,
    Apply,
    Expr,
    Name,
    Number,
    Program,
    expand,
    postorder,
    without_rounding,
)
from atled.ops.formula import name as name_node
from atled.ops.formula_layout import Layout, LayoutPlan, item_bytes, plan_layout
from atled.ops.formula_llvm_math import (
    DOUBLE,
    FLOAT,
    FLOAT_FUNCTIONS,
    INTRINSICS,
    Code,
    Real,
    call_function,
    float_to_half,
    half_to_float,
)
from atled.ops.formula_llvm_whole import WHOLE_TYPES, Whole

if TYPE_CHECKING:
    from atled.ops.formula_llvm_powers import ShortPowers
    from atled.ops.formula_llvm_tiles import Tiles

__all__ = ["LIBRARY", "Layout", "LayoutPlan", "plan_layout", "write_llvm"]

_WRITTEN = FLOAT_FUNCTIONS.keys()  # in operations, with fewer roundings than what they would be expanded to
_TYPES = {"float16": "half", "bfloat16": "i16", "float32": FLOAT, "float64": DOUBLE, **WHOLE_TYPES}
_EXPANDED = frozenset(("sigmoid", "sign", "minimum", "maximum"))
_PREDICATES = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"}
_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "neg": "neg", "where": "select"}  # methods of Real
_FACTORS = frozenset(("+", "-", "*", "/", "**", "sqrt"))
_SIGNS = frozenset(("abs", "neg"))  # what is computed of the bits of a float16, too
_LOGIC = {"and": "and i1 {}, {}", "or": "or i1 {}, {}", "not": "xor i1 {}, true"}
_GRAIN = 16  # elements: shares of a row begin at multiples of it, a cache line of aligned float32
# Operations on pairs that LLVM copies into a loop for each case of attributes that are NaN. In a longer loop it has the
# conditions in vectors, which takes two to three times as long as all else, so these are to be none.
_MOST_CHOSEN = 11
_SHARE_UNITS = 4  # rows or grains per part; below that, shares of them are too uneven

# What takes no function: a formula of these alone imports none of the eight modules of functions, 3 ms at first.
_BY_INSTRUCTIONS = _ARITHMETIC.keys() | _PREDICATES.keys() | _LOGIC.keys() | INTRINSICS.keys()

# What is computed piece by piece goes into a buffer, which stays in the first-level cache: the inputs, which may be the
# outputs, are still there if the piece has to be computed again. Past the caches it goes from there in whole lines to
# memory. So memory is not read before it is overwritten, which is a third of the traffic of most formulas.
_BUFFERED = 512  # elements
_LINE_BYTES = 64

# In a function each operation waits for the one before. LLVM interleaves vectors only of short loops, and trusts
# processors to look ahead into the next iteration, but these are too long for that: two vectors side by side take .85
# of the time of one after the other on Zen 3, and of powers, the longest, four take .65. Of sigmoids, which end with a
# division, four take .9 of the time of two, in rows of hundreds of elements or more. Functions of float64 have
# longer polynomials: four take .8 to .95 of the time of two, and are as many elements as two of float32; but of those
# with the longest ones, four need so many registers more than there are that they take 1.15 to 1.3 of it.
_INTERLEAVED = {"**": 4, "sigmoid": 4}  # others: 2, or
_INTERLEAVED_DOUBLES = dict.fromkeys(("asin", "acos"), 2)  # others: 4
_COPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
_STREAM = f"""\
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


class _Elements(NamedTuple):
    """Some elements of a row, at least one, and the loop over them.

    loop: what its labels begin with.  start, stop: the first index, and the one behind the last.
    pointers: of the arrays' rows.  varying: the inputs that vary along the row, and their nodes.
    place: (operand, index) -> where an element of an output is written; in its array if not given.
    """

    loop: str
    start: str
    stop: str
    pointers: list[str]
    varying: list[tuple[int, Expr]]
    place: Callable[[int, str], str] | None = None


def _functions_of(
    real_type: str, nodes: Sequence[Apply]
) -> tuple[Mapping[str, Callable[..., tuple[str, str]]], Mapping[str, Callable[..., str]]]:
    """The quick and the whole functions for nodes; some that they do not have may be missing."""
    known = FLOAT_FUNCTIONS if real_type == FLOAT else {}
    if all(node.op in _BY_INSTRUCTIONS or node.op in known for node in nodes):
        return {}, known
    from atled.ops.formula_llvm_functions import QUICK, WHOLE  # lazy: see _BY_INSTRUCTIONS

    return QUICK, WHOLE[real_type]


def _once(op: str) -> Mapping[str, Callable[..., str]]:
    """The functions of attributes alone: all but one are in the C library."""
    if op != "sigmoid":
        return {}
    from atled.ops.formula_llvm_double import DOUBLE_FUNCTIONS  # lazy: few formulas have that

    return {op: DOUBLE_FUNCTIONS[op]}


class _Writer:
    def __init__(self, program: Program, layout: Layout, half_instructions: bool, fused: bool, masks: bool) -> None:
        self.program = program
        self.masks = masks
        self.layout = layout
        self.half_instructions = half_instructions
        self.types = _TYPES if half_instructions else {**_TYPES, "float16": "i16"}
        self.inputs = frozenset(program.inputs)
        self.is_whole = layout.compute in WHOLE_TYPES
        own = frozenset() if self.is_whole else _WRITTEN
        given = [without_rounding(item) for item in program.expressions] if self.is_whole else program.expressions
        self.expressions = [expand(expression, _EXPANDED - own) for expression in given]
        self.nodes = postorder(self.expressions)
        self.code = Code(fused=fused)
        real = Real(self.code, FLOAT if layout.compute == "float32" else DOUBLE)
        self.real: Real | Whole = Whole(self.code, layout.compute) if self.is_whole else real
        self.wide = Real(self.code, DOUBLE)
        # Without the instruction the rest of a product of float64 would be a call.
        called = {"**"} if real.type == DOUBLE and not fused else set()
        quick, functions = ({}, {}) if self.is_whole else _functions_of(real.type, self.nodes)
        self.quick = {op: f for op, f in quick.items() if op not in called}
        self.functions = {op: f for op, f in functions.items() if op not in called}
        self.values: dict[Expr, str] = {}  # of the type computed in
        self.uniform: dict[Expr, str] = {}  # of attributes and literals alone: float64
        self.loops: list[str] = []  # per loop what is said of it, as the end of its metadata
        self.buffers: list[str] = []  # per output, where it is computed in pieces
        self.streamed = False
        self.in_pairs = self.are_pairs()
        if self.in_pairs and sum(not self.is_uniform(node) for node in self.nodes) > _MOST_CHOSEN:
            self.expressions = [expand(expression, _EXPANDED - own, self.is_uniform) for expression in given]
            self.nodes = postorder(self.expressions)
        # Whether nothing is computed with but bfloat16, integers and constants, in float32: `float_to_bfloat`.
        read = layout.dtypes[: len(program.inputs)]
        self.has_plain_nan = real.type == FLOAT and all(each in ("bfloat16", *WHOLE_TYPES) for each in read)
        self.exponents = self.exponents_of_rows()
        self.opaque_one = ""  # a factor of 1 that LLVM takes for any number

    def write(self, name: str, *, ranges: bool, streamed: bool) -> str:
        self.streamed = streamed
        if streamed or self.has_quick():
            self.write_buffers()
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
            self.write_row([self.code.let(f"inttoptr i64 {address} to ptr") for address in addresses])
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
        lines += [f"!{number} = distinct !{{!{number}{rest}" for number, rest in enumerate(self.loops, 3)]
        return "\n".join([*lines, ""])

    def tiles(self) -> Tiles:
        """What is around the rows where operands are copied to buffers."""
        from atled.ops.formula_llvm_tiles import Tiles  # lazy: few arrays lie so

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
        if self.has_plain_nan and "bfloat16" in self.layout.dtypes:
            is_nan = [self.wide.compare("uno", value, value) for value in values]
            nan = self.wide.literal(math.nan)
            values = [self.wide.select(flag, nan, value) for flag, value in zip(is_nan, values, strict=True)]
        self.uniform.update(zip(map(name_node, attributes), values, strict=True))
        for node in self.nodes:
            if self.is_uniform(node):
                self.uniform[node] = self.compute(self.wide, node, self.uniform_value, _once(node.op))
        if self.half_instructions and "float16" in self.layout.dtypes and self.real.type == FLOAT:
            self.write_opaque_one()

    def write_opaque_one(self) -> None:
        """Beside roundings to whole numbers, and some comparisons, it hides that what is loaded has been a float16.

        LLVM would round that, for which most processors have no instruction: element by element, six times as long. Or
        it would compare that, and bring what it finds to the width of floats and back, which takes twice as long.
        """
        rounds = any(node.op in ROUNDING and not self.is_uniform(node) for node in self.nodes)
        if rounds or self.has_compared_factors():
            place = self.code.let("alloca float")
            self.code.do(f"store volatile float {self.real.literal(1.0)}, ptr {place}")
            self.opaque_one = self.code.let(f"load volatile float, ptr {place}")

    def has_compared_factors(self) -> bool:
        """Whether an input is compared as it is, and computed with as well, its absolute value included."""
        compared: set[str] = set()
        factors: set[str] = set()
        for node in self.nodes:
            if node.op in _PREDICATES:
                compared.update(arg.id for arg in node.args if isinstance(arg, Name))
            elif node.op in _FACTORS:
                parts = (arg.args[0] if isinstance(arg, Apply) and arg.op in _SIGNS else arg for arg in node.args)
                factors.update(part.id for part in parts if isinstance(part, Name))
        return not self.inputs.isdisjoint(compared & factors)

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
        if self.buffers:
            self.write_pieces(pointers, varying)
        else:
            self.write_elements(_Elements("loop", "%start", "%stop", pointers, varying))

    def load_fixed(self, pointers: list[str]) -> list[tuple[int, Expr]]:
        """Loads the inputs that are the same all along the row; returns the others as (operand, node)."""
        varying = []
        for i, name in enumerate(self.program.inputs):
            if self.layout.inner_strides[i]:
                varying.append((i, name_node(name)))
            else:
                self.values[name_node(name)] = self.load(i, pointers[i], "")
        return varying

    def has_quick(self, *, but_powers: bool = False) -> bool:
        """Whether a function is computed element by element that has a quick form.

        but_powers: not counting those whose exponent is one for all elements.
        """
        nodes = [node for node in self.nodes if node.op in self.quick and not self.is_uniform(node)]
        return any(not (but_powers and self.has_one_exponent(node)) for node in nodes)

    def exponents_of_rows(self) -> list[Expr]:
        """Exponents of powers that are the same for all elements, each once.

        Squares, cubes, roots, their inverses and gradients are most of such powers, and their bases often negative or
        0, for which a whole form took thirty times a product; so there are loops for exponents that need no logarithm.
        """
        if "**" not in self.quick:
            return []
        nodes = [node for node in self.nodes if not self.is_uniform(node) and self.has_one_exponent(node)]
        return list(dict.fromkeys(node.args[1] for node in nodes))

    def has_one_exponent(self, node: Apply) -> bool:
        return node.op == "**" and self.is_uniform(node.args[1])

    def write_buffers(self) -> None:
        """Memory of the call for some elements of each output."""
        types = [self.types[dtype] for dtype in self.layout.dtypes[len(self.program.inputs) :]]
        self.buffers = [self.code.let(f"alloca [{_BUFFERED} x {type}], align {_LINE_BYTES}") for type in types]
        self.code.declarations[_COPY] = None

    def write_pieces(self, pointers: list[str], varying: list[tuple[int, Expr]]) -> None:
        """The row in pieces, each computed into the buffers and written from there."""
        code, let = self.code, self.code.let
        first = len(self.program.inputs)
        outputs = range(first, len(pointers))
        past = [self.may_pass_caches(i, pointers) for i in outputs] if self.streamed else []
        code.do("br label %pieces")
        code.label("pieces")
        code.do("br label %piece")
        code.label("piece")
        code.do("%from = phi i64 [ %start, %pieces ], [ %full, %written ]")
        code.do(f"%full = add nuw i64 %from, {_BUFFERED}")
        code.do("%is.last = icmp ule i64 %stop, %full")
        code.do("%to = select i1 %is.last, i64 %stop, i64 %full")

        def place(operand: int, index: str) -> str:
            return self.element(operand, self.buffers[operand - first], let(f"sub i64 {index}, %from"))

        piece = _Elements("loop", "%from", "%to", pointers, varying, place)
        if self.exponents:
            from atled.ops.formula_llvm_powers import SHORT_POWERS  # lazy: few formulas have powers

            assert isinstance(self.real, Real)
            # Nothing is computed again then, so there is nothing to wait for.
            at_once = not self.streamed and not self.has_quick(but_powers=True)
            for powers in SHORT_POWERS:
                short = [powers.takes(self.real, self.real_value(exponent)) for exponent in self.exponents]
                are_short = functools.reduce(lambda a, b: let(f"and i1 {a}, {b}"), short)
                code.do(f"br i1 {are_short}, label %by.{powers.loop}, label %past.{powers.loop}")
                code.label(f"by.{powers.loop}")
                of_powers = piece._replace(loop=powers.loop, place=None if at_once else place)
                found = self.write_elements(of_powers, quick=True, powers=powers)
                code.do("br label %written" if at_once else f"br i1 {found}, label %again, label %computed")
                code.label(f"past.{powers.loop}")
        found = self.write_elements(piece, quick=True)
        code.do(f"br i1 {found}, label %again, label %computed")
        code.label("again")
        if found != "false":
            self.write_elements(piece._replace(loop="whole"))
        code.do("br label %computed")
        code.label("computed")
        count = let("sub i64 %to, %from")
        for number, i in enumerate(outputs):
            nbytes = let(f"mul i64 {count}, {item_bytes(self.layout.dtypes[i])}")
            target = self.element(i, pointers[i], "%from")
            function, flag = ("stream", past[number]) if self.streamed else ("llvm.memcpy.p0.p0.i64", "false")
            given = (self.buffers[number], target) if self.streamed else (target, self.buffers[number])
            code.do(f"call void @{function}(ptr {given[0]}, ptr {given[1]}, i64 {nbytes}, i1 {flag})")
        code.do("br label %written")
        code.label("written")
        code.do("br i1 %is.last, label %piece.done, label %piece")
        code.label("piece.done")
        if self.streamed:
            # Ordinary stores tell other threads that the work is done, and could overtake these.
            code.do("fence seq_cst")

    def may_pass_caches(self, output: int, pointers: list[str]) -> str:
        """An i1: whether an output begins on a line, and is no input, which is in the cache when it is written."""
        let = self.code.let
        begin = let(f"ptrtoint ptr {self.element(output, pointers[output], '%start')} to i64")
        result = let(f"icmp eq i64 {let(f'and i64 {begin}, {_LINE_BYTES - 1}')}, 0")
        for i in range(len(self.program.inputs)):
            result = let(f"and i1 {result}, {let(f'icmp ne ptr {pointers[i]}, {pointers[output]}')}")
        return result

    def write_elements(self, elements: _Elements, *, quick: bool = False, powers: ShortPowers | None = None) -> str:
        """Some elements; returns whether they must be computed again, an i1.

        quick: compute by the quick forms that there are.
        powers: the form of powers that takes all exponents of rows.
        """
        if self.in_pairs:
            self.write_pairs(elements)
            return "false"
        loop, before = elements.loop, dict(self.values)
        # Of the width of what is compared, or vectors would be repacked.
        flag = f"i{8 * item_bytes(self.layout.compute)}"
        looks = quick and self.has_quick(but_powers=powers is not None)
        phis = [f"%{loop}.found = phi {flag} [ 0, %{loop}.head ], [ %{loop}.found.next, %{loop} ]"] if looks else []
        index = self.begin_loop(loop, elements.start, *phis)
        self.load_varying(index, elements.pointers, elements.varying)
        hard = self.compute_all(self.nodes, quick=looks, powers=powers)
        self.store_outputs(index, elements)
        if looks:
            is_hard = functools.reduce(lambda a, b: self.code.let(f"or i1 {a}, {b}"), hard)
            self.code.do(
                f"%{loop}.found.next = or {flag} %{loop}.found, {self.code.let(f'zext i1 {is_hard} to {flag}')}"
            )
        self.end_loop(loop, elements.stop, self.interleaved(looks) if powers is None else 2)
        self.values = before  # values of one loop are none in another
        return self.code.let(f"icmp ne {flag} %{loop}.found.next, 0") if looks else "false"

    def store_outputs(self, index: str, elements: _Elements) -> None:
        for i, expression in enumerate(self.expressions, len(self.program.inputs)):
            self.store(i, self.target(i, index, elements), self.real_value(expression))

    def target(self, operand: int, index: str, elements: _Elements) -> str:
        """Where an element of an output is written."""
        if elements.place is None:
            return self.element(operand, elements.pointers[operand], index)
        return elements.place(operand, index)

    def are_pairs(self) -> bool:
        """Whether rows go on by two neighbours at a time: all that varies is bfloat16, side by side."""
        dtypes, inner = self.layout.dtypes, self.layout.inner_strides
        varying = {dtype for dtype, stride in zip(dtypes, inner, strict=True) if stride}
        return varying == {"bfloat16"} and set(inner) <= {0, 1} and self.real.type == FLOAT and not self.has_quick()

    def write_pairs(self, elements: _Elements) -> None:
        """The same two by two, then the last one where their number is odd."""
        loop, start, stop, pointers, varying, _ = elements
        from atled.ops.formula_llvm_bfloat import floats_to_pair, pair_to_floats  # lazy: few arrays are bfloat16

        code, let, before = self.code, self.code.let, dict(self.values)
        assert isinstance(self.real, Real)
        count = let(f"sub i64 {stop}, {start}")
        end = let(f"add i64 {start}, {let(f'and i64 {count}, -2')}")
        code.do(f"br i1 {let(f'icmp ult i64 {start}, {end}')}, label %{loop}.pairs, label %{loop}.rest")
        code.label(f"{loop}.pairs")
        index = self.begin_loop(loop, start)
        words = []
        for i, _ in varying:
            words.append(let(f"load i32, ptr {self.element(i, pointers[i], index)}, align 2, !llvm.access.group !0"))
        pairs = [pair_to_floats(self.real, word) for word in words]
        results, first_line = [], len(code.lines)
        for number in range(2):
            self.values = before | {node: pair[number] for (_, node), pair in zip(varying, pairs, strict=True)}
            self.compute_all(self.nodes)
            results.append([self.real_value(expression) for expression in self.expressions])
        # Side by side, as LLVM has the vectors that it interleaves: neither waits for all of the other.
        lines = code.lines[first_line:]
        halves = lines[: len(lines) // 2], lines[len(lines) // 2 :]
        code.lines[first_line:] = [line for both in zip(*halves, strict=True) for line in both]
        for i, (first, second) in enumerate(zip(*results, strict=True), len(self.program.inputs)):
            word = floats_to_pair(self.real, first, second, plain_nan=self.has_plain_nan)
            target = self.target(i, index, elements)
            code.do(f"store i32 {word}, ptr {target}, align 2, !llvm.access.group !0")
        self.end_loop(loop, end, self.interleaved(False), step=2)
        code.do(f"br label %{loop}.rest")
        code.label(f"{loop}.rest")
        code.do(f"br i1 {let(f'icmp ult i64 {end}, {stop}')}, label %{loop}.last, label %{loop}.finished")
        code.label(f"{loop}.last")
        self.values = dict(before)
        self.load_varying(end, pointers, varying)
        self.compute_all(self.nodes)
        self.store_outputs(end, elements)
        code.do(f"br label %{loop}.finished")
        code.label(f"{loop}.finished")
        self.values = before

    def interleaved(self, is_quick: bool) -> int:
        """How many vectors a loop computes side by side; 0: what LLVM thinks of it."""
        if not is_quick and self.has_quick():
            return 1  # rare, and as much code as it is
        ops = {node.op for node in self.nodes if not self.is_uniform(node)}
        known, usual = (_INTERLEAVED_DOUBLES, 4) if self.real.type == DOUBLE else (_INTERLEAVED, 2)
        return max((known.get(op, usual) for op in ops & self.functions.keys()), default=0)

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

    def end_loop(self, loop: str, stop: str, interleaved: int, step: int = 1) -> None:
        """Closes it; interleaved: vectors of an iteration, side by side, if that is not left to LLVM."""
        code = self.code
        code.do(f"%{loop}.i.next = add nuw i64 %{loop}.i, {step}")
        code.do(f"%{loop}.more = icmp ult i64 %{loop}.i.next, {stop}")
        code.do(f"br i1 %{loop}.more, label %{loop}, label %{loop}.end, !llvm.loop !{3 + len(self.loops)}")
        code.label(f"{loop}.end")
        vectors = f', !{{!"llvm.loop.interleave.count", i32 {interleaved}}}' if interleaved else ""
        self.loops.append(f", !1{vectors}}}")

    def load_varying(self, index: str, pointers: list[str], varying: list[tuple[int, Expr]]) -> None:
        for i, node in varying:
            self.values[node] = self.load(i, self.element(i, pointers[i], index), ", !llvm.access.group !0")

    def compute_all(
        self, nodes: Sequence[Apply], *, quick: bool = False, powers: ShortPowers | None = None
    ) -> list[str]:
        """Computes the values of nodes; returns where the quick forms are not right, as i1."""
        quick_forms = self.quick if quick else {}
        hard = []
        for node in nodes:
            if self.is_uniform(node):
                continue
            if powers is not None and self.has_one_exponent(node):
                assert isinstance(self.real, Real)
                self.values[node] = powers.power(self.real, *map(self.real_value, node.args))
            elif node.op in quick_forms:
                self.values[node], is_hard = quick_forms[node.op](self.real, *map(self.real_value, node.args))
                # One exponent alone is none of the short ones, or it would not be here.
                if len(self.exponents) > 1 and self.has_one_exponent(node):
                    is_hard = self.choose_short(node, is_hard)
                hard.append(is_hard)
            else:
                self.values[node] = self.compute(self.real, node, self.real_value, self.functions)
                if self.exponents and self.has_one_exponent(node):
                    self.choose_short(node, "false")
        return hard

    def choose_short(self, node: Apply, is_hard: str) -> str:
        """Gives a power the bits that it has where all exponents are short; returns what is hard still."""
        from atled.ops.formula_llvm_powers import SHORT_POWERS  # lazy: few formulas have powers

        assert isinstance(self.real, Real)
        x, y = map(self.real_value, node.args)
        powers = SHORT_POWERS[-1]
        is_short = powers.takes(self.real, y)
        self.values[node] = self.real.select(is_short, powers.power(self.real, x, y), self.values[node])
        return self.code.let(f"select i1 {is_short}, i1 false, i1 {is_hard}")

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
        functions: Mapping[str, Callable[..., str]],
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
                if self.opaque_one:
                    value = Real(self.code, FLOAT).mul(value, self.opaque_one)
            else:
                value = half_to_float(Real(self.code, FLOAT), value)
            element_type = FLOAT
        elif dtype == "bfloat16":
            from atled.ops.formula_llvm_bfloat import bfloat_to_float  # lazy: few arrays are bfloat16

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
            from atled.ops.formula_llvm_bfloat import float_to_bfloat  # lazy: few arrays are bfloat16

            single = real.convert(value, FLOAT)
            value = float_to_bfloat(Real(self.code, FLOAT), single, plain_nan=self.has_plain_nan)
        else:
            value = real.convert(value, self.types[dtype])
        self.code.do(f"store {self.types[dtype]} {value}, ptr {pointer}, !llvm.access.group !0")
