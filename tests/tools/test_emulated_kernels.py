"""Kernels on an emulated processor: what runs there, and how kernels find each other."""

import ctypes
import importlib.util
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import emulated_kernels  # after the path is set
from atled_cpu_numba.store import IRKernel
from emulated_processor import EmulationError

on_x86 = pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="writes its code")

_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Recorder:
    """In place of the processor: notes calls, and returns the sum of the words."""

    def __init__(self):
        self.replaced = {}
        self.calls = []

    def call(self, address, *words):
        self.calls.append((address, words))
        if words == (0, 0, 0):
            raise EmulationError("exception 6")
        return sum(words)


@on_x86
def test_a_kernel_s_address_leads_into_the_emulation_here_and_to_its_code_there():
    recorder = Recorder()
    emulation = emulated_kernels.Emulation(recorder)
    code = _FUNCTION(lambda block, part, parts: block * part * parts)
    known = ctypes.cast(code, ctypes.c_void_p).value
    first, second = emulation.address("first", 12345), emulation.address("second", known)
    assert _FUNCTION(first)(2, 3, 4) == _FUNCTION(second)(2, 3, 4) == 9
    assert recorder.calls == [(12345, (2, 3, 4)), (known, (2, 3, 4))]
    page = second & -4096
    assert _FUNCTION(recorder.replaced[page] + second - page)(2, 3, 4) == 24
    assert emulation.calls == {"first": 1, "second": 1}


@on_x86
def test_a_fault_is_a_code_that_no_kernel_has_and_is_told(capfd):
    emulation = emulated_kernels.Emulation(Recorder())
    assert _FUNCTION(emulation.address("wrong", 1))(0, 0, 0) == 9999
    assert emulation.faults == ["wrong: exception 6"]
    assert "wrong: exception 6" in capfd.readouterr().err


@pytest.mark.parametrize(
    "head, expected",
    [
        ("i64 @f(i64 %block, i64 %part, i64 %parts)", True),
        ('i64 @"f"(i64, i64, i64 %parts)', True),
        ("i64 @f(i64 %index)", False),
        ("void @f(i64 %block, i64 %part, i64 %parts)", False),
        ("i64 @f(i64 %a, i64 %b, i64 %c, i64 %d)", False),
    ],
)
def test_kernels_are_known_by_their_signature(head, expected):
    assert emulated_kernels.is_kernel(IRKernel("f", f"define {head} {{ ret i64 0 }}")) is expected


def test_what_calls_the_interpreter_is_no_kernel():
    ir = "define i64 @f(i64 %block, i64 %part, i64 %parts) { ret i64 0 }"
    assert not emulated_kernels.is_kernel(IRKernel("f", ir, python_api=True))


@pytest.mark.slow
@on_x86
@pytest.mark.skipif(importlib.util.find_spec("bochscpu") is None, reason="`make check-emulated` installs it")
def test_kernels_for_avx512_multiply_rows_emulated():
    root = Path(__file__).parents[2]
    environment = {**os.environ, "ATLED_CPU": "skylake-avx512", "PYTHONPATH": str(root / "tools")}
    test = "tests/plugins/cpu_numba/kernels/products/test_row_products.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "emulated_kernels", "-p", "no:cacheprovider", "--quick"]
    done = subprocess.run([*command, test], cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kernels ran emulated, for skylake-avx512" in done.stdout
