"""ATLED_CPU: the processor that kernels are compiled for."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import llvmlite.binding as llvm
import pytest

import atled as nn
from atled_contexts import SettingError, reload_plugins
from atled_cpu_numba import machine_code, pool, processor, store
from atled_cpu_numba.codegen import JIT
from atled_cpu_numba.processor import Processor, ProcessorError, parse_processor
from atled_cpu_numba.store import IRKernel

only_x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names processors of x86-64")

NO_AVX = Processor(
    "x86-64",
    ",".join("-" + word[1:] if word[1:4] in ("avx", "fma") else word for word in processor.host().features.split(",")),
)
"""This machine, had it been built before AVX."""


@pytest.fixture
def compiles_for(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that has everything compiled for the processor it is given."""

    def choose(chosen: Processor) -> None:
        monkeypatch.setattr(processor, "target", lambda: chosen)
        store._machine.cache_clear()

    yield choose
    monkeypatch.undo()
    store._machine.cache_clear()


def doubles() -> Any:
    from atled_cpu_numba.codegen import floats32, words

    def double(block: int, part: int, parts: int) -> int:
        w = words(block)
        x, y = floats32(w[1]), floats32(w[2])
        for i in range(w[0]):
            y[i] = x[i] + x[i]
        return 0

    return double


@only_x86
@pytest.mark.parametrize(
    ("text", "wrong", "remedy"),
    [
        ("haswel", "no processor 'haswel'", "did you mean 'haswell'"),
        ("qqqq", "no processor 'qqqq'", "name one of these"),
        (",", "no processor ''", "name one of these"),
        ("nehalem,,+avx", "'' is not a feature", "leave it out"),
        ("nehalem,+avxx", r"'\+avxx' is not a feature", "did you mean 'avx'"),
        ("nehalem,avx", "'avx' is not a feature", r"write \+avx or -avx"),
        ("i386", "makes no code", "generic"),
    ],
)
def test_what_llvm_does_not_know_is_refused_with_the_nearest_name(text: str, wrong: str, remedy: str) -> None:
    with pytest.raises(
        SettingError, match=rf"ATLED_CPU='{text}'.*{wrong}".replace("+", r"\+", text.count("+"))
    ) as caught:
        parse_processor(text)
    assert caught.match(f"What to do: .*{remedy}")


def test_a_wrong_name_is_an_error_of_the_program_and_not_a_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATLED_CPU", "no-such-processor")
    reload_plugins()
    try:
        with pytest.raises(SettingError, match="no-such-processor"):
            nn.get_current_context()
    finally:
        monkeypatch.undo()
        reload_plugins()


def test_blanks_are_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATLED_CPU", "  ")
    reload_plugins()
    processor.target.cache_clear()
    try:
        assert nn.get_current_context().backend and processor.target() == processor.host()
    finally:
        monkeypatch.undo()
        reload_plugins()
        processor.target.cache_clear()


@only_x86
def test_features_are_those_of_the_name_and_what_is_added_or_taken_away(compiles_for: Any) -> None:
    had = {}
    for text in ("x86-64", "nehalem,+avx", "haswell", "haswell,-avx", "skylake-avx512"):
        compiles_for(parse_processor(text))
        had[text] = [name for name in ("sse4.1", "avx", "avx2", "fma", "avx512f") if processor.has(name)]
    assert had == {
        "x86-64": [],
        "nehalem,+avx": ["sse4.1", "avx"],
        "haswell": ["sse4.1", "avx", "avx2", "fma"],
        "haswell,-avx": ["sse4.1"],
        "skylake-avx512": ["sse4.1", "avx", "avx2", "fma", "avx512f"],
    }


def test_host_stands_for_this_machine(compiles_for: Any) -> None:
    assert parse_processor("host") == processor.host()
    assert processor.missing_here(parse_processor("host")) == ()


@only_x86
def test_every_key_of_the_store_has_the_processor(compiles_for: Any) -> None:
    keys = set()
    for text in ("x86-64", "haswell", "haswell,-fma"):
        compiles_for(parse_processor(text))
        keys |= {IRKernel("f", "").fingerprint(), store.Kernel("double", doubles).fingerprint()}
    assert len(keys) == 6


