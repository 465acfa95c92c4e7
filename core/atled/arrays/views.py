"""Views: strided windows on arrays, which front ends hold."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from atled import strides
from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.arrays.cell import FLOAT32, ArrayCell
from atled.arrays.place import HOST
from atled.arrays.storage import HostStorage
from atled.errors import RefusedError, four_parts
from atled.strides import Window


class View:
    """Elements of an array by shape, strides and offset, in the array's own memory.

    Views of views are views of the same array, which graphs take for one value.

    cell: the array.  desc: shape, dtype and strides.  offset: elements of the array in front of its first one.
    is_whole: whether it is all of the array in C order.
    read_only: why nothing may be written through it, nor through its views; empty where it may.
    """

    __slots__ = ("cell", "desc", "is_whole", "offset", "read_only")

    def __init__(self, base: NdArray | ArrayCell, desc: ArrayDesc | None = None, offset: int = 0) -> None:
        """desc: None for all of an NdArray.

        RefusedError: it names elements that the array does not have, or another dtype.
        """
        self.cell = base.cell if isinstance(base, NdArray) else base
        self.read_only = ""
        is_all = desc is None and not offset
        if desc is None:
            shape = base.shape if isinstance(base, NdArray) else (base.size,)
            desc = ArrayDesc(shape, self.cell.dtype or FLOAT32)
        self.desc = desc
        size = desc.size
        self.offset = offset if size else 0  # beyond the end there is no address
        self.is_whole = desc.strides is None and self.offset == 0 and size == self.cell.size
        if not is_all:
            self._check()

    def _check(self) -> None:
        wrong, cell = "", self.cell
        if strides.leaves(self.window, cell.size):
            first, end = strides.bounds(self.window)
            wrong = f"it names elements {first} to {end - 1}"
        elif cell.dtype is not None and cell.dtype != self.desc.dtype:
            wrong = f"the array is {cell.dtype}"
        if wrong:
            raise RefusedError(
                four_parts(
                    f"a view {self.desc}, offset {self.offset}, of an array of {cell.size} elements",
                    wrong,
                    "",
                    "keep shape, strides and offset, which count elements, within the array, and its dtype",
                )
            )

    @property
    def window(self) -> Window:
        """Which elements of the array it has."""
        return Window(self.desc.shape, self.desc.written_strides, self.offset)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes per axis."""
        return self.desc.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one to the next, per axis."""
        return self.desc.written_strides

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self.desc.dtype

    @property
    def ndim(self) -> int:
        """Count of axes."""
        return len(self.desc.shape)

    @property
    def size(self) -> int:
        """Count of elements."""
        return self.desc.size

    def _with(self, shown: tuple[ArrayDesc, int]) -> View:
        """Another window on the array, which keeps within this one: its description, and how far behind it begins."""
        made = View.__new__(View)
        made.cell = self.cell
        made.desc, skipped = shown
        made.offset = self.offset + skipped
        made.read_only = self.read_only
        made.is_whole = made.desc.strides is None and made.offset == 0 and made.desc.size == made.cell.size
        return made

    def __getitem__(self, key: Any) -> View:  # Any: what NumPy takes for a basic index
        """The view that NumPy's basic indexing makes; of one element, too."""
        keys = key if type(key) is tuple else (key,)
        desc = self.desc
        sizes = desc.shape
        cuts: list[tuple[int, int, int] | int] = []
        if len(keys) <= len(sizes):
            for axis, item in enumerate(keys):
                if type(item) is slice:
                    cuts.append(item.indices(sizes[axis]))
                elif type(item) is int:
                    cuts.append(item)
                else:
                    break
            else:
                return self._with(_cut(desc, tuple(cuts)))
        return self._with(_shown(desc, strides.index(_window(desc), key)))

    def cut(self, cuts: tuple[tuple[int, int, int] | int, ...]) -> View:
        """The view that first axes have of ranges of themselves, of which an int takes one element, without the axis.

        cuts: of ranges what `slice.indices` gives for the axis.  IndexError: an int is not within its axis.
        """
        return self._with(_cut(self.desc, cuts))

    def as_strided(self, desc: ArrayDesc, offset: int) -> View:
        """Any elements of the array, by strides, offset counted from its first one; read-only where this view is.

        RefusedError: it names elements that the array does not have, or another dtype.
        """
        made = View(self.cell, desc, offset)
        made.read_only = self.read_only
        return made

    def transpose(self, axes: Sequence[int] | None = None) -> View:
        """Axis i is axis `axes[i]` of this one; None turns the order of all round."""
        return self._with(_transposed(self.desc, None if axes is None else tuple(map(operator.index, axes))))

    @property
    def T(self) -> View:
        """All axes in the other order."""
        return self._with(_transposed(self.desc, None))

    def reshape(self, shape: Sequence[int]) -> View | None:
        """The elements in C order under another shape; None where that is no view."""
        shown = _reshaped(self.desc, tuple(map(operator.index, shape)))
        return None if shown is None else self._with(shown)

    def broadcast_to(self, shape: Sequence[int]) -> View:
        """Repeated along new axes and along those of size 1; not to be written."""
        return self._with(_shown(self.desc, strides.broadcast_to(_window(self.desc), shape)))

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> View:
        """The elements (i, i + offset) of two axes, which become one, the last."""
        return self._with(_shown(self.desc, strides.diagonal(_window(self.desc), offset, axis1, axis2)))

    def numpy(self) -> np.ndarray:
        """The values, as a new array."""
        storage = self.cell.copy_at(HOST, self.desc.dtype)
        assert isinstance(storage, HostStorage)
        return storage.window(self.desc, self.offset).copy(order="C")

    @property
    def is_on_host(self) -> bool:
        """Whether the array has its values in host memory, or none yet: what is written to it moves there."""
        return self.cell.place is HOST

    def export(self) -> np.ndarray:
        """The elements themselves, moved to host memory: what is written into them is seen by every later op.

        Of a read-only view the array is read-only, too.
        """
        cell, desc = self.cell, self.desc
        if cell.dtype is None:
            cell.settle(desc.dtype)
        storage = cell.host()
        cell.touched()
        itemsize = desc.dtype.itemsize
        steps = tuple(step * itemsize for step in desc.written_strides)
        whole = storage.export((cell.size,), desc.dtype)
        shown = np.ndarray(desc.shape, desc.dtype, whole, self.offset * itemsize, steps)
        shown.flags.writeable = not self.read_only
        return shown

    def write(self, values: Any) -> None:  # Any: what NumPy makes an array of
        """Have the view hold values, cast and broadcast as NumPy does where it assigns, with the errors that it has."""
        self._written()[...] = values
        self.cell.touched()

    def copy_from(self, other: View) -> None:
        """Have the view hold the elements of another, cast and broadcast, in host memory; they may be one array's."""
        target, cell = self._written(), other.cell
        storage = cell.copy_at(HOST, other.desc.dtype)
        assert isinstance(storage, HostStorage)
        target[...] = storage.window(other.desc, other.offset)
        self.cell.touched()

    def refuse(self) -> NoReturn:
        """Raise the ValueError of what is written through a view that is read-only."""
        raise ValueError(four_parts(f"writing to a view {self.desc}", self.read_only, "", "write to another array"))

    def _written(self) -> np.ndarray:
        """The elements in host memory, to be written."""
        desc, cell = self.desc, self.cell
        if self.read_only:
            self.refuse()
        if desc.strides is not None and not _is_injective(desc):
            wrong = "elements of the view are one element of the array"
            raise ValueError(four_parts(f"writing to a view {desc}", wrong, "", "write to that one"))
        if cell.dtype is None:
            cell.settle(desc.dtype)
        return cell.host().window(desc, self.offset)

    def __repr__(self) -> str:
        return f"<View {self.desc} offset {self.offset} of {self.cell.size} elements>"


