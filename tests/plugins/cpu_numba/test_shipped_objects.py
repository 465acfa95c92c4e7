"""Kernels that the package brings as object code: used where they fit, and never where they do not."""

from __future__ import annotations

import ctypes
import lzma
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[3] / "tools"))

import kernel_objects as writer  # after the path is set
from atled_cpu_numba import machine_code, object_files, processor, shipped_objects, store
from atled_cpu_numba.processor import Processor
from atled_cpu_numba.shipped_objects import TARGETS, Archive
from atled_cpu_numba.store import IRKernel, Kernel

_NEW, _OLD = TARGETS
_ASKED = shipped_objects._target.__wrapped__
_IR = "define i64 @seven(i64 %block, i64 %part, i64 %parts) { ret i64 7 }"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the objects are for Linux on x86-64"
)


def member(kernel: IRKernel) -> bytes:
    return writer._member(kernel.shipped_key(), kernel, {})


def install(monkeypatch: pytest.MonkeyPatch, archive: Archive | None) -> None:
    monkeypatch.setattr(shipped_objects, "_installed", lambda: archive)
    # Asked again, of what the test pretends.
    monkeypatch.setattr(shipped_objects, "_target", _ASKED)


@pytest.fixture
def kernel() -> IRKernel:
    return IRKernel("seven", _IR)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, kernel: IRKernel) -> Archive:
    """An archive with one object for each target, on a processor that is the better one."""
    key = kernel.shipped_key()
    archive = Archive(shipped_objects.toolchain(), {target: {key: member(kernel)} for target in TARGETS})
    install(monkeypatch, archive)
    monkeypatch.setattr(processor, "target", lambda: Processor("skylake-avx512", ""))
    return archive


def call(kernel: IRKernel) -> int:
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(kernel.address())
    return int(function(0, 0, 1))


