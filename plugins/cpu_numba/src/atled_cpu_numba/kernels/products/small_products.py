"""Matrix products so small that preparing tiles would take longer than multiplying.

Any strides, no workspace. Tiles are as many columns as a power of two, not some lanes of a vector: a result is often
read while it is on its way to the cache, and then has to be read in the pieces that it was written in.

It is written as LLVM IR, since a call is to take some nanoseconds: of the same loops in Python, LLVM unrolls each and
works out hundreds of offsets before the first of them begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from atled.plugin import Prepared
from atled_cpu_numba.kernels.shared.launch import REALS, is_brief, launch, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import IRKernel

# Sizes of tiles. Each takes milliseconds to compile, so there are no more of them than are worth that.
_WIDTHS = (8, 4, 1)
_STRIDED_WIDTHS = (4, 1)  # where rows of B are gathered; those of width 1 serve both
_ROWS = (4, 1)
_MOST_STEPS = 128  # above, larger tiles are quicker
_MOST_STRIDED_STEPS = 48  # the same where rows of B are gathered
_STEPS_PER_US = 1000.0
_MOST_SUMMED_ROWS = 32  # added one by one, in float32


class ProductWords:
    """The first words of the blocks of products; strides in elements."""

    pack: int  # address of PACK, where the product has its matrices packed
    multiply: int  # address of what multiplies them then
    batch: int  # y is (batch, m, n)
    m: int
    k: int
    n: int
    a: int  # address
    a_row: int
    a_column: int
    b: int  # address
    b_row: int
    b_column: int
    y: int  # address
    bias: int  # address, or 0
    a_batch: int
    b_batch: int
    y_batch: int
    y_row: int


@layout
class Block(ProductWords):
    """What the kernel reads, which packs nothing."""

    after: int  # range kernel to run on what is written of y, or 0
    after_block: int  # its block


def _ir(dtype: str) -> str:
    kinds = [(width, False) for width in _WIDTHS] + [(width, True) for width in _STRIDED_WIDTHS if width > 1]
    tiles = [_tile(rows, width, strided) for rows in _ROWS for width, strided in kinds]
    text = "\n".join([*map(_multiply_add, _WIDTHS), *tiles, *map(_columns, _WIDTHS), _product()])
    if dtype == "float64":
        # The only words that tell what is multiplied.
        text = text.replace("float", "double").replace("f32", "f64").replace("align 4", "align 8")
    return text


def _load_words(*names: str) -> str:
    """Lines that read words of the block."""
    return "\n".join(
        f"""  %{name}.at = getelementptr i64, ptr %w, i64 {getattr(Block, name)}
  %{name} = load i64, ptr %{name}.at"""
        for name in names
    )


def _vector(width: int) -> str:
    return "float" if width == 1 else f"<{width} x float>"


def _multiply_add(width: int) -> str:
    kind = _vector(width)
    return f"declare {kind} @llvm.fmuladd.{_suffix(width)}({kind}, {kind}, {kind})"


def _suffix(width: int) -> str:
    return "f32" if width == 1 else f"v{width}f32"


def _splat(name: str, value: str, width: int) -> str:
    """Lines that make `name` a vector of `value` in all lanes."""
    if width == 1:
        return f"  {name} = fadd nsz float {value}, 0.0"
    kind = _vector(width)
    return f"""  {name}.first = insertelement {kind} undef, float {value}, i32 0
  {name} = shufflevector {kind} {name}.first, {kind} undef, <{width} x i32> zeroinitializer"""


def _load_column(name: str, place: str, width: int, *, strided: bool) -> str:
    """Lines that read one row of B, the columns of a tile; %b_column elements apart if they are `strided`."""
    kind = _vector(width)
    if not strided or width == 1:
        return f"  {name} = load {kind}, ptr {place}, align 4"
    lines = []
    value = "undef"
    for i in range(width):
        result = name if i == width - 1 else f"{name}.with{i}"
        lines.append(f"""  {name}.offset{i} = mul i64 %b_column, {i}
  {name}.at{i} = getelementptr float, ptr {place}, i64 {name}.offset{i}
  {name}.lane{i} = load float, ptr {name}.at{i}
  {result} = insertelement {kind} {value}, float {name}.lane{i}, i32 {i}""")
        value = result
    return "\n".join(lines)


def _tile(rows: int, width: int, strided: bool) -> str:
    """The elements of y from %y on: sums over k in order, then the bias from %s on, if that is not null."""
    kind = _vector(width)
    zero = "0.0" if width == 1 else "zeroinitializer"
    each = range(rows)
    starts = "\n".join(
        f"  %row{r} = mul i64 %a_row, {r}\n  %start{r} = getelementptr float, ptr %a, i64 %row{r}" for r in each
    )
    sums = "\n".join(f"  %sum{r} = phi {kind} [ {zero}, %entry ], [ %sum{r}.next, %terms ]" for r in each)
    terms = "\n".join(
        f"""  %a{r}.at = getelementptr float, ptr %start{r}, i64 %a.offset
  %a{r} = load float, ptr %a{r}.at
{_splat(f"%splat{r}", f"%a{r}", width)}
  %sum{r}.next = call {kind} @llvm.fmuladd.{_suffix(width)}({kind} %splat{r}, {kind} %column, {kind} %sum{r})"""
        for r in each
    )
    stores = "\n".join(
        f"""  %result{r} = fadd {kind} %sum{r}.next, %added
  %place{r}.offset = mul i64 %y_row, {r}
  %place{r} = getelementptr float, ptr %y, i64 %place{r}.offset
  store {kind} %result{r}, ptr %place{r}, align 4"""
        for r in each
    )
    return f"""
