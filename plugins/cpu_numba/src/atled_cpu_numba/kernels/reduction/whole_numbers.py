"""Reductions of integers and truth values over any axes.

Sums and products modulo the range of 64 bits; the least and the greatest, and then where the first one is; whether any
or all are not 0.
"""

from __future__ import annotations

import functools
import re

import numpy as np

from atled.plugin import Call, NamedTuple, Prepared
from atled_cpu_numba.kernels.reduction.groups import Reduction, groups_of, takes_copies
from atled_cpu_numba.kernels.shared.ir_text import SHARE, opening
from atled_cpu_numba.kernels.shared.launch import launch, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout, words_of
from atled_cpu_numba.store import IRKernel

_ELEMENTS_PER_US = 2000.0  # a cautious rate of one core, for the number of shares
_COLUMNS = 1024  # results that stay in the nearest cache
_EXTREMA = ("Max", "Min")


@layout
class Block(Reduction):
    """What both kernels read."""

    places: int  # address of those of extrema, or 0


class _Accumulation(NamedTuple):
    """How results come about.

    kind: of IR, in which they are computed and stored, and every element is brought into.
    start: of no element.  combined: the instruction for %before and %value of this kind.
    is_truth: whether elements count by not being 0.
    """

    kind: str
    start: int
    combined: str
    is_truth: bool = False


def _accumulation(op: str, dtype: str) -> _Accumulation:
    element, is_signed = _element(dtype), dtype.startswith("int")
    if op in ("Any", "All"):
        return _Accumulation("i8", int(op == "All"), f"{'and' if op == 'All' else 'or'} i8 %before, %value", True)
    if op in ("Sum", "Prod"):
        return _Accumulation("i64", int(op == "Prod"), f"{'mul' if op == 'Prod' else 'add'} i64 %before, %value")
    bits = 8 * np.dtype(dtype).itemsize
    least, greatest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    function = f"llvm.{'s' if is_signed else 'u'}{op.lower()}.{element}"
    combined = f"call {element} @{function}({element} %before, {element} %value)"
    return _Accumulation(element, least if op == "Max" else greatest, combined)


def accepts(call: Call) -> bool | str:
    """Whether x is of integers or truth values."""
    x = call.inputs[0]
    assert x is not None
    return x.dtype.kind in "iub" or "takes integers and truth values"


