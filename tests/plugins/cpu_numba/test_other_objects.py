"""Objects for macOS and Windows tell what they need: read from objects that LLVM writes for those systems here."""

from __future__ import annotations

import platform
from typing import Any

import pytest

from atled_cpu_numba import machine_code, other_objects, processor
from atled_cpu_numba.machine_code import ObjectCode

# Calls what it declares, and what the code generator adds: memset.
IR = """
declare double @cos(double)
declare double @a_function_with_a_long_name(double)
@far = external global double
define double @kernel(ptr %p, i64 %n, double %x) {
  call void @llvm.memset.p0.i64(ptr %p, i8 1, i64 %n, i1 false)
  %c = call double @cos(double %x)
  %d = call double @a_function_with_a_long_name(double %c)
  %f = load double, ptr @far
  %s = fadd double %d, %f
  ret double %s
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""

NEEDED = ("a_function_with_a_long_name", "cos", "far", "memset")


def written_for(triple: str, ir: str = IR) -> bytes:
    llvm: Any = processor.llvm_binding()
    module = llvm.parse_assembly(f'target triple = "{triple}"\n{ir}')
    return bytes(llvm.Target.from_triple(triple).create_target_machine(opt=2).emit_object(module))


only_x86 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="LLVM is built for this machine alone"
)


@only_x86
@pytest.mark.parametrize("triple", ["x86_64-apple-macosx11.0", "x86_64-pc-windows-msvc"])
def test_all_that_the_code_needs_is_found(triple: str) -> None:
    code = written_for(triple)
    assert other_objects.is_known(code)
    assert set(NEEDED) <= set(other_objects.undefined_symbols(code)) <= {*NEEDED, "_fltused"}


@only_x86
def test_the_probe_of_a_large_stack_is_found() -> None:
    ir = """
declare void @use(ptr)
define void @kernel() {
  %big = alloca [100000 x i8]
  call void @use(ptr %big)
  ret void
}
"""
    assert "__chkstk" in other_objects.undefined_symbols(written_for("x86_64-pc-windows-msvc", ir))


@only_x86
def test_an_elf_object_is_neither() -> None:
    assert not other_objects.is_known(written_for("x86_64-pc-linux-gnu"))


def test_on_windows_llvm_is_asked_for_each_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    assert machine_code.missing_symbols(ObjectCode(b"", "f", ("memset", "no_such_function", "NRT_Allocate"))) == [
        "no_such_function",
        "NRT_Allocate",
    ]
