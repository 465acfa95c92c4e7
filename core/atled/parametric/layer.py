"""What layers share: checks of their arguments, and their weight and bias."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.errors import RefusedError, four_parts
from atled.initializer import ConstantInitializer, UniformInitializer, calc_uniform_lim_glorot
from atled.limits.whole_numbers import whole
from atled.parameter import Initializer, get_parameter_or_create
from atled.variable import Variable

Array = Variable | NdArray


class Layer:
    """One call of a layer, for checking its arguments before anything is made of them.

    Every check returns the argument in canonical form, or raises TypeError or ValueError that names the call.
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

    def kernel(self, value: Any, axis: int) -> tuple[int, ...]:
        """One size per spatial axis of the input, which are those behind `axis`."""
        sizes = self.sizes("kernel", value)
        spatial = self.inp.ndim - axis - 1
        if not spatial:
            raise self.error("there is no spatial axis behind the channel axis", "add one of size 1 or use affine")
        if len(sizes) != spatial:
            raise self.error(
                f"kernel has {len(sizes)} sizes for {spatial} spatial axes", f"give {spatial}, or set base_axis"
            )
        return sizes

    def array(self, parameter: Variable) -> Array:
        """A parameter as functions are to get it before inp joins in: at once where inp is computed with at once."""
        return parameter.data if isinstance(self.inp, NdArray) else parameter


def bias(shape: tuple[int, ...], b_init: Initializer | None, need_grad: bool, with_bias: bool) -> Variable | None:
    """The parameter b, which starts at 0 if not said otherwise; None if there is to be none."""
    if not with_bias:
        return None
    return get_parameter_or_create("b", shape, ConstantInitializer(0) if b_init is None else b_init, need_grad)


def without_gradient(name: str, shape: tuple[int, ...], initializer: Initializer | None = None) -> Variable:
    """A parameter that the forward of a layer writes; starts at 0 if not said otherwise."""
    return get_parameter_or_create(name, shape, ConstantInitializer(0) if initializer is None else initializer, False)


class AffineLayer(Layer):
    """One call of a fully connected layer.

    base_axis: counted from the front.  depth: D, the count of inputs.
    maps: L, the shape of the output from base_axis on.
    """

    __slots__ = ("base_axis", "depth", "maps")

    def __init__(self, name: str, inp: Any, n_outmaps: Any, base_axis: Any, **arguments: Any) -> None:
        super().__init__(name, inp, n_outmaps=n_outmaps, base_axis=base_axis, **arguments)
        self.base_axis = self.axis("base_axis", base_axis)
        self.maps = self.sizes("n_outmaps", n_outmaps if hasattr(n_outmaps, "__iter__") else (n_outmaps,))
        if not self.maps:
            raise self.error("n_outmaps is empty", "give at least one size")
        self.depth = math.prod(inp.shape[self.base_axis :])

    @property
    def w_shape(self) -> tuple[int, ...]:
        """(D, L...)."""
        return self.depth, *self.maps

    def default(self, w_init: Initializer | None, rng: Any) -> Initializer:
        """The first value of a weight: as given, else uniform with Glorot's limits."""
        if w_init is not None:
            return w_init
        return UniformInitializer(calc_uniform_lim_glorot(self.depth, math.prod(self.maps)), rng)

    def weight(self, w_init: Initializer | None, rng: Any, need_grad: bool) -> Variable:
        """The parameter W."""
        return get_parameter_or_create("W", self.w_shape, self.default(w_init, rng), need_grad)


class SpatialLayer(Layer):
    """One call of a layer with windows over the spatial axes, those behind the channel axis.

    base_axis: the channel axis, counted from the front.  channels: C.  window: K, the sizes of the kernel.
    """

    __slots__ = ("base_axis", "channels", "window")

    def __init__(self, name: str, inp: Any, kernel: Any, base_axis: Any, **arguments: Any) -> None:
        super().__init__(name, inp, kernel=kernel, base_axis=base_axis, **arguments)
        self.base_axis = self.axis("base_axis", base_axis)
        self.window = self.kernel(kernel, self.base_axis)
        self.channels = int(inp.shape[self.base_axis])

    def divided(self, name: str, value: Any, *counted: tuple[str, int]) -> int:
        """A whole number that divides the given counts."""
        parts = self.size(name, value)
        for what, count in counted:
            if count % parts:
                raise self.error(f"{name}={parts} does not divide {count} {what}", f"use a common divisor as {name}")
        return parts

    def default(self, w_init: Initializer | None, inmaps: int, outmaps: int, rng: Any) -> Initializer:
        """The first value of a weight: as given, else uniform with Glorot's limits."""
        return (
            UniformInitializer(calc_uniform_lim_glorot(inmaps, outmaps, self.window), rng) if w_init is None else w_init
        )


class ConvolutionLayer(SpatialLayer):
    """One call of a convolution, with or without groups.

    maps: count of output maps.  groups: into how many groups channels and maps are split.
    """

    __slots__ = ("groups", "maps")

    def __init__(
        self, name: str, inp: Any, outmaps: Any, kernel: Any, base_axis: Any, group: Any = 1, **arguments: Any
    ) -> None:
        super().__init__(name, inp, kernel, base_axis, outmaps=outmaps, group=group, **arguments)
        self.maps = self.size("outmaps", outmaps)
        self.groups = self.divided("group", group, ("channels", self.channels), ("output maps", self.maps))

    @property
    def w_shape(self) -> tuple[int, ...]:
        """(outmaps, C / group, K...)."""
        return self.maps, self.channels // self.groups, *self.window

    def weight(self, w_init: Initializer | None, rng: Any, need_grad: bool) -> Variable:
        """The parameter W; for the limits of its first value all C channels count, whatever the group."""
        init = self.default(w_init, self.channels, self.maps, rng)
        return get_parameter_or_create("W", self.w_shape, init, need_grad)
