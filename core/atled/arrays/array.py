"""NdArray: the user's handle on one logical array, which may have copies in several memories and dtypes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.arrays.cell import FLOAT32, UNWRITTEN, ArrayCell
from atled.arrays.operators import ArrayOperators
from atled.arrays.place import HOST
from atled.arrays.storage import HostStorage
from atled.dtypes import float_dtype, in_native_order, is_number
from atled.errors import RefusedError, four_parts, in_words, shortened
from atled.limits.sizes import misfit, shown
from atled.limits.whole_numbers import whole
from atled_contexts import Context

_DLPACK_CPU = 1  # kDLCPU


def _context(asked: str, ctx: Any) -> Context:
    if not isinstance(ctx, Context):
        raise TypeError(
            four_parts(f"{asked}(ctx={ctx!r})", "not a Context", "", "pass a Context, such as nn.get_current_context()")
        )
    return ctx


def check_shape(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of int; TypeError or ValueError if it is none, or one that no array can have."""
    try:
        result = tuple([whole(size) for size in (shape if np.iterable(shape) else (shape,))])
    except (TypeError, ValueError) as error:
        raise TypeError(
            four_parts(
                f"shape {shortened(shape)}", f"not a shape: {error}", "", "pass a tuple or list of whole numbers"
            )
        ) from error
    if result and min(result) < 0:
        raise RefusedError(four_parts(f"shape {shown(result)}", "negative size", "", "use sizes of 0 or more"))
    wrong = misfit(result)
    if wrong:
        raise ValueError(four_parts(f"shape {shown(result)}", wrong, "", "use fewer axes or smaller sizes"))
    return result


