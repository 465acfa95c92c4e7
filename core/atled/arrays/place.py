"""Where an array lives: host memory, or one device of one array class."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.failures import Failures
from atled.arrays.storage import ALIGNMENT
from atled.errors import four_parts
from atled_contexts import active_trace, check_array_classes


class ArrayClass:
    """How the arrays of a device are made and moved; a device plugin subclasses it and registers an instance.

    What its methods call an array is the plugin's own object (a CuPy array, a handle); the engine never
    looks inside. Sizes are those of the ArrayDesc an array was allocated for.
    """

    name = ""

    def allocate(self, desc: ArrayDesc, device_id: str) -> Any:  # Any: the device's own array type
        """A new array on the device; contents undefined."""
        raise _missing(self, "allocate")

    def upload(self, source: np.ndarray, target: Any) -> None:
        """Copy from host memory; `source` is C-contiguous and of the target's shape and dtype.

        It may change as soon as this returns.
        """
        raise _missing(self, "upload")

    def download(self, source: Any, target: np.ndarray) -> None:
        """Copy to host memory and wait until the values are there."""
        raise _missing(self, "download")

    def copy(self, source: Any, target: Any) -> None:
        """Copy between two arrays of one device, of equal shape and dtype."""
        raise _missing(self, "copy")

    def fill(self, target: Any, value: float) -> None:
        """Set every element."""
        raise _missing(self, "fill")

    def view(self, array: Any, shape: tuple[int, ...]) -> Any:
        """The same memory with another shape of equal size."""
        raise _missing(self, "view")

    def synchronize(self, device_id: str) -> None:
        """Wait until everything launched on the device is done."""

    def timestamp(self, device_id: str) -> Any:  # Any: the device's own event
        """A mark in the device's queue of work, for `seconds_between`; None for a device without a clock of its own."""
        return None

    def seconds_between(self, first: Any, last: Any) -> float:  # Any: see above
        """Wait until both marks were passed; the seconds between them by the device's clock."""
        raise _missing(self, "seconds_between")

    # What a class may offer beside; the conformance kit checks what is there.

    def program(self, launches: Sequence[Callable[[], object]], device_id: str) -> Callable[[], object] | None:
        """What does the same as these launches in a row, quicker; None where there is nothing quicker than a loop.

        Each launch only puts work into the device's queue, for arrays that do not move, and may be called here to have
        that work recorded instead of done: a graph of the device's own, or one flush for all. What is returned is
        called once per run, and dropped with what the launches refer to.
        """
        return None

    def put_words(self, words: np.ndarray, target: Any) -> None:
        """Copy a few int64 to the device in the order of its queue: work that is queued already reads the old ones.

        `words` may change as soon as this returns; it need not wait for the device.
        """
        self.upload(words, target)

    @property
    def alignment(self) -> int:
        """Bytes, a power of two; a `part` begins at multiples of it, on any of the class's devices."""
        return 256

    def copy_across(self, source: Any, target: Any) -> bool:
        """Copy between arrays of two devices of the class, of equal shape and dtype, in the order of both queues.

        False, and nothing is done, where these two do not reach each other: then it goes by way of the host.
        """
        return False

    def part(self, array: Any, offset: int, desc: ArrayDesc) -> Any:  # Any: see above
        """The bytes of a uint8 array from `offset` on as an array like any other, no copy; it keeps the memory alive.

        Plans of a class that has this put all values that are needed only while they run into one array, at
        offsets that are multiples of `alignment`, and share it: one plan's work follows another's in the queue of the
        device, from whichever thread. At least one byte of `array` is there for an empty part.
        """
        raise _missing(self, "part")

    def window(self, array: Any, desc: ArrayDesc, offset: int) -> Any:  # Any: see above
        """Elements of an array from number `offset` on, as an array with the shape and strides of `desc`, no copy.

        The strides may be negative or 0, and name no element that `array` does not have; the dtype is that of `array`.
        Implementations that take strides (`Implementation.strides`) are given such arrays.
        """
        raise _missing(self, "window")

    def statistics(self, device_id: str) -> Mapping[str, int]:
        """Memory of a device in bytes: `bytes_in_use`, in arrays that something refers to, and what else it counts.

        Waiting work refers to its arrays, so the kit reads this after `synchronize`. Empty where the class keeps none.
        """
        return {}

    def clear_memory_cache(self, device_id: str) -> None:
        """Give memory that the class keeps for later arrays back to the device; nothing where it keeps none."""

    def dlpack_device(self, device_id: str) -> tuple[int, int] | None:
        """(type, number) of a device as DLPack counts them; None where the class offers no DLPack."""
        return None

    def to_dlpack(
        self, source: Any, **options: Any
    ) -> Any:  # Any: the device's own array; options and capsule as DLPack
        """A DLPack capsule over an array, no copy; the options are those of `__dlpack__`."""
        raise _missing(self, "to_dlpack")

    def from_dlpack(self, source: Any, device_id: str) -> tuple[Any, ArrayDesc]:  # Any: see above
        """An array over the memory of an object with `__dlpack__` on that device, no copy, and its description.

        BufferError, with the reason, for what the class's kernels cannot use: not C-contiguous, not aligned.
        """
        raise _missing(self, "from_dlpack")

    def copy_dlpack(self, source: Any, device_id: str) -> tuple[Any, ArrayDesc]:  # Any: see above
        """The same as a copy, in memory of the class's own; a class may also copy here what `from_dlpack` refuses."""
        values, desc = self.from_dlpack(source, device_id)
        target = self.allocate(desc, device_id)
        self.copy(values, target)
        return target, desc

    def cuda_array_interface(self, source: Any) -> dict[str, Any] | None:  # Any: see above
        """What `__cuda_array_interface__` (version 3) says of an array, the stream to wait for included; None: nothing.

        For a class whose memory is CUDA's.
        """
        return None


