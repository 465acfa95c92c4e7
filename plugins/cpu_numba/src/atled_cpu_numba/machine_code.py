"""Kernels as object code: bytes that numba or LLVM compile, and what turns them into addresses.

That is this package itself on Linux with x86-64 (`elf_image`, `code_memory`), so that a process in which nothing is to
be compiled never loads LLVM; elsewhere it is LLVM's own loader.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from atled.plugin import NamedTuple
from atled_cpu_numba import code_memory, elf, other_objects, processor
from atled_cpu_numba.elf_image import Image, image_of


class KernelError(RuntimeError):
    """A kernel could not be compiled, or its code cannot be loaded."""


class ObjectCode(NamedTuple):
    """Compiled code of one kernel, not yet loaded.

    code: an object file in the platform's format.  symbol: the kernel's name in it.
    undefined: names that it needs from the process, such as "memset".
    """

    code: bytes
    symbol: str
    undefined: tuple[str, ...]


def compile_function(name: str, build: Callable[[], Any], default_options: dict[str, Any]) -> ObjectCode:
    """Compile what `build()` returns: a function int64 f(int64 block, int64 part, int64 parts), or a numba cfunc of it.

    default_options: of numba's jit, where the function has no attribute `jit_options`.
    Raises KernelError, with numba's own as its cause, or if the code needs more than the C library.
    """
    library, symbol = _numba_library(name, build, default_options)
    return _checked(name, bytes(library._get_compiled_object()), symbol, library._final_module)


def write_ir(name: str, build: Callable[[], Any], default_options: dict[str, Any]) -> tuple[str, str]:
    """What numba writes for LLVM instead of the code, as (module, symbol of the entry point in it).

    Not optimized only where the process runs with NUMBA_OPT=0. Arguments and errors as `compile_function`.
    """
    library, symbol = _numba_library(name, build, default_options)
    return str(library._final_module), symbol


def _numba_library(name: str, build: Callable[[], Any], default_options: dict[str, Any]) -> tuple[Any, str]:
    """numba's code library for what `build()` returns, and the symbol of its entry point.

    Private names of numba, here and in the two functions above, and nowhere else: numba hands out addresses, but
    neither object code nor the texts.
    """
    from numba import cfunc, types
    from numba.core.ccallback import CFunc
    from numba.core.errors import NumbaError

    try:
        with _numba_target():
            function: Any = build()
            if not isinstance(function, CFunc):
                # Inlined into the entry point that numba puts around it, whatever its size: only there LLVM sees that
                # nothing can raise, and drops the error handling, which needs numba at run time.
                options = {**getattr(function, "jit_options", default_options), "forceinline": True}
                function = cfunc(types.int64(types.int64, types.int64, types.int64), **options)(function)
    except NumbaError as error:
        raise KernelError(
            f"cannot compile kernel {name!r}: numba refuses it. See its message above, and report it."
        ) from error
    return function._library, function._wrapper_name


_NUMBA_PROCESSOR = frozenset(("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX"))
"""Settings of numba that say what it compiles for."""


@contextlib.contextmanager
def _numba_target() -> Iterator[None]:
    """Within it numba compiles for the processor in force; functions of the user's keep what they were compiled for."""
    chosen = processor.target()
    if chosen == processor.host() and not _NUMBA_PROCESSOR.isdisjoint(os.environ):
        yield  # what numba's own settings say
        return
    from numba.core.codegen import JITCPUCodegen
    from numba.core.registry import cpu_target

    context = cpu_target.target_context
    former = context._internal_codegen
    context._internal_codegen = _codegen_for(JITCPUCodegen, chosen)
    try:
        yield
    finally:
        context._internal_codegen = former


@functools.cache
def _codegen_for(base: Any, chosen: processor.Processor) -> Any:
    """numba's code generator, of which `base` is the class, for one processor."""

    class Codegen(base):
        def _get_host_cpu_name(self) -> str:
            return chosen.name

        def _get_host_cpu_features(self) -> str:
            return chosen.features

    return Codegen("atled.exec")


