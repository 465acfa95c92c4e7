"""Casts to int64, for labels and indices: fractions truncated, NaN to the least int64, which no check passes."""

from __future__ import annotations

import functools

import numpy as np

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.launch import launch, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout
from atled_cpu_numba.store import IRKernel

_FLOATS = {"float32": "float", "float64": "double"}
_INTS = {"int32": "i32", "uint8": "i8", "bool": "i8"}

_ELEMENTS_PER_US = 1000.0


@layout
class Block:
    """What the kernels read."""

    count: int  # of elements
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
    return launch(native, filled(Block, count=source.size), (Block.source, Block.target), parts=parts)


@functools.cache
def kernel(dtype: str) -> IRKernel:
    """The kernel that reads `dtype`."""
    if dtype in _FLOATS:
        real = _FLOATS[dtype]
        suffix = "f32" if real == "float" else "f64"
        convert = f"""  %whole = call i64 @llvm.fptosi.sat.i64.{suffix}({real} %x)
  %nan = fcmp uno {real} %x, %x
  %y = select i1 %nan, i64 -9223372036854775808, i64 %whole"""
        declare = f"declare i64 @llvm.fptosi.sat.i64.{suffix}({real})"
        stored = real
    else:
        stored = _INTS[dtype]
        extend = "sext" if dtype == "int32" else "zext"
        convert = f"  %y = {extend} {stored} %x to i64"
        declare = ""
    name = f"whole_from_{dtype}"
    return IRKernel(
        name,
        f"""{declare}
define i64 @{name}(i64 %block, i64 %part, i64 %parts) {{
entry:
  %words = inttoptr i64 %block to ptr
  %n.at = getelementptr i64, ptr %words, i64 {Block.count}
  %n = load i64, ptr %n.at
  %source.at = getelementptr i64, ptr %words, i64 {Block.source}
  %source_address = load i64, ptr %source.at
  %source = inttoptr i64 %source_address to ptr
  %target.at = getelementptr i64, ptr %words, i64 {Block.target}
  %target_address = load i64, ptr %target.at
  %target = inttoptr i64 %target_address to ptr
  %scaled = mul i64 %n, %part
  %first = sdiv i64 %scaled, %parts
  %next_part = add i64 %part, 1
  %scaled_end = mul i64 %n, %next_part
  %end = sdiv i64 %scaled_end, %parts
  %some = icmp slt i64 %first, %end
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ %first, %entry ], [ %next, %loop ]
  %from = getelementptr {stored}, ptr %source, i64 %i
  %x = load {stored}, ptr %from
{convert}
  %to = getelementptr i64, ptr %target, i64 %i
  store i64 %y, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret i64 0
}}
""",
    )