def _missing(array_class: ArrayClass, method: str) -> NotImplementedError:
    return NotImplementedError(
        four_parts(
            f"{method} of array class {type(array_class).__name__}",
            "the class does not have it",
            "",
            f"have the plugin define it: help(ArrayClass.{method})",
        )
    )


def _why_no_array_class(found: object) -> str:
    if isinstance(found, ArrayClass):
        return ""
    what = f"the class {found.__name__}" if isinstance(found, type) else f"of type {type(found).__name__}"
    return f"it is {what}, not an instance of a subclass of ArrayClass"


check_array_classes(_why_no_array_class)


class Place:
    """One memory: the host, or device `device_id` of an array class. Places are unique: compare with `is`.

    has_parts: whether its arrays have parts that are arrays themselves (`ArrayClass.part`).
    has_windows: whether there are strided arrays (`ArrayClass.window`).
    failures: what may have gone wrong there since the host last waited.
    """

    __slots__ = ("array_class", "device_id", "failures", "has_parts", "has_windows")

    def __init__(self, array_class: ArrayClass | None, device_id: str) -> None:
        self.array_class = array_class
        self.device_id = device_id
        self.has_parts = array_class is not None and type(array_class).part is not ArrayClass.part
        self.has_windows = array_class is None or type(array_class).window is not ArrayClass.window
        self.failures = Failures(array_class, device_id)

    @property
    def is_host(self) -> bool:
        """Whether NumPy can reach it."""
        return self.array_class is None

    @property
    def alignment(self) -> int:
        """Bytes, where parts may begin, and workspaces."""
        assert self.array_class is not None
        alignment = self.array_class.alignment
        if alignment < 1 or alignment & (alignment - 1):
            raise ValueError(
                four_parts(
                    f"the alignment of array class {type(self.array_class).__name__}",
                    f"{alignment!r} is no power of two",
                    "",
                    "mend the plugin: a `part` begins at multiples of so many bytes",
                )
            )
        return max(alignment, ALIGNMENT)

    def begins_anywhere(self, nbytes: int) -> bool:
        """Whether arrays may begin so many bytes behind the beginning of a memory, for every implementation."""
        return self.is_host or (self.has_windows and nbytes % self.alignment == 0)

    def download(self, source: Any, target: np.ndarray) -> None:  # Any: the device's own array type
        """Copy from the device to host memory and wait; raises what the device found wrong before."""
        assert self.array_class is not None
        self.failures.look()
        self.array_class.download(source, target)

    def synchronize(self) -> None:
        """Wait until everything launched on the device is done; raises what it found wrong."""
        assert self.array_class is not None
        self.array_class.synchronize(self.device_id)
        self.failures.look()

    def __repr__(self) -> str:
        return "host" if self.array_class is None else f"{self.array_class.name}:{self.device_id}"


HOST = Place(None, "")

_PLACES: dict[tuple[int, str], Place] = {}