define internal void @{_tile_name(rows, width, strided)}(ptr %w, ptr %a, ptr %b, ptr %y, ptr %s) noinline {{
entry:
{_load_words("k", "y_row", "a_row", "a_column", "b_row", "b_column")}
{starts}
  br label %terms
terms:
  %i = phi i64 [ 0, %entry ], [ %i.next, %terms ]
  %a.offset = phi i64 [ 0, %entry ], [ %a.offset.next, %terms ]
  %b.now = phi ptr [ %b, %entry ], [ %b.next, %terms ]
{sums}
{_load_column("%column", "%b.now", width, strided=strided)}
{terms}
  %i.next = add i64 %i, 1
  %a.offset.next = add i64 %a.offset, %a_column
  %b.next = getelementptr float, ptr %b.now, i64 %b_row
  %more = icmp slt i64 %i.next, %k
  br i1 %more, label %terms, label %summed, !llvm.loop !0
summed:
  %without = icmp eq ptr %s, null
  br i1 %without, label %write, label %with
with:
  %given = load {kind}, ptr %s, align 4
  br label %write
write:
  %added = phi {kind} [ {zero}, %summed ], [ %given, %with ]
{stores}
  ret void
}}"""


def _tile_name(rows: int, width: int, strided: bool) -> str:
    return f"tile_{rows}x{width}{'_strided' if strided else ''}"


def _calls(label: str, rows: int, width: int) -> str:
    """The block `label`, which computes one tile and goes on to the block `label`.next."""

    def call(strided: bool) -> str:
        return f"""  call void @{_tile_name(rows, width, strided)}(ptr %w, ptr %a, ptr %b, ptr %y, ptr %s)
  br label %{label}.next"""

    if width == 1 or width not in _STRIDED_WIDTHS:
        return f"{label}:\n{call(False)}"
    return f"""{label}:
  br i1 %strided, label %{label}.far, label %{label}.near
{label}.near:
{call(False)}
{label}.far:
{call(True)}"""


def _columns(width: int) -> str:
    """From column %from on as many as come in whole tiles; returns the first one left."""
    tall, low = _ROWS
    return f"""
