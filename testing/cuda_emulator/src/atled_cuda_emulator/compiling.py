"""CUDA C texts to machine code of the host, kept on disk by what it depends on."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

DEVICE_CODE = Path(__file__).parent / "device_code"
_FLAGS = [
    "-std=c++17",
    "-fPIC",
    "-shared",
    "-w",
    "-nostdinc",
    "-nostdlib",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-ffp-contract=off",
]
_PLACES = [
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-asynchronous-unwind-tables",
    "-fno-stack-protector",
]
_RUNTIME_FLAGS = ["-std=c++17", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", "-w", "-nostdinc++", "-fno-exceptions"]
_CHECKED = "-fsanitize=kernel-address --param asan-instrumentation-with-call-threshold=0 --param asan-stack=0"
_CHECKED += " --param asan-globals=0 -fno-wrapv"
_CHECKED += " -fsanitize=alignment,bounds,signed-integer-overflow,shift-exponent,integer-divide-by-zero,bool"
checked = False  # whether texts are compiled so that each access to memory is checked
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BOUNDS = r"(?:__launch_bounds__\s*\(([^)]*)\)\s*)?"
_KERNEL = re.compile(rf"__global__\s+{_BOUNDS}void\s+{_BOUNDS}(\w+)\s*\(")
_TEMPLATE = re.compile(r"template\s*<[^;{]*>\s*__global__[^(;]*?(\w+)\s*\(")
_DYNAMIC = re.compile(
    r"extern\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?"
    r"([\w:]+(?:\s+[\w:]+)*?)\s+(\w+)\s*\[\s*\]\s*;"
)
_C_LINKAGE = re.compile(r'extern\s+"C"')
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_MOST_TEXTS = 40  # in one bundle: more take the compiler long enough for the other processor to stand idle
_PROCESSES = 2
_MOST_BYTES = 2 << 30  # kept on disk


class CompileError(Exception):
    """What the compiler said about a text."""


@dataclass(frozen=True)
class Text:
    """What one module is compiled from."""

    source: str
    options: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # of instances of templates, such as "scale<float, 64>"

    @functools.cached_property
    def kernels(self) -> tuple[str, ...]:
        """The names of the text's kernels, instances of templates last."""
        plain = _COMMENT.sub(" ", self.source)
        templates = set(_TEMPLATE.findall(plain))
        found = dict.fromkeys(name for *_, name in _KERNEL.findall(plain))
        return (*(name for name in found if name not in templates), *self.names)

    @functools.cached_property
    def waits(self) -> bool:
        """Whether threads work together in it."""
        return "__shared__" in self.source

    @functools.cached_property
    def bounds(self) -> dict[str, int]:
        """How many threads a block of a kernel may have, where __launch_bounds__ says a number."""
        found = {}
        for before, behind, name in _KERNEL.findall(_COMMENT.sub(" ", self.source)):
            number = (before or behind).partition(",")[0].strip()
            if number.isdigit():
                found[name] = int(number)
        return found

    @functools.cached_property
    def key(self) -> str:
        """What the machine code depends on, as one word."""
        how = "checked" if checked else ""
        parts = [self.source, "\0".join(self.names), "\0".join(self.options), how, _toolchain_key()]
        return hashlib.sha256("\1".join(parts).encode()).hexdigest()[:32]

    def part(self, number: int) -> str:
        """The text in a namespace of its own, with the records of its kernels."""
        defines = [option[2:].partition("=") for option in self.options if option.startswith("-D")]
        macros = [name for name, *_ in defines] + _MACRO.findall(self.source)
        body = _C_LINKAGE.sub('extern "C++"', self.source)
        body = _DYNAMIC.sub(r"\1 *\2 = (\1 *)cu_dynamic_shared;", body)
        section = f"cu_shared_{number}"
        records = (
            f'extern "C" __attribute__((visibility("default"))) const CuKernel cu_kernel_{number}_{place} = CuEntry<'
            f"decltype(&text_{number}::{name}), &text_{number}::{name}>::kernel(__start_{section}, __stop_{section});"
            for place, name in enumerate(self.kernels)
        )
        return "\n".join(
            [
                *(f"#define {name} {value if equals else 1}" for name, equals, value in defines),
                f'#define __shared__ static __attribute__((section("{section}")))',
                f'#define __constant__ static __attribute__((section("cu_constant_{number}")))',
                f"namespace {{ __attribute__((used)) __shared__ char cu_least_{number}; namespace text_{number} {{",
                f'#line 1 "text {number}"',
                body,
                "}}",
                f'extern "C" __attribute__((visibility("hidden"))) char __start_{section}[], __stop_{section}[];',
                *records,
                "#undef __shared__",
                "#undef __constant__",
                *(f"#undef {name}" for name in dict.fromkeys(macros)),
                "",
            ]
        )


def compiler() -> str | None:
    """The C++ compiler: CXX, g++ or clang++, whichever is there first."""
    for name in (os.environ.get("CXX", ""), "g++", "clang++"):
        if name and shutil.which(name):
            return name
    return None


def unusable() -> str | None:
    """Why kernels cannot be run here; None where they can."""
    if sys.platform == "win32":
        return "the emulator of CUDA needs Linux or macOS"
    if compiler() is None:
        return "the emulator of CUDA needs a C++ compiler: g++ or clang++ (apt install g++)"
    return None


def kept_in() -> Path:
    """The folder of compiled texts: ATLED_CUDA_EMULATOR_CACHE, else in the user's cache folder."""
    if named := os.environ.get("ATLED_CUDA_EMULATOR_CACHE"):
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "atled-cuda-emulator"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "atled-cuda-emulator"