# Programs make the same views at each step, of other arrays or at other places of them: to work one out takes some
# microseconds, to find it again a tenth of that.


def _window(desc: ArrayDesc) -> Window:
    return Window(desc.shape, desc.written_strides, 0)


def _shown(desc: ArrayDesc, window: Window) -> tuple[ArrayDesc, int]:
    return ArrayDesc(window.shape, desc.dtype, window.strides), window.offset if window.size else 0


@lru_cache(4096)
def _cut(desc: ArrayDesc, cuts: tuple[Any, ...]) -> tuple[ArrayDesc, int]:
    key = tuple(item if type(item) is int else _slice(*item) for item in cuts)
    return _shown(desc, strides.index(_window(desc), key))


def _slice(start: int, stop: int, step: int) -> slice:
    """The slice of a range that `slice.indices` gave: -1 is in front of the axis there, where a slice means its end."""
    if start < 0:
        return slice(0, 0)
    return slice(start, None if stop < 0 else stop, step)


@lru_cache(1024)
def _is_injective(desc: ArrayDesc) -> bool:
    return strides.is_injective(_window(desc))


@lru_cache(1024)
def _transposed(desc: ArrayDesc, axes: tuple[int, ...] | None) -> tuple[ArrayDesc, int]:
    return _shown(desc, strides.transpose(_window(desc), axes))


@lru_cache(1024)
def _reshaped(desc: ArrayDesc, shape: tuple[int, ...]) -> tuple[ArrayDesc, int] | None:
    window = strides.reshape(_window(desc), shape)
    return None if window is None else _shown(desc, window)