define internal i64 @columns_{width}(ptr %w, ptr %a.item, ptr %b.item, ptr %y.item, i64 %from) noinline {{
entry:
{_load_words("m", "n", "a_row", "b_column", "bias", "y_row")}
  %strided = icmp ne i64 %b_column, 1
  %bias.start = inttoptr i64 %bias to ptr
  %unbiased = icmp eq i64 %bias, 0
  %step = mul i64 %a_row, {tall}
  %y.step = mul i64 %y_row, {tall}
  br label %next
next:
  %j = phi i64 [ %from, %entry ], [ %j.after, %done ]
  %j.after = add i64 %j, {width}
  %fits = icmp sle i64 %j.after, %n
  br i1 %fits, label %begin, label %end
begin:
  %b.offset = mul i64 %j, %b_column
  %b = getelementptr float, ptr %b.item, i64 %b.offset
  %y.first = getelementptr float, ptr %y.item, i64 %j
  %bias.j = getelementptr float, ptr %bias.start, i64 %j
  %s = select i1 %unbiased, ptr null, ptr %bias.j
  br label %rows
rows:
  %left = phi i64 [ %m, %begin ], [ %left.tall, %tall.next ], [ %left.low, %low.next ]
  %a = phi ptr [ %a.item, %begin ], [ %a.tall, %tall.next ], [ %a.low, %low.next ]
  %y = phi ptr [ %y.first, %begin ], [ %y.tall, %tall.next ], [ %y.low, %low.next ]
  %many = icmp sge i64 %left, {tall}
  br i1 %many, label %tall, label %few
{_calls("tall", tall, width)}
tall.next:
  %left.tall = sub i64 %left, {tall}
  %a.tall = getelementptr float, ptr %a, i64 %step
  %y.tall = getelementptr float, ptr %y, i64 %y.step
  br label %rows
few:
  %any = icmp sgt i64 %left, 0
  br i1 %any, label %low, label %done
{_calls("low", low, width)}
low.next:
  %left.low = sub i64 %left, {low}
  %a.low = getelementptr float, ptr %a, i64 %a_row
  %y.low = getelementptr float, ptr %y, i64 %y_row
  br label %rows
done:
  br label %next
end:
  ret i64 %j
}}"""


def _product() -> str:
    calls = []
    block, before = "item", "0"
    for width in _WIDTHS:
        allowed = "true" if width in _STRIDED_WIDTHS else "%contiguous"
        calls.append(f"""  %left{width} = sub i64 %n, {before}
  %fits{width} = icmp sge i64 %left{width}, {width}
  %has{width} = and i1 %fits{width}, {allowed}
  br i1 %has{width}, label %do{width}, label %did{width}
do{width}:
  %from{width} = call i64 @columns_{width}(ptr %w, ptr %a.now, ptr %b.now, ptr %y.now, i64 {before})
  br label %did{width}
did{width}:
  %j{width} = phi i64 [ {before}, %{block} ], [ %from{width}, %do{width} ]""")
        block, before = f"did{width}", f"%j{width}"
    return f"""
