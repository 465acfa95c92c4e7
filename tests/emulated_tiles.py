"""The instructions on tiles of AMX as LLVM IR for any processor, so that kernels that use them run on every one.

Each does what Intel's manual says (volume 2: TDPBF16PS, TILELOADD, ...), with eight tiles in memory, for one thread at
a time. The shapes of tiles are not looked at: kernels give all of them 16 rows of 64 bytes.
"""

from __future__ import annotations

from typing import Any

import pytest

from atled_cpu_numba import kernel_texts, machine_code, matrix_unit, processor
from atled_cpu_numba.codegen import JIT
from atled_cpu_numba.store import IRKernel

_DEFINITIONS = r"""
@tiles = internal global [8 x [256 x i32]] zeroinitializer, align 64

define internal void @emulated.ldtilecfg(ptr %at) noinline { ret void }
define internal void @emulated.tilerelease() noinline { ret void }

define internal void @emulated.move(ptr %from, i64 %from_row, ptr %to, i64 %to_row) noinline {
entry:
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %next, %row ]
  %source_at = mul i64 %r, %from_row
  %target_at = mul i64 %r, %to_row
  %source = getelementptr i8, ptr %from, i64 %source_at
  %target = getelementptr i8, ptr %to, i64 %target_at
  %line = load <16 x i32>, ptr %source, align 1
  store <16 x i32> %line, ptr %target, align 1
  %next = add i64 %r, 1
  %more = icmp ult i64 %next, 16
  br i1 %more, label %row, label %done
done:
  ret void
}

define internal void @emulated.tileloadd64(i8 %number, ptr %at, i64 %row) noinline {
  %index = zext i8 %number to i64
  %tile = getelementptr [8 x [256 x i32]], ptr @tiles, i64 0, i64 %index
  call void @emulated.move(ptr %at, i64 %row, ptr %tile, i64 64)
  ret void
}

define internal void @emulated.tilestored64(i8 %number, ptr %at, i64 %row) noinline {
  %index = zext i8 %number to i64
  %tile = getelementptr [8 x [256 x i32]], ptr @tiles, i64 0, i64 %index
  call void @emulated.move(ptr %tile, i64 64, ptr %at, i64 %row)
  ret void
}

define internal <16 x float> @emulated.flushed(<16 x float> %x) alwaysinline {
  %bits = bitcast <16 x float> %x to <16 x i32>
  %exponents = and <16 x i32> %bits, splat (i32 2139095040)
  %small = icmp eq <16 x i32> %exponents, zeroinitializer
  %sign = and <16 x i32> %bits, splat (i32 -2147483648)
  %kept = select <16 x i1> %small, <16 x i32> %sign, <16 x i32> %bits
  %y = bitcast <16 x i32> %kept to <16 x float>
  ret <16 x float> %y
}

define internal <16 x float> @emulated.half(<16 x i32> %pairs, i32 %shift) alwaysinline {
  %one = insertelement <16 x i32> poison, i32 %shift, i32 0
  %shifts = shufflevector <16 x i32> %one, <16 x i32> poison, <16 x i32> zeroinitializer
  %moved = shl <16 x i32> %pairs, %shifts
  %upper = and <16 x i32> %moved, splat (i32 -65536)
  %x = bitcast <16 x i32> %upper to <16 x float>
  %y = call <16 x float> @emulated.flushed(<16 x float> %x)
  ret <16 x float> %y
}

define internal void @emulated.tdpbf16ps(i8 %c, i8 %a, i8 %b) noinline {
entry:
  %c_index = zext i8 %c to i64
  %a_index = zext i8 %a to i64
  %b_index = zext i8 %b to i64
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r_next, %row_end ]
  %r_at = mul i64 %r, 16
  br label %pair
pair:
  %k = phi i64 [ 0, %row ], [ %k_next, %pair ]
  %even = phi <16 x float> [ zeroinitializer, %row ], [ %even_next, %pair ]
  %odd = phi <16 x float> [ zeroinitializer, %row ], [ %odd_next, %pair ]
  %a_at = add i64 %r_at, %k
  %a_place = getelementptr [8 x [256 x i32]], ptr @tiles, i64 0, i64 %a_index, i64 %a_at
  %a_one = load i32, ptr %a_place
  %a_first = insertelement <16 x i32> poison, i32 %a_one, i32 0
  %a_pairs = shufflevector <16 x i32> %a_first, <16 x i32> poison, <16 x i32> zeroinitializer
  %b_at = mul i64 %k, 16
  %b_place = getelementptr [8 x [256 x i32]], ptr @tiles, i64 0, i64 %b_index, i64 %b_at
  %b_pairs = load <16 x i32>, ptr %b_place, align 4
  %a_even = call <16 x float> @emulated.half(<16 x i32> %a_pairs, i32 16)
  %b_even = call <16 x float> @emulated.half(<16 x i32> %b_pairs, i32 16)
  %a_odd = call <16 x float> @emulated.half(<16 x i32> %a_pairs, i32 0)
  %b_odd = call <16 x float> @emulated.half(<16 x i32> %b_pairs, i32 0)
  %even_product = fmul <16 x float> %a_even, %b_even
  %odd_product = fmul <16 x float> %a_odd, %b_odd
  %even_sum = fadd <16 x float> %even, %even_product
  %odd_sum = fadd <16 x float> %odd, %odd_product
  %even_next = call <16 x float> @emulated.flushed(<16 x float> %even_sum)
  %odd_next = call <16 x float> @emulated.flushed(<16 x float> %odd_sum)
  %k_next = add i64 %k, 1
  %k_more = icmp ult i64 %k_next, 16
  br i1 %k_more, label %pair, label %row_end
row_end:
  %c_place = getelementptr [8 x [256 x i32]], ptr @tiles, i64 0, i64 %c_index, i64 %r_at
  %before = load <16 x float>, ptr %c_place, align 4
  %before_flushed = call <16 x float> @emulated.flushed(<16 x float> %before)
  %both = fadd <16 x float> %even_next, %odd_next
  %both_flushed = call <16 x float> @emulated.flushed(<16 x float> %both)
  %after = fadd <16 x float> %before_flushed, %both_flushed
  %after_flushed = call <16 x float> @emulated.flushed(<16 x float> %after)
  store <16 x float> %after_flushed, ptr %c_place, align 4
  %r_next = add i64 %r, 1
  %r_more = icmp ult i64 %r_next, 16
  br i1 %r_more, label %row, label %done
done:
  ret void
}
"""


def emulate(kernel: Any, patch: pytest.MonkeyPatch) -> None:
    """Have a kernel run without the instructions, and calls take it, until the patch is undone."""
    text, symbol = _text(kernel, patch)
    lines = [line for line in text.splitlines() if not (line.startswith("declare") and "@llvm.x86." in line)]
    emulated = IRKernel(symbol, "\n".join(lines).replace("@llvm.x86.", "@emulated.") + _DEFINITIONS)
    patch.setattr(kernel, "_address", emulated.address())
    patch.setattr(matrix_unit, "multiplies_bf16", lambda: True)


def _text(kernel: Any, patch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The kernel as LLVM IR, and its name in there."""
    found = kernel_texts.find(kernel.text_key())
    if found is not None:
        return found, kernel.name
    chosen = processor.target()
    with patch.context() as inner:
        with_tiles = processor.Processor(chosen.name, f"{chosen.features},+amx-tile,+amx-bf16".lstrip(","))
        inner.setattr(processor, "target", lambda: with_tiles)
        return machine_code.write_ir(kernel.name, kernel.build, JIT)
