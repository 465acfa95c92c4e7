"""Affine and BatchMatmul of integers, modulo the range of their dtype, and of truth values, with `or` for sums."""

from __future__ import annotations

import functools
import math

import numpy as np

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.ir_text import SHARE, opening
from atled_cpu_numba.kernels.shared.launch import has_empty, launch, optional_words, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import IRKernel

_PRODUCTS_PER_US = 4000.0  # a cautious rate of one core, for the number of shares


@layout
class Block:
    """What the kernel reads; of a and b the elements from one matrix, row or column to the next."""

    a: int  # address
    b: int  # address
    bias: int  # address, or 0
    y: int  # address
    batch: int
    rows: int
    depth: int
    columns: int
    a_batch: int
    a_row: int
    a_column: int
    b_batch: int
    b_row: int
    b_column: int


def accepts(call: Call) -> bool | str:
    """Whether all is of one dtype of integers or truth values, and nothing is empty."""
    dtypes = {desc.dtype for desc in (*call.inputs, *call.outputs) if desc is not None}
    if len(dtypes) > 1 or dtypes.pop().kind not in "iub":
        return "takes integers or truth values of one dtype"
    return "an array is empty" if has_empty(call) else True


def prepare(call: Call) -> Prepared:
    """Affine: x, weight, bias -> y.  BatchMatmul: a, b -> y."""
    (a, b, *bias), attributes = call.inputs, call.attributes
    assert a is not None
    assert b is not None
    if call.spec.name == "Affine":
        batch, depth = 1, b.shape[0]
        rows, columns = a.size // depth, b.size // depth
        turned_a = turned_b = False
    else:
        batch = math.prod(a.shape[:-2])
        turned_a, turned_b = attributes["transpose_a"], attributes["transpose_b"]
        rows, depth = a.shape[-2:][::-1] if turned_a else a.shape[-2:]
        columns = b.shape[-2 if turned_b else -1]
    words = filled(
        Block,
        batch=batch,
        rows=rows,
        depth=depth,
        columns=columns,
        a_batch=rows * depth,
        a_row=1 if turned_a else depth,
        a_column=rows if turned_a else 1,
        b_batch=depth * columns,
        b_row=1 if turned_b else columns,
        b_column=depth if turned_b else 1,
    )
    arguments = (Block.a, Block.b, *optional_words(Block.bias, [desc is not None for desc in bias]), Block.y)
    units = batch * rows
    return launch(
        _kernel(a.dtype.name),
        words,
        arguments,
        parts=share_count(units * depth * columns / _PRODUCTS_PER_US, units),
        note="whole numbers by columns" if turned_b else "whole numbers by rows",
    )


