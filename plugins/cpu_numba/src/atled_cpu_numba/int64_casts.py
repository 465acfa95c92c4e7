"""Casts to int64, for labels and indices: fractions truncated, NaN to the least int64, which no check passes."""

from __future__ import annotations

import functools

import numpy as np

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.ir_text import SHARE, opening
from atled_cpu_numba.kernels.shared.launch import launch, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import IRKernel

_FLOATS = {"float32": "float", "float64": "double"}
_INTS = {"int32": "i32", "uint8": "i8", "bool": "i8"}

_ELEMENTS_PER_US = 1000.0
_AT_ONCE = 8  # floats that are converted together


@layout
class Block:
    """What the kernels read."""

    units: int  # elements
    source: int  # address
    target: int  # address


def accepts(call: Call) -> bool | str:
    """Casts from float32, float64, int32, uint8 and bool to int64."""
    source, target = call.inputs[0], call.outputs[0]
    assert source is not None
    if call.by_operands and source.dtype.kind in "iub":
        return "such a cast is part of a formula"
    if target.dtype != np.int64:
        return f"casts to int64, not to {target.dtype}"
    if source.dtype.name not in _FLOATS and source.dtype.name not in _INTS:
        return f"does not read {source.dtype}"
    return True


def prepare(call: Call) -> Prepared:
    """One kernel per input dtype."""
    source = call.inputs[0]
    assert source is not None
    native = kernel(source.dtype.name)
    parts = share_count(source.size / _ELEMENTS_PER_US, max(1, source.size // 1024))
    return launch(native, filled(Block, units=source.size), (Block.source, Block.target), parts=parts)


@functools.cache
def kernel(dtype: str) -> IRKernel:
    """The kernel that reads `dtype`."""
    name = f"whole_from_{dtype}"
    return IRKernel(name, _from_floats(name, _FLOATS[dtype]) if dtype in _FLOATS else _from_ints(name, dtype))


def _from_floats(name: str, real: str) -> str:
    """As many at a time as are int32, which processors convert in vectors; else one by one."""
    kind, whole, wide = (f"<{_AT_ONCE} x {element}>" for element in (real, "i32", "i64"))
    suffix = "f32" if real == "float" else "f64"
    least, above = (
        f"<{', '.join([f'{real} {bits}'] * _AT_ONCE)}>" for bits in ("0xC1E0000000000000", "0x41E0000000000000")
    )  # -2 ** 31 and 2 ** 31
    convert = f"""  %whole = call i64 @llvm.fptosi.sat.i64.{suffix}({real} %x)
  %nan = fcmp uno {real} %x, %x
  %y = select i1 %nan, i64 -9223372036854775808, i64 %whole"""
    return f"""declare i64 @llvm.fptosi.sat.i64.{suffix}({real})
declare i1 @llvm.vector.reduce.and.v{_AT_ONCE}i1(<{_AT_ONCE} x i1>)
{_opening(name)}
  br i1 %any, label %next, label %done
next:
  %i = phi i64 [ %first, %entry ], [ %after.one, %one ], [ %after.all, %all ]
  %left = sub i64 %end, %i
  %from = getelementptr {real}, ptr %sources, i64 %i
  %to = getelementptr i64, ptr %targets, i64 %i
  %are.enough = icmp sge i64 %left, {_AT_ONCE}
  br i1 %are.enough, label %many, label %one
many:
  %xs = load {kind}, ptr %from, align {4 if real == "float" else 8}
  %not.below = fcmp oge {kind} %xs, {least}
  %below = fcmp olt {kind} %xs, {above}
  %inside = and <{_AT_ONCE} x i1> %not.below, %below
  %are.inside = call i1 @llvm.vector.reduce.and.v{_AT_ONCE}i1(<{_AT_ONCE} x i1> %inside)
  br i1 %are.inside, label %all, label %one
all:
  %narrow = fptosi {kind} %xs to {whole}
  %ys = sext {whole} %narrow to {wide}
  store {wide} %ys, ptr %to, align 8
  %after.all = add i64 %i, {_AT_ONCE}
  %all.more = icmp slt i64 %after.all, %end
  br i1 %all.more, label %next, label %done
one:
  %x = load {real}, ptr %from
{convert}
  store i64 %y, ptr %to
  %after.one = add i64 %i, 1
  %one.more = icmp slt i64 %after.one, %end
  br i1 %one.more, label %next, label %done
done:
  ret i64 0
}}
"""


def _from_ints(name: str, dtype: str) -> str:
    stored, extend = _INTS[dtype], "sext" if dtype == "int32" else "zext"
    return f"""{_opening(name)}
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ %first, %entry ], [ %next, %loop ]
  %from = getelementptr {stored}, ptr %sources, i64 %i
  %x = load {stored}, ptr %from
  %y = {extend} {stored} %x to i64
  %to = getelementptr i64, ptr %targets, i64 %i
  store i64 %y, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret i64 0
}}
"""


def _opening(name: str) -> str:
    """The share of a run, whether there is `any` of it, and what it reads and writes."""
    return f"""{opening(name, Block, ("units", "source", "target"))}{SHARE}
  %sources = inttoptr i64 %source to ptr
  %targets = inttoptr i64 %target to ptr"""
