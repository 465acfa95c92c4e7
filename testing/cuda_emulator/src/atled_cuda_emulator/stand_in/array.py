"""`cupy.ndarray`: memory of a device with a shape. What computes on whole arrays is done by NumPy, after a wait."""

from __future__ import annotations

import ctypes
import math
import types
from typing import Any

import numpy as np

from atled_cuda_emulator.errors import CUDARuntimeError, DeviceFault
from atled_cuda_emulator.stand_in import dlpack, memory, runtime, stream
from atled_cuda_emulator.stand_in.device import Device
from atled_cuda_emulator.stand_in.world import thread, world


def _c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides, step = [], itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _extent(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """The bytes before and behind the first element's begin."""
    if 0 in shape:
        return 0, 0
    reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    return -sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + itemsize


class ndarray:
    """`cupy.ndarray`."""

    __array_priority__ = 100
    __array_ufunc__ = None  # NumPy's functions and operators refuse it

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C"
    ) -> None:
        self.shape = (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(size) for size in shape)
        self.dtype = np.dtype(dtype)
        if self.dtype.kind not in "biufcV" or self.dtype.hasobject or (self.dtype.kind == "V" and self.dtype.names):
            raise ValueError(f"Unsupported dtype {self.dtype}")
        self.itemsize, self.ndim = self.dtype.itemsize, len(self.shape)
        self.size = math.prod(self.shape)
        self.nbytes = self.size * self.itemsize
        if strides is not None:
            self.strides = tuple(strides)
        elif order == "F":
            self.strides = tuple(reversed(_c_strides(self.shape[::-1], self.itemsize)))
        else:
            self.strides = _c_strides(self.shape, self.itemsize)
        self.data = memory.alloc(self.nbytes) if memptr is None else memptr
        self.base: ndarray | None = None
        below, above = _extent(self.shape, self.strides, self.itemsize)
        offset = self.data.ptr - self.data.mem.ptr
        if below > offset or offset + above > self.data.mem.size:
            raise DeviceFault(
                f"an array of shape {self.shape} reaches outside of its memory of {self.data.mem.size} bytes"
            )

    @property
    def device(self) -> Device:
        """Where it is."""
        return Device(self.data.mem.device_id)

    @property
    def flags(self) -> Any:
        """Those of NumPy that say how it lies in memory."""
        flags = np.lib.stride_tricks.as_strided(
            np.empty(0, self.dtype), self.shape, self.strides, writeable=False
        ).flags
        own = self.base is None
        return types.SimpleNamespace(c_contiguous=flags.c_contiguous, f_contiguous=flags.f_contiguous, owndata=own)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        described = {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "stream": stream.get_current_stream().ptr or 1,
            "version": 3,
            "strides": None if self.flags.c_contiguous else self.strides,
            "data": (self.data.ptr, False),
        }
        return described

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.data.mem.device_id

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError("the emulator exports arrays on their own device only")
        source = self.copy() if copy else self
        if stream not in (-1, 2):
            _order_behind_current(1 if stream is None else stream)
        return dlpack.capsule(source, self.__dlpack_device__(), _address(source))

    # --- to and from the host ---------------------------------------------------------------------------------

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> np.ndarray[Any, Any]:
        """A copy in host memory."""
        result = np.empty(self.shape, self.dtype, order="F" if order == "F" else "C") if out is None else out
        if result.dtype != self.dtype or result.shape != self.shape:
            raise ValueError("Shape or dtype mismatch")
        pointer = (_current() if stream is None else stream).ptr
        if self.size:
            packed = self if self.flags.c_contiguous else ascontiguousarray(self)
            host = np.empty(self.shape, self.dtype)
            runtime.memcpyAsync(host.ctypes.data, packed.data.ptr, self.nbytes, runtime.memcpyDeviceToHost, pointer)
            result[...] = host
        return result

    def set(self, arr: Any, stream: Any = None) -> None:
        """Copy from host memory."""
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if arr.dtype != self.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if arr.shape != self.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        if not self.flags.c_contiguous:
            raise RuntimeError("Cannot set to non-contiguous array")
        host = np.ascontiguousarray(arr)
        pointer = (_current() if stream is None else stream).ptr
        if self.size:
            runtime.memcpyAsync(self.data.ptr, host.ctypes.data, self.nbytes, runtime.memcpyHostToDevice, pointer)

    def item(self) -> Any:
        """The only element."""
        return self.get().item()

    def __array__(self, *arguments: Any, **named: Any) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    # --- by NumPy -------------------------------------------------------------------------------------------------

    def _host(self) -> np.ndarray[Any, Any]:
        """The memory as NumPy's, when everything queued is done."""
        current = world().machine.queue(_current().ptr, thread.device)
        world().machine.refuse_while_capturing([current])
        world().machine.drain_all(self.data.mem.device_id)
        if not self.size:
            return np.empty(self.shape, self.dtype)
        world().memory.at(self.data.ptr, 0, "an array")
        below, above = _extent(self.shape, self.strides, self.itemsize)
        raw: Any = (ctypes.c_ubyte * (below + above)).from_address(self.data.ptr - below)
        return np.ndarray(self.shape, self.dtype, raw, below, self.strides)

    def _like(self, result: Any) -> Any:
        """A result of NumPy on the device: a view of this array, or new."""
        if not isinstance(result, np.ndarray | np.generic):
            return result
        if isinstance(result, np.ndarray) and self.size and result.size and np.shares_memory(result, self._host()):
            offset = result.ctypes.data - self.data.ptr
            view = ndarray(result.shape, result.dtype, self.data + offset, result.strides)
            view.base = self if self.base is None else self.base
            return view
        return array(result)

    T = property(lambda self: self.transpose())

    def __getitem__(self, key: Any) -> Any:
        return self._like(self._host()[_hosted(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._host()[_hosted(key)] = _operand(value)

    def fill(self, value: Any) -> None:
        """One value everywhere."""
        self._host().fill(_operand(value))

    def copy(self, order: str = "C") -> ndarray:
        """New memory."""
        return array(self._host().copy("F" if order == "F" else "C"))

    def __getattr__(self, name: str) -> Any:
        method = getattr(np.ndarray, name, None) if not name.startswith("_") else None
        if not callable(method):
            raise AttributeError(f"'ndarray' object has no attribute {name!r}")

        def call(*arguments: Any, **named: Any) -> Any:
            given = [_operand(one) for one in arguments]
            return self._like(method(self._host(), *given, **{key: _operand(one) for key, one in named.items()}))

        return call

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        return repr(self._host())

    def __bool__(self) -> bool:
        return bool(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    __hash__ = None  # type: ignore[assignment]  # as NumPy's


def _operators() -> None:
    def binary(name: str) -> Any:
        return lambda self, other: self._like(getattr(self._host(), name)(_operand(other)))

    def in_place(name: str) -> Any:
        def compute(self: ndarray, other: Any) -> ndarray:
            getattr(self._host(), name)(_operand(other))
            return self

        return compute

    for name in [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "matmul",
        "and",
        "or",
        "xor",
        "lshift",
        "rshift",
    ]:
        setattr(ndarray, f"__{name}__", binary(f"__{name}__"))
        setattr(ndarray, f"__r{name}__", binary(f"__r{name}__"))
        setattr(ndarray, f"__i{name}__", in_place(f"__i{name}__"))
    for name in ["lt", "le", "gt", "ge", "eq", "ne"]:
        setattr(ndarray, f"__{name}__", binary(f"__{name}__"))
    for name in ["neg", "pos", "abs", "invert"]:
        setattr(ndarray, f"__{name}__", lambda self, name=f"__{name}__": self._like(getattr(self._host(), name)()))


_operators()


def _current() -> Any:
    return stream.get_current_stream()


def _address(source: ndarray) -> int:
    return source.data.ptr


def _order_behind_current(consumer: int) -> None:
    """What comes next in the consumer's stream waits for what is queued in the current one."""
    current = _current()
    if consumer in (0, 1, current.ptr) and current.ptr in (0, consumer):
        return
    event = stream.Event(disable_timing=True)
    event.record(current)
    stream.ExternalStream(0 if consumer == 1 else consumer).wait_event(event)


def _hosted(one: Any) -> Any:
    """Indices as NumPy's."""
    if isinstance(one, ndarray):
        return one._host()
    return tuple(_hosted(part) for part in one) if isinstance(one, tuple) else one


def _operand(one: Any) -> Any:
    """An operand as NumPy's; arrays in host memory are refused, as CuPy does."""
    if isinstance(one, ndarray):
        return one._host()
    if isinstance(one, np.ndarray) and one.ndim:
        raise TypeError(f"Unsupported type {type(one)}")
    return type(one)(map(_operand, one)) if isinstance(one, tuple | list) else one


def array(obj: Any, dtype: Any = None, copy: bool = True, order: str = "K", **named: Any) -> ndarray:
    """A new array on the current device."""
    host = obj.get() if isinstance(obj, ndarray) else np.asarray(obj)
    host = np.asarray(host, dtype)
    fortran = host.flags.f_contiguous and not host.flags.c_contiguous
    result = ndarray(host.shape, host.dtype, order="F" if fortran else "C")
    if host.size:
        packed = host if fortran else np.ascontiguousarray(host)
        runtime.memcpyAsync(result.data.ptr, packed.ctypes.data, host.nbytes, 1, _current().ptr)
    return result


def asarray(a: Any, dtype: Any = None, order: str | None = None, **named: Any) -> ndarray:
    """The same where it is one."""
    if isinstance(a, ndarray) and dtype in (None, a.dtype):
        return a
    if not isinstance(a, ndarray) and hasattr(a, "__cuda_array_interface__"):
        return _from_interface(a)
    return array(a, dtype)


def _from_interface(source: Any) -> ndarray:
    described = source.__cuda_array_interface__
    address = described["data"][0]
    dtype = np.dtype(described["typestr"])
    shape = tuple(described["shape"])
    strides = described.get("strides") or _c_strides(shape, dtype.itemsize)
    below, above = _extent(shape, strides, dtype.itemsize)
    owner = memory.UnownedMemory(address - below, below + above, source)
    if described.get("stream"):
        _wait_for_stream(described["stream"])
    return ndarray(shape, dtype, memory.MemoryPointer(owner, below), strides)


def _wait_for_stream(producer: int) -> None:
    runtime.streamSynchronize(0 if producer == 1 else producer)


def from_dlpack(array: Any, *, device: Any = None, copy: Any = None) -> ndarray:
    """An array over memory of somebody else's."""
    kind, number = array.__dlpack_device__()
    if kind != dlpack.CUDA:
        raise BufferError("the emulator's from_dlpack takes memory of CUDA devices only")
    with Device(number):
        current = _current().ptr
        capsule = array.__dlpack__(stream=current or 1)
        found = dlpack.read(capsule)
        if found.device != (kind, number):
            raise CUDARuntimeError(1)
        below, above = _extent(found.shape, found.strides, found.dtype.itemsize)
        owner = memory.UnownedMemory(found.address - below, below + above, found.owner, number)
        result = ndarray(found.shape, found.dtype, memory.MemoryPointer(owner, below), found.strides)
        return result.copy() if copy else result


def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    """Whatever is in the memory: here NaN."""
    return ndarray(shape, dtype, order=order)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> ndarray:
    """One value everywhere."""
    result = ndarray(shape, np.asarray(fill_value).dtype if dtype is None else dtype, order=order)
    result.fill(fill_value)
    return result


def zeros(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    """0 everywhere."""
    result = ndarray(shape, dtype, order=order)
    runtime.memsetAsync(result.data.ptr, 0, result.nbytes, _current().ptr)
    return result


def ones(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    """1 everywhere."""
    return full(shape, 1, dtype, order)


def empty_like(
    prototype: ndarray, dtype: Any = None, order: str = "C", subok: Any = None, shape: Any = None
) -> ndarray:
    """Of the same shape and dtype."""
    return empty(prototype.shape if shape is None else shape, dtype or prototype.dtype)


def zeros_like(a: ndarray, dtype: Any = None, order: str = "C", subok: Any = None, shape: Any = None) -> ndarray:
    """Of the same shape and dtype."""
    return zeros(a.shape if shape is None else shape, dtype or a.dtype)


def ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    """In C order."""
    given = asarray(a, dtype)
    return given if given.flags.c_contiguous else array(np.ascontiguousarray(given._host()))


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> Any:
    """A copy in host memory."""
    return a.get(stream, order, out, blocking) if isinstance(a, ndarray) else np.asarray(a)


def by_numpy(name: str) -> Any:
    """A function of NumPy on arrays of the device, such as `cupy.matmul`."""
    function = getattr(np, name, None)
    if function is None:
        raise AttributeError(f"module 'cupy' has no attribute {name!r} (this is the emulator's stand-in for CuPy)")
    if isinstance(function, type) or not callable(function):
        return function

    def call(*arguments: Any, **named: Any) -> Any:
        result = function(*map(_operand, arguments), **{key: _operand(one) for key, one in named.items()})
        if "out" in named:
            return named["out"]
        if isinstance(result, tuple | list):
            return type(result)(array(one) if isinstance(one, np.ndarray) else one for one in result)
        return array(result) if isinstance(result, np.ndarray | np.generic) else result

    return call
