"""Compiled kernels are kept, found again, and never stale or damaged."""

from __future__ import annotations

import ctypes
import errno
import gc
import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_cpu_numba import facts, kept_files, machine_code, object_files, progress, store
from atled_cpu_numba.machine_code import ObjectCode
from atled_cpu_numba.store import IRKernel, Kernel, KernelError, StoreWarning, TransientKernel, set_progress, warm
from forked import ignores_fork, in_child, needs_fork

SUM_IR = "define i64 @sum(i64 %block, i64 %part, i64 %parts) {\n %a = add i64 %part, %parts\n ret i64 %a\n}"
OTHER_IR = SUM_IR.replace("add", "mul")

# With a loop's table, constants and a call: relocations of several kinds.
TABLE_IR = """
declare double @sqrt(double)
@table = private constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
define double @root(i64 %i, double %x) {
 %p = getelementptr [4 x double], ptr @table, i64 0, i64 %i
 %c = load double, ptr %p
 %y = call double @sqrt(double %x)
 %z = fmul double %y, %c
 ret double %z
}"""

only_elf = pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="of another format, which is not examined")
posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners and permissions are others")

# A program of its own, so that its process starts without numba: prints the kernel's results and whether numba came in.
ROUND_TRIP = """
import ctypes, sys
from atled_cpu_numba.store import Kernel
assert "llvmlite" not in sys.modules and "numba" not in sys.modules

def build():
    from numba import carray
    from atled_cpu_numba.codegen import bytes8, call3, float64_of_bits, floats32, floats64, ints64, words

    def scale(block, part, parts):
        w = words(block)
        if w[0] < 0:
            return 3
        if part:
            return call3(w[5], block, 0, 1)
        x, y, flags = floats32(w[1]), floats64(w[2]), bytes8(w[4])
        for i in range(w[0]):
            y[i] = x[i] * float64_of_bits(w[3]) + ints64(w[2])[i] + flags[i]
        return 0

    return scale

kernel = Kernel("scale", build, parameters=("float32", 1))
run = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(kernel.address())
x, y, flags = (ctypes.c_float * 3)(1, 2, 3), (ctypes.c_double * 3)(), (ctypes.c_uint8 * 3)(0, 0, 255)
factor = ctypes.c_int64.from_buffer(ctypes.c_double(0.5)).value
block = (ctypes.c_int64 * 6)(3, *map(ctypes.addressof, (x, y)), factor, ctypes.addressof(flags), kernel.address())
status = [run(ctypes.addressof(block), part, 2) for part in (0, 1)]
block[0] = -1
status.append(run(ctypes.addressof(block), 0, 2))
print(status[0], status[2], [v != 0 for v in y], "numba" in sys.modules)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty store; whether this process has warned or trimmed is forgotten."""
    store._machine()  # once per process: what LLVM says for it would be files of this folder
    monkeypatch.setenv("ATLED_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(object_files, "_warned", False)
    monkeypatch.setattr(kept_files, "_trimmed", False)
    yield tmp_path / "cpu-numba"
    set_progress(None)


def call(kernel: IRKernel | Kernel, part: int, parts: int) -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(kernel.address())(0, part, parts))