@takes_copies
def prepare(call: Call) -> Prepared:
    """x -> y."""
    x, groups = call.inputs[0], groups_of(call)
    assert x is not None
    by_rows = groups.reduced_inner != 1 or groups.kept_inner == 1
    units = groups.kept_outer * (groups.kept_inner if by_rows else -(-groups.kept_inner // _COLUMNS))
    return launch(
        (_rows if by_rows else _columns)(call.spec.name, x.dtype.name),
        filled(Block, **groups._asdict()),
        words_of(Block, "x", "y", *(["places" if call.wanted[1] else None] if call.spec.name in _EXTREMA else [])),
        parts=share_count(x.size / _ELEMENTS_PER_US, units),
        note="whole numbers by rows" if by_rows else "whole numbers by columns",
    )


def _opening(name: str) -> str:
    """The beginning of a kernel: the words of the block by name."""
    words = ("x", "y", "kept_outer", "reduced_outer", "kept_inner", "reduced_inner", "places")
    return f"""{opening(name, Block, words)}
  %from = inttoptr i64 %x to ptr
  %to = inttoptr i64 %y to ptr"""


_UNITS = f"""{SHARE}
  br i1 %any, label %unit, label %done"""


def _element(dtype: str) -> str:
    return f"i{8 * np.dtype(dtype).itemsize}"


def _declarations(made: _Accumulation) -> str:
    """Of the function that combines, if it is one; without an end of line."""
    found = re.match(r"call (\w+) (@[\w.]+)", made.combined)
    return f"\ndeclare {found[1]} {found[2]}({found[1]}, {found[1]})" if found else ""


def _read(dtype: str, made: _Accumulation) -> str:
    """%value of the element at %at."""
    element = _element(dtype)
    load = f"%element.value = load {element}, ptr %at, !llvm.access.group !0"
    if made.is_truth:
        return f"""{load}
  %is.true = icmp ne {element} %element.value, 0
  %value = zext i1 %is.true to i8"""
    if element == made.kind:
        return load.replace("%element.value", "%value")
    return f"""{load}
  %value = {"sext" if dtype.startswith("int") else "zext"} {element} %element.value to {made.kind}"""


def _seek_in_row(element: str) -> str:
    """What ends %unit.end: where %result is among the elements of a unit, of which it is one."""
    return f"""%has.place = icmp ne i64 %places, 0
  br i1 %has.place, label %seek.row, label %unit.next
seek.row:
  %s = phi i64 [ 0, %unit.end ], [ %s.next, %seek.row.end ]
  %s.group = mul i64 %outer, %reduced_outer
  %s.line = add i64 %s.group, %s
  %s.lines = mul i64 %s.line, %kept_inner
  %s.place = add i64 %s.lines, %inner
  %s.start = mul i64 %s.place, %reduced_inner
  %s.begin = getelementptr {element}, ptr %from, i64 %s.start
  br label %seek
seek:
  %k = phi i64 [ 0, %seek.row ], [ %k.next, %seek.on ]
  %k.at = getelementptr {element}, ptr %s.begin, i64 %k
  %k.value = load {element}, ptr %k.at
  %is.there = icmp eq {element} %k.value, %result
  br i1 %is.there, label %found, label %seek.on
seek.on:
  %k.next = add nuw i64 %k, 1
  %k.more = icmp ult i64 %k.next, %reduced_inner
  br i1 %k.more, label %seek, label %seek.row.end
seek.row.end:
  %s.next = add nuw i64 %s, 1
  %s.more = icmp ult i64 %s.next, %reduced_outer
  br i1 %s.more, label %seek.row, label %unit.next
found:
  %rows.before = mul i64 %s, %reduced_inner
  %found.place = add i64 %rows.before, %k
  %all.places = inttoptr i64 %places to ptr
  %place.at = getelementptr i64, ptr %all.places, i64 %i
  store i64 %found.place, ptr %place.at
  br label %unit.next"""


def _seek_in_columns(element: str) -> str:
    """What ends %unit.end: in which row the result of each column is first, from the last row to the first."""
    return f"""%has.places = icmp ne i64 %places, 0
  br i1 %has.places, label %seek, label %unit.next
seek:
  %all.places = inttoptr i64 %places to ptr
  %columns.places = getelementptr i64, ptr %all.places, i64 %place
  br label %seek.row
seek.row:
  %s = phi i64 [ %reduced_outer, %seek ], [ %s.row, %seek.row.end ]
  %s.row = sub i64 %s, 1
  %s.group = mul i64 %outer, %reduced_outer
  %s.line = add i64 %s.group, %s.row
  %s.lines = mul i64 %s.line, %kept_inner
  %s.start = add i64 %s.lines, %column
  %s.begin = getelementptr {element}, ptr %from, i64 %s.start
  br label %seek.element
seek.element:
  %k = phi i64 [ 0, %seek.row ], [ %k.next, %seek.element ]
  %k.at = getelementptr {element}, ptr %s.begin, i64 %k
  %k.value = load {element}, ptr %k.at, !llvm.access.group !3
  %k.result.at = getelementptr {element}, ptr %results, i64 %k
  %k.result = load {element}, ptr %k.result.at, !llvm.access.group !3
  %k.place.at = getelementptr i64, ptr %columns.places, i64 %k
  %k.before = load i64, ptr %k.place.at, !llvm.access.group !3
  %is.there = icmp eq {element} %k.value, %k.result
  %k.place = select i1 %is.there, i64 %s.row, i64 %k.before
  store i64 %k.place, ptr %k.place.at, !llvm.access.group !3
  %k.next = add nuw i64 %k, 1
  %k.more = icmp ult i64 %k.next, %count
  br i1 %k.more, label %seek.element, label %seek.row.end, !llvm.loop !4
seek.row.end:
  %s.more = icmp ne i64 %s.row, 0
  br i1 %s.more, label %seek.row, label %unit.next"""


_GROUP = """
!0 = distinct !{}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.parallel_accesses", !0}
!3 = distinct !{}
!4 = distinct !{!4, !5}
!5 = !{!"llvm.loop.parallel_accesses", !3}
"""


@functools.cache
def _rows(op: str, dtype: str) -> IRKernel:
    name, element, made = f"whole_{op.lower()}_rows_{dtype}", _element(dtype), _accumulation(op, dtype)
    kind, start = made.kind, made.start
    return IRKernel(
        name,
        f"""{_opening(name)}
  %units = mul i64 %kept_outer, %kept_inner{_UNITS}
unit:
  %i = phi i64 [ %first, %entry ], [ %i.next, %unit.next ]
  %outer = udiv i64 %i, %kept_inner
  %inner = urem i64 %i, %kept_inner
  %rows = mul i64 %reduced_outer, %reduced_inner
  %some = icmp ne i64 %rows, 0
  br i1 %some, label %row, label %unit.end
row:
  %r = phi i64 [ 0, %unit ], [ %r.next, %row.end ]
  %so.far = phi {kind} [ {start}, %unit ], [ %after, %row.end ]
  %group = mul i64 %outer, %reduced_outer
  %line = add i64 %group, %r
  %lines = mul i64 %line, %kept_inner
  %place = add i64 %lines, %inner
  %start = mul i64 %place, %reduced_inner
  %begin = getelementptr {element}, ptr %from, i64 %start
  br label %element
element:
  %j = phi i64 [ 0, %row ], [ %j.next, %element ]
  %before = phi {kind} [ %so.far, %row ], [ %after, %element ]
  %at = getelementptr {element}, ptr %begin, i64 %j
  {_read(dtype, made)}
  %after = {made.combined}
  %j.next = add nuw i64 %j, 1
  %j.more = icmp ult i64 %j.next, %reduced_inner
  br i1 %j.more, label %element, label %row.end
row.end:
  %r.next = add nuw i64 %r, 1
  %r.more = icmp ult i64 %r.next, %reduced_outer
  br i1 %r.more, label %row, label %unit.end
unit.end:
  %result = phi {kind} [ {start}, %unit ], [ %after, %row.end ]
  %target = getelementptr {kind}, ptr %to, i64 %i
  store {kind} %result, ptr %target
  {_seek_in_row(element) if op in _EXTREMA else "br label %unit.next"}
unit.next:
  %i.next = add nuw i64 %i, 1
  %i.more = icmp ult i64 %i.next, %end
  br i1 %i.more, label %unit, label %done
done:
  ret i64 0
}}{_declarations(made)}{_GROUP}""",
    )


@functools.cache
def _columns(op: str, dtype: str) -> IRKernel:
    name, element, made = f"whole_{op.lower()}_columns_{dtype}", _element(dtype), _accumulation(op, dtype)
    kind = made.kind
    return IRKernel(
        name,
        f"""{_opening(name)}
  %padded = add i64 %kept_inner, {_COLUMNS - 1}
  %blocks = udiv i64 %padded, {_COLUMNS}
  %units = mul i64 %kept_outer, %blocks{_UNITS}
unit:
  %u = phi i64 [ %first, %entry ], [ %u.next, %unit.next ]
  %outer = udiv i64 %u, %blocks
  %block.of = urem i64 %u, %blocks
  %column = mul i64 %block.of, {_COLUMNS}
  %left = sub i64 %kept_inner, %column
  %is.last = icmp ult i64 %left, {_COLUMNS}
  %count = select i1 %is.last, i64 %left, i64 {_COLUMNS}
  %skipped = mul i64 %outer, %kept_inner
  %place = add i64 %skipped, %column
  %results = getelementptr {kind}, ptr %to, i64 %place
  br label %fill
fill:
  %f = phi i64 [ 0, %unit ], [ %f.next, %fill ]
  %fill.at = getelementptr {kind}, ptr %results, i64 %f
  store {kind} {made.start}, ptr %fill.at
  %f.next = add nuw i64 %f, 1
  %f.more = icmp ult i64 %f.next, %count
  br i1 %f.more, label %fill, label %filled
filled:
  %some = icmp ne i64 %reduced_outer, 0
  br i1 %some, label %row, label %unit.end
row:
  %r = phi i64 [ 0, %filled ], [ %r.next, %row.end ]
  %group = mul i64 %outer, %reduced_outer
  %line = add i64 %group, %r
  %lines = mul i64 %line, %kept_inner
  %start = add i64 %lines, %column
  %begin = getelementptr {element}, ptr %from, i64 %start
  br label %element
element:
  %j = phi i64 [ 0, %row ], [ %j.next, %element ]
  %at = getelementptr {element}, ptr %begin, i64 %j
  {_read(dtype, made)}
  %result.at = getelementptr {kind}, ptr %results, i64 %j
  %before = load {kind}, ptr %result.at, !llvm.access.group !0
  %after = {made.combined}
  store {kind} %after, ptr %result.at, !llvm.access.group !0
  %j.next = add nuw i64 %j, 1
  %j.more = icmp ult i64 %j.next, %count
  br i1 %j.more, label %element, label %row.end, !llvm.loop !1
row.end:
  %r.next = add nuw i64 %r, 1
  %r.more = icmp ult i64 %r.next, %reduced_outer
  br i1 %r.more, label %row, label %unit.end
unit.end:
  {_seek_in_columns(element) if op in _EXTREMA else "br label %unit.next"}
unit.next:
  %u.next = add nuw i64 %u, 1
  %u.more = icmp ult i64 %u.next, %end
  br i1 %u.more, label %unit, label %done
done:
  ret i64 0
}}{_declarations(made)}{_GROUP}""",
    )
