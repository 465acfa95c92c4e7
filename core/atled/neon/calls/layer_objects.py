"""What the parameter objects of layer calls have in common, and how their sizes are checked."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from atled.errors import four_parts, shortened


class LayerObject:
    """Sizes of a layer; made by a backend, for calls of that.

    dtype: of its tensors, as it was asked for; calls take tensors of any float dtype.  N: images of a batch.
    """

    maker = ""  # the call that makes such objects

    def __init__(self, dtype: Any, N: int) -> None:
        self.dtype = _checked_dtype(self.maker, dtype)
        self.N = N
        self._forget = weakref.WeakSet[Callable[[object], None]]()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        for forget in [*self.__dict__.get("_forget", ())]:
            forget(self)

    def when_changed(self, forget: Callable[[object], None]) -> None:
        """Have a function called where an attribute is set, as long as somebody else holds the function."""
        self._forget.add(forget)

    def __repr__(self) -> str:
        told = {name: value for name, value in vars(self).items() if name[0] != "_" and isinstance(value, int | str)}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in told.items())})"


def _checked_dtype(maker: str, dtype: Any) -> np.dtype:
    try:
        return np.dtype(dtype)
    except TypeError as error:
        asked = f"{maker}(dtype={shortened(dtype)})"
        raise TypeError(four_parts(asked, "it is no dtype", "", "use numpy.float16, float32 or float64")) from error


def check_layer(call: str, layer: Any, wanted: type[LayerObject]) -> None:
    """TypeError for what is no parameter object of that kind."""
    if not isinstance(layer, wanted):
        raise TypeError(
            four_parts(
                f"{call}({shortened(layer)}, ...)",
                f"its first argument is no {wanted.__name__}",
                "",
                f"pass what be.{wanted.maker} gives",
            )
        )


def checked_sizes(call: str, least: int, given: Mapping[str, Any]) -> list[int]:
    """Sizes as ints; TypeError for what is none, ValueError below the least one."""
    sizes = []
    for name, value in given.items():
        try:
            size = operator.index(value)
        except TypeError as error:
            wrong = four_parts(f"{call}({name}={shortened(value)})", "it is no whole number", "", "give an int")
            raise TypeError(wrong) from error
        if size < least:
            raise ValueError(
                four_parts(f"{call}({name}={size})", f"it is below {least}", "", f"give a number from {least} on")
            )
        sizes.append(size)
    return sizes


def check_counts(call: str, sizes: Sequence[int], window: Sequence[int], counts: Sequence[int], axes: str) -> None:
    """ValueError where no window fits along an axis."""
    for axis, size, width, count in zip(axes.split(), sizes, window, counts, strict=True):
        if count < 1:
            raise ValueError(
                four_parts(
                    f"{call}({axis}={size})",
                    f"no window of {width} elements fits",
                    "",
                    "use a larger image, a smaller window or more padding",
                )
            )
