"""A driver of CUDA that does nothing: what is left is what the plugin costs the host; names are the emulator's."""

from __future__ import annotations

import importlib
import sys
from typing import Any

_IGNORED = (
    "memcpyAsync",
    "memsetAsync",
    "memcpyPeerAsync",
    "graphLaunch",
    "eventRecord",
    "eventQuery",
    "eventSynchronize",
)


def install() -> None:
    """Let `import cupy` give it, for the rest of the process. Arrays and streams are the emulator's, in Python.

    What allocates therefore costs more than with CuPy, whose arrays are compiled code; bound launches, words and
    programs go the ways that they go with it.
    """
    emulator = importlib.import_module("atled_cuda_emulator")
    if emulator.installed():
        return
    cupy = emulator.install(devices=1)
    driver, runtime = sys.modules["cupy.cuda.driver"], sys.modules["cupy.cuda.runtime"]
    driver.launchKernel = _nothing
    for name in _IGNORED:
        assert hasattr(runtime, name), name
        setattr(runtime, name, _nothing)
    cupy.cuda.compiler.compile_using_nvrtc = lambda *_: (b"", {})
    cupy.cuda.function.Module = _Module
    cupy.cuda.cublas.library = _Library()


def _nothing(*_: Any) -> None:
    """The driver has taken it."""


class _Function:
    ptr = 1


class _Module:
    """A module whose functions all are the same."""

    def load(self, code: bytes) -> None:
        """There is nothing in it."""

    def get_function(self, name: str) -> _Function:
        """Any function."""
        return _Function()


class _Library:
    """A library of C functions that all succeed."""

    def __getattr__(self, name: str) -> Any:
        return _succeed


def _succeed(*_: Any) -> int:
    return 0
