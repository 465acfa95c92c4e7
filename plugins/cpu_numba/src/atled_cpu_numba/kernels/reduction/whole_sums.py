"""Sums of integers and truth values over any axes that collapse into four groups, modulo the range of 64 bits."""

from __future__ import annotations

import functools

import numpy as np

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.reduction.groups import Reduction, collapse, groups_of
from atled_cpu_numba.kernels.shared.launch import launch, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import IRKernel

_ELEMENTS_PER_US = 2000.0  # a cautious rate of one core, for the number of shares
_COLUMNS = 1024  # sums that stay in the nearest cache


@layout
class Block(Reduction):
    """What both kernels read."""


def accepts(call: Call) -> bool | str:
    """Whether x is of integers or truth values, and its axes collapse into at most four groups."""
    x = call.inputs[0]
    assert x is not None
    if x.dtype.kind not in "iub":
        return "takes integers and truth values"
    if collapse(x.shape, call.attributes["axes"]) is None:
        return "takes axes that collapse into the groups kept, reduced, kept, reduced"
    return True


def prepare(call: Call) -> Prepared:
    """x -> y."""
    x, groups = call.inputs[0], groups_of(call)
    assert x is not None
    by_rows = groups.reduced_inner != 1 or groups.kept_inner == 1
    units = groups.kept_outer * (groups.kept_inner if by_rows else -(-groups.kept_inner // _COLUMNS))
    return launch(
        (_rows if by_rows else _columns)(x.dtype.name),
        filled(Block, **groups._asdict()),
        (Block.x, Block.y),
        parts=share_count(x.size / _ELEMENTS_PER_US, units),
        note="sums of rows" if by_rows else "sums of columns",
    )


def _opening(name: str) -> str:
    """The beginning of a kernel: the words of the block by name."""
    words = "".join(
        f"""
  %{word}.at = getelementptr i64, ptr %words, i64 {getattr(Block, word)}
  %{word} = load i64, ptr %{word}.at"""
        for word in ("x", "y", "kept_outer", "reduced_outer", "kept_inner", "reduced_inner")
    )
    return f"""
define i64 @{name}(i64 %block, i64 %part, i64 %parts) {{
entry:
  %words = inttoptr i64 %block to ptr{words}
  %from = inttoptr i64 %x to ptr
  %to = inttoptr i64 %y to ptr"""


_SHARE = """
  %scaled = mul i64 %units, %part
  %first = udiv i64 %scaled, %parts
  %next.part = add i64 %part, 1
  %scaled.end = mul i64 %units, %next.part
  %end = udiv i64 %scaled.end, %parts
  %any = icmp ult i64 %first, %end
  br i1 %any, label %unit, label %done"""
"""The share of a part in %units: from %first to %end."""


def _types(dtype: str) -> tuple[str, str]:
    """The type of an element, and how it becomes one of 64 bits."""
    element = f"i{8 * np.dtype(dtype).itemsize}"
    extend = f"{'sext' if dtype.startswith('int') else 'zext'} {element} %value to i64"
    return element, "add i64 0, %value" if element == "i64" else extend


@functools.cache
def _rows(dtype: str) -> IRKernel:
    name, (element, widen) = f"whole_sum_rows_{dtype}", _types(dtype)
    return IRKernel(
        name,
        f"""{_opening(name)}
  %units = mul i64 %kept_outer, %kept_inner{_SHARE}
unit:
  %i = phi i64 [ %first, %entry ], [ %i.next, %unit.end ]
  %outer = udiv i64 %i, %kept_inner
  %inner = urem i64 %i, %kept_inner
  %rows = mul i64 %reduced_outer, %reduced_inner
  %some = icmp ne i64 %rows, 0
  br i1 %some, label %row, label %unit.end
row:
  %r = phi i64 [ 0, %unit ], [ %r.next, %row.end ]
  %sum = phi i64 [ 0, %unit ], [ %total.next, %row.end ]
  %group = mul i64 %outer, %reduced_outer
  %line = add i64 %group, %r
  %lines = mul i64 %line, %kept_inner
  %place = add i64 %lines, %inner
  %start = mul i64 %place, %reduced_inner
  %begin = getelementptr {element}, ptr %from, i64 %start
  br label %element
element:
  %j = phi i64 [ 0, %row ], [ %j.next, %element ]
  %total = phi i64 [ %sum, %row ], [ %total.next, %element ]
  %at = getelementptr {element}, ptr %begin, i64 %j
  %value = load {element}, ptr %at
  %wide = {widen}
  %total.next = add i64 %total, %wide
  %j.next = add nuw i64 %j, 1
  %j.more = icmp ult i64 %j.next, %reduced_inner
  br i1 %j.more, label %element, label %row.end
row.end:
  %r.next = add nuw i64 %r, 1
  %r.more = icmp ult i64 %r.next, %reduced_outer
  br i1 %r.more, label %row, label %unit.end
unit.end:
  %result = phi i64 [ 0, %unit ], [ %total.next, %row.end ]
  %target = getelementptr i64, ptr %to, i64 %i
  store i64 %result, ptr %target
  %i.next = add nuw i64 %i, 1
  %i.more = icmp ult i64 %i.next, %end
  br i1 %i.more, label %unit, label %done
done:
  ret i64 0
}}
""",
    )


@functools.cache
def _columns(dtype: str) -> IRKernel:
    name, (element, widen) = f"whole_sum_columns_{dtype}", _types(dtype)
    return IRKernel(
        name,
        f"""{_opening(name)}
  %padded = add i64 %kept_inner, {_COLUMNS - 1}
  %blocks = udiv i64 %padded, {_COLUMNS}
  %units = mul i64 %kept_outer, %blocks{_SHARE}
unit:
  %u = phi i64 [ %first, %entry ], [ %u.next, %unit.end ]
  %outer = udiv i64 %u, %blocks
  %block.of = urem i64 %u, %blocks
  %column = mul i64 %block.of, {_COLUMNS}
  %left = sub i64 %kept_inner, %column
  %is.last = icmp ult i64 %left, {_COLUMNS}
  %count = select i1 %is.last, i64 %left, i64 {_COLUMNS}
  %skipped = mul i64 %outer, %kept_inner
  %place = add i64 %skipped, %column
  %sums = getelementptr i64, ptr %to, i64 %place
  %bytes = shl i64 %count, 3
  call void @llvm.memset.p0.i64(ptr %sums, i8 0, i64 %bytes, i1 false)
  %some = icmp ne i64 %reduced_outer, 0
  br i1 %some, label %row, label %unit.end
row:
  %r = phi i64 [ 0, %unit ], [ %r.next, %row.end ]
  %group = mul i64 %outer, %reduced_outer
  %line = add i64 %group, %r
  %lines = mul i64 %line, %kept_inner
  %start = add i64 %lines, %column
  %begin = getelementptr {element}, ptr %from, i64 %start
  br label %element
element:
  %j = phi i64 [ 0, %row ], [ %j.next, %element ]
  %at = getelementptr {element}, ptr %begin, i64 %j
  %value = load {element}, ptr %at, !llvm.access.group !0
  %wide = {widen}
  %sum.at = getelementptr i64, ptr %sums, i64 %j
  %sum = load i64, ptr %sum.at, !llvm.access.group !0
  %total = add i64 %sum, %wide
  store i64 %total, ptr %sum.at, !llvm.access.group !0
  %j.next = add nuw i64 %j, 1
  %j.more = icmp ult i64 %j.next, %count
  br i1 %j.more, label %element, label %row.end, !llvm.loop !1
row.end:
  %r.next = add nuw i64 %r, 1
  %r.more = icmp ult i64 %r.next, %reduced_outer
  br i1 %r.more, label %row, label %unit.end
unit.end:
  %u.next = add nuw i64 %u, 1
  %u.more = icmp ult i64 %u.next, %end
  br i1 %u.more, label %unit, label %done
done:
  ret i64 0
}}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
!0 = distinct !{{}}
!1 = distinct !{{!1, !2}}
!2 = !{{!"llvm.loop.parallel_accesses", !0}}
""",
    )