@functools.cache
def _kernel(dtype: str) -> IRKernel:
    """A row of y after the other: it takes multiples of rows of b, or, where b is turned, dot products with them."""
    name, element = f"whole_products_{dtype}", f"i{8 * np.dtype(dtype).itemsize}"
    times, plus = ("and", "or") if dtype == "bool" else ("mul", "add")
    words = (
        *("a", "b", "bias", "y", "batch", "rows", "depth", "columns"),
        *("a_batch", "a_row", "a_column", "b_batch", "b_row", "b_column"),
    )
    return IRKernel(
        name,
        f"""{opening(name, Block, words)}
  %as = inttoptr i64 %a to ptr
  %bs = inttoptr i64 %b to ptr
  %biases = inttoptr i64 %bias to ptr
  %ys = inttoptr i64 %y to ptr
  %has.bias = icmp ne i64 %bias, 0
  %is.straight = icmp eq i64 %b_column, 1
  %units = mul i64 %batch, %rows{SHARE}
  br i1 %any, label %unit, label %done
unit:
  %u = phi i64 [ %first, %entry ], [ %u.next, %unit.next ]
  %matrix = udiv i64 %u, %rows
  %row = urem i64 %u, %rows
  %a.matrix = mul i64 %matrix, %a_batch
  %a.skipped = mul i64 %row, %a_row
  %a.first = add i64 %a.matrix, %a.skipped
  %a.begin = getelementptr {element}, ptr %as, i64 %a.first
  %b.matrix = mul i64 %matrix, %b_batch
  %b.begin = getelementptr {element}, ptr %bs, i64 %b.matrix
  %y.first = mul i64 %u, %columns
  %y.begin = getelementptr {element}, ptr %ys, i64 %y.first
  %y.bytes = mul i64 %columns, {np.dtype(dtype).itemsize}
  br i1 %has.bias, label %biased, label %zeroed
biased:
  call void @llvm.memcpy.p0.p0.i64(ptr %y.begin, ptr %biases, i64 %y.bytes, i1 false)
  br label %chosen
zeroed:
  call void @llvm.memset.p0.i64(ptr %y.begin, i8 0, i64 %y.bytes, i1 false)
  br label %chosen
chosen:
  br i1 %is.straight, label %step, label %dot
step:
  %k = phi i64 [ 0, %chosen ], [ %k.next, %step.end ]
  %a.place = mul i64 %k, %a_column
  %a.at.k = getelementptr {element}, ptr %a.begin, i64 %a.place
  %factor = load {element}, ptr %a.at.k
  %b.skipped = mul i64 %k, %b_row
  %b.row = getelementptr {element}, ptr %b.begin, i64 %b.skipped
  br label %column
column:
  %j = phi i64 [ 0, %step ], [ %j.next, %column ]
  %b.at.j = getelementptr {element}, ptr %b.row, i64 %j
  %value = load {element}, ptr %b.at.j, !llvm.access.group !0
  %y.at.j = getelementptr {element}, ptr %y.begin, i64 %j
  %before = load {element}, ptr %y.at.j, !llvm.access.group !0
  %product = {times} {element} %factor, %value
  %after = {plus} {element} %before, %product
  store {element} %after, ptr %y.at.j, !llvm.access.group !0
  %j.next = add nuw i64 %j, 1
  %j.more = icmp ult i64 %j.next, %columns
  br i1 %j.more, label %column, label %step.end, !llvm.loop !1
step.end:
  %k.next = add nuw i64 %k, 1
  %k.more = icmp ult i64 %k.next, %depth
  br i1 %k.more, label %step, label %unit.next
dot:
  %c = phi i64 [ 0, %chosen ], [ %c.next, %dot.end ]
  %c.skipped = mul i64 %c, %b_column
  %c.begin = getelementptr {element}, ptr %b.begin, i64 %c.skipped
  %y.at.c = getelementptr {element}, ptr %y.begin, i64 %c
  %so.far = load {element}, ptr %y.at.c
  br label %term
term:
  %t = phi i64 [ 0, %dot ], [ %t.next, %term ]
  %total = phi {element} [ %so.far, %dot ], [ %total.next, %term ]
  %t.place = mul i64 %t, %a_column
  %a.at.t = getelementptr {element}, ptr %a.begin, i64 %t.place
  %a.value = load {element}, ptr %a.at.t
  %b.at.t = getelementptr {element}, ptr %c.begin, i64 %t
  %b.value = load {element}, ptr %b.at.t
  %t.product = {times} {element} %a.value, %b.value
  %total.next = {plus} {element} %total, %t.product
  %t.next = add nuw i64 %t, 1
  %t.more = icmp ult i64 %t.next, %depth
  br i1 %t.more, label %term, label %dot.end
dot.end:
  store {element} %total.next, ptr %y.at.c
  %c.next = add nuw i64 %c, 1
  %c.more = icmp ult i64 %c.next, %columns
  br i1 %c.more, label %dot, label %unit.next
unit.next:
  %u.next = add nuw i64 %u, 1
  %u.more = icmp ult i64 %u.next, %end
  br i1 %u.more, label %unit, label %done
done:
  ret i64 0
}}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
!0 = distinct !{{}}
!1 = distinct !{{!1, !2}}
!2 = !{{!"llvm.loop.parallel_accesses", !0}}
""",
    )