class NdArray(ArrayOperators):
    """An array of numbers that computes at once: an op with an NdArray among its inputs runs immediately.

    Args:
        shape: sizes per axis, or one size. The elements are 0, float32, until something else is written.
    """

    __slots__ = ("cell", "shape")

    def __init__(self, shape: int | Sequence[int] = ()) -> None:
        self.shape = check_shape(shape)
        self.cell = ArrayCell(math.prod(self.shape))

    @classmethod
    def over(cls, cell: ArrayCell, shape: tuple[int, ...]) -> NdArray:
        """An array of another shape over the same memory."""
        array = cls.__new__(cls)
        array.cell = cell
        array.shape = shape
        return array

    @classmethod
    def from_numpy_array(cls, nparr: Any) -> NdArray:
        """A copy of a NumPy array; the dtype is kept, in the byte order of this machine."""
        values = _numeric(nparr, "NdArray.from_numpy_array")
        array = cls.over(ArrayCell(values.size), values.shape)  # NumPy's own shape: nothing to check
        array._write(values, in_native_order(values.dtype))
        return array

    @classmethod
    def full(cls, shape: int | Sequence[int], value: float, dtype: Any) -> NdArray:
        """An array with a number in all elements."""
        array = cls(shape)
        wanted = _dtype(dtype)
        array.cell.output(HOST, wanted).array(array.shape, wanted).fill(value)
        return array

    @property
    def size(self) -> int:
        """Count of elements."""
        return self.cell.size

    @property
    def ndim(self) -> int:
        """Count of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the values (float32 before anything was written)."""
        return self.cell.dtype or FLOAT32

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements; arrays are C-contiguous."""
        steps: list[int] = []
        step = 1
        for size in reversed(self.shape):
            steps.insert(0, step)
            step *= size
        return tuple(steps)

    @property
    def data(self) -> np.ndarray:
        """The values as a writable NumPy view: what is written into it is seen by every later op.

        Assigning broadcasts into the array, as NumPy does, and keeps its dtype.
        """
        return self.cell.shown(self.shape)

    @data.setter
    def data(self, value: Any) -> None:
        if isinstance(value, NdArray):
            self.copy_from(value)
            return
        values = _numeric(value, "NdArray.data = ...")
        if values.shape != self.shape and not _broadcasts(values.shape, self.shape):
            raise ValueError(
                four_parts(
                    f"assigning shape {values.shape} to an array of shape {self.shape}",
                    "the value does not broadcast to the array",
                    "",
                    f"assign a value of shape {self.shape}, or one that broadcasts to it",
                )
            )
        self._write(values, self.cell.dtype or FLOAT32)

    def _write(self, values: np.ndarray, dtype: np.dtype) -> None:
        cell = self.cell
        storage = cell.begin_write(HOST, dtype)
        try:
            np.copyto(storage.array(self.shape, dtype), values, casting="unsafe")
        finally:
            cell.end_write()

    def zero(self) -> None:
        """Set every element to 0, lazily; as a gradient it then counts as not written."""
        self.cell.zero()

    def fill(self, value: float) -> None:
        """Set every element to a number, lazily."""
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError) as error:
            kind = ValueError if isinstance(error, OverflowError) else TypeError
            wrong = f"that is not a number that fits a float ({error})"
            raise kind(four_parts(f"NdArray.fill({shortened(value)})", wrong, "", "pass a number")) from error
        self.cell.fill(number)

    def cast(self, dtype: Any, ctx: Context | None = None) -> np.ndarray | None:
        """Change the dtype, values kept; returns the writable NumPy view. Views taken before are stale.

        ctx: move the array to the memory of this Context's first usable backend instead; nothing is returned then.
        """
        wanted = _dtype(dtype)
        if ctx is not None:
            # Lazily: only the graph knows where a Context computes.
            from atled.graph.nodes.dispatch import home_of

            place = home_of(_context("NdArray.cast", ctx))
            self.cell.cast_at(place, wanted)
            return None
        storage = self.cell.cast(wanted)
        self.cell.touched()
        return storage.export(self.shape, wanted)

    def copy_from(self, other: NdArray) -> None:
        """Copy the values of an array of the same shape; the dtype of this one is kept.

        What is on a device stays there: this array has its values on a device then, too.
        """
        if not isinstance(other, NdArray):
            raise TypeError(
                four_parts(
                    "NdArray.copy_from", f"got {type(other).__name__}", "", "pass an NdArray; assign .data for NumPy"
                )
            )
        if other.shape != self.shape:
            raise RefusedError(
                four_parts(
                    f"copying shape {other.shape} to shape {self.shape}",
                    "shapes differ",
                    "",
                    "use arrays of equal shape",
                )
            )
        source, own = other.cell, self.cell
        dtype = own.dtype or source.dtype or FLOAT32
        source.settle(dtype)
        if source.place is not HOST and source is not own:
            own.copy_from(source, source.place if own.place is HOST else own.place, dtype)
            return
        values = source.copy_at(HOST, dtype)
        assert isinstance(values, HostStorage)
        self._write(values.array(self.shape, dtype), dtype)

    def size_from_axis(self, axis: int = -1) -> int:
        """Count of elements of the axes from `axis` on; all for -1. ValueError for an axis that is not there."""
        return size_from(self.shape, axis)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = self.data
        if dtype is not None and values.dtype != np.dtype(dtype):
            if copy is False:
                raise ValueError(
                    four_parts(
                        f"NumPy asked for {np.dtype(dtype)} without a copy",
                        f"the array is {values.dtype}",
                        "",
                        "allow the copy, or cast the array first",
                    )
                )
            return values.astype(dtype)
        return values.copy() if copy else values

    @classmethod
    def from_dlpack(cls, source: Any, *, copy: bool | None = None) -> NdArray:
        """An array of another library, on its own device where a plugin has it; the dtype is kept.

        On a device it is the memory itself, which both libraries then read and write: `copy=True` copies it there. From
        host memory it is a copy always, so that `copy=False` is refused.

        TypeError: `source` does not speak DLPack.  BufferError: no usable plugin computes on its device, or it cannot
        be used without a copy, because it is not C-contiguous.
        """
        from atled.arrays.interchange import from_dlpack  # it builds on this module

        return from_dlpack(source, copy)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The memory itself for another library: `numpy.from_dlpack(array)`, `torch.from_dlpack(array)`.

        On the host writing is seen on both sides. Device memory is for reading: what another library writes there is
        not seen by copies that exist elsewhere.
        """
        from atled.arrays.interchange import to_dlpack  # it builds on this module

        return to_dlpack(self, dl_device, stream=stream, max_version=max_version, copy=copy)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory itself for libraries that take CUDA arrays (CuPy, Numba); AttributeError where it is elsewhere."""
        from atled.arrays.interchange import cuda_array_interface  # it builds on this module

        return cuda_array_interface(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        """(type, number) of the device that `__dlpack__` hands out."""
        from atled.arrays.interchange import dlpack_device  # it builds on this module

        return dlpack_device(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle and `copy`: an array of its own with the same values and dtype, in host memory."""
        values = host_copy(self)
        return (type(self), (self.shape,)) if values is None else (type(self).from_numpy_array, (values,))

    def __repr__(self) -> str:
        return f"<NdArray {self.dtype.name}{list(self.shape)} at {hex(id(self))}>"


