"""Pickles of arrays, numbers, text, lists, tuples and dictionaries, read without executing what they name."""

from __future__ import annotations

import io
import os
import pickle  # only its Unpickler, with all that a file may name replaced: see _Reader
from typing import Any, NoReturn

import numpy as np

from atled.errors import four_parts
from atled.files.entry import read_bytes, reading

_ARRAYS = ("numpy.core.multiarray", "numpy._core.multiarray", "numpy")
_KINDS = "fiub"
_DEPTH = 200


def load_pickled(path: str | os.PathLike[str]) -> Any:
    """The dictionaries, lists, tuples, numbers, texts, None and NumPy arrays of numbers in a pickle.

    Of what a file names, those calls that rebuild arrays have stand-ins here; anything else is refused, and no object
    of NumPy is given a state from the file. Texts and bytes of Python 2 are read as Latin 1.

    OSError: it is missing or cannot be read.  ValueError: it is damaged, or has something else in it.
    """
    asked = f"load_pickled({os.fspath(path)!r})"
    content = read_bytes(asked, os.fspath(path))
    with reading(asked):
        found = _Reader(io.BytesIO(content), encoding="latin1").load()
        return _plain(found, 0)


class _Reader(pickle.Unpickler):
    """Finds stand-ins for NumPy's calls, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if module in _ARRAYS and name in ("_reconstruct", "ndarray", "dtype", "scalar"):
            return _StandIn(name)
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes in old protocols
            return _StandIn(name)
        raise ValueError(
            four_parts(f"{module}.{name} in a pickle", "it is no array, number or text", "", "load another file")
        )

    def persistent_load(self, pid: Any) -> NoReturn:
        raise ValueError("it refers to what is not in the file")


class _StandIn:
    """What a pickle may call, by name. It has no state that a file could set."""

    __slots__ = ("_name",)
    _name: str

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise ValueError(f"a state for {self._name}")

    def __setstate__(self, state: Any) -> NoReturn:
        raise ValueError(f"a state for {self._name}")

    def __call__(self, *given: Any) -> Any:
        if self._name == "_reconstruct":
            return _Array()
        if self._name == "dtype":
            return _DType(given[0])
        if self._name == "scalar":
            kind, content = given
            return kind.array((), content)[()].item()
        if self._name == "encode":
            text, encoding = given
            if encoding not in ("latin1", "latin-1") or not isinstance(text, str):
                raise ValueError(f"text in {encoding!r}")
            return text.encode("latin1")
        raise ValueError(f"a call of {self._name}")


class _DType:
    """A dtype of numbers, with the order of bytes that its state has."""

    __slots__ = ("dtype",)

    def __init__(self, name: Any) -> None:
        if not isinstance(name, str | bytes):
            raise ValueError("a dtype that is no name")
        self.dtype = np.dtype(name if isinstance(name, str) else name.decode("latin1"))
        if self.dtype.kind not in _KINDS or self.dtype.itemsize > 8:
            raise ValueError(f"an array of {self.dtype}")

    def __setstate__(self, state: Any) -> None:
        order = state[1]
        order = order.decode("latin1") if isinstance(order, bytes) else order
        if order not in ("<", ">", "=", "|"):
            raise ValueError(f"an order of bytes {order!r}")
        if order in "<>":
            self.dtype = np.dtype(f"{order}{self.dtype.str[1:]}")

    def array(self, shape: tuple[int, ...], content: Any) -> np.ndarray:
        """An array with these bytes."""
        content = content.encode("latin1") if isinstance(content, str) else content
        if not isinstance(content, bytes):
            raise ValueError("an array whose content is no bytes")
        values = np.frombuffer(content, self.dtype).reshape(shape)
        return values.astype(self.dtype.newbyteorder("="))


class _Array:
    """An array that is about to get its state."""

    __slots__ = ("values",)

    def __setstate__(self, state: Any) -> None:
        shape, kind, is_fortran, content = state[-4:]
        if not isinstance(kind, _DType) or not isinstance(shape, tuple):
            raise ValueError("an array without a shape or dtype")
        values = kind.array(shape[::-1] if is_fortran else shape, content)
        self.values = values.T.copy() if is_fortran else values


def _plain(value: Any, depth: int) -> Any:
    """The value with arrays for their stand-ins; refuses what a pickle could have beside."""
    if depth > _DEPTH:
        raise ValueError("lists in lists without an end")
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if isinstance(value, _Array):
        return value.values
    if type(value) in (list, tuple):
        return type(value)(_plain(each, depth + 1) for each in value)
    if type(value) is dict and all(isinstance(key, str | int | bytes) for key in value):
        return {key: _plain(each, depth + 1) for key, each in value.items()}
    raise ValueError(f"something of type {type(value).__name__}")
