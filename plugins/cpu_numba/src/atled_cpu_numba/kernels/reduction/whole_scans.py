"""CumSum and CumProd of integers and truth values along one axis, modulo the range of 64 bits."""

from __future__ import annotations

import functools
import math

import numpy as np

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.ir_text import SHARE, opening
from atled_cpu_numba.kernels.shared.launch import launch, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import IRKernel

_ELEMENTS_PER_US = 1000.0  # a cautious rate of one core, for the number of shares
_COLUMNS = 1024  # results that stay in the nearest cache


@layout
class Block:
    """What the kernel reads; x is seen as (outer, n, inner), n the axis."""

    x: int  # address
    y: int  # address
    outer: int
    n: int
    inner: int
    exclusive: int
    reverse: int


def accepts(call: Call) -> bool | str:
    """Whether x is of integers or truth values."""
    x = call.inputs[0]
    assert x is not None
    return x.dtype.kind in "iub" or "takes integers and truth values"


def prepare(call: Call) -> Prepared:
    """x -> y."""
    x, attributes = call.inputs[0], call.attributes
    assert x is not None
    axis = attributes["axis"]
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    words = filled(
        Block,
        outer=outer,
        n=x.shape[axis],
        inner=inner,
        exclusive=int(attributes["exclusive"]),
        reverse=int(attributes["reverse"]),
    )
    parts = share_count(x.size / _ELEMENTS_PER_US, max(1, outer * -(-inner // _COLUMNS)))
    return launch(_kernel(call.spec.name, x.dtype.name), words, (Block.x, Block.y), parts=parts)


@functools.cache
def _kernel(op: str, dtype: str) -> IRKernel:
    """Some columns at a time, each row from the one before; a single column with what it comes to in a register."""
    name, element = f"whole_{op.lower()}_{dtype}", f"i{8 * np.dtype(dtype).itemsize}"
    operation, start = ("mul", 1) if op == "CumProd" else ("add", 0)
    words = ("x", "y", "outer", "n", "inner", "exclusive", "reverse")

    def wide(value: str) -> str:
        """%wide... of an element as one of 64 bits."""
        if element == "i64":
            return f"add i64 0, {value}"
        return f"{'sext' if dtype.startswith('int') else 'zext'} {element} {value} to i64"

    return IRKernel(
        name,
        f"""{opening(name, Block, words)}
  %from = inttoptr i64 %x to ptr
  %to = inttoptr i64 %y to ptr
  %padded = add i64 %inner, {_COLUMNS - 1}
  %blocks = udiv i64 %padded, {_COLUMNS}
  %units = mul i64 %outer, %blocks{SHARE}
  %has.rows = icmp ne i64 %n, 0
  %some = and i1 %any, %has.rows
  %is.exclusive = icmp ne i64 %exclusive, 0
  %is.reverse = icmp ne i64 %reverse, 0
  %back = sub i64 0, %inner
  %step = select i1 %is.reverse, i64 %back, i64 %inner
  %last.row = sub i64 %n, 1
  %last = mul i64 %last.row, %inner
  %begin.at = select i1 %is.reverse, i64 %last, i64 0
  %is.single = icmp eq i64 %inner, 1
  %lag = select i1 %is.exclusive, i64 %step, i64 0
  br i1 %some, label %unit, label %done
unit:
  %u = phi i64 [ %first, %entry ], [ %u.next, %unit.next ]
  %group = udiv i64 %u, %blocks
  %block.of = urem i64 %u, %blocks
  %column = mul i64 %block.of, {_COLUMNS}
  %left = sub i64 %inner, %column
  %is.last = icmp ult i64 %left, {_COLUMNS}
  %count = select i1 %is.last, i64 %left, i64 {_COLUMNS}
  %group.rows = mul i64 %group, %n
  %group.at = mul i64 %group.rows, %inner
  %group.first = add i64 %group.at, %begin.at
  %place = add i64 %group.first, %column
  br i1 %is.single, label %single, label %opening
single:
  %s = phi i64 [ 0, %unit ], [ %s.next, %single ]
  %s.place = phi i64 [ %place, %unit ], [ %s.place.next, %single ]
  %s.before = phi i64 [ {start}, %unit ], [ %s.after, %single ]
  %s.at = getelementptr {element}, ptr %from, i64 %s.place
  %s.value = load {element}, ptr %s.at
  %s.wide = {wide("%s.value")}
  %s.after = {operation} i64 %s.before, %s.wide
  %s.result = select i1 %is.exclusive, i64 %s.before, i64 %s.after
  %s.to = getelementptr i64, ptr %to, i64 %s.place
  store i64 %s.result, ptr %s.to
  %s.place.next = add i64 %s.place, %step
  %s.next = add nuw i64 %s, 1
  %s.more = icmp ult i64 %s.next, %n
  br i1 %s.more, label %single, label %unit.next
opening:
  %o = phi i64 [ 0, %unit ], [ %o.next, %opening ]
  %o.place = add i64 %place, %o
  %o.at = getelementptr {element}, ptr %from, i64 %o.place
  %o.value = load {element}, ptr %o.at, !llvm.access.group !0
  %o.wide = {wide("%o.value")}
  %o.result = select i1 %is.exclusive, i64 {start}, i64 %o.wide
  %o.to = getelementptr i64, ptr %to, i64 %o.place
  store i64 %o.result, ptr %o.to, !llvm.access.group !0
  %o.next = add nuw i64 %o, 1
  %o.more = icmp ult i64 %o.next, %count
  br i1 %o.more, label %opening, label %rows, !llvm.loop !1
rows:
  %has.more = icmp ugt i64 %n, 1
  br i1 %has.more, label %row, label %unit.next
row:
  %r = phi i64 [ 1, %rows ], [ %r.next, %row.end ]
  %before.place = phi i64 [ %place, %rows ], [ %row.place, %row.end ]
  %row.place = add i64 %before.place, %step
  %value.place = sub i64 %row.place, %lag
  %row.from = getelementptr {element}, ptr %from, i64 %value.place
  %row.before = getelementptr i64, ptr %to, i64 %before.place
  %row.to = getelementptr i64, ptr %to, i64 %row.place
  br label %element
element:
  %j = phi i64 [ 0, %row ], [ %j.next, %element ]
  %at = getelementptr {element}, ptr %row.from, i64 %j
  %value = load {element}, ptr %at, !llvm.access.group !0
  %wide = {wide("%value")}
  %before.at = getelementptr i64, ptr %row.before, i64 %j
  %before = load i64, ptr %before.at, !llvm.access.group !0
  %after = {operation} i64 %before, %wide
  %after.at = getelementptr i64, ptr %row.to, i64 %j
  store i64 %after, ptr %after.at, !llvm.access.group !0
  %j.next = add nuw i64 %j, 1
  %j.more = icmp ult i64 %j.next, %count
  br i1 %j.more, label %element, label %row.end, !llvm.loop !2
row.end:
  %r.next = add nuw i64 %r, 1
  %r.more = icmp ult i64 %r.next, %n
  br i1 %r.more, label %row, label %unit.next
unit.next:
  %u.next = add nuw i64 %u, 1
  %u.more = icmp ult i64 %u.next, %end
  br i1 %u.more, label %unit, label %done
done:
  ret i64 0
}}
!0 = distinct !{{}}
!1 = distinct !{{!1, !3}}
!2 = distinct !{{!2, !3}}
!3 = !{{!"llvm.loop.parallel_accesses", !0}}
""",
    )
