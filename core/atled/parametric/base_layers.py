"""The base layers, which have a weight and a bias: affine maps and convolutions."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, ClassVar

from atled.initializer import UniformInitializer, calc_uniform_lim_glorot
from atled.ops.spec import REQUIRED
from atled.parameter import Initializer, get_parameter_or_create
from atled.parametric.arguments import Argument, first_value
from atled.parametric.layer import ZEROS, Layer
from atled.variable import Variable


class BaseLayer(Layer):
    """One call of a layer `y = function(inp, W, b, **attributes)`: a subclass per function, an instance per call.

    The docstring of a subclass is the first paragraph of its layer's.

    Class attributes:
        function: name of the layer, and of its function in `atled.functions`.
        scope: scope of its parameters.
        title, times: "Affine map", "x": what `{layer}` and `{x}` stand for in docstrings of `WeightTransform`.
        parameters: shape and dtype of W and b.
        takes: the arguments, in order.
        shown: the arguments that error messages name.
        returns: shape and dtype of the result.

    Attributes:
        given: the arguments of the call by name.
        w_shape, b_shape: shapes of W and b.
        fan: what `calc_uniform_lim_glorot` takes, for the limits of W's default first value.
        attributes: what the function takes beyond inp, W and b.
    """

    function: ClassVar[str]
    scope: ClassVar[str]
    title: ClassVar[str]
    times: ClassVar[str]
    parameters: ClassVar[dict[str, str]]
    takes: ClassVar[tuple[Argument, ...]]
    shown: ClassVar[tuple[str, ...]]
    returns: ClassVar[str]

    given: Any
    w_shape: tuple[int, ...]
    b_shape: tuple[int, ...]
    fan: tuple[Any, ...]
    attributes: dict[str, Any]

    def __init__(self, name: str, given: SimpleNamespace, shown: tuple[str, ...] = ()) -> None:
        """Check a call.

        Args:
            name: name of the layer that is called, which may be one made of this one.
            given: its arguments by name.
            shown: more arguments that error messages name.

        Raises:
            TypeError, ValueError: an argument that does not fit the input.
        """
        values = vars(given)
        super().__init__(name, given.inp, **{key: values[key] for key in (*self.shown, *shown)})
        self.given = given
        self.check(given)

    def check(self, given: SimpleNamespace) -> None:
        """Check the arguments but for first values, and find w_shape, b_shape, fan and attributes."""
        raise NotImplementedError

    def default(self, initializer: Initializer | None) -> Initializer:
        """The first value of an array of the weight's shape: as given, else uniform with Glorot's limits."""
        if initializer is not None:
            return initializer
        return UniformInitializer(calc_uniform_lim_glorot(*self.fan), self.given.rng)

    def weight(self) -> Variable:
        """The parameter W: of shape w_shape, float."""
        init = self.default(self.given.w_init)
        return get_parameter_or_create("W", self.w_shape, init, not self.given.fix_parameters)

    def bias(self) -> Variable | None:
        """The parameter b: of shape b_shape, float; None if there is to be none."""
        given = self.given
        if not given.with_bias:
            return None
        init = ZEROS if given.b_init is None else given.b_init
        return get_parameter_or_create("b", self.b_shape, init, not given.fix_parameters)


_B_INIT = first_value("b_init", "b", "0")
_LAST = (
    Argument("fix_parameters", "bool", False, "whether the parameters get no gradient"),
    Argument(
        "rng",
        "Any",
        None,
        "numpy.random.RandomState or Generator that default first values are drawn from; None: the numpy.random module",
    ),
    Argument("with_bias", "bool", True, "whether b is added"),
)


class Affine(BaseLayer):
    """Affine map, the fully connected layer: `y = x W + b`."""

    function = scope = "affine"
    title, times = "Affine map", "x"
    parameters: ClassVar = {"W": "(D, L...) float, D the product of inp.shape[base_axis:]", "b": "(L...) float"}
    takes = (
        Argument("inp", "Array", REQUIRED, "(B..., I...) float; base_axis leading axes are kept"),
        Argument(
            "n_outmaps", "int | Sequence[int]", REQUIRED, "L; the shape of the output from base_axis on, or one size"
        ),
        Argument("base_axis", "int", 1, "how many leading axes count as the batch; a negative one counts from the end"),
        first_value("w_init", "W", "uniform with Glorot's limits"),
        _B_INIT,
        *_LAST,
    )
    shown = ("n_outmaps", "base_axis")
    returns = "(B..., L...) float."

    def check(self, given: SimpleNamespace) -> None:
        self.base_axis = self.axis("base_axis", given.base_axis)
        maps = given.n_outmaps
        self.b_shape = self.sizes("n_outmaps", maps if hasattr(maps, "__iter__") else (maps,))
        if not self.b_shape:
            raise self.error("n_outmaps is empty", "give at least one size")
        self.depth = math.prod(self.inp.shape[self.base_axis :])
        self.w_shape = (self.depth, *self.b_shape)
        self.fan = (self.depth, math.prod(self.b_shape))
        self.attributes = {"base_axis": self.base_axis}


_IMAGES = Argument("inp", "Array", REQUIRED, "(B..., C, S...) float; base_axis leading axes are kept")
_IMAGES_1D_2D = Argument("inp", "Array", REQUIRED, "(B..., C, S...) float; one or two spatial axes")
_OUTMAPS = Argument("outmaps", "int", REQUIRED, "count of output maps")
_GROUP = Argument("group", "int", 1, "number of groups into which channels and output maps are split; divides both")
_CHANNEL_LAST = Argument(
    "channel_last",
    "bool",
    False,
    "whether the channel axis is the last one of inp, of the result, and of W where that has one behind its first axis",
    keyword_only=True,
)
_DILATION = "distance between the taps of the kernel"
# What the windows of a convolution and of a transposed one are, and how many there are.
_READ = "zeros", "step between windows"
_READ_COUNT = "T = (S + 2 pad - (dilation (K - 1) + 1)) // stride + 1."
_WRITTEN = "how much is cut off", "distance between the windows of neighbours"
_WRITTEN_COUNT = "T = stride (S - 1) - 2 pad + dilation (K - 1) + 1."


def _spatial(*first: Argument, windows: tuple[str, str], count: Argument, limits: str) -> tuple[Argument, ...]:
    """The arguments of a layer with windows over the spatial axes."""
    pad, stride = windows
    return (
        *first,
        Argument("kernel", "Sequence[int]", REQUIRED, "K; one size per spatial axis"),
        Argument("pad", "Sequence[int] | None", None, f"{pad} on both sides of each spatial axis; default 0"),
        Argument("stride", "Sequence[int] | None", None, f"{stride} per spatial axis; default 1"),
        Argument("dilation", "Sequence[int] | None", None, f"{_DILATION} per spatial axis; default 1"),
        count,
        first_value("w_init", "W", f"uniform with Glorot's limits{limits}"),
        _B_INIT,
        Argument("base_axis", "int", 1, "the channel axis; a negative one counts from the end"),
        *_LAST,
        _CHANNEL_LAST,
    )


class _Spatial(BaseLayer):
    """One call of a layer with windows over the spatial axes, those behind the channel axis.

    Attributes:
        base_axis: the channel axis, counted from the front.
        channels: C.
        channel_last: whether that is the size of the last axis.
        window: K, the sizes of the kernel.
        windows: the attributes that say where the windows are.
    """

    def check(self, given: SimpleNamespace) -> None:
        self.base_axis = self.axis("base_axis", given.base_axis)
        self.window = self.kernel(given.kernel)
        self.channel_last = bool(given.channel_last)
        self.channels = int(self.inp.shape[-1 if self.channel_last else self.base_axis])
        windows = {"pad": given.pad, "stride": given.stride, "dilation": given.dilation}
        self.windows = {"base_axis": self.base_axis, **windows}
        if self.channel_last:  # the layers that do not take it are made of functions that do not
            self.windows["channel_last"] = given.channel_last

    def kernel(self, value: Any) -> tuple[int, ...]:
        """One size per spatial axis."""
        sizes = self.sizes("kernel", value)
        spatial = self.inp.ndim - self.base_axis - 1
        if not spatial:
            raise self.error("there is no spatial axis behind the channel axis", "add one of size 1 or use affine")
        if len(sizes) != spatial:
            raise self.error(
                f"kernel has {len(sizes)} sizes for {spatial} spatial axes", f"give {spatial}, or set base_axis"
            )
        return sizes

    def filters(self, count: int, depth: int) -> tuple[int, ...]:
        """The shape of a weight: as many filters of that depth."""
        return (count, *self.window, depth) if self.channel_last else (count, depth, *self.window)

    def divided(self, name: str, value: Any, *counted: tuple[str, int]) -> int:
        """A whole number that divides the given counts."""
        parts = self.size(name, value)
        for what, count in counted:
            if count % parts:
                raise self.error(f"{name}={parts} does not divide {count} {what}", f"use a common divisor as {name}")
        return parts


class Convolution(_Spatial):
    """Convolution over any number of spatial axes."""

    function, scope = "convolution", "conv"
    title, times = "Convolution", "x *"
    parameters: ClassVar = {"W": "(outmaps, C / group, K...) float", "b": "(outmaps,) float"}
    takes = _spatial(
        _IMAGES,
        _OUTMAPS,
        windows=_READ,
        count=_GROUP,
        limits=", for which all C channels count whatever the group",
    )
    shown = ("kernel", "base_axis", "outmaps", "group")
    returns = f"(B..., outmaps, T...) float; {_READ_COUNT}"

    def check(self, given: SimpleNamespace) -> None:
        super().check(given)
        self.maps = self.size("outmaps", given.outmaps)
        group = self.divided("group", given.group, ("channels", self.channels), ("output maps", self.maps))
        self.w_shape = self.filters(self.maps, self.channels // group)
        self.b_shape = (self.maps,)
        self.fan = (self.channels, self.maps, self.window)
        self.attributes = {**self.windows, "group": group}


class Deconvolution(_Spatial):
    """Transposed convolution, the map that a convolution's gradient applies: it spreads each element over a window."""

    function, scope = "deconvolution", "deconv"
    title, times = "Transposed convolution", "x *"
    parameters: ClassVar = {"W": "(C, outmaps / group, K...) float", "b": "(outmaps,) float"}
    takes = _spatial(_IMAGES, _OUTMAPS, windows=_WRITTEN, count=_GROUP, limits=" for outmaps inputs and C outputs")
    shown = ("kernel", "base_axis", "outmaps", "group")
    returns = f"(B..., outmaps, T...) float; {_WRITTEN_COUNT}"

    def check(self, given: SimpleNamespace) -> None:
        super().check(given)
        maps = self.size("outmaps", given.outmaps)
        group = self.divided("group", given.group, ("channels", self.channels), ("output maps", maps))
        self.w_shape = self.filters(self.channels, maps // group)
        self.b_shape = (maps,)
        self.fan = (maps, self.channels, self.window)
        self.attributes = {**self.windows, "group": group}


class DepthwiseConvolution(_Spatial):
    """Convolution of each channel by itself, with `multiplier` kernels: output map o reads channel o // multiplier."""

    function, scope = "depthwise_convolution", "depthwise_conv"
    title, times = "Convolution of each channel by itself", "x *"
    parameters: ClassVar = {"W": "(C multiplier, K...) float", "b": "(C multiplier,) float"}
    takes = _spatial(
        _IMAGES_1D_2D,
        windows=_READ,
        count=Argument("multiplier", "int", 1, "count of output maps per channel"),
        limits=" for C inputs and C multiplier outputs",
    )
    shown = ("kernel", "base_axis", "multiplier")
    returns = f"(B..., C multiplier, T...) float; {_READ_COUNT}"

    def check(self, given: SimpleNamespace) -> None:
        super().check(given)
        multiplier = self.size("multiplier", given.multiplier)
        maps = self.channels * multiplier
        self.w_shape = (maps, *self.window)
        self.b_shape = (maps,)
        self.fan = (self.channels, maps, self.window)
        self.attributes = {**self.windows, "multiplier": multiplier}


class DepthwiseDeconvolution(_Spatial):
    """Transposed convolution of each channel by itself, where every `divisor` neighbouring results are added up."""

    function, scope = "depthwise_deconvolution", "depthwise_deconv"
    title, times = "Transposed convolution of each channel by itself", "x *"
    parameters: ClassVar = {"W": "(C, K...) float", "b": "(C / divisor,) float"}
    takes = _spatial(
        _IMAGES_1D_2D,
        windows=_WRITTEN,
        count=Argument("divisor", "int", 1, "count of channels per output map; divides C"),
        limits=" for C inputs and outputs",
    )
    shown = ("kernel", "base_axis", "divisor")
    returns = f"(B..., C / divisor, T...) float; {_WRITTEN_COUNT}"

    def check(self, given: SimpleNamespace) -> None:
        super().check(given)
        divisor = self.divided("divisor", given.divisor, ("channels", self.channels))
        self.w_shape = (self.channels, *self.window)
        self.b_shape = (self.channels // divisor,)
        self.fan = (self.channels, self.channels, self.window)
        self.attributes = {**self.windows, "divisor": divisor}