def test_an_object_runs_without_compiling_or_writing(
    installed: Archive, kernel: IRKernel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ATLED_CACHE_DIR", str(tmp_path / "none"))
    monkeypatch.setattr(machine_code, "compile_ir", lambda *_, **__: pytest.fail("compiled"))
    assert kernel.is_stored() and call(kernel) == 7
    assert not list(tmp_path.rglob("*.o"))


@pytest.mark.parametrize(
    ("cpu", "features", "found"),
    [
        ("znver5", "", _NEW),
        ("sapphirerapids", "", _NEW),
        ("haswell", "", _OLD),
        ("znver5", "-avx512f", _OLD),
        ("knl", "", _OLD),  # has AVX-512, but not all that newer ones have
        ("haswell", "-fma", None),
        ("nehalem", "", None),
    ],
)
def test_a_processor_gets_what_it_can_execute(
    installed: Archive, monkeypatch: pytest.MonkeyPatch, cpu: str, features: str, found: str | None
) -> None:
    monkeypatch.setattr(processor, "target", lambda: Processor(cpu, features))
    assert shipped_objects._target() == found
    assert (shipped_objects.why_unused() == "") == (found is not None)


@pytest.mark.parametrize("target", TARGETS)
def test_objects_need_no_feature_that_their_target_lacks_and_miss_none(
    monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    named, tuned = Processor(target, ""), shipped_objects.compiled_for(target)
    for one, other in ((named, tuned), (tuned, named)):
        monkeypatch.setattr(processor, "target", lambda one=one: one)
        assert processor.includes(other), (one, other)


def test_no_order_is_made_for_instructions_that_a_processor_lacks() -> None:
    with pytest.raises(processor.SettingError, match=r"haswell lacks .*avx512f"):
        processor.with_features_of("haswell", "x86-64-v4")


def test_another_text_is_not_found(installed: Archive) -> None:
    other = IRKernel("seven", _IR.replace("7", "8"))
    assert not shipped_objects.has(other.shipped_key()) and shipped_objects.find(other.shipped_key()) is None
    assert call(other) == 8


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(processor, "versions", lambda: ("0.50.0", "1.2.3")),
        lambda patch: patch.setattr(object_files, "FORMAT", object_files.FORMAT + 1),
        lambda patch: patch.setattr(platform, "machine", lambda: "aarch64"),
        lambda patch: patch.setattr(sys, "platform", "darwin"),
        lambda patch: install(patch, None),
    ],
)
def test_another_compiler_kind_or_installation_finds_none(
    installed: Archive, kernel: IRKernel, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    assert shipped_objects.find(kernel.shipped_key()) is not None
    change(monkeypatch)
    assert shipped_objects.find(kernel.shipped_key()) is None
    assert shipped_objects.why_unused().startswith("not in use: ")


def test_llvm_is_not_asked_for_its_version_where_llvmlite_is_the_same(
    installed: Archive, kernel: IRKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "versions", lambda: ("0.50.0", "1.2.3"))
    for release, is_found in ((processor.release(), True), ("0.1 of long ago", False), ("", False)):
        install(monkeypatch, installed._replace(release=release))
        assert shipped_objects.has(kernel.shipped_key()) == is_found
    install(monkeypatch, installed._replace(release=processor.release(), made_by=[*installed.made_by, "more"]))
    assert not shipped_objects.has(kernel.shipped_key())


def test_an_object_under_a_wrong_key_is_not_run(
    installed: Archive, kernel: IRKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = IRKernel("seven", _IR.replace("7", "8"))
    objects = {target: {kernel.shipped_key(): member(other)} for target in TARGETS}
    install(monkeypatch, Archive(shipped_objects.toolchain(), objects))
    assert call(kernel) == 7


def test_an_object_that_needs_what_the_process_lacks_is_not_loaded(
    installed: Archive, kernel: IRKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_code, "is_loadable", lambda _: False)
    assert call(kernel) == 7


def test_settings_of_numba_are_heeded(installed: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel("none", lambda: lambda block, part, parts: 0)
    archive = Archive(installed.made_by, {target: {kernel.shipped_key(): b""} for target in TARGETS})
    install(monkeypatch, archive)
    assert kernel._is_shipped()
    monkeypatch.setattr(store, "_numba_settings", lambda: {"NUMBA_OPT": "2"})
    assert not kernel._is_shipped()


def test_an_archive_keeps_what_it_was_given() -> None:
    archive = Archive(["1.2", 3], {"b": {"y": b"two", "x": b"one"}, "a": {}}, "0.3 of today")
    data = shipped_objects.encode(archive)
    assert shipped_objects.decode(data) == archive
    in_order = {"a": {}, "b": {"x": b"one", "y": b"two"}}
    assert data == shipped_objects.encode(archive._replace(objects=in_order))


@pytest.mark.parametrize("damage", [lambda d: b"", lambda d: d[:-1], lambda d: d[:20] + b"x" + d[21:]])
def test_a_damaged_archive_says_what_to_do(damage: Any) -> None:
    data = shipped_objects.encode(Archive([], {"a": {"x": b"one"}}))
    with pytest.raises(ValueError, match=r"cannot be read.*Install atled-cpu-numba again"):
        shipped_objects.decode(damage(data))


def test_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = shipped_objects.encode(Archive([], {}))
    monkeypatch.setattr(shipped_objects, "FORMAT", shipped_objects.FORMAT + 1)
    with pytest.raises(ValueError, match="format"):
        shipped_objects.decode(data)


def test_an_object_is_the_same_however_often_it_is_written(kernel: IRKernel) -> None:
    first = member(kernel)
    assert first == member(kernel)
    found = object_files.decoded(lzma.decompress(first), kernel.shipped_key())
    assert found is not None and found.symbol == "seven" and found.undefined == ()


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An archive with three objects for each target, and a compiler that knows three other kernels."""
    path = tmp_path / "kernels.o.xz"
    objects = {target: dict.fromkeys(("a", "b", "old"), b"known") for target in TARGETS}
    path.write_bytes(shipped_objects.encode(Archive(shipped_objects.toolchain(), objects)))
    monkeypatch.setattr(shipped_objects, "ARCHIVE", path)

    def child(target: str, known: list[str] | None) -> writer.Compiled:
        names = dict.fromkeys(("a", "b", "c"), "kernel")
        return writer.Compiled(names, {k: b"written" for k in names if known is not None and k not in known})

    monkeypatch.setattr(writer, "_child", child)
    return path


def test_only_objects_whose_texts_changed_are_written(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert writer.outdated() == ["kernel"]
    assert writer.main([]) == 0 and "2 of 6 objects written" in capsys.readouterr().out
    members = {"a": b"known", "b": b"known", "c": b"written"}
    assert shipped_objects.decode(archive.read_bytes()).objects == dict.fromkeys(TARGETS, members)
    assert writer.outdated() == []
    written = archive.stat()
    assert writer.main([]) == 0 and archive.stat().st_mtime_ns == written.st_mtime_ns
    assert writer.main(["--all"]) == 0 and "6 of 6 objects written" in capsys.readouterr().out


def test_objects_of_another_compiler_are_all_written(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "versions", lambda: ("0.50.0", "1.2.3"))
    writer.main([])
    written = shipped_objects.decode(archive.read_bytes())
    assert written.made_by[0] == "1.2.3"
    assert written.objects[_OLD] == dict.fromkeys("abc", b"written")


def test_the_archive_is_up_to_date() -> None:
    assert not writer.outdated(), "run make generated"


def test_the_archive_is_small() -> None:
    assert Path(shipped_objects.ARCHIVE).stat().st_size < 3 << 20
