"""What LLVM said of the processor is found again where it holds, and asked again wherever it might not."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from atled_cpu_numba import answers, code_memory, cpuid, kept_files, processor

pytestmark = pytest.mark.skipif(not code_memory.IS_KNOWN, reason="LLVM is asked in each process here")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ATLED_CACHE_DIR", str(tmp_path))
    return tmp_path / "cpu-numba"


class Asked:
    """Stands for LLVM: counts how often it was asked."""

    def __init__(self, answer: object = ("znver9", "+new")) -> None:
        self.count = 0
        self.answer = answer

    def __call__(self) -> object:
        self.count += 1
        return self.answer


def test_an_answer_is_asked_once(folder: Path) -> None:
    asked = Asked()
    assert [answers.kept(["host"], asked) for _ in range(3)] == [("znver9", "+new"), *[["znver9", "+new"]] * 2]
    assert asked.count == 1 and len(list(folder.glob("*.answer"))) == 1


def test_another_question_is_another_answer() -> None:
    assert [answers.kept([name], Asked(name)) for name in "aba"] == ["a", "b", "a"]
    assert answers.kept(["b"], Asked()) == "b"


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(cpuid, "identity", lambda: (1, 2, 3)),
        lambda patch: patch.setattr(answers, "_library", lambda: ["elsewhere", [1, 2], [3, 4]]),
        lambda patch: patch.setattr(answers, "FORMAT", answers.FORMAT + 1),
    ],
)
def test_another_processor_or_llvm_is_asked(change: Callable[[pytest.MonkeyPatch], None]) -> None:
    """A container that is moved to another machine, or an upgrade."""
    answers.kept(["host"], Asked("here"))
    with pytest.MonkeyPatch.context() as patch:
        change(patch)
        assert answers.kept(["host"], Asked("there")) == "there"
    assert answers.kept(["host"], Asked("again")) == "here"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data + b" ",
        lambda data: data.replace(b"here", b"hers"),
        lambda data: data.replace(b"host", b"hots"),
        lambda data: signed(b"[" * 200_000),
        lambda data: signed(b'"text"'),
        lambda data: signed(b"[1, 2, 3]"),
        lambda data: signed(json.dumps(["another question", "wrong"]).encode()),
        lambda data: signed(b"\xff\xfe"),
    ],
)
def test_a_damaged_answer_is_asked_again_and_replaced(damage: Callable[[bytes], bytes], folder: Path) -> None:
    answers.kept(["host"], Asked("here"))
    (file,) = folder.glob("*.answer")
    good = file.read_bytes()
    file.write_bytes(damage(good))
    assert answers.kept(["host"], Asked("here")) == "here"
    assert file.read_bytes() == good


def signed(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode() + content


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are others")
def test_what_others_may_have_written_is_not_believed(folder: Path) -> None:
    answers.kept(["host"], Asked("here"))
    (file,) = folder.glob("*.answer")
    file.chmod(0o666)
    assert answers.kept(["host"], Asked("asked")) == "asked"
    folder.chmod(0o777)
    assert answers.kept(["host"], Asked("again")) == "again"


def test_a_folder_that_cannot_be_made_means_asking_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATLED_CACHE_DIR", str(tmp_path / "file"))
    asked = Asked("here")
    assert [answers.kept(["host"], asked) for _ in range(2)] == ["here"] * 2 and asked.count == 2


def test_nothing_is_kept_where_the_processor_or_the_library_is_not_known(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((cpuid, "identity"), (answers, "_library")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, lambda: None)
            assert answers.kept(["host"], Asked("asked")) == "asked"
    assert not folder.exists()


def test_what_is_of_this_moment_alone_is_not_kept(folder: Path) -> None:
    assert answers.kept(["host"], Asked("killed"), holds=lambda answer: answer != "killed") == "killed"
    assert answers.kept(["host"], Asked("here"), holds=lambda answer: answer != "killed") == "here"
    assert answers.kept(["host"], Asked("again")) == "here"


def test_answers_are_cleared_with_the_kernels(folder: Path) -> None:
    answers.kept(["host"], Asked("here"))
    kept_files.clear()
    assert not list(folder.iterdir())


def test_what_is_kept_is_what_llvm_says() -> None:
    for _ in range(2):
        assert processor.host.__wrapped__() == processor._ask_host()
        assert list(processor.versions.__wrapped__()) == processor._ask_versions()
    level = processor.Processor("x86-64", "")
    assert processor.includes(level) and processor.includes(level)


def test_an_installation_is_told_by_the_file_that_is_llvm() -> None:
    import llvmlite

    found = answers._library.__wrapped__()
    assert found is not None and found[0] == os.path.dirname(llvmlite.__file__)
    library = Path(found[0], "binding", "libllvmlite.so").stat()
    assert found[1] == (library.st_size, int(library.st_mtime))


def test_a_library_that_loads_llvm_from_elsewhere_is_asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may exchange that LLVM while this file stays."""
    monkeypatch.setattr(answers, "_LEAST_BYTES", 1 << 40)
    assert answers._library.__wrapped__() is None
