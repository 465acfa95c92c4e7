"""A small device plugin that is right: arrays on shelves in memory, every op by its reference. The others change it."""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.place import ArrayClass
from atled.call import Call, Prepared
from atled.reference import reference_run
from atled_contexts import API_VERSION, BackendInfo, Implementation, PluginInfo, Registrar, hookimpl

DEVICES = ("0", "1")


class ShelfArray:
    """An array that NumPy cannot reach by accident: its values are kept in `_values`, flat."""

    __array_ufunc__ = None

    def __init__(self, values: np.ndarray, shape: tuple[int, ...], whole: np.ndarray | None = None) -> None:
        self._values = values
        self.shape = shape
        self._whole = values if whole is None else whole  # what is counted

    def part(self, offset: int, desc: ArrayDesc) -> ShelfArray:
        """Some bytes of it as an array."""
        values = self._values.view(np.uint8)[offset : offset + desc.nbytes].view(desc.dtype)
        return ShelfArray(values, desc.shape, self._whole)

    def window(self, desc: ArrayDesc, offset: int) -> ShelfArray:
        """Elements of it by strides."""
        steps = [step * desc.dtype.itemsize for step in desc.written_strides]
        values = np.lib.stride_tricks.as_strided(self._values[offset:], desc.shape, steps)
        return ShelfArray(values, desc.shape, self._whole)

    def on_device(self) -> np.ndarray:
        """The values with their shape, for kernels."""
        return self._values.reshape(self.shape)

    def viewed(self, shape: tuple[int, ...]) -> ShelfArray:
        """The same memory with another shape."""
        return ShelfArray(self._values, shape, self._whole)


class ShelfClass(ArrayClass):
    """Array class `ShelfArray`, which counts the bytes in use per device."""

    name = "ShelfArray"

    def __init__(self) -> None:
        self._in_use: Counter[str] = Counter()

    def allocate(self, desc: ArrayDesc, device_id: str) -> ShelfArray:
        values = np.full(desc.nbytes, 0xFF, np.uint8).view(desc.dtype)
        self.count(values, device_id)
        return ShelfArray(values, desc.shape)

    def count(self, values: np.ndarray, device_id: str) -> None:
        """Count an array until nothing refers to it any more."""
        self._in_use[device_id] += values.nbytes
        weakref.finalize(values, self._in_use.subtract, {device_id: values.nbytes}).atexit = False

    def upload(self, source: np.ndarray, target: ShelfArray) -> None:
        target.on_device()[...] = source

    def download(self, source: ShelfArray, target: np.ndarray) -> None:
        target[...] = source.on_device()

    def copy(self, source: ShelfArray, target: ShelfArray) -> None:
        target.on_device()[...] = source.on_device()

    def fill(self, target: ShelfArray, value: float) -> None:
        target.on_device().fill(value)

    def view(self, array: ShelfArray, shape: tuple[int, ...]) -> ShelfArray:
        assert math.prod(shape) == math.prod(array.shape)
        return array.viewed(shape)

    def part(self, array: ShelfArray, offset: int, desc: ArrayDesc) -> ShelfArray:
        return array.part(offset, desc)

    def window(self, array: ShelfArray, desc: ArrayDesc, offset: int) -> ShelfArray:
        return array.window(desc, offset)

    def statistics(self, device_id: str) -> dict[str, int]:
        return {"bytes_in_use": self._in_use[device_id]}


Run = Callable[..., None]


def prepare(call: Call, change: Callable[[Run], Run] = lambda run: run) -> Prepared:
    """The reference on the values of ShelfArrays; `change` makes another function on NumPy arrays of it."""
    run = change(reference_run(call))

    def launch(*arguments: Any) -> None:
        run(*(x.on_device() if isinstance(x, ShelfArray) else x for x in arguments))

    return Prepared(launch)


class ShelfPlugin:
    """Backend `shelf`.

    array_class: the one that it registers.  special: per op the implementation that is not the usual one.
    """

    def __init__(self, array_class: ShelfClass | None = None, /, **special: Implementation) -> None:
        self.array_class = array_class or ShelfClass()
        self.special = special

    @hookimpl
    def atled_info(self) -> PluginInfo:
        """Who it is."""
        backend = BackendInfo("shelf", ("float", "half", "double"), array_classes=("ShelfArray",))
        return PluginInfo("shelf", API_VERSION, "atled", "0.1", (backend,), ("shelf",))

    @hookimpl
    def atled_register(self, registrar: Registrar) -> None:
        """Hand over the references of all ops, on the device's memory, and the special ones."""
        registrar.array_class("ShelfArray", self.array_class, "shelf", default=True)
        for op, made in self.special.items():
            registrar.implementation(
                op,
                "shelf",
                made.prepare,
                accepts=made.accepts,
                note=made.note,
                op_version=made.op_version,
                omits=made.omits,
                prepare_group=made.prepare_group,
                attaches=made.attaches,
                layout=made.layout,
                integers=made.integers,
                strides=made.strides,
            )
        registrar.family("shelf", self.usual)

    def usual(self, op: str) -> Implementation:
        """The right implementation of any op."""
        return usual(op)

    @hookimpl
    def atled_devices(self, backend: str) -> list[str]:
        """There are two."""
        return list(DEVICES)


def usual(op: str) -> Implementation:
    """The right implementation of any op; one takes strides, one integers, as those that broken plugins have wrong."""
    note, strides = "reference on the device's memory", op == "Transpose" or ()
    return Implementation(op, "shelf", prepare, note=note, op_version=None, strides=strides, integers=op == "Mul2")


def changed(op: str, change: Callable[[Run], Run], note: str = "reference, changed") -> dict[str, Implementation]:
    """An implementation of one op whose run on NumPy arrays is changed; for `ShelfPlugin(**changed(...))`."""
    return {op: Implementation(op, "shelf", lambda call: prepare(call, change), note=note)}


PLUGIN = ShelfPlugin()
