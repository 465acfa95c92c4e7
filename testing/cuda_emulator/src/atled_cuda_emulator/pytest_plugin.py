"""For pytest, by `-p atled_cuda_emulator.pytest_plugin`: the stand-in, in a process where no GPU can be used."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
import sys

import pytest

import atled_cuda_emulator


def _has_gpu() -> bool:
    """Whether CuPy is installed and the driver finds a device; neither a context is made nor CuPy imported."""
    if importlib.util.find_spec("cupy") is None or os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    try:
        driver = ctypes.CDLL("libcuda.so.1" if sys.platform != "win32" else "nvcuda.dll")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


_state = "the GPU of this machine"
if not atled_cuda_emulator.installed() and not _has_gpu():
    _reason = atled_cuda_emulator.unusable()
    if _reason is None:
        atled_cuda_emulator.install()
        _state = "emulator"
    else:
        _state = f"none, tests that need it are skipped: {_reason}"
elif atled_cuda_emulator.installed():
    _state = "emulator"


def pytest_report_header() -> str:
    """Where kernels run."""
    return f"CUDA device: {_state}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Without a compiler there is nothing to run kernels."""
    if _state.startswith("none"):
        pytest.skip(_state)
