"""Arrays with strides, for calls that describe them so: windows on memory whose other elements must stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.guarded import POISON
from atled.arrays.place import ArrayClass
from atled.strides import Window, bounds, contiguous_strides, elements

BESIDE = 3
"""Elements in front of and behind a window: it begins anywhere."""


class Whole(Protocol):
    """Memory of some elements."""

    @property
    def is_intact(self) -> bool:
        """Whether nothing was written beside it."""

    @property
    def argument(self) -> Any:
        """What an implementation gets."""

    def put(self, values: np.ndarray) -> None:
        """Fill it."""

    def get(self) -> np.ndarray:
        """A copy of what is in it."""


class StridedArray:
    """A window on poisoned memory.  skipped: elements in front of it."""

    def __init__(
        self,
        desc: ArrayDesc,
        allocate: Callable[[ArrayDesc], Whole],
        array_class: ArrayClass | None,
        skipped: int = BESIDE,
    ) -> None:
        window = Window(desc.shape, desc.written_strides)
        first, end = bounds(window)
        self._desc = desc
        self._offset = skipped - first
        self._places = elements(window) + self._offset
        self._whole = allocate(ArrayDesc((skipped + end - first + BESIDE,), desc.dtype))
        self._class = array_class

    @property
    def argument(self) -> Any:
        """What an implementation gets."""
        whole = self._whole.argument
        if self._class is not None:
            return self._class.window(whole, self._desc, self._offset)
        steps = [step * self._desc.dtype.itemsize for step in self._desc.written_strides]
        return np.lib.stride_tricks.as_strided(whole[self._offset :], self._desc.shape, steps)

    def put(self, values: np.ndarray) -> None:
        """Fill it."""
        whole = self._whole.get()
        whole[self._places] = values
        self._whole.put(whole)

    def get(self) -> np.ndarray:
        """A copy of what is in it."""
        return self._whole.get()[self._places]

    @property
    def is_intact(self) -> bool:
        """Whether nothing was written beside it, nor between its elements."""
        beside = np.delete(self._whole.get(), self._places.ravel())
        return self._whole.is_intact and bool((np.ascontiguousarray(beside).view(np.uint8) == POISON).all())


def turned(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a transposed array."""
    return tuple(reversed(contiguous_strides(tuple(reversed(shape)))))


def apart(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of every other element of rows that are longer, which are in the other order."""
    if not shape:
        return ()
    *outer, _ = contiguous_strides((*shape[:-1], 2 * shape[-1] + 1))
    return tuple(step if axis else -step for axis, step in enumerate((*outer, 2)))