@only_x86
@pytest.mark.parametrize(
    ("text", "registers"),
    [
        ("x86-64", "xmm"),
        ("haswell", "ymm"),
        ("skylake-avx512", "ymm"),  # slowed down by whole vectors
        ("sapphirerapids", "zmm"),
        ("sapphirerapids,+prefer-256-bit", "ymm"),
        ("skylake-avx512,-prefer-256-bit", "zmm"),
        ("znver4", "zmm"),
    ],
)
def test_numba_compiles_for_the_processor_too(compiles_for: Any, text: str, registers: str) -> None:
    compiles_for(parse_processor(text))
    with machine_code._numba_target():
        library, _ = machine_code._numba_library("double", doubles, JIT)
    written = library.get_asm_str()
    assert registers == next(each for each in ("zmm", "ymm", "xmm") if each in written)


@only_x86
@pytest.mark.parametrize(
    ("name", "has_vbmi2", "registers"), [("icelake-server", True, "zmm"), ("skylake-avx512", False, "ymm")]
)
def test_loops_have_whole_vectors_where_these_do_not_slow_the_processor_down(
    compiles_for: Any, monkeypatch: pytest.MonkeyPatch, name: str, has_vbmi2: bool, registers: str
) -> None:
    features = llvm.FeatureMap({"avx512f": True, "avx512vl": True, "avx512vbmi2": has_vbmi2})
    found = SimpleNamespace(get_host_cpu_name=lambda: name, get_host_cpu_features=lambda: features)
    with monkeypatch.context() as patched:
        patched.setattr(processor, "llvm_binding", lambda: found)
        host = processor._ask_host()
    compiles_for(host)
    monkeypatch.setattr(processor, "host", lambda: host)
    with machine_code._numba_target():
        library, _ = machine_code._numba_library("double", doubles, JIT)
    written = library.get_asm_str()
    assert registers in written
    assert ("zmm" in written) == (registers == "zmm")


@only_x86
def test_a_processor_that_this_machine_cannot_stand_in_for_is_refused_before_the_first_kernel(
    compiles_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATLED_CPU", "haswell")
    monkeypatch.setattr(processor, "host", lambda: NO_AVX)
    processor._missing_here.cache_clear()
    compiles_for(parse_processor("haswell"))
    monkeypatch.setattr(pool, "_native", None)
    try:
        with pytest.raises(
            ProcessorError, match=r"'haswell'.*cannot execute it: it lacks avx, avx2.*\n.*\n.*ATLED_CPU=haswell,-avx,"
        ):
            pool._load()
        compiles_for(parse_processor("nehalem"))
        processor.require_executable()
    finally:
        processor._missing_here.cache_clear()


@only_x86
def test_no_kernel_calls_a_function_for_each_product_where_there_is_no_instruction() -> None:
    """In a process of its own: kernels are written for the vectors of one processor."""
    program = """
import numpy as np
from atled.ops.formula import Program
from atled.ops.formula_layout import plan_layout
from atled_cpu_numba import elementwise, machine_code, processor
from atled_cpu_numba.codegen import JIT
from atled_cpu_numba.kernels.products.row_products import MULTIPLY_ROWS
from atled_cpu_numba.kernels.products.small_products import SMALL_PRODUCT
assert not processor.has_fused_instructions()
program = Program(("x", "y"), (), (("z", "x ** y + tanh(x) * sigmoid(y)"),))
layout = plan_layout(program, [(9,)] * 3, [np.dtype(np.float32)] * 3, "float32").layout
codes = [
    machine_code.compile_ir("formula", elementwise._kernel(program, layout).ir),
    machine_code.compile_ir("small_product", SMALL_PRODUCT["float32"].ir),
    machine_code.compile_function("rows", MULTIPLY_ROWS["float32"].build, JIT),
]
called = sorted({name for code in codes for name in code.undefined})
assert not [name for name in called if name.startswith("fma")], called
"""
    environment = {**os.environ, "ATLED_CPU": "nehalem"}
    subprocess.run([sys.executable, "-W", "error", "-c", program], env=environment, check=True)


def test_a_program_runs_on_the_code_of_another_processor(tmp_path: Any) -> None:
    program = """
import numpy as np, atled as nn, atled.functions as F
from atled_cpu_numba import processor
x = np.linspace(-3, 3, 600, dtype=np.float32).reshape(20, 30)
with nn.trace() as ran:
    y = F.tanh(nn.NdArray.from_numpy_array(x))
assert {row.backend for row in ran.rows()} == {"cpu"}, ran
np.testing.assert_allclose(y.data, np.tanh(x), atol=1e-6)
assert processor.target().name == "generic" and processor.target() != processor.host()
"""
    environment = {**os.environ, "ATLED_CPU": "generic", "ATLED_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-W", "error", "-c", program], env=environment, check=True)
