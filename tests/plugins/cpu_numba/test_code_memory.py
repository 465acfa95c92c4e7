"""Objects become code in memory without LLVM: each kind of relocation, no page both written and executed, all freed."""

from __future__ import annotations

import ctypes
import gc
import os
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from atled_cpu_numba import code_memory, elf, elf_image, machine_code, processor
from atled_cpu_numba.elf import ElfError
from atled_cpu_numba.elf_image import PAGE, Image, image_of
from atled_cpu_numba.machine_code import KernelError, ObjectCode
from atled_cpu_numba.store import TransientKernel

pytestmark = pytest.mark.skipif(not code_memory.IS_KNOWN, reason="code is placed by LLVM here")

# Constants, addresses of functions among them, data and zeros that it changes, a function of its own, two of C.
IR = """
declare double @cos(double)
declare i32 @getpid()
@table = private constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
@handlers = private constant [2 x ptr] [ptr @one, ptr @two]
@counter = internal global i64 40
@zeros = internal global [100 x i64] zeroinitializer
define internal i64 @one(i64 %x) noinline {
  %y = mul i64 %x, 3
  ret i64 %y
}
define internal i64 @two(i64 %x) noinline {
  %y = mul i64 %x, 5
  ret i64 %y
}
define i64 @kernel(i64 %block, i64 %part, i64 %parts) {
  %element = getelementptr [4 x double], ptr @table, i64 0, i64 %part
  %x = load double, ptr %element
  %cosine = call double @cos(double %x)
  %scaled = fmul double %cosine, 1.0e6
  %known = fptosi double %scaled to i64
  %handler = getelementptr [2 x ptr], ptr @handlers, i64 0, i64 %part
  %chosen = load ptr, ptr %handler
  %handled = call i64 %chosen(i64 %parts)
  %count = load i64, ptr @counter
  %more = add i64 %count, 1
  store i64 %more, ptr @counter
  %zero = getelementptr [100 x i64], ptr @zeros, i64 0, i64 %parts
  %zero.value = load i64, ptr %zero
  %zero.more = add i64 %zero.value, 1
  store i64 %zero.more, ptr %zero
  %own = call i64 @one(i64 %more)
  %pid = call i32 @getpid()
  %pid.long = zext i32 %pid to i64
  %a = add i64 %known, %handled
  %b = add i64 %a, %zero.more
  %c = add i64 %b, %own
  %d = add i64 %c, %pid.long
  ret i64 %d
}
"""

# What `kernel(0, 1, 7)` gives at the first call, less the number of the process, and at the second.
FIRST, SECOND = -801143 + 5 * 7 + 1 + 3 * 41, -801143 + 5 * 7 + 2 + 3 * 42

COMMON_IR = """
@shared = common global [3 x i64] zeroinitializer, align 64
@other = common global i8 0
define i64 @kernel(i64 %block, i64 %part, i64 %parts) {
  store volatile i64 %part, ptr @shared
  store volatile i8 1, ptr @other
  %x = load volatile i64, ptr @shared
  %address = ptrtoint ptr @shared to i64
  %rest = and i64 %address, 63
  %sum = add i64 %x, %rest
  ret i64 %sum
}
"""

SMALL = "define i64 @kernel(i64 %block, i64 %part, i64 %parts) {\n %a = add i64 %part, %parts\n ret i64 %a\n}"


BIG_IR = "@big = global [70000 x i8] zeroinitializer\n" + SMALL
THREAD_IR = "@t = thread_local global i64 0\n" + SMALL


def written(ir: str, model: str = "large", relocation: str = "static") -> bytes:
    llvm: Any = processor.llvm_binding()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(codemodel=model, reloc=relocation, opt=2)
    return bytes(machine.emit_object(llvm.parse_assembly(ir)))


@pytest.fixture
def placed() -> Iterator[Callable[[bytes], Callable[..., int]]]:
    """A function that places an object and gives its kernel, whose memory is freed at the end of the test."""
    pieces = []

    def place(code: bytes) -> Callable[..., int]:
        image = image_of(code, "kernel")
        address = code_memory.place(image)
        pieces.append((address, image.size))
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(address + image.entry)

    yield place
    for piece in pieces:
        code_memory.free(*piece)


