"""Layers: functions that bring their own parameters, kept in the scope in which they are called."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from atled import functions
from atled.apply import apply
from atled.array import NdArray
from atled.errors import four_parts
from atled.initializer import ConstantInitializer, UniformInitializer, calc_uniform_lim_glorot
from atled.parameter import Initializer, get_parameter_or_create, parameter_scope, undone_on_error
from atled.variable import Variable

Array = Variable | NdArray

_R = TypeVar("_R")


def parametric_function_api(scope_name: str | None = None) -> Callable[[Callable[..., _R]], Callable[..., _R]]:
    """Decorator for functions that make parameters: they get one more argument, `name`.

    The function is called within the scope `scope_name`, which comes under a scope `name` if the caller gives one:
    `affine(x, 10, name="fc1")` keeps its weight as `fc1/affine/W`. If it ends with an exception, the parameters that it
    made are taken out again.

        @parametric_function_api("scale")
        def scale(inp):
            s = get_parameter_or_create("s", (1,) * inp.ndim, ConstantInitializer(1))
            return functions.mul2(inp, s)

    Args:
        scope_name: scope of the function's parameters; None: none of its own.

    Raises:
        TypeError: the decorated function has an argument `name` already.
    """

    def decorate(function: Callable[..., _R]) -> Callable[..., _R]:
        signature = inspect.signature(function)
        named, position = _with_name(function, signature)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> _R:
            if position is not None and len(args) == position + 1 and "name" not in kwargs:
                args, kwargs["name"] = args[:-1], args[-1]
            name = kwargs.pop("name", None)
            above = "" if name is None else name
            with undone_on_error(), parameter_scope(above), parameter_scope(scope_name or ""):
                return function(*args, **kwargs)

        call.__signature__ = named  # type: ignore[attr-defined]  # where inspect and help() look
        return call

    return decorate


def _with_name(function: Callable[..., Any], signature: inspect.Signature) -> tuple[inspect.Signature, int | None]:
    """The signature with `name=None` as last argument, and its position, None where only a keyword can give it."""
    parameters = list(signature.parameters.values())
    if "name" in signature.parameters:
        raise TypeError(
            four_parts(
                f"parametric_function_api on {getattr(function, '__name__', function)!r}",
                "the function has an argument `name` already, which the decorator adds",
                "",
                "rename that argument",
            )
        )
    kinds = [parameter.kind for parameter in parameters]
    takes_any = inspect.Parameter.VAR_POSITIONAL in kinds
    kind = inspect.Parameter.KEYWORD_ONLY if takes_any else inspect.Parameter.POSITIONAL_OR_KEYWORD
    position = sum(1 for known in kinds if known <= kind)
    added = inspect.Parameter("name", kind, default=None, annotation="str | None")
    parameters.insert(position, added)
    return signature.replace(parameters=parameters), None if takes_any else position


@parametric_function_api("affine")
def affine(
    inp: Array,
    n_outmaps: int | Sequence[int],
    base_axis: int = 1,
    w_init: Initializer | None = None,
    b_init: Initializer | None = None,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
) -> Any:
    """Affine map, the fully connected layer: `y = x W + b`.

    Parameters: `affine/W` of shape (D, L...), D the product of inp.shape[base_axis:]; `affine/b` of shape (L...).

    Args:
        inp: (B..., I...) float; base_axis leading axes are kept.
        n_outmaps: L; the shape of the output from base_axis on, or one size.
        base_axis: how many leading axes count as the batch; negative counts from the end.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits.
        b_init: first value of b; default 0.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        name: scope above `affine`.

    Returns:
        (B..., L...) float.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = _Layer("affine", inp, n_outmaps=n_outmaps, base_axis=base_axis)
    axis = layer.axis("base_axis", base_axis)
    maps = layer.sizes("n_outmaps", n_outmaps if hasattr(n_outmaps, "__iter__") else (n_outmaps,))
    if not maps:
        raise layer.error("n_outmaps is empty", "give at least one size")
    depth = math.prod(inp.shape[axis:])
    if w_init is None:
        w_init = UniformInitializer(calc_uniform_lim_glorot(depth, math.prod(maps)), rng)
    w, b = _weight_and_bias((depth, *maps), maps, w_init, b_init, not fix_parameters, with_bias)
    return functions.affine(inp, w, b, base_axis=axis)