def host_copy(array: NdArray) -> np.ndarray | None:
    """A copy of the values, which stay where they are; None where nothing was ever written, not even a dtype."""
    cell = array.cell
    if cell.dtype is None and cell.pending is UNWRITTEN:
        return None
    cell.settle()
    assert cell.dtype is not None, "settled"
    storage = cell.copy_at(HOST, cell.dtype)
    assert isinstance(storage, HostStorage)
    return storage.array(array.shape, cell.dtype).copy()


def _dtype(given: Any) -> np.dtype:
    """The dtype of numbers that is asked for; TypeError if there is none, ImportError where it needs ml_dtypes."""
    try:
        found = np.dtype(given)
    except TypeError:
        try:
            found = float_dtype(given) if isinstance(given, str) else np.dtype(object)
        except ValueError:
            found = np.dtype(object)
    if not is_number(found):
        asked = f"cast to {given!r}"
        raise TypeError(four_parts(asked, "not a dtype of numbers", "", "use a float, int or bool dtype"))
    return in_native_order(found)


def _is_on_host(values: Any) -> bool:
    """Whether an array says by DLPack that it is in host memory, or on a device of no kind that DLPack has."""
    if not hasattr(values, "__dlpack_device__"):
        return False
    try:
        return int(values.__dlpack_device__()[0]) == _DLPACK_CPU
    except (TypeError, ValueError, RuntimeError):  # as PyTorch does of its device `meta`
        return True


def size_from(shape: tuple[int, ...], axis: int) -> int:
    """Count of elements of the axes from `axis` on; all where it is negative."""
    if axis > len(shape):
        raise RefusedError(
            four_parts(
                f"size_from_axis({axis}) of shape {shape}",
                "there is no such axis",
                "",
                f"use -1 for all axes, or 0 to {len(shape)}",
            )
        )
    return math.prod(shape[max(axis, 0) :])


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Whether an array of one shape may be assigned to one of another; `np.broadcast_shapes` makes arrays to find out.

    Axes of size 1 in front of those of `to` are dropped, as NumPy does where it assigns.
    """
    count = min(len(shape), len(to))
    in_front, behind = shape[: len(shape) - count], shape[len(shape) - count :]
    return in_front.count(1) == len(in_front) and all(
        n in (1, size) for n, size in zip(behind, to[len(to) - count :], strict=True)
    )


def _numeric(values: Any, what: str) -> np.ndarray:
    """The values as a NumPy array of numbers; TypeError or ValueError if they are none."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:  # ragged, too deep, or not to be converted
        remedy = "pass a regular array of numbers"
        if hasattr(values, "__dlpack__") and not _is_on_host(values):
            remedy = "NdArray.from_dlpack(array) takes an array of a device as it is"
        raise ValueError(four_parts(what, f"NumPy makes no array of it ({in_words(error)})", "", remedy)) from error
    if not is_number(array.dtype):
        raise TypeError(four_parts(what, f"got dtype {array.dtype}", "", "pass numbers: a float, int or bool array"))
    return array