def compile_ir(name: str, ir: str, *, python_api: bool = False) -> ObjectCode:
    """Compile textual LLVM IR at O3 for the processor in force; `name` is that of the wanted function in it.

    python_api: whether the code may call CPython, which kernels must not.
    Raises KernelError for IR that does not parse or verify, has no such function, or needs more than the C library.
    """
    machine, module = _optimized(name, ir)
    return _checked(name, machine.emit_object(module), name, module, python_api=python_api)


def assembly(name: str, ir: str) -> str:
    """What `compile_ir` makes of the IR as text for people, with LLVM's remarks on loops and spilled registers.

    Raises KernelError as it does for the IR.
    """
    machine, module = _optimized(name, ir)
    machine.set_asm_verbosity(True)
    text: str = machine.emit_assembly(module)
    return text


def _optimized(name: str, ir: str) -> tuple[Any, Any]:
    """The target machine for the processor in force, and the module of the IR at O3 for it."""
    llvm = processor.llvm_binding()
    cpu, features = processor.target()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(cpu=cpu, features=features, opt=3, jit=True)
    try:
        # A context of its own: in the global one constants and types stay for good.
        module = llvm.parse_assembly(ir, llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise KernelError(
            f"cannot compile kernel {name!r}: LLVM refuses its IR: {error} Mend what wrote the IR, or report it."
        ) from error
    if not any(function.name == name and not function.is_declaration for function in module.functions):
        raise KernelError(
            f"cannot compile kernel {name!r}: its IR defines no function of that name. Give the two one name."
        )
    module.triple = llvm.get_process_triple()
    module.data_layout = str(machine.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    # Off unless asked for. Vectors of unlike operations in one iteration (SLP) stay off, as they are in numba: there a
    # product and a sum may not be contracted that are in the loop's own vectors, and the last elements of an array
    # would be rounded in another way than the others.
    tuning.loop_vectorization = tuning.loop_interleaving = True
    builder = llvm.create_pass_builder(machine, tuning)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    _dispose(passes)
    return machine, module


def _dispose(passes: Any) -> None:
    """Free a pass manager with what its passes know of the module: 0.3 MB for a formula of four functions.

    llvmlite 0.45 to 0.50 leave it behind: of the two base classes that have `_dispose`, the first one's does nothing.
    """
    from llvmlite.binding.ffi import ObjectRef
    from llvmlite.binding.newpassmanagers import NewPassManager

    if type(passes)._dispose is ObjectRef._dispose:
        NewPassManager._dispose(passes)
        passes.detach()


def missing_symbols(compiled: ObjectCode) -> list[str]:
    """Names that the code needs and no process without numba has: then it must not be loaded."""
    return [name for name in compiled.undefined if not _is_resolvable(name)]


def is_loadable(compiled: ObjectCode) -> bool:
    """Whether `load` can be given this: an object of this kind of machine that needs nothing this process lacks.

    For objects from a file. What the file says that it needs is not believed where it can be seen; of other formats
    than ELF nothing else is examined.
    """
    needed: Sequence[str] = compiled.undefined
    try:
        if code_memory.IS_KNOWN:
            needed = [each.name for each in _image(compiled.code, compiled.symbol).outside]
        elif elf.is_elf(compiled.code) or sys.platform not in ("win32", "darwin"):
            found = elf.parsed(compiled.code, compiled.symbol)
            elf.check_for_llvm(found)
            needed = elf.undefined_symbols(found)
    except elf.ElfError:
        return False
    return all(_is_resolvable(name) for name in needed)


@functools.lru_cache(maxsize=1)
def _image(code: bytes, symbol: str) -> Image:
    """See `image_of`; the last one is kept, for what is examined is then loaded."""
    return image_of(code, symbol)


def load(compiled: ObjectCode, owner: object = None) -> int:
    """Load object code; returns the address of the kernel.

    owner: the code is freed with this object, so whoever may still call the address holds the object; None: it stays
        for the rest of the process.
    Raises OSError where the system has no memory for code.
    """
    missing = missing_symbols(compiled)
    assert not missing, missing  # LLVM would end the process
    address, free = _place(compiled) if code_memory.IS_KNOWN else _placed_by_llvm(compiled, for_good=owner is None)
    if owner is not None:
        number = next(_numbers)
        _transient[number] = len(compiled.code)
        # Not at the end of the process: a daemon thread may be inside.
        weakref.finalize(owner, _free, free, number).atexit = False
    return address


def _place(compiled: ObjectCode) -> tuple[int, Callable[[], None]]:
    """The kernel's address, and what frees its memory."""
    image = _image(compiled.code, compiled.symbol)
    address = code_memory.place(image)
    return address + image.entry, functools.partial(code_memory.free, address, image.size)


def _placed_by_llvm(compiled: ObjectCode, *, for_good: bool) -> tuple[int, Callable[[], None]]:
    """The same by LLVM's loader, which must be told if nobody is going to free it."""
    llvm = processor.llvm_binding()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    empty = llvm.parse_assembly("")
    # One engine each: numba numbers its symbols per process, so two objects may use one name for two things.
    engine = llvm.create_mcjit_compiler(empty, machine)
    engine.remove_module(empty)  # or finalizing would compile it, which takes 0.35 ms instead of 0.03 ms
    engine.add_object_file(llvm.ObjectFileRef.from_data(compiled.code))
    engine.finalize_object()
    address: int = engine.get_function_address(compiled.symbol)
    if for_good:
        engine.detach()
    return address, engine.close


_numbers = itertools.count()
_transient: dict[int, int] = {}


def transient_bytes() -> int:
    """Bytes of the object files whose code will be freed with an owner."""
    return sum(list(_transient.values()))


def _free(free: Callable[[], None], number: int) -> None:
    free()
    del _transient[number]


def _checked(name: str, code: bytes, symbol: str, module: Any, *, python_api: bool = False) -> ObjectCode:
    """The compiled code, unless it needs functions that a process without numba does not have."""
    if elf.is_elf(code):
        undefined = _undefined(name, code, symbol)
    elif other_objects.is_known(code):
        undefined = list(other_objects.undefined_symbols(code))
    else:  # 32 bits: what the module declares; misses only what the code generator adds, such as memset
        undefined = sorted(f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm."))
    compiled = ObjectCode(code, symbol, tuple(undefined))
    missing = missing_symbols(compiled)
    if not python_api:  # they can be resolved, but kernels run without the interpreter lock
        missing += [symbol for symbol in undefined if symbol.startswith(("Py", "_Py")) and symbol not in missing]
    if missing:
        raise KernelError(
            f"cannot compile kernel {name!r}: its code needs {', '.join(missing)}. Kernels have no such things: they "
            "run without the interpreter lock, and in processes without numba. They neither raise nor allocate: look "
            "for raise, assert, new arrays, lists and strings, and for divisions and powers that check their arguments "
            "(jit options without error_model='numpy')."
        )
    return compiled


def _undefined(name: str, code: bytes, symbol: str) -> list[str]:
    """Names that an ELF object needs. KernelError where it has what is not placed, such as variables of threads."""
    try:
        if code_memory.IS_KNOWN:
            _image(code, symbol)
        return list(elf.undefined_symbols(elf.parsed(code, symbol)))
    except elf.ElfError as error:
        raise KernelError(
            f"cannot compile kernel {name!r}: its code cannot be placed in memory: {error}. Kernels have functions, "
            "constants and at most 64 KiB of zeros: look for variables of threads and of the process, or report it."
        ) from error


def _is_resolvable(name: str) -> bool:
    """Whether the loader finds `name` in every process, not only where numba has announced it to LLVM."""
    if sys.platform == "win32":  # where there is no handle of the whole process to ask, but LLVM looks into all modules
        announced = name.startswith(("NRT_", "numba", "_numba", ".numba"))
        return not announced and _jit().address_of_symbol(name) is not None
    return code_memory.has(name)


@functools.cache
def _jit() -> Any:
    """llvmlite.binding, once LLVM has opened this process to look names up in: it does with the first engine."""
    llvm = processor.llvm_binding()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    return llvm
