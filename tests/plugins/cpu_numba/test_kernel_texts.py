"""Kernels that numba wrote beforehand: found where they fit, never where they do not, and the same as numba's."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding
import pytest

sys.path.append(str(Path(__file__).parents[3] / "tools"))

import kernel_texts as writer  # after the path is set
from atled_cpu_numba import kernel_texts, machine_code, matrix_unit, processor
from atled_cpu_numba.catalogue import kernels_for, written_kernels
from atled_cpu_numba.codegen import JIT
from atled_cpu_numba.kernel_texts import Archive
from atled_cpu_numba.store import IRKernel, Kernel

LLVM = llvmlite.binding.llvm_version_info[0]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Archive:
    """An archive with one text, on a processor that may use it."""
    archive = Archive(LLVM, {"key": "text"})
    monkeypatch.setattr(kernel_texts, "_installed", lambda: archive)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return archive


def test_a_text_is_found_under_its_key(installed: Archive) -> None:
    assert kernel_texts.find("key") == "text"
    assert kernel_texts.find("other") is None


def test_another_processor_finds_none(installed: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert kernel_texts.find("key") is None


def test_another_llvm_finds_none(installed: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "versions", lambda: ("0.50.0", f"{LLVM + 1}.0.0"))
    assert kernel_texts.find("key") is None


def test_an_installation_without_archive_finds_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernel_texts, "ARCHIVE", tmp_path / "none")
    monkeypatch.setattr(kernel_texts, "_installed", kernel_texts._installed.__wrapped__)
    assert kernel_texts.find("key") is None


def test_an_archive_keeps_what_it_was_given() -> None:
    archive = Archive(22, {"b": "two", "a": "one"})
    data = kernel_texts.encode(archive)
    assert kernel_texts.decode(data) == archive
    assert data == kernel_texts.encode(Archive(22, {"a": "one", "b": "two"}))


@pytest.mark.parametrize("damage", [lambda d: b"", lambda d: d[:-9], lambda d: d[:40] + b"x" + d[41:]])
def test_a_damaged_archive_says_what_to_do(damage: Any) -> None:
    with pytest.raises(ValueError, match=r"cannot be read.*Install atled-cpu-numba again"):
        kernel_texts.decode(damage(kernel_texts.encode(Archive(22, {"a": "one"}))))


def test_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = kernel_texts.encode(Archive(22, {}))
    monkeypatch.setattr(kernel_texts, "FORMAT", kernel_texts.FORMAT + 1)
    with pytest.raises(ValueError, match="format"):
        kernel_texts.decode(data)


@pytest.mark.slow
def test_a_kernel_with_a_text_needs_no_numba(tmp_path: Path) -> None:
    if kernel_texts.find(written_kernels()[0].text_key()) is None:
        pytest.skip("the archive has no texts for this processor or this version of LLVM")
    program = (
        "import sys; from atled_cpu_numba.kernels.reduction.any_axes import _ROWS; "
        "assert _ROWS['float32'].address(); print('numba' in sys.modules)"
    )

    def run(**settings: str) -> str:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "ATLED_CACHE_DIR": str(tmp_path),
            **settings,
        }
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert run() == "False\n"
    # Somebody who sets numba's options wants what numba makes of them.
    assert run(NUMBA_OPT="2") == "True\n"


def test_what_is_written_computes_what_numba_compiles() -> None:
    def build() -> Any:
        from atled_cpu_numba.codegen import words

        def spread(block: int, part: int, parts: int) -> int:
            w = words(block)
            for i in range(part, w[0]):
                w[1 + i] = min(w[1 + i], 5) * i
            return w[0]

        return spread

    text, symbol = machine_code.write_ir("spread", build, JIT)
    results = []
    for kernel in (IRKernel("spread", writer.reduced("spread", text, symbol)), Kernel("spread", build)):
        block = (ctypes.c_int64 * 6)(5, 9, -2, 7, 1, 3)
        status = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(kernel.address())(
            ctypes.addressof(block), 1, 2
        )
        results.append((status, *block))
    assert results[0] == results[1] == (5, 5, 9, -2, 10, 3, 12)


@pytest.mark.parametrize("name", ["fill_float32", "dropout_float32", "collect_rows_float32"])
def test_a_text_is_the_same_however_often_it_is_written(name: str) -> None:
    (kernel,) = [kernel for kernel in written_kernels() if kernel.name == name]
    first = writer.text(kernel)  # numba counts what it compiles, and makes names of the numbers
    assert first == writer.text(kernel)
    assert f"@{name}(" in first and "_Z" not in first


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An archive with the texts of three keys, and a writer that knows three other ones for each width."""
    path = tmp_path / "kernels.ir.xz"
    path.write_bytes(kernel_texts.encode(Archive(LLVM, dict.fromkeys(("a", "b", "old"), "known"))))
    monkeypatch.setattr(kernel_texts, "ARCHIVE", path)
    monkeypatch.setattr(writer, "_write_objects", lambda: 0)  # it would write the archive of this checkout

    def child(features: str, known: list[str] | None) -> tuple[dict[str, str], dict[str, str]]:
        names = dict.fromkeys(("a", "b", "c"), "kernel")
        return names, {key: "written" for key in names if known is not None and key not in known}

    monkeypatch.setattr(writer, "_child", child)
    return path