@functools.cache
def _toolchain_key() -> str:
    """What all machine code depends on: compiler, flags, the header."""
    name = compiler()
    if name is None:
        raise CompileError(unusable())
    version = subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout
    header = (DEVICE_CODE / "cuda_emulator.h").read_text("utf-8")
    flags = " ".join((*_FLAGS, *_PLACES, _CHECKED))
    parts = (version, header, flags, inspect.getsource(Text))  # the last: what surrounds a text
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _run_compiler(arguments: Sequence[str], source: str, made: Path) -> None:
    """Compile to `made`, which appears complete or not at all."""
    try:
        made.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"the folder {made.parent} cannot be made ({error}); ATLED_CUDA_EMULATOR_CACHE names another one"
        raise CompileError(reason) from error
    temporary = made.with_name(f"{made.name}.{os.getpid()}.{threading.get_ident()}")
    command = [
        str(compiler()),
        *arguments,
        "-I",
        str(DEVICE_CODE),
        "-x",
        "c++",
        "-",
        "-o",
        str(temporary),
        "-lm",
        "-lc",
    ]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(done.stderr)
    os.replace(temporary, made)


def _forget_oldest() -> None:
    """Keep at most `_MOST_BYTES` of compiled texts."""
    found = sorted(((path.stat().st_mtime, path) for path in kept_in().glob("*.so")), reverse=True)
    total = 0
    for _, path in found:
        total += path.stat().st_size
        if total > _MOST_BYTES:
            path.unlink(missing_ok=True)


@functools.cache
def runtime() -> ctypes.PyDLL:
    """What runs kernels; the global interpreter lock stays held, for it has one state for all threads."""
    source = (DEVICE_CODE / "runtime.cpp").read_text("utf-8")
    key = hashlib.sha256((_toolchain_key() + source).encode()).hexdigest()[:16]
    path = kept_in() / f"runtime-{key}.so"
    if not path.exists():
        _forget_oldest()
        _run_compiler(_RUNTIME_FLAGS, source, path)
    library = ctypes.PyDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    library.cu_message.restype = ctypes.c_char_p
    return library


_libraries: dict[Path, ctypes.PyDLL] = {}


def _library(path: Path) -> ctypes.PyDLL:
    runtime()
    if path not in _libraries:
        _libraries[path] = ctypes.PyDLL(str(path))
    return _libraries[path]


def _kept(text: Text) -> tuple[Path, int] | None:
    """The library with the text and the text's number in it."""
    try:
        name, number = (kept_in() / f"{text.key}.txt").read_text().split()
    except (FileNotFoundError, NotADirectoryError):
        return None
    path = kept_in() / name
    return (path, int(number)) if path.exists() else None


_known: set[str] = set()  # keys of texts whose records were given out
_errors: dict[str, str] = {}  # what the compiler said, by key


def _compile_together(texts: Sequence[Text]) -> None:
    """One library of all of them; if the compiler objects, each alone, and `_errors` has what is wrong with which."""
    source = '#include "cuda_emulator.h"\n' + "".join(text.part(number) for number, text in enumerate(texts))
    path = kept_in() / f"bundle-{hashlib.sha256(''.join(text.key for text in texts).encode()).hexdigest()[:32]}.so"
    # Barriers make a kernel's threads slow to run, so that optimizing pays.
    level = "-O1" if texts[0].waits else "-O0"
    try:
        _run_compiler([*_FLAGS, *_PLACES, level, *(_CHECKED.split() if checked else ())], source, path)
    except CompileError as e:
        if len(texts) == 1:
            _errors[texts[0].key] = str(e)
        else:
            for text in texts:
                _compile_together([text])
        return
    for number, text in enumerate(texts):
        index = kept_in() / f"{text.key}.txt"
        temporary = index.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        temporary.write_text(f"{path.name} {number}\n")
        os.replace(temporary, index)


def compile_bundle(texts: Sequence[Text]) -> None:
    """Compile what is not kept yet, many texts in one run of the compiler, two runs at a time."""
    missing = [text for text in dict.fromkeys(texts) if _kept(text) is None]
    shares = []
    for one_kind in ([text for text in missing if text.waits], [text for text in missing if not text.waits]):
        runs = max(min(_PROCESSES, len(one_kind)), -(-len(one_kind) // _MOST_TEXTS))
        shares += [one_kind[first::runs] for first in range(runs)]
    with ThreadPoolExecutor(_PROCESSES) as pool:
        for _ in pool.map(_compile_together, shares):
            pass


_lock = threading.Lock()
_expected: dict[Text, None] = {}  # wanted, and not compiled yet


def expect(text: Text) -> None:
    """This text is going to be wanted: compile it together with the next one that is."""
    if text.key not in _known:
        _expected[text] = None


def kernel_records(text: Text) -> dict[str, int]:
    """Addresses of the records of a text's kernels, compiled now if need be."""
    with _lock:
        found = _kept(text)
        if found is None:
            wanted = [text]
            while _expected:
                wanted.append(_expected.popitem()[0])
            compile_bundle(wanted)
            found = _kept(text)
        if found is None:
            raise CompileError(_errors[text.key])
        _expected.pop(text, None)
        _known.add(text.key)
        path, number = found
        library = _library(path)
    addresses: Callable[[int], int] = lambda place: ctypes.addressof(  # noqa: E731 - used in one line
        ctypes.c_char.in_dll(library, f"cu_kernel_{number}_{place}")
    )
    return {name: addresses(place) for place, name in enumerate(text.kernels)}