def start_python(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(*processes: subprocess.Popen[str]) -> str:
    """Wait for all of them before any can fail the test; returns what they printed."""
    results = [(*process.communicate(timeout=60), process.returncode) for process in processes]
    for _, errors, code in results:
        assert code == 0, errors
    return "".join(output for output, _, _ in results)


@pytest.fixture
def compile_count(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the IR kernels compiled so far."""
    names: list[str] = []
    compile_ir = machine_code.compile_ir

    def counted(name: str, ir: str, **options: Any) -> ObjectCode:
        names.append(name)
        return compile_ir(name, ir, **options)

    monkeypatch.setattr(machine_code, "compile_ir", counted)
    return names


def test_a_stored_kernel_loads_without_numba(tmp_path: Path, folder: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(ROUND_TRIP)
    assert finish(start_python(str(script))).split("]")[1].strip() == "True"
    (stored,) = folder.glob("*.o")
    content = stored.read_bytes()
    assert finish(start_python(str(script))) == "0 3 [True, True, True] False\n"
    assert stored.read_bytes() == content


def test_an_ir_kernel_is_compiled_once(compile_count: list[str]) -> None:
    assert call(IRKernel("sum", SUM_IR), 3, 4) == 7
    assert call(IRKernel("sum", SUM_IR), 3, 5) == 8
    assert compile_count == ["sum"]


def test_threads_compile_a_kernel_once(compile_count: list[str]) -> None:
    kernel = IRKernel("sum", SUM_IR)
    addresses: list[int] = []
    threads = [threading.Thread(target=lambda: addresses.append(kernel.address())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(addresses) == 8 and len(set(addresses)) == 1
    assert compile_count == ["sum"]


def test_kernels_may_be_made_while_those_that_there_are_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> Any:
        raise AssertionError("it is not compiled")

    first, late = Kernel("first", build), []
    files_of = store._build_files

    def files_while_another_thread_imports(build: Any) -> list[str]:
        late.append(Kernel("late", build))
        return files_of(build)

    monkeypatch.setattr(store, "_build_files", files_while_another_thread_imports)
    assert first in store.registered(str(Path(__file__).parent))


def test_processes_that_compile_at_once_agree(folder: Path) -> None:
    program = f"""
import ctypes
from atled_cpu_numba.store import IRKernel
for i in range(12):
    ir = {SUM_IR!r}.replace("add i64 %part,", f"add i64 {{i}},")
    assert ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(IRKernel("sum", ir).address())(0, 0, 5) == i + 5
"""
    finish(*(start_python("-c", program) for _ in range(4)))
    names = sorted(path.name for path in folder.iterdir() if path.suffix != ".answer")
    assert len(names) == 12 and all(name.endswith(".o") for name in names)
    assert all(object_files.read(name.removesuffix(".o")) is not None for name in names)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:20],
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
        lambda data: data[:-50] + bytes([data[-50] ^ 128]) + data[-49:],
        lambda data: b"\x7fELF" + data[4:],
    ],
)
def test_a_damaged_file_is_compiled_again(damage: Any, folder: Path, compile_count: list[str]) -> None:
    call(IRKernel("sum", SUM_IR), 1, 1)
    (stored,) = folder.iterdir()
    good = stored.read_bytes()
    stored.write_bytes(damage(good))
    assert call(IRKernel("sum", SUM_IR), 1, 2) == 3
    assert compile_count == ["sum", "sum"]
    assert len(stored.read_bytes()) == len(good) and object_files.read(stored.stem) is not None


def test_a_file_under_the_wrong_key_is_not_loaded(folder: Path) -> None:
    wrong, right = IRKernel("sum", SUM_IR), IRKernel("sum", OTHER_IR)
    wrong.address()
    (folder / f"{wrong.fingerprint()}.o").rename(folder / f"{right.fingerprint()}.o")
    assert call(right, 3, 5) == 15


def test_a_file_that_needs_what_this_process_lacks_is_compiled_again(compile_count: list[str]) -> None:
    kernel = IRKernel("sum", SUM_IR)
    object_files.write(kernel.fingerprint(), "sum", ObjectCode(b"", "sum", ("numba_no_such_function",)))
    assert call(kernel, 1, 2) == 3
    assert compile_count == ["sum"]


def forged(good: bytes, **changes: Any) -> bytes:
    """A stored file whose digest is right, with another header or another object."""
    (length,) = struct.unpack_from("<I", good, 40)
    header = changes.get("header", good[44 : 44 + length])
    content = struct.pack("<I", changes.get("length", len(header))) + header + changes.get("code", good[44 + length :])
    return b"ATLEDOBJ" + hashlib.sha256(content).digest() + content


def code_of(good: bytes) -> bytes:
    return good[44 + struct.unpack_from("<I", good, 40)[0] :]


def patched(code: bytes, at: int, form: str, value: int) -> bytes:
    changed = bytearray(code)
    struct.pack_into("<" + form, changed, at, value)
    return bytes(changed)


FORGERIES = {
    "no header": lambda good: forged(good, header=b"", length=0),
    "a header of all": lambda good: forged(good, length=0xFFFFFFFF),
    "no JSON": lambda good: forged(good, header=b"{" * 20),
    "endless JSON": lambda good: forged(good, header=b"[" * 200_000),
    "JSON of another kind": lambda good: forged(good, header=b'["key"]'),
    "a symbol that is a number": lambda good: forged(
        good, header=json.dumps({**json.loads(good[44 : len(good) - len(code_of(good))]), "symbol": 3}).encode()
    ),
    "another symbol": lambda good: forged(
        good, header=json.dumps({**json.loads(good[44 : len(good) - len(code_of(good))]), "symbol": "nope"}).encode()
    ),
    "no object": lambda good: forged(good, code=b""),
    "an object of other bytes": lambda good: forged(good, code=b"MZ" + bytes(400)),
    "half an object": lambda good: forged(good, code=code_of(good)[:150]),
    "an object cut off by a byte": lambda good: forged(good, code=code_of(good)[:-1]),
    "another machine": lambda good: forged(good, code=patched(code_of(good), 18, "H", 243)),
    "sections far away": lambda good: forged(good, code=patched(code_of(good), 40, "Q", 1 << 60)),
    "too many sections": lambda good: forged(good, code=patched(code_of(good), 60, "H", 0xFE00)),
}


@only_elf
@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_file_is_compiled_again(forgery: str, folder: Path, compile_count: list[str]) -> None:
    call(IRKernel("sum", SUM_IR), 1, 1)
    (stored,) = folder.iterdir()
    stored.write_bytes(FORGERIES[forgery](stored.read_bytes()))
    assert call(IRKernel("sum", SUM_IR), 1, 2) == 3
    assert compile_count == ["sum", "sum"]


@only_elf
@pytest.mark.parametrize("by_llvm", [False, True])
def test_no_wrong_table_of_an_object_reaches_the_loader(by_llvm: bool) -> None:
    """Each byte outside of the code itself is changed; what is taken for sound is loaded, in a process of its own."""
    program = """
import struct, sys, pathlib
from atled_cpu_numba import code_memory, machine_code
from atled_cpu_numba.machine_code import ObjectCode
ir = sys.argv[1]
if sys.argv[2] == "True":
    code_memory.IS_KNOWN = False
good = machine_code.compile_ir("root", ir)
assert machine_code.is_loadable(good)
code = good.code
at, = struct.unpack_from("<Q", code, 40)
count, = struct.unpack_from("<H", code, 60)
kept = set()
for number in range(count):
    kind, flags, _, offset, size = struct.unpack_from("<IQQQQ", code, at + 64 * number + 4)
    if flags & 2:  # SHF_ALLOC: code, constants and frames
        kept |= set(range(offset, offset + size))
loaded = 0
for place in range(len(code)):
    for change in (1, 0x80, 0xFF):
        if place not in kept:
            changed = ObjectCode(code[:place] + bytes([code[place] ^ change]) + code[place + 1 :], "root", ())
            if machine_code.is_loadable(changed):
                loaded += 1
                try:
                    machine_code.load(changed)
                except RuntimeError:
                    pass
print(loaded)
"""
    assert int(finish(start_python("-c", program, TABLE_IR, str(by_llvm)))) > 0


@posix
@pytest.mark.parametrize(("mode", "who"), [(0o777, "everybody"), (0o1777, "everybody"), (0o770, "group")])
def test_a_folder_that_others_may_write_into_is_not_used(
    mode: int, who: str, folder: Path, compile_count: list[str]
) -> None:
    IRKernel("sum", SUM_IR).address()
    folder.chmod(mode)
    with pytest.warns(StoreWarning, match=rf"folder .* can be written by {who}.*chmod go-w") as caught:
        assert call(IRKernel("sum", SUM_IR), 1, 2) == 3
        assert call(IRKernel("sum", OTHER_IR), 4, 2) == 8
    assert len(caught) == 1 and compile_count == ["sum"] * 3
    assert len(list(folder.iterdir())) == 1
    folder.chmod(0o755)
    assert call(IRKernel("sum", SUM_IR), 1, 2) == 3
    assert compile_count == ["sum"] * 3


@posix
def test_a_folder_of_another_user_is_not_used(
    folder: Path, compile_count: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    IRKernel("sum", SUM_IR).address()
    user = os.getuid()
    os_stat = os.stat

    def elsewhere(path: Any, **options: Any) -> Any:
        status = os_stat(path, **options)
        return os.stat_result((*status[:4], user + 1, *status[5:10])) if Path(path) == folder else status

    monkeypatch.setattr(os, "stat", elsewhere)
    with pytest.warns(StoreWarning, match=rf"belongs to user {user + 1}, and this is user {user}.*ATLED_CACHE_DIR"):
        assert call(IRKernel("sum", SUM_IR), 1, 2) == 3
    assert compile_count == ["sum", "sum"]


@posix
def test_a_file_that_others_may_write_is_compiled_again_and_replaced(folder: Path, compile_count: list[str]) -> None:
    IRKernel("sum", SUM_IR).address()
    (stored,) = folder.iterdir()
    stored.chmod(0o666)
    assert not IRKernel("sum", SUM_IR).is_stored()
    with pytest.warns(StoreWarning, match="file .* can be written by everybody"):
        assert call(IRKernel("sum", SUM_IR), 1, 2) == 3
    assert stored.stat().st_mode & 0o077 == 0
    assert call(IRKernel("sum", SUM_IR), 1, 2) == 3
    assert compile_count == ["sum", "sum"]


@posix
def test_a_link_a_pipe_and_a_giant_are_replaced_by_compiled_kernels(
    folder: Path, tmp_path: Path, compile_count: list[str]
) -> None:
    IRKernel("sum", SUM_IR).address()
    (stored,) = folder.iterdir()
    stored.rename(tmp_path / "elsewhere")
    stored.symlink_to(tmp_path / "elsewhere")
    assert call(IRKernel("sum", SUM_IR), 1, 2) == 3
    stored.unlink()
    os.mkfifo(stored, 0o600)
    assert call(IRKernel("sum", SUM_IR), 1, 2) == 3
    os.truncate(stored, 1 << 40)
    assert call(IRKernel("sum", SUM_IR), 1, 2) == 3
    assert compile_count == ["sum"] * 4
    assert stored.is_file() and not stored.is_symlink() and stored.stat().st_size < 10_000


def test_a_folder_in_the_place_of_a_file_means_one_warning(folder: Path) -> None:
    kernel = IRKernel("sum", SUM_IR)
    (folder / f"{kernel.fingerprint()}.o").mkdir(mode=0o700, parents=True)
    folder.chmod(0o700)
    with pytest.warns(StoreWarning, match="cannot keep") as caught:
        assert call(kernel, 1, 2) == 3
    assert len(caught) == 1
    assert [path.name for path in folder.iterdir()] == [f"{kernel.fingerprint()}.o"]


def test_a_folder_that_cannot_be_made_means_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ATLED_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(StoreWarning, match="ATLED_CACHE_DIR") as caught:
        assert call(IRKernel("sum", SUM_IR), 1, 2) == 3
        assert call(IRKernel("sum", OTHER_IR), 4, 2) == 8
    assert len(caught) == 1 and issubclass(StoreWarning, RuntimeWarning)


def test_a_full_disk_means_one_warning_and_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.warns(StoreWarning, match="No space left"):
        assert call(IRKernel("sum", SUM_IR), 1, 2) == 3
    assert list(folder.iterdir()) == []


def test_a_read_only_folder_serves_what_it_has(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    IRKernel("sum", SUM_IR).address()
    monkeypatch.setattr(os, "access", lambda *arguments: False)  # root may write whatever the permissions say
    monkeypatch.setattr(os, "utime", lambda *arguments: pytest.fail("wrote into a read-only folder"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert call(IRKernel("sum", SUM_IR), 1, 2) == 3


def test_doctor_tells_where_kernels_cannot_be_kept(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert facts.facts()["cache"] == kept_files.folder() == str(folder)
    kept = rf"{re.escape(kept_files.folder())}, where no further kernels can be kept: "
    if os.name != "nt":
        folder.mkdir()
        folder.chmod(0o777)
        assert re.match(f"{kept}folder .* can be written by everybody; .*chmod go-w", facts.facts()["cache"])
        folder.chmod(0o700)
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *arguments: False)  # root may write whatever the permissions say
        assert re.match(f"{kept}.* cannot be written to; set ATLED_CACHE_DIR", facts.facts()["cache"])
    (tmp_path / "file").touch()
    monkeypatch.setenv("ATLED_CACHE_DIR", str(tmp_path / "file"))
    assert "cannot be written to" in facts.facts()["cache"]
    monkeypatch.setenv("ATLED_CACHE_DIR", str(tmp_path / "not" / "yet" / "there"))
    assert facts.facts()["cache"] == kept_files.folder()


def test_a_file_that_another_process_removes_as_it_is_read_counts_as_read(
    folder: Path, compile_count: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    IRKernel("sum", SUM_IR).address()

    def removed(path: str) -> None:
        os.unlink(path)
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)

    monkeypatch.setattr(os, "utime", removed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert call(IRKernel("sum", SUM_IR), 1, 2) == 3
    assert compile_count == ["sum"]
    assert list(folder.iterdir()) == []


def test_the_longest_unused_files_go_when_the_folder_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = ObjectCode(b"x" * 1000, "f", ())
    for age, key in ((3, "oldest"), (2, "used"), (1, "newest")):
        object_files.write(key, "f", compiled)
        os.utime(folder / f"{key}.o", (1e9 - age, 1e9 - age))
    (folder / "half.tmp").write_bytes(b"x")
    os.utime(folder / "half.tmp", (1e9, 1e9))
    object_files.read("used")
    monkeypatch.setattr(kept_files, "_trimmed", False)
    monkeypatch.setattr(kept_files, "LIMIT_BYTES", 2500)
    object_files.write("last", "f", compiled)
    assert sorted(path.name for path in folder.iterdir()) == ["last.o", "used.o"]


def test_a_file_that_windows_does_not_remove_stays_without_a_word(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = ObjectCode(b"x" * 1000, "f", ())
    for key in ("read_by_another", "last"):
        monkeypatch.setattr(kept_files, "_trimmed", False)
        monkeypatch.setattr(kept_files, "LIMIT_BYTES", 0)
        with warnings.catch_warnings(), monkeypatch.context() as system:
            warnings.simplefilter("error")
            system.setattr(os, "unlink", _in_use)
            object_files.write(key, "f", compiled)
    assert sorted(path.name for path in folder.iterdir()) == ["last.o", "read_by_another.o"]


def _in_use(path: str) -> None:
    raise PermissionError(errno.EACCES, "The process cannot access the file", path)


def test_clear_empties_the_store(folder: Path) -> None:
    IRKernel("sum", SUM_IR).address()
    kept_files.clear()
    assert list(folder.iterdir()) == []


def build_nothing() -> Any:
    raise AssertionError("nothing to compile here")


def test_the_key_follows_from_everything_that_the_code_depends_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source.py"
    source.write_text("a = 1")
    keys = [
        Kernel("k", build_nothing).fingerprint(),
        Kernel("l", build_nothing).fingerprint(),
        Kernel("k", build_nothing, parameters=(1,)).fingerprint(),
        Kernel("k", build_nothing, parameters=("1",)).fingerprint(),
        Kernel("k", build_nothing, parameters=((1, "float32"), None)).fingerprint(),
        Kernel("k", build_nothing, sources=(str(source),)).fingerprint(),
        Kernel("k", build_nothing, sources=("atled_cpu_numba.store",)).fingerprint(),
        IRKernel("k", SUM_IR).fingerprint(),
        IRKernel("k", OTHER_IR).fingerprint(),
        IRKernel("k", OTHER_IR, python_api=True).fingerprint(),
    ]
    changed = tmp_path / "changed.py"  # another path: what was read of a file stays known for the life of a process
    changed.write_text("a = 2")
    keys.append(Kernel("k", build_nothing, sources=(str(changed),)).fingerprint())
    assert len(set(keys)) == len(keys)
    assert keys[2] == Kernel("k", build_nothing, parameters=(1,)).fingerprint()


def test_the_key_follows_from_numbas_settings() -> None:
    program = (
        "from atled_cpu_numba.store import Kernel; from atled_cpu_numba import codegen as c; "
        "print(Kernel('k', c._pointer_cast).fingerprint())"
    )
    plain = finish(start_python("-c", program))
    os.environ["NUMBA_OPT"] = "1"
    try:
        assert finish(start_python("-c", program)) != plain
    finally:
        del os.environ["NUMBA_OPT"]


@pytest.mark.parametrize("value", [object(), {"a": 1}, (1, [2]), b"x"])
def test_parameters_without_a_stable_text_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be part of a key"):
        Kernel("k", build_nothing, parameters=(value,))


def test_a_kernel_that_raises_is_refused_when_it_is_compiled(folder: Path) -> None:
    def build() -> Any:
        def raises(block: int, part: int, parts: int) -> int:
            if block > 3:
                raise ValueError
            return 0

        return raises

    with pytest.raises(KernelError, match=r"'raises'.*numba_.*neither raise nor allocate"):
        Kernel("raises", build).address()
    assert not folder.exists()


def test_a_kernel_names_its_own_options() -> None:
    def build() -> Any:
        def divides(block: int, part: int, parts: int) -> int:
            return block // part

        divides.jit_options = {"error_model": "python"}  # type: ignore[attr-defined]  # numba checks the divisor then
        return divides

    with pytest.raises(KernelError, match="numba_"):
        Kernel("divides", build).address()


def test_a_ready_cfunc_is_taken_as_it_is() -> None:
    def build() -> Any:
        from numba import cfunc, types

        @cfunc(types.int64(types.int64, types.int64, types.int64), error_model="numpy")
        def product(block: int, part: int, parts: int) -> int:
            return part * parts

        return product

    assert call(Kernel("product", build), 6, 7) == 42


def test_what_numba_refuses_is_a_kernel_error() -> None:
    def build() -> Any:
        def wrong(block: int, part: int, parts: int) -> int:
            return block.no_such_attribute  # type: ignore[attr-defined, no-any-return]  # the point of the test

        return wrong

    with pytest.raises(KernelError, match="'wrong'") as caught:
        Kernel("wrong", build).address()
    assert "no_such_attribute" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("name", "ir", "message"),
    [
        ("f", "define i64 @f( {", "refuses its IR"),
        ("g", SUM_IR, "no function of that name"),
        ("f", "declare i64 @nowhere()\ndefine i64 @f() {\n %a = call i64 @nowhere()\n ret i64 %a\n}", "nowhere"),
        (
            "f",
            "declare i32 @PyErr_CheckSignals()\ndefine i32 @f() {\n %a = call i32 @PyErr_CheckSignals()\n ret i32 %a }",
            "interpreter lock",
        ),
    ],
)
def test_wrong_ir_is_a_kernel_error(name: str, ir: str, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        IRKernel(name, ir).address()


def test_ir_may_call_the_c_library() -> None:
    ir = "declare double @sqrt(double)\ndefine double @root(double %x) {\n"
    kernel = IRKernel("root", ir + " %y = call double @sqrt(double %x)\n ret double %y\n}")
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(kernel.address())(9.0) == 3.0


def test_warm_compiles_what_is_missing_and_reports_progress(compile_count: list[str]) -> None:
    ir = "define i64 @{0}(i64 %block, i64 %part, i64 %parts) {{\n ret i64 0\n}}"
    kernels = [IRKernel(name, ir.format(name)) for name in "abc"]
    IRKernel("b", ir.format("b")).address()
    compile_count.clear()
    reports: list[tuple[int, int, str]] = []
    set_progress(lambda done, total, name: reports.append((done, total, name)))
    warm(kernels)
    assert compile_count == ["a", "c"]
    assert reports == [(0, 2, "a"), (1, 2, "c"), (2, 2, "c")]
    warm(kernels)
    assert len(reports) == 3


def test_a_single_kernel_reports_progress_too() -> None:
    reports: list[tuple[int, int, str]] = []
    set_progress(lambda done, total, name: reports.append((done, total, name)))
    IRKernel("sum", SUM_IR).address()
    assert reports == [(0, 1, "sum"), (1, 1, "sum")]


def test_a_long_wait_is_told_once_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        def __init__(self) -> None:
            self.lines: list[str] = []
            self.told = threading.Event()

        def write(self, text: str) -> None:
            self.lines.append(text)
            self.told.set()

        def flush(self) -> None:
            pass

    stream = Stream()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    monkeypatch.setattr(progress, "_told", set())
    with progress.compiling("a"):
        assert stream.told.wait(10)
    with progress.compiling("b"):
        pass
    assert len(stream.lines) == 1 and stream.lines[0].startswith("atled: compiling cpu kernels")


def test_the_platforms_cache_folder_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ATLED_CACHE_DIR")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert kept_files.folder() == str(tmp_path / "x" / "atled" / "cpu-numba")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "h"))
    assert kept_files.folder() == str(tmp_path / "h" / ".cache" / "atled" / "cpu-numba")


def test_without_a_home_folder_there_is_no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ATLED_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it gives where it finds none
    with pytest.raises(RuntimeError, match="no home folder"):
        kept_files.folder()


def test_code_of_a_transient_kernel_is_freed_with_it():
    before = machine_code.transient_bytes()
    kernel = TransientKernel("sum", SUM_IR)
    assert call(kernel, 1, 2) == 3
    assert machine_code.transient_bytes() > before and not kernel.ir
    del kernel
    assert machine_code.transient_bytes() == before


def test_a_plan_holds_the_code_of_its_formulas():
    with nn.context_scope(nn.Context("cpu")):
        x = nn.Variable.from_numpy_array(np.full((4, 3), 0.25, np.float32))
        y = F.cos(F.sigmoid(F.tan(x)))
        z = F.sum(F.asin(F.sigmoid(x)), axis=1)  # the sum has the formula computed on ranges
        y.forward(), z.forward()
        expected = y.d.copy(), z.d.copy()
        for _ in range(2):
            nn.clear_memory_cache()
            gc.collect()
            assert machine_code.transient_bytes() > 0
            y.forward(), z.forward()
            np.testing.assert_array_equal(y.d, expected[0])
            np.testing.assert_array_equal(z.d, expected[1])


def test_code_that_threads_are_in_is_not_freed():
    x = nn.NdArray.from_numpy_array(np.full(20_000, 0.5, np.float32))  # large enough for the lock to be given away
    expected = np.tanh(np.float32(0.5))
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while not done.is_set():
                np.testing.assert_allclose(F.tanh(x).data, expected, rtol=1e-6)
        except BaseException as error:
            failures.append(error)

    done = threading.Event()
    threads = [threading.Thread(target=nn.bind(work)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        nn.clear_memory_cache()
    done.set()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_system_out_of_threads_compiles_and_tells_so_at_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(progress, "_told", set())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert call(IRKernel("sum", SUM_IR), 1, 2) == 3
    assert "compiling cpu kernels" in capfd.readouterr().err


class _Slow(IRKernel):
    """A kernel in whose compilation there is time for a fork: LLVM's lock is held meanwhile."""

    __slots__ = ("begun",)

    def _compile(self) -> ObjectCode:
        from llvmlite.binding import ffi

        with ffi.lib._lock:
            self.begun.set()
            threading.Event().wait(0.5)  # until the fork is made, or waits; longer would only make the test slower
            return super()._compile()


@needs_fork
@ignores_fork
def test_a_fork_waits_for_what_another_thread_compiles() -> None:
    slow = _Slow("sum", SUM_IR)
    slow.begun = threading.Event()
    thread = threading.Thread(target=slow.address)
    thread.start()
    assert slow.begun.wait(20)

    def compile_another() -> None:
        assert IRKernel("sum", OTHER_IR).address()

    in_child(compile_another)
    thread.join()
    assert slow.address()
