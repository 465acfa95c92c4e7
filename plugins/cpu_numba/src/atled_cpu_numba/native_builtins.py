"""Python built-in functions out of native ones: PyCFunction_NewEx of CPython's C API."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

_METH_FASTCALL = 0x80  # of CPython's methodobject.h, part of its stable ABI


class Definition(ctypes.Structure):
    """PyMethodDef of CPython's C API, of a function `PyObject *f(PyObject *self, PyObject *const *, Py_ssize_t)`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )

    def __init__(self, name: str, address: int, doc: str) -> None:
        super().__init__(name.encode(), address, _METH_FASTCALL, doc.encode())


def builtin(definition: Definition, self: object, module: str) -> Callable[..., Any]:
    """A built-in whose native function gets `self`; it refers to the definition, and does not own it."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    made: Callable[..., Any] = make(ctypes.addressof(definition), self, module)
    return made
