"""The real cuDNN where there is no GPU: it plans for devices that are described to it.

Its libraries need a libcuda.so.1 to be loaded. Where there is none, one is compiled in which loading a kernel succeeds,
and whatever needs a device says that there is none.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from atled_cudnn import library, plans

# Of each function what it does: "+" sets its out parameter, "=" succeeds, others say CUDA_ERROR_NO_DEVICE.
_FUNCTIONS = """
    cuInit cuDeviceGet cuDeviceGetCount cuGetErrorString cuGetErrorName cuCtxGetCurrent cuCtxGetLimit cuCtxPopCurrent
    cuCtxPushCurrent cuStreamGetCtx cuLaunchKernel cuLaunchKernelEx cuLaunchCooperativeKernel cuLinkCreate cuLinkAddData
    cuLinkComplete cuLinkDestroy +cuModuleGetFunction +cuModuleLoadData =cuModuleUnload =cuTensorMapEncodeIm2col
    =cuTensorMapEncodeTiled +cuLibraryLoadData +cuLibraryLoadFromFile +cuLibraryGetKernel =cuLibraryUnload
    =cuKernelSetAttribute =cuKernelGetAttribute +cuKernelGetFunction =cuOccupancyMaxPotentialClusterSize"""
_BODIES = {"+": "(void **p){ *p = (void *)1; return 0; }", "=": "(void){ return 0; }"}
_NO_DEVICE = "(void){ return 100; }"


def _driver_text() -> str:
    lines = ["int cuDriverGetVersion(int *version){ *version = 13000; return 0; }"]
    lines += [f"int {name.strip('+=')}{_BODIES.get(name[0], _NO_DEVICE)}" for name in _FUNCTIONS.split()]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="session", autouse=True)
def cudnn(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The library, and devices "0", an H100, and "1", an H200."""
    found = library.find()
    if found is None:
        pytest.skip("cuDNN is not installed: make check-cudnn installs it")
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("g++")
        if compiler is None:
            pytest.skip("there is neither a driver nor a C compiler to make a stand-in for it")
        path = str(tmp_path_factory.mktemp("driver") / "libcuda.so.1")
        command = [compiler, "-shared", "-fPIC", "-w", "-x", "c", "-", "-Wl,-soname,libcuda.so.1", "-o", path]
        subprocess.run(command, input=_driver_text().encode(), check=True)
        ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    _load_nvrtc()
    plans.on_device = lambda device: contextlib.nullcontext()  # type: ignore[assignment]  # there is none to be current
    table = json.loads(Path(__file__).with_name("devices.json").read_text("utf-8"))
    both = table.pop("both")
    for number, (name, own) in enumerate(sorted(table.items())):
        plans.describe(number, json.dumps({**both, **own, "deviceName": name}))


def _load_nvrtc() -> None:
    """Some of its engines are compiled at run time; with CuPy the library is found by the driver's loader."""
    spec = importlib.util.find_spec("nvidia.cuda_nvrtc")
    for folder in spec.submodule_search_locations or () if spec else ():
        for path in sorted(Path(folder, "lib").glob("libnvrtc*.so.*"), reverse=True):
            ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