@parametric_function_api("conv")
def convolution(
    inp: Array,
    outmaps: int,
    kernel: Sequence[int],
    pad: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    group: int = 1,
    w_init: Initializer | None = None,
    b_init: Initializer | None = None,
    base_axis: int = 1,
    fix_parameters: bool = False,
    rng: Any = None,
    with_bias: bool = True,
) -> Any:
    """Convolution over any number of spatial axes.

    Parameters: `conv/W` of shape (outmaps, C / group, K...); `conv/b` of shape (outmaps,).

    Args:
        inp: (B..., C, S...) float; base_axis leading axes are kept.
        outmaps: count of output maps.
        kernel: K; one size per spatial axis.
        pad: zeros on both sides of each spatial axis; default 0.
        stride: step between windows per spatial axis; default 1.
        dilation: distance between the taps of the kernel per spatial axis; default 1.
        group: number of groups into which channels and output maps are split; divides both.
        w_init: first value of W, an array or initializer; default uniform with Glorot's limits, for which all C
            channels count whatever the group.
        b_init: first value of b; default 0.
        base_axis: the channel axis; negative counts from the end.
        fix_parameters: whether the parameters get no gradient.
        rng: numpy.random.RandomState or Generator of the default w_init; None: the numpy.random module.
        with_bias: whether b is added.
        name: scope above `conv`.

    Returns:
        (B..., outmaps, T...) float; T = (S + 2 pad - (dilation (K - 1) + 1)) // stride + 1.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = _Layer("convolution", inp, outmaps=outmaps, kernel=kernel, group=group, base_axis=base_axis)
    axis = layer.axis("base_axis", base_axis)
    maps = layer.size("outmaps", outmaps)
    window = layer.kernel(kernel, axis)
    groups = layer.size("group", group)
    channels = inp.shape[axis]
    for what, count in (("channels", channels), ("output maps", maps)):
        if count % groups:
            raise layer.error(f"group={groups} does not divide {count} {what}", "use a common divisor as group")
    if w_init is None:
        w_init = UniformInitializer(calc_uniform_lim_glorot(channels, maps, window), rng)
    shape = (maps, channels // groups, *window)
    w, b = _weight_and_bias(shape, (maps,), w_init, b_init, not fix_parameters, with_bias)
    return functions.convolution(inp, w, b, base_axis=axis, pad=pad, stride=stride, dilation=dilation, group=groups)


@parametric_function_api("bn")
def batch_normalization(
    inp: Array,
    axes: Sequence[int] = [1],  # never changed; a list, as NNabla's signature shows it
    decay_rate: float = 0.9,
    eps: float = 1e-5,
    batch_stat: bool = True,
    output_stat: bool = False,
    fix_parameters: bool = False,
) -> Any:
    """Batch normalization: `y = gamma (x - m) / sqrt(v + eps) + beta` with one m and one v per channel.

    Parameters, of the shape of inp with 1 on every axis but the channel axis: `bn/beta` (starts at 0), `bn/gamma` (1),
    and the running statistics `bn/mean` (0) and `bn/var` (0), which get no gradient.

    Args:
        inp: float, any shape with at least one axis.
        axes: the channel axis, exactly one.
        decay_rate: weight of the past in the running statistics, 0 to 1.
        eps: added to the variance, >= 0.
        batch_stat: whether to normalize by the batch, which moves the running statistics (training), or by the running
            statistics (inference).
        output_stat: whether to return the batch's mean and biased variance as well; needs batch_stat.
        fix_parameters: whether beta and gamma get no gradient.
        name: scope above `bn`.

    Returns:
        shape of inp; with output_stat a tuple (y, mean, variance).

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
    """
    layer = _Layer("batch_normalization", inp, axes=axes)
    channel_axes = tuple(axes) if hasattr(axes, "__iter__") else (axes,)
    if len(channel_axes) != 1:
        raise layer.error(f"axes names {len(channel_axes)} axes", "give exactly one, the channel axis")
    axis = layer.axis("axes", channel_axes[0])
    shape = tuple(size if position == axis else 1 for position, size in enumerate(inp.shape))
    beta = get_parameter_or_create("beta", shape, ConstantInitializer(0), not fix_parameters)
    gamma = get_parameter_or_create("gamma", shape, ConstantInitializer(1), not fix_parameters)
    mean = get_parameter_or_create("mean", shape, ConstantInitializer(0), False)
    var = get_parameter_or_create("var", shape, ConstantInitializer(0), False)
    attributes = {
        "axes": (axis,),
        "decay_rate": decay_rate,
        "eps": eps,
        "batch_stat": batch_stat,
        "output_stat": output_stat,
    }
    return apply("BatchNormalization", (inp, beta, gamma, mean, var), attributes)


@parametric_function_api("embed")
def embed(inp: Array, n_inputs: int, n_features: int, fix_parameters: bool = False) -> Any:
    """Rows of a learnt table by index: `y = W[x]`.

    Parameter: `embed/W` of shape (n_inputs, n_features), uniform between -sqrt(3) and sqrt(3), which is a standard
    deviation of 1.

    Args:
        inp: (I...) whole numbers in [0, n_inputs); gets no gradient.
        n_inputs: how many different indices there are.
        n_features: length of a row.
        fix_parameters: whether W gets no gradient.
        name: scope above `embed`.

    Returns:
        (I..., n_features) float.

    Raises:
        TypeError, ValueError: an argument that does not fit the input or the parameters that are there; no parameter
            is made then.
        IndexError: when computed, for an index out of range.
    """
    layer = _Layer("embed", inp, n_inputs=n_inputs, n_features=n_features)
    shape = (layer.size("n_inputs", n_inputs), layer.size("n_features", n_features))
    limit = math.sqrt(3.0)
    w = get_parameter_or_create("W", shape, UniformInitializer((-limit, limit)), not fix_parameters)
    return functions.embed(inp, w)


def _weight_and_bias(
    w_shape: tuple[int, ...],
    b_shape: tuple[int, ...],
    w_init: Initializer,
    b_init: Initializer | None,
    need_grad: bool,
    with_bias: bool,
) -> tuple[Variable, Variable | None]:
    """The parameters W and, unless there is to be none, b, which starts at 0 if not said otherwise."""
    w = get_parameter_or_create("W", w_shape, w_init, need_grad)
    if not with_bias:
        return w, None
    return w, get_parameter_or_create("b", b_shape, ConstantInitializer(0) if b_init is None else b_init, need_grad)


class _Layer:
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

    def error(self, wrong: str, remedy: str, kind: type[Exception] = ValueError) -> Exception:
        """The exception for a wrong call."""
        arguments = "".join(f", {name}={value!r}" for name, value in self.arguments.items())
        asked = f"parametric_functions.{self.name}(inp: {list(self.inp.shape)}{arguments})"
        return kind(four_parts(asked, wrong, "", remedy))

    def whole(self, name: str, value: Any) -> int:
        """A whole number; a bool is none."""
        if not isinstance(value, bool):
            try:
                return operator.index(value)
            except TypeError:
                pass  # told below, as for a bool
        raise self.error(f"{name} is of type {type(value).__name__}", "pass a whole number", TypeError)

    def size(self, name: str, value: Any) -> int:
        """A whole number of at least 1."""
        size = self.whole(name, value)
        if size < 1:
            raise self.error(f"{name} is {size}", "use 1 or more")
        return size

    def sizes(self, name: str, values: Any) -> tuple[int, ...]:
        """A sequence of whole numbers of at least 1."""
        if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
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