define i64 @small_product(i64 %block, i64 %part, i64 %parts) {{
entry:
  %w = inttoptr i64 %block to ptr
{_load_words("batch", "m", "k", "n", "a", "a_row", "a_column", "b", "b_row", "b_column", "y", "bias")}
{_load_words("after", "after_block", "a_batch", "b_batch", "y_batch")}
  %a.start = inttoptr i64 %a to ptr
  %b.start = inttoptr i64 %b to ptr
  %y.start = inttoptr i64 %y to ptr
  %y.size = mul i64 %m, %n
  %contiguous = icmp eq i64 %b_column, 1
  %whole = icmp eq i64 %parts, 1
  br i1 %whole, label %begin, label %share
share:                            ; apart, since a division takes as long as a product
  %later = add i64 %part, 1
  %items.before = mul i64 %batch, %part
  %items.after = mul i64 %batch, %later
  %first.shared = udiv i64 %items.before, %parts
  %last.shared = udiv i64 %items.after, %parts
  br label %begin
begin:
  %first = phi i64 [ 0, %entry ], [ %first.shared, %share ]
  %last = phi i64 [ %batch, %entry ], [ %last.shared, %share ]
  %a.offset = mul i64 %first, %a_batch
  %b.offset = mul i64 %first, %b_batch
  %y.offset = mul i64 %first, %y_batch
  %at.first = mul i64 %first, %y.size
  %a.first = getelementptr float, ptr %a.start, i64 %a.offset
  %b.first = getelementptr float, ptr %b.start, i64 %b.offset
  %y.first = getelementptr float, ptr %y.start, i64 %y.offset
  %any = icmp slt i64 %first, %last
  br i1 %any, label %item, label %end
item:
  %i = phi i64 [ %first, %begin ], [ %i.next, %next ]
  %a.now = phi ptr [ %a.first, %begin ], [ %a.next, %next ]
  %b.now = phi ptr [ %b.first, %begin ], [ %b.next, %next ]
  %y.now = phi ptr [ %y.first, %begin ], [ %y.next, %next ]
  %at = phi i64 [ %at.first, %begin ], [ %at.next, %next ]
{chr(10).join(calls)}
  %at.next = add i64 %at, %y.size
  %carries = icmp ne i64 %after, 0
  br i1 %carries, label %carry, label %next
carry:
  %function = inttoptr i64 %after to ptr
  %ignored = call i64 %function(i64 %after_block, i64 %at, i64 %at.next)
  br label %next
next:
  %i.next = add i64 %i, 1
  %a.next = getelementptr float, ptr %a.now, i64 %a_batch
  %b.next = getelementptr float, ptr %b.now, i64 %b_batch
  %y.next = getelementptr float, ptr %y.now, i64 %y_batch
  %more = icmp slt i64 %i.next, %last
  br i1 %more, label %item, label %end
end:
  ret i64 0
}}

!0 = distinct !{{!0, !1}}
!1 = !{{!"llvm.loop.unroll.disable"}}
"""


def are_few(steps: int, b_column: int) -> bool:
    """Whether a product of so many `steps` is quicker this way, with columns of B so far apart."""
    return steps <= (_MOST_STEPS if b_column == 1 else _MOST_STRIDED_STEPS)


def step_count(m: int, k: int, n: int, b_column: int) -> int:
    """Terms of all tiles of one product, each of which takes about as long as the others."""
    widths = _WIDTHS if b_column == 1 else _STRIDED_WIDTHS
    return _tiles(m, _ROWS) * _tiles(n, widths) * k


def _tiles(size: int, sizes: Sequence[int]) -> int:
    count = 0
    for each in sizes:
        count += size // each
        size %= each
    return count


def prepare(
    sizes: Mapping[str, int], arguments: tuple[int, ...], steps: int, dtype: str, *, carries: bool = True
) -> Prepared:
    """A product of these sizes and strides, by the names of their words.

    steps: `step_count` of each in the batch.  dtype: of the floats.  carries: whether what is written has the
        elements in C order.
    """
    work_us = sizes["batch"] * steps / _STEPS_PER_US
    return launch(
        SMALL_PRODUCT[dtype],
        filled(Block, **sizes),
        arguments,
        parts=share_count(work_us, sizes["batch"]),
        is_brief=is_brief(work_us),
        after={0: Block.after} if carries else None,
        note="small tiles",
    )


def column_sums(rows: int, columns: int) -> Prepared | None:
    """x (rows, columns) -> y (columns), the sums of few short columns: a product with ones. None if there are more."""
    steps = step_count(1, rows, columns, 1)
    if not 0 < rows <= _MOST_SUMMED_ROWS or not are_few(steps, 1):
        return None
    block = filled(Block, batch=1, m=1, k=rows, n=columns, a=_ONE.ctypes.data, b_row=columns, b_column=1)
    return launch(
        SMALL_PRODUCT["float32"],
        block,
        (Block.b, Block.y),
        owner=(SMALL_PRODUCT["float32"], _ONE),
        after={0: Block.after},
        note="small tiles",
    )


# Read as a row of ones.
_ONE = np.ones(1, np.float32)

SMALL_PRODUCT = {dtype: IRKernel("small_product", _ir(dtype)) for dtype in REALS}
