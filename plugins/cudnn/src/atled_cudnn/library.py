"""cuDNN's library: where it is, its functions with their types in C, its errors."""

from __future__ import annotations

import ctypes
import importlib.util
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

from atled.plugin import four_parts, lock_across_forks

OLDEST = 90800
"""The oldest version that plans by device properties, apart from any handle."""

SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {  # Any: ctypes' types
    "cudnnGetVersion": (c_size_t, ()),
    "cudnnGetErrorString": (c_char_p, (c_int,)),
    "cudnnGetLastErrorString": (None, (c_void_p, c_size_t)),
    "cudnnCreate": (c_int, (POINTER(c_void_p),)),
    "cudnnDestroy": (c_int, (c_void_p,)),
    "cudnnSetStream": (c_int, (c_void_p, c_void_p)),
    "cudnnBackendCreateDescriptor": (c_int, (c_int, POINTER(c_void_p))),
    "cudnnBackendDestroyDescriptor": (c_int, (c_void_p,)),
    "cudnnBackendSetAttribute": (c_int, (c_void_p, c_int, c_int, c_int64, c_void_p)),
    "cudnnBackendGetAttribute": (c_int, (c_void_p, c_int, c_int, c_int64, POINTER(c_int64), c_void_p)),
    "cudnnBackendFinalize": (c_int, (c_void_p,)),
    "cudnnBackendExecute": (c_int, (c_void_p, c_void_p, c_void_p)),
}
_SONAME = "libcudnn.so.9"
_NOT_SUPPORTED, _FIRST_FAILURE = 3000, 4000


class CudnnError(RuntimeError):
    """cuDNN refused something, or failed; status: its code."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle, by which pools of processes hand errors on: Python's own would leave the status out."""
        return type(self), (*self.args, self.status), self.__dict__

    @property
    def is_refusal(self) -> bool:
        """Whether cuDNN says that it does not support what was asked for."""
        return _NOT_SUPPORTED <= self.status < _FIRST_FAILURE


class Found(NamedTuple):
    """A library that can be loaded. path: file or name.  source: how it was found."""

    path: str
    source: str


_lock = lock_across_forks()
_used: Any = None  # Any: a library of ctypes has no types
_found: Found | None = None


def find() -> Found | None:
    """Where cuDNN 9 is: the wheel beside CuPy, else what `cuda.pathfinder` or the system finds; None: nowhere."""
    return _in_wheel() or _by_pathfinder() or _on_system()


def _in_wheel() -> Found | None:
    try:
        spec = importlib.util.find_spec("nvidia.cudnn")
    except ModuleNotFoundError:  # there is no package `nvidia`
        return None
    for folder in spec.submodule_search_locations or () if spec else ():
        for path in (Path(folder, "lib", _SONAME),):
            if path.exists():
                return Found(str(path), "the wheel nvidia-cudnn")
    return None


def _by_pathfinder() -> Found | None:
    try:
        pathfinder: Any = importlib.import_module("cuda.pathfinder")  # CuPy requires it; others may lack it
    except ModuleNotFoundError:
        return None
    try:
        path = pathfinder.load_nvidia_dynamic_lib("cudnn").abs_path
    except (pathfinder.DynamicLibNotFoundError, RuntimeError):
        return None
    return Found(path, "cuda.pathfinder") if path else None


def _on_system() -> Found | None:
    try:
        ctypes.CDLL(_SONAME)
    except OSError:
        return None
    return Found(_SONAME, "the system's loader")


def use(functions: Any) -> None:
    """Have these functions be cuDNN from now on, as a stand-in does in tests; None: look for the library again."""
    global _used, _found
    _used = functions
    _found = Found(getattr(functions, "path", "given functions"), "given") if functions is not None else None


def library() -> Any:  # Any: as above
    """The functions. RuntimeError: there is no library."""
    return _used if _used is not None else _load()


def location() -> Found | None:
    """The library in use, which is loaded for that; None: there is none."""
    if _found is None and find() is None:
        return None
    library()
    return _found


def _load() -> Any:  # Any: as above
    global _used, _found
    with _lock:
        if _used is None:
            found = find()
            if found is None:
                raise RuntimeError(
                    four_parts("backend cudnn", "there is no libcudnn.so.9", "", "pip install nvidia-cudnn-cu12")
                )
            loaded = ctypes.CDLL(found.path)
            for name, (result, arguments) in SIGNATURES.items():
                function = getattr(loaded, name)
                function.restype, function.argtypes = result, arguments
            _used, _found = loaded, found
    return _used


def version() -> int:
    """As cuDNN numbers itself: 90800 for 9.8.0."""
    return int(library().cudnnGetVersion())


def version_text(number: int) -> str:
    """A version as people write it."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def check(status: int, asked: str) -> None:
    """Raise CudnnError for a status that is not success; asked: what cuDNN was to do."""
    if status:
        raise CudnnError(four_parts(asked, _told(status), f"cuDNN {version_text(version())}", _remedy(status)), status)


def _told(status: int) -> str:
    last = ctypes.create_string_buffer(1024)
    library().cudnnGetLastErrorString(last, len(last))
    name = library().cudnnGetErrorString(status).decode()
    return f"{name} ({status}): {last.value.decode(errors='replace')}".rstrip(": ")


def _remedy(status: int) -> str:
    if _NOT_SUPPORTED <= status < _FIRST_FAILURE:
        return "name the backend cuda behind cudnn: it computes what cuDNN does not"
    if status == 1001 or status == 1008:
        return "see that the driver and all of cuDNN's libraries are there: python -m atled doctor"
    return "save what you have, start a new process, and report it if it happens again"
