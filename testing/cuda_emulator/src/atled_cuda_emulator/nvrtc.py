"""NVIDIA's own compiler of CUDA C, without a GPU: whether a text compiles for an architecture, and what it needs there.

Needs the wheel nvidia-cuda-nvrtc-cu12 or -cu13 (no driver, no toolkit). What it writes down for a kernel is the
assembler's own report: registers of a thread, bytes spilled to memory, bytes of static shared memory.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_C_LINKAGE = re.compile(r'extern\s+"C"')
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_ENTRY = re.compile(r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry function|\Z)", re.DOTALL)
_NAMESPACE = "text_"


class NvrtcError(Exception):
    """What the compiler said about a text, or why it is not there."""


@dataclass(frozen=True)
class Needs:
    """What one kernel needs on one architecture.

    registers: of a thread.  spilled: bytes of a thread that do not fit into them, stores and loads.
    stack: bytes of a thread for arrays that are indexed at run time.  shared: bytes of a block, static ones.
    """

    registers: int
    spilled: int
    stack: int
    shared: int


def unusable() -> str | None:
    """Why there is no compiler; None where there is one."""
    return None if _path() else "NVRTC is not installed: pip install nvidia-cuda-nvrtc-cu12"


def version() -> tuple[int, int]:
    """Major and minor number of the compiler."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def compile_texts(texts: Sequence[str], architecture: str, options: Sequence[str] = ()) -> list[dict[str, Needs]]:
    """Compile texts in one run of the compiler; by kernel's name what each needs, in the order of the texts.

    architecture: such as "sm_90".
    NvrtcError: one of them does not compile; it is said which.
    """
    found: list[dict[str, Needs]] = [{} for _ in texts]
    for name, report in _ENTRY.findall(_compile("".join(map(_part, range(len(texts)), texts)), architecture, options)):
        number, kernel = _place(name)
        found[number][kernel] = _needs(report)
    return found


def _part(number: int, text: str) -> str:
    """The text in a namespace of its own; its macros end with it, but for the compiler's own."""
    macros = [name for name in dict.fromkeys(_MACRO.findall(text)) if not name.startswith("__")]
    lines = [
        f"namespace {_NAMESPACE}{number} {{",
        f'#line 1 "{_NAMESPACE}{number}"',
        _C_LINKAGE.sub('extern "C++"', text),
        "}",
    ]
    return "\n".join([*lines, *(f"#undef {name}" for name in macros), ""])


def _place(mangled: str) -> tuple[int, str]:
    """The number of the text and the name of the kernel from what C++ makes of both."""
    names: list[str] = []
    rest = mangled.removeprefix("_ZN")
    while len(names) < 2:
        digits = re.match(r"\d+", rest)
        assert digits is not None, mangled
        # The length comes right before a name, which begins with no digit.
        end = digits.end() + int(digits[0])
        names.append(rest[digits.end() : end])
        rest = rest[end:]
    return int(names[0].removeprefix(_NAMESPACE)), names[1]


def _needs(report: str) -> Needs:
    def number(pattern: str) -> int:
        return sum(map(int, re.findall(pattern, report)))

    return Needs(
        number(r"Used (\d+) registers"),
        number(r"(\d+) bytes spill (?:stores|loads)"),
        number(r"(\d+) bytes stack frame"),
        number(r"(\d+) bytes smem"),
    )


def _compile(source: str, architecture: str, options: Sequence[str]) -> str:
    """The log of the compiler and of the assembler behind it."""
    program = ctypes.c_void_p()
    _call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"texts.cu", 0, None, None)
    try:
        words = [f"--gpu-architecture={architecture}", "--ptxas-options=-v", "--std=c++17", *options]
        given = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
        status = _library().nvrtcCompileProgram(program, len(words), given)
        size = ctypes.c_size_t()
        _call("nvrtcGetProgramLogSize", program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        _call("nvrtcGetProgramLog", program, log)
    finally:
        _library().nvrtcDestroyProgram(ctypes.byref(program))
    text = log.value.decode(errors="replace")
    if status:
        raise NvrtcError(f"for {architecture}:\n{text}")
    return text


def _path() -> Path | None:
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations if spec else None
    found = [
        path for folder in folders or () for path in Path(folder).glob("*/lib/libnvrtc.so.*") if "alt" not in path.name
    ]
    return max(found, default=None)


@functools.cache
def _library() -> Any:  # Any: a ctypes.CDLL, whose functions are attributes
    path = _path()
    if path is None:
        raise NvrtcError(unusable())
    library = ctypes.CDLL(str(path))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def _call(name: str, *arguments: Any) -> None:  # Any: what ctypes takes
    if status := getattr(_library(), name)(*arguments):
        raise NvrtcError(f"{name}: {_library().nvrtcGetErrorString(status).decode()}")
