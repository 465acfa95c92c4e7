"""What this machine has for CUDA: wheels, driver, devices, libraries. Starts no CUDA and imports no CuPy."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_WHEELS = ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "cupy-rocm-5-0", "cupy-rocm-7-0")
_ON_WINDOWS = sys.platform == "win32"
_DRIVER, _MANAGEMENT = ("nvcuda.dll", "nvml.dll") if _ON_WINDOWS else ("libcuda.so.1", "libnvidia-ml.so.1")


class Wheel(NamedTuple):
    """An installed CuPy. name: of the distribution.  cuda: major version of the CUDA it is built for, 0: not known."""

    name: str
    version: str
    cuda: int


class Gpu(NamedTuple):
    """A device that is there, and not hidden. capability: 90 for 9.0, 0: not known.  nbytes: of its memory."""

    name: str
    capability: int
    nbytes: int


def emulator() -> str:
    """The version of a stand-in for CuPy that this process has; "" where it has none."""
    cupy: Any = sys.modules.get("cupy")
    return str(cupy.__version__) if getattr(cupy, "__emulator__", False) else ""


def wheels() -> list[Wheel]:
    """All CuPys that are installed; two of them overwrite each other's files."""
    if not _may_have_cupy():
        return []
    import importlib.metadata  # lazily: where there is no CuPy nobody waits for it

    found = []
    for name in _WHEELS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version(name)
            digits = re.search(r"cuda(\d\d)", name)
            found.append(Wheel(name, version, int(digits[1]) if digits else 0))
    if not found and importlib.util.find_spec("cupy") is not None:
        found.append(Wheel("cupy", "", 0))  # from a folder, without metadata
    return found


def _may_have_cupy() -> bool:
    """Whether anything of CuPy may be installed, be it the package or a distribution's metadata alone."""
    if importlib.util.find_spec("cupy") is not None:
        return True
    for folder in sys.path:
        with contextlib.suppress(OSError):
            if any(name.lower().startswith("cupy") for name in os.listdir(folder or ".")):
                return True
    return False


def driver_version() -> int | None:
    """The CUDA that the driver knows, 12040 for 12.4; None where there is no driver."""
    try:
        library = ctypes.CDLL(_DRIVER)
        version = ctypes.c_int()
        status = library.cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return version.value if status == 0 and version.value else None


class Management(NamedTuple):
    """What the management library says: version of the driver, such as "550.54", and the devices that are visible."""

    driver: str
    gpus: Sequence[Gpu]


def management() -> Management | None:
    """Of NVML; None where there is none, as on some systems that have CUDA all the same."""
    try:
        library = ctypes.CDLL(_MANAGEMENT)
        if library.nvmlInit_v2() != 0:
            return None
    except (OSError, AttributeError):
        return None
    try:
        devices = list(_devices(library))
        driver = _text(library.nvmlSystemGetDriverVersion)
    finally:
        library.nvmlShutdown()
    return Management(driver, [gpu for gpu, _ in visible(devices, os.environ.get("CUDA_VISIBLE_DEVICES"))])


def visible(devices: Sequence[tuple[Gpu, str]], said: str | None) -> list[tuple[Gpu, str]]:
    """Those of the devices, each with its unique id, that CUDA_VISIBLE_DEVICES leaves, in its order.

    As CUDA reads it: numbers or beginnings of ids; from the first one on that is neither, nothing is visible.
    """
    if said is None:
        return list(devices)
    found: list[tuple[Gpu, str]] = []
    for word in (word.strip() for word in said.split(",")):
        if re.fullmatch(r"[+]?\d+", word):
            chosen = list(devices[int(word) : int(word) + 1])
        elif word.startswith("MIG-"):
            chosen = [(Gpu("part of a device", 0, 0), word)]  # NVML counts those by themselves
        else:
            chosen = [device for device in devices if word and device[1].startswith(word)]
        if len(chosen) != 1 or chosen[0] in found:
            break
        found += chosen
    return found


def _devices(library: Any) -> Iterator[tuple[Gpu, str]]:  # Any: ctypes finds functions by name
    count = ctypes.c_uint()
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        return
    for number in range(count.value):
        handle = ctypes.c_void_p()
        if library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(handle)) != 0:
            continue
        major, minor = ctypes.c_int(), ctypes.c_int()
        library.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))
        memory = (ctypes.c_ulonglong * 3)()  # total, free, used
        library.nvmlDeviceGetMemoryInfo(handle, memory)
        name = _text(functools.partial(library.nvmlDeviceGetName, handle))
        unique = _text(functools.partial(library.nvmlDeviceGetUUID, handle))
        yield Gpu(name, 10 * major.value + minor.value, memory[0]), unique


def _text(function: Callable[..., int]) -> str:
    buffer = ctypes.create_string_buffer(96)
    return buffer.value.decode() if function(buffer, len(buffer)) == 0 else ""


def library(name: str, cuda: int) -> str:
    """Where a library of CUDA's is, such as "nvrtc" or "cublas"; "" where it is not found. CuPy looks there, too."""
    patterns = (f"{name}64_{cuda}*.dll",) if _ON_WINDOWS else (f"lib{name}.so.{cuda}*",)
    for folder in _folders():
        for pattern in patterns:
            for path in sorted(folder.glob(pattern)):
                if "alt" not in path.name:
                    return str(path)
    file = f"{name}64_{cuda}.dll" if _ON_WINDOWS else f"lib{name}.so.{cuda}"
    try:
        ctypes.CDLL(file)
    except OSError:
        return ""
    return f"{file} (of the system)"


def _folders() -> Iterator[Path]:
    """Folders of libraries: of NVIDIA's wheels, of conda, of a toolkit."""
    inner = ("bin", "bin/x86_64") if _ON_WINDOWS else ("lib", "lib64")
    package = importlib.util.find_spec("nvidia")
    for root in (package.submodule_search_locations or ()) if package else ():
        for own in sorted(Path(root).glob("*")):
            yield from (own / folder for folder in inner)
    roots = [os.environ.get(name, "") for name in ("CONDA_PREFIX", "CUDA_PATH", "CUDA_HOME")]
    for root in (*roots, "" if _ON_WINDOWS else "/usr/local/cuda"):
        if root:
            yield from (Path(root) / folder for folder in inner)