def place_on(array_class: ArrayClass, device_id: str) -> Place:
    """The one Place of a device."""
    key = (id(array_class), device_id)
    place = _PLACES.get(key)
    if place is None:
        place = _PLACES.setdefault(key, Place(array_class, device_id))
    return place


class ArraysByShape(dict[tuple[Any, ...], Any]):  # Any: in a key a size or a description; the device's own array type
    """One buffer on a device as arrays of the shapes that were asked for: to make one takes as long as a launch.

    Windows on it by description and offset; those of its first elements by shape, too.
    """

    __slots__ = ("_array_class", "_buffer", "_desc")

    def __init__(self, array_class: ArrayClass, buffer: Any, desc: ArrayDesc) -> None:
        self._array_class = array_class
        self._buffer = buffer
        self._desc = desc

    def __missing__(self, key: tuple[Any, ...]) -> Any:
        if len(self) >= _SHAPES_LIMIT:
            self.clear()
        if key and isinstance(key[0], ArrayDesc):
            array = self[key] = self._array_class.window(self._buffer, *key)
        elif math.prod(key) != self._desc.size:
            array = self[key] = self._array_class.window(self._buffer, ArrayDesc(key, self._desc.dtype), 0)
        else:
            array = self[key] = self._array_class.view(self._buffer, key)
        return array


_SHAPES_LIMIT = 16


class DeviceStorage:
    """One buffer on a device; `buffer` is the plugin's own array, flat.

    nbytes: size in bytes.
    exported: whether something outside of the engine may have the memory.
    address: what a launch gets of it, as of a host storage its address: arrays by shape.
    """

    __slots__ = ("address", "buffer", "dtype", "exported", "nbytes", "place")

    seen_changed = False  # of a host storage: what others write here is told

    def __init__(self, place: Place, size: int, dtype: np.dtype, buffer: Any = None) -> None:
        """buffer: memory of others, which is used as it is; None: new memory."""
        desc = ArrayDesc((size,), dtype)
        assert place.array_class is not None
        self.place = place
        self.dtype = desc.dtype
        self.nbytes = desc.nbytes
        self.exported = buffer is not None
        self.buffer = place.array_class.allocate(desc, place.device_id) if buffer is None else buffer
        self.address = ArraysByShape(place.array_class, self.buffer, desc)

    def is_shown_no_more(self) -> bool:
        """See `HostStorage`; nothing tells when other libraries are done with memory of a device."""
        return False

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:  # Any: the device's own array type
        """The buffer with a shape; the dtype is that it was allocated with."""
        assert dtype == self.dtype
        return self.address[shape]

    def window(self, desc: ArrayDesc, offset: int) -> Any:  # Any: see above
        """Elements of the buffer, from number `offset` on, by their strides."""
        assert desc.dtype == self.dtype
        return self.address[desc, offset]


class DevicePart:
    """Some bytes of a buffer on a device, which they keep alive; for the engine's own use.

    nbytes: how many.
    """

    __slots__ = ("_offset", "_whole", "nbytes", "place")

    def __init__(self, whole: DeviceStorage, offset: int, nbytes: int) -> None:
        assert offset + nbytes <= whole.nbytes
        self._whole = whole
        self._offset = offset
        self.place = whole.place
        self.nbytes = nbytes

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:  # Any: the device's own array type
        """The bytes as an array of any dtype that fits."""
        desc = ArrayDesc(shape, dtype)
        assert self.place.array_class is not None and desc.nbytes <= self.nbytes
        return self.place.array_class.part(self._whole.buffer, self._offset, desc)

    def window(self, desc: ArrayDesc, offset: int) -> Any:  # Any: see above
        """Elements of the bytes as an array of any dtype that fits, from number `offset` on, by their strides."""
        assert self.place.array_class is not None
        flat = self.array((self.nbytes // desc.dtype.itemsize,), desc.dtype)
        return self.place.array_class.window(flat, desc, offset)


class TransferCount:
    """How often and how much was copied between memories since the last reset."""

    __slots__ = ("bytes_moved", "calls")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again from zero."""
        self.calls = 0
        self.bytes_moved = 0

    def add(self, source: Place, target: Place, nbytes: int) -> None:
        """Count one copy, also in the trace in force."""
        self.calls += 1
        self.bytes_moved += nbytes
        trace = active_trace()
        if trace is not None:
            trace.transfer(repr(source), repr(target), nbytes)


TRANSFERS = TransferCount()
