"""The checks of arguments that all layers share."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.errors import RefusedError, four_parts
from atled.initializer import ConstantInitializer
from atled.limits.whole_numbers import whole
from atled.parameter import Initializer, get_parameter_or_create
from atled.variable import Variable

Array = Variable | NdArray


class Layer:
    """One call of a layer, for checking its arguments before a parameter is made.

    Every check returns the argument in canonical form, or raises TypeError or ValueError that names the call.

    Args:
        name: name of the layer.
        inp: its input, of any shape and dtype.
        arguments: the other arguments that errors show.

    Raises:
        TypeError: inp is neither a Variable nor an NdArray.
    """

    __slots__ = ("arguments", "inp", "name")

    def __init__(self, name: str, inp: Any, **arguments: Any) -> None:
        self.name = name
        self.inp = inp
        self.arguments = arguments
        if not isinstance(inp, Variable | NdArray):
            raise TypeError(
                four_parts(
                    f"parametric_functions.{name}, input inp",
                    f"got {type(inp).__name__}",
                    "",
                    "pass a Variable or an NdArray; NdArray.from_numpy_array makes one of a NumPy array",
                )
            )

    def error(self, wrong: str, remedy: str, kind: type[Exception] = RefusedError) -> Exception:
        """The exception for a wrong call."""
        arguments = "".join(f", {name}={value!r}" for name, value in self.arguments.items())
        asked = f"parametric_functions.{self.name}(inp: {list(self.inp.shape)}{arguments})"
        return kind(four_parts(asked, wrong, "", remedy))

    def whole(self, name: str, value: Any) -> int:
        """A whole number; a bool is none."""
        try:
            return whole(value)
        except TypeError as error:
            raise self.error(f"{name} is {value!r} ({error})", "pass a whole number", TypeError) from error

    def size(self, name: str, value: Any) -> int:
        """A whole number of at least 1."""
        size = self.whole(name, value)
        if size < 1:
            raise self.error(f"{name} is {size}", "use 1 or more")
        return size

    def number(self, name: str, value: Any) -> float:
        """A number as float."""
        try:
            if not isinstance(value, str | bytes):
                return float(value)
        except (TypeError, ValueError, OverflowError):
            pass  # told below, as for text
        raise self.error(f"{name} is no number that fits a float", "pass a number", TypeError)

    def sizes(self, name: str, values: Any) -> tuple[int, ...]:
        """A sequence of whole numbers of at least 1."""
        if isinstance(values, str | bytes) or not np.iterable(values):
            wrong = f"{name} is of type {type(values).__name__}"
            raise self.error(wrong, "pass a sequence of whole numbers, such as (3, 3)", TypeError)
        return tuple(self.size(f"{name}[{position}]", value) for position, value in enumerate(values))

    def axis(self, name: str, value: Any) -> int:
        """An axis of the input, counted from the front."""
        axis = self.whole(name, value)
        ndim = self.inp.ndim
        if not -ndim <= axis < ndim:
            remedy = f"use 0 to {ndim - 1}" if ndim else "give inp at least one axis"
            raise self.error(f"{name} is {axis}, which is out of range", remedy)
        return axis % ndim


ZEROS = ConstantInitializer(0)
"""The initializer of what starts at 0."""


def without_gradient(name: str, shape: tuple[int, ...], initializer: Initializer | None = None) -> Variable:
    """A parameter of that shape, float, that the forward of a layer writes; initializer None: it starts at 0."""
    return get_parameter_or_create(name, shape, ZEROS if initializer is None else initializer, False)