def mapped(address: int) -> str:
    """The permissions of the memory at an address, such as "r-xp"; "" where there is none."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as lines:
        for line in lines:
            span, permissions, *_ = line.split()
            begin, end = (int(each, 16) for each in span.split("-"))
            if begin <= address < end:
                return permissions
    return ""


def kinds(code: bytes) -> set[tuple[int, bool]]:
    """Kinds of the relocations of an object, and whether they are of what the process has."""
    found = elf.parsed(code, "kernel")
    return {(each.kind, found.symbols[each.symbol].section == elf.UNDEFINED) for each in found.relocations}


@pytest.mark.parametrize(
    ("model", "relocation", "has"),
    [
        ("large", "static", {(1, False), (1, True)}),  # as kernels are written: words of 64 bits
        ("small", "pic", {(1, False), (2, False), (4, True)}),  # PC32, and PLT32 to functions of C
        ("medium", "static", {(1, False), (4, True)}),
    ],
)
def test_code_of_each_model_runs(model: str, relocation: str, has: set[tuple[int, bool]], placed: Any) -> None:
    code = written(IR, model, relocation)
    assert has <= kinds(code)
    kernel = placed(code)
    assert [kernel(0, 1, 7) - os.getpid() for _ in range(2)] == [FIRST, SECOND]


def test_each_copy_has_data_of_its_own(placed: Any) -> None:
    code = written(IR)
    for kernel in (placed(code), placed(code)):
        assert kernel(0, 1, 7) - os.getpid() == FIRST


def test_common_symbols_are_zeros_that_may_be_written(placed: Any) -> None:
    assert placed(written(COMMON_IR))(0, 5, 0) == 5


def relocated(kind: int, of_process: bool, addend: int | None = None, offset: int | None = None) -> bytes:
    """An object in which a relocation of that sort is made one of another kind, or with another addend or place."""
    code = bytearray(written(IR, "small", "pic"))
    found = elf.parsed(bytes(code), "kernel")
    for section in found.sections:
        if section.kind != 4 or not found.sections[section.info].flags & 4:  # SHT_RELA of code
            continue
        for at in range(section.offset, section.offset + section.size, 24):
            where, information, present = struct.unpack_from("<QQq", code, at)
            if (found.symbols[information >> 32].section == elf.UNDEFINED) == of_process:
                new = information >> 32 << 32 | kind
                struct.pack_into(
                    "<QQq", code, at, where if offset is None else offset, new, present if addend is None else addend
                )
                return bytes(code)
    raise AssertionError("no such relocation")


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        (lambda: written(IR, "small", "static"), "relocation 11"),  # 32S: addresses in the lowest 2 GiB
        (lambda: relocated(10, False), "relocation 10"),
        (lambda: relocated(9, False), "relocation 9"),  # GOTPCREL
        (lambda: relocated(2, True), "out of reach"),
        (lambda: relocated(4, True, addend=0), "into the middle"),
        (lambda: relocated(2, False, addend=1 << 40), "far outside"),
        (lambda: relocated(2, False, addend=-(1 << 63)), "far outside"),
        (lambda: relocated(2, False, offset=1 << 40), "a relocation outside"),
        (lambda: relocated(2, False, offset=2**64 - 2), "a relocation outside"),
        (lambda: written(THREAD_IR), "of another kind"),
        (lambda: written(BIG_IR), "zeros"),
        (lambda: written(SMALL.replace("@kernel", "@other")), "does not define 'kernel'"),
    ],
)
def test_what_would_be_misplaced_is_refused(code: Callable[[], bytes], wrong: str) -> None:
    with pytest.raises(ElfError, match=wrong):
        image_of(code(), "kernel")
    assert not machine_code.is_loadable(ObjectCode(code(), "kernel", ()))


def test_two_relocations_of_one_word_are_refused() -> None:
    code = bytearray(written(IR))
    found = elf.parsed(bytes(code), "kernel")
    table = next(section for section in found.sections if section.kind == 4 and found.sections[section.info].flags & 4)
    (first,) = struct.unpack_from("<Q", code, table.offset)
    struct.pack_into("<Q", code, table.offset + 24, first + 4)
    with pytest.raises(ElfError, match="of one word"):
        image_of(bytes(code), "kernel")


def test_a_kernel_with_variables_of_threads_is_refused_when_it_is_compiled() -> None:
    with pytest.raises(KernelError, match=r"cannot be placed in memory: .* look for variables of threads"):
        machine_code.compile_ir("kernel", THREAD_IR)


def test_no_page_is_both_written_and_executed() -> None:
    seen = []
    library = code_memory._library()

    class Watched:
        mmap, munmap = library.mmap, library.munmap

        def mprotect(self, address: int, size: int, permissions: int) -> int:
            seen.append(mapped(address))
            return int(library.mprotect(address, size, permissions))

    image = image_of(written(IR), "kernel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_memory, "_library", Watched)
        address = code_memory.place(image)
    assert seen == ["rw-p"]
    assert mapped(address) == "r-xp" and mapped(address + image.writable) == "rw-p"
    assert mapped(address + image.size - 1) == "rw-p"
    code_memory.free(address, image.size)


def test_freed_memory_is_given_back() -> None:
    image = image_of(written(IR), "kernel")
    address = code_memory.place(image)
    code_memory.free(address, image.size)
    # Threads of other libraries may map something there, but no code of one page.
    assert mapped(address) != "r-xp"


def test_a_system_that_refuses_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    given, returned = [], []
    library = code_memory._library()

    class Refusing:
        def mmap(self, *arguments: Any) -> int:
            given.append(int(library.mmap(*arguments)))
            return given[-1]

        def munmap(self, address: int, size: int) -> int:
            returned.append(address)
            return int(library.munmap(address, size))

        def mprotect(self, *arguments: Any) -> int:
            ctypes.set_errno(13)
            return -1

    monkeypatch.setattr(code_memory, "_library", Refusing)
    with pytest.raises(OSError, match=r"refuses to make memory executable .* allow that"):
        code_memory.place(Image(b"\xc3", PAGE, PAGE, 0, (), ()))
    assert len(given) == 1 and returned == given


def test_a_function_that_is_not_there_is_an_error_before_memory_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_memory, "_mapped", lambda size: pytest.fail("took memory"))
    image = image_of(written(SMALL + "\ndeclare void @no_such_function()\n@p = global ptr @no_such_function"), "kernel")
    with pytest.raises(AttributeError, match="no_such_function"):
        code_memory.place(image)


def test_transient_code_goes_with_its_owner_and_other_code_stays() -> None:
    kernel = TransientKernel("kernel", SMALL)
    address = kernel.address()
    stays = machine_code.load(machine_code.compile_ir("kernel", SMALL))
    assert mapped(address) == "r-xp"
    del kernel
    gc.collect()
    assert mapped(address) != "r-xp" or address & -PAGE == stays & -PAGE
    assert mapped(stays) == "r-xp"


def test_a_forked_child_runs_the_code_of_its_parent_and_its_own(placed: Any) -> None:
    code = written(IR)
    kernel = placed(code)
    kernel(0, 1, 7)
    child = os.fork()
    if not child:  # which must not go on with the tests
        try:
            image = image_of(code, "kernel")
            own = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(code_memory.place(image) + image.entry)
            right = kernel(0, 1, 7) - os.getpid() == SECOND and own(0, 1, 7) - os.getpid() == FIRST
        finally:
            os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert kernel(0, 1, 7) - os.getpid() == SECOND  # the child's copy of the data is its own


def test_threads_place_and_free_at_once() -> None:
    code = written(IR)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(50):
                image = image_of(code, "kernel")
                address = code_memory.place(image)
                kernel = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(address + image.entry)
                assert kernel(0, 1, 7) - os.getpid() == FIRST
                code_memory.free(address, image.size)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_elsewhere_llvm_places_the_code_and_frees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_memory, "IS_KNOWN", False)
    monkeypatch.setattr(code_memory, "place", lambda image: pytest.fail("placed here"))
    compiled = machine_code.compile_ir("kernel", IR)
    assert machine_code.is_loadable(compiled)

    class Owner:
        """Of the code."""

    owner, before = Owner(), machine_code.transient_bytes()
    for address in (machine_code.load(compiled), machine_code.load(compiled, owner)):
        kernel = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(address)
        assert kernel(0, 1, 7) - os.getpid() == FIRST
    assert machine_code.transient_bytes() > before
    del owner
    assert machine_code.transient_bytes() == before


def test_every_object_of_the_package_has_an_image() -> None:
    """In particular those of kernels with tables of addresses, frames of exceptions, and functions of C."""
    import lzma

    from atled_cpu_numba import object_files, shipped_objects

    archive = shipped_objects.decode(Path(shipped_objects.ARCHIVE).read_bytes())
    for members in archive.objects.values():
        for key, member in members.items():
            compiled = object_files.decoded(lzma.decompress(member), key)
            assert compiled is not None
            image = elf_image.image_of(compiled.code, compiled.symbol)
            assert {each.name for each in image.outside} == set(compiled.undefined)