def test_only_texts_whose_sources_changed_are_written(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert writer.outdated() == ["kernel"]
    assert writer.main([]) == 0 and "1 of 3 texts written" in capsys.readouterr().out
    assert kernel_texts.decode(archive.read_bytes()).texts == {"a": "known", "b": "known", "c": "written"}
    assert writer.outdated() == []
    written = archive.stat()
    assert writer.main([]) == 0 and "0 of 3 texts written" in capsys.readouterr().out
    assert archive.stat().st_mtime_ns == written.st_mtime_ns
    assert writer.main(["--all"]) == 0 and "3 of 3 texts written" in capsys.readouterr().out
    assert set(kernel_texts.decode(archive.read_bytes()).texts.values()) == {"written"}


def test_texts_of_another_llvm_are_all_written(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvmlite.binding, "llvm_version_info", (LLVM + 1, 0, 0))
    writer.main([])
    assert kernel_texts.decode(archive.read_bytes()) == Archive(LLVM + 1, dict.fromkeys("abc", "written"))


TILED = {"tile_product", "tile_weight"}


@pytest.mark.parametrize("has_tiles", [False, True])
def test_type_configs_need_different_kernels(monkeypatch: pytest.MonkeyPatch, has_tiles: bool) -> None:
    monkeypatch.setattr(processor, "has_half_instructions", lambda: True)
    monkeypatch.setattr(matrix_unit, "multiplies_bf16", lambda: has_tiles)
    names = {config: {kernel.name for kernel in kernels_for(config)} for config in ("float", "half", "bf16", "double")}
    assert "sum_rows_float32" in names["float"] and "sum_rows_float64" in names["double"]
    assert "sum_rows_float64" not in names["float"] and "sum_rows_float32" not in names["double"]
    products = ("narrow_product", "widen_panels", "narrow_row", "rows_by_columns")
    pairs = ("max_pairs", "max_pairs_alone", "max_pairs_grad", "average_pairs", "average_pairs_grad")
    last = ("max_pooling_last", "max_pooling_last_grad", "WindowSum_lanes", "WindowSumGrad_lanes")
    pooling = (*pairs, *last, "max_windows_3_2")
    rows = ("normalize_rows", "normalize_grad_rows", "softmax_rows", "sum_rows", "sum_stretches", "pad", "fill")
    columns = ("normalize_columns", "normalize_grad_columns", "softmax_columns", "vat_noise")
    collected = ("collect_rows", "collect_line", "depthwise_lines")
    extrema = [f"{name}_{along}" for name in ("max", "min", "max_value", "min_value") for along in ("rows", "columns")]
    reductions = (*extrema, "sum_columns", "product_rows", "product_columns")
    chosen = ("embed_grad", "CategoricalCrossEntropyGrad", "cross_entropy_grad", "TopNError")
    narrow = (*products, *pooling, *rows, *columns, *collected, *reductions, *chosen)
    for config, dtype in (("half", "float16"), ("bf16", "bfloat16")):
        tiled = TILED if has_tiles and config == "bf16" else set()
        filters = {f"depthwise_planes_{stride}_0_{dtype}" for stride in (1, 2)}
        filters |= {f"paired_planes_{stride}_bfloat16" for stride in (1, 2) if config == "bf16"}
        windows = {f"average_windows_3_{stride}_{dtype}" for stride in (1, 2)}
        windows |= {"max_windows_3_1_float16"} if config == "half" else set()
        assert names[config] - names["float"] == {f"{name}_{dtype}" for name in narrow} | tiled | filters | windows
        assert names["float"] <= names[config]
    left_out = set() if has_tiles else TILED
    assert set.union(*names.values()) == {kernel.name for kernel in written_kernels()} - left_out | {"small_product"}


def test_half_needs_no_kernels_that_its_missing_instructions_would_be_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "has_half_instructions", lambda: False)
    names = {config: {kernel.name for kernel in kernels_for(config)} for config in ("float", "half")}
    assert names["half"] == names["float"]


def test_the_archive_is_up_to_date() -> None:
    assert not writer.outdated(), "run make generated"
