"""Calls that programs are made of: for an array of some shape, an expression that a function or layer takes it in."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import NamedTuple, Protocol


class Expression(NamedTuple):
    """What to write for a call.

    text: the right side of an assignment.  feature: what it is counted as.  outputs: how many names it assigns.
    """

    text: str
    feature: str
    outputs: int = 1


class Source(Protocol):
    """What expressions need of the program that is drawn."""

    random: Random
    is_on_device: bool

    def number(self) -> int:
        """A number for a seed."""
        ...

    def parameter(self, shape: tuple[int, ...], scale: float = 1.0) -> str:
        """The name of a leaf with need_grad of that shape."""
        ...

    def statistic(self, shape: tuple[int, ...], value: float, kind: str) -> str:
        """The name of a leaf of running statistics; kind: "m" for a mean, "s" for a variance, "n" for a count."""
        ...

    def other(self, shape: tuple[int, ...]) -> str:
        """The name of an array of that shape, which may be any."""
        ...

    def indices(self, shape: tuple[int, ...], stop: int) -> str:
        """The name of a leaf of whole numbers."""
        ...

    def sampled(self, values: str, flows: bool) -> str:
        """The name of a leaf that nobody writes, of the values of a sample; flows: whether a gradient may reach it."""
        ...

    def layer(self) -> str:
        """The name of a layer."""
        ...


Shape = tuple[int, ...]
Maker = Callable[[Source, str, Shape], Expression]

_UNARY = (
    "F.tanh({x})", "F.sigmoid({x})", "F.relu({x})", "F.relu({x}, inplace=True)", "F.swish({x})", "F.elu({x})",
    "F.selu({x})", "F.leaky_relu({x})", "F.sin({x})", "F.cos({x})", "F.abs({x})", "{x} * 0.5", "{x} + 0.25",
    "1.0 - {x}", "F.exp(F.tanh({x}))", "F.log(F.sigmoid({x}) + 0.5)", "{x} * {x}", "F.identity({x})",
    "F.sigmoid({x}) * {x}", "{x} / (1.0 + {x} * {x})", "F.maximum_scalar({x}, val=0.1)",
    "(F.sigmoid({x}) + 0.1) ** 1.5",
    "F.clip_grad_by_norm({x}, clip_norm=0.5)", "F.atan({x})", "F.sinh(F.tanh({x}))", "F.softmax({x})", "-{x}",
    "2.0 / (F.exp({x} * 0.1) + 1.0)", "F.tanh({x}) * F.sigmoid({x}) + {x}", "F.r_sub_scalar({x}, val=0.5)",
)  # fmt: skip
_BINARY = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "F.maximum2({x}, {y})", "F.minimum2({x}, {y})", "{x} / (F.exp({y}) + 0.5)",
    "F.squared_error({x}, {y})", "F.huber_loss({x}, {y})", "F.absolute_error({x}, {y})",
    "F.add2({x}, {y}, inplace=True)", "F.tanh({x}) + F.sin({y} * 0.5)",
)  # fmt: skip


def _unary(p: Source, x: str, shape: Shape) -> Expression:
    return Expression(p.random.choice(_UNARY).format(x=x), "elementwise")


def _chain(p: Source, x: str, shape: Shape) -> Expression:
    text = x
    for _ in range(p.random.randint(2, 4)):
        text = p.random.choice(_UNARY[:14]).format(x=text if text == x else f"({text})")
    return Expression(text, "elementwise chain")


def _binary(p: Source, x: str, shape: Shape) -> Expression:
    return Expression(p.random.choice(_BINARY).format(x=x, y=p.other(shape)), "elementwise of two")


def _gated(p: Source, x: str, shape: Shape) -> Expression:
    """Products of short formulas: what backward reads of them is quickly computed again."""
    y = p.parameter(shape) if p.random.random() < 0.6 else p.other(shape)
    ways = (
        f"F.tanh({x} * {y}) * F.sigmoid({x})",
        f"F.tanh({x} + {y}) * F.sigmoid({y}) * 0.5",
        f"F.sigmoid({x} * 0.5) * {y} + F.tanh({x})",
        f"F.exp(F.tanh({x})) * F.tanh({y} - {x})",
    )
    return Expression(p.random.choice(ways), "gated")


def _broadcast(p: Source, x: str, shape: Shape) -> Expression:
    smaller = tuple(1 if p.random.random() < 0.5 else size for size in shape)
    text = p.random.choice(_BINARY[:5])
    y = p.parameter(smaller) if p.random.random() < 0.6 else p.other(smaller)
    return Expression(text.format(x=x, y=y) if p.random.random() < 0.5 else text.format(x=y, y=x), "broadcast")


def _broadcast_to(p: Source, x: str, shape: Shape) -> Expression:
    axis = p.random.randrange(len(shape))
    target = list(shape)
    target[axis] = 3
    text = f"F.broadcast(F.mean({x}, axis={axis}, keepdims=True), shape={tuple(target)})"
    return Expression(text, "broadcast")


def _reduced(p: Source, x: str, shape: Shape) -> Expression:
    axes = p.random.sample(range(len(shape)), p.random.randint(1, len(shape)))
    name = p.random.choice(("sum", "mean", "max", "min", "sum", "mean"))
    argument = axes[0] if len(axes) == 1 else tuple(axes)
    text = f"F.{name}({x}, axis={argument}, keepdims={p.random.random() < 0.6})"
    return Expression(text if name != "sum" else f"{text} * 0.1", "reduction")


def _centered(p: Source, x: str, shape: Shape) -> Expression:
    axis = p.random.randrange(len(shape))
    ways = (
        f"{x} - F.mean({x}, axis={axis}, keepdims=True)",
        f"{x} / (F.sum({x} * {x}, axis={axis}, keepdims=True) + 0.5) ** 0.5",
        f"{x} * F.max(F.tanh({x}), axis={axis}, keepdims=True)",
        f"{x} + F.tanh(F.mean(F.sigmoid({x}), axis={axis}, keepdims=True))",
        f"F.log(F.softmax({x}, axis={axis}) + 0.1)",
    )
    return Expression(p.random.choice(ways), "reduction spread again")


def _softmax(p: Source, x: str, shape: Shape) -> Expression:
    return Expression(f"F.softmax({x} * 2.0, axis={p.random.randrange(len(shape))})", "softmax")


def _transpose(p: Source, x: str, shape: Shape) -> Expression:
    axes = p.random.sample(range(len(shape)), len(shape))
    return Expression(f"F.transpose({x}, axes={tuple(axes)})", "transpose")


def _reshape(p: Source, x: str, shape: Shape) -> Expression:
    size = 1
    for each in shape:
        size *= each
    targets = [(shape[0], size // shape[0]), (size // shape[-1], shape[-1]), tuple(reversed(shape)), (1, size)]
    inplace = p.random.random() < 0.8
    return Expression(f"F.reshape({x}, shape={p.random.choice(targets)}, inplace={inplace})", "reshape")


def _unlink(p: Source, x: str, shape: Shape) -> Expression:
    return Expression(p.random.choice((f"F.unlink({x})", f"F.unlink({x}) * 0.5 + {x}")), "F.unlink")


def _slice(p: Source, x: str, shape: Shape) -> Expression:
    starts = [p.random.randrange(size) for size in shape]
    stops = [p.random.randint(start + 1, size) for start, size in zip(starts, shape, strict=True)]
    steps = [p.random.choice((1, 1, 2)) for _ in shape]
    return Expression(f"F.slice({x}, start={tuple(starts)}, stop={tuple(stops)}, step={tuple(steps)})", "slice")


def _concatenate(p: Source, x: str, shape: Shape) -> Expression:
    others = [x if p.random.random() < 0.2 else p.other(shape) for _ in range(p.random.randint(1, 2))]
    axis = p.random.randrange(len(shape))
    return Expression(f"F.concatenate({', '.join([x, *others])}, axis={axis})", "concatenate")


def _stack(p: Source, x: str, shape: Shape) -> Expression:
    return Expression(f"F.stack({x}, {p.other(shape)}, axis={p.random.randrange(len(shape) + 1)})", "stack")


def _split(p: Source, x: str, shape: Shape) -> Expression:
    axes = [axis for axis, size in enumerate(shape) if 2 <= size <= 4]
    if not axes or len(shape) < 2:
        return _unary(p, x, shape)
    axis = p.random.choice(axes)
    return Expression(f"F.split({x}, axis={axis})", "split", shape[axis])


def _dropout(p: Source, x: str, shape: Shape) -> Expression:
    return Expression(f"F.dropout({x}, p=0.3, seed={p.number()})", "dropout")


def _noise(p: Source, x: str, shape: Shape) -> Expression:
    draw = p.random.choice((f"F.rand(low=-0.5, high=0.5, shape={shape}", f"F.randn(mu=0.0, sigma=0.2, shape={shape}"))
    return Expression(f"{x} + {draw}, seed={p.number()})", "random numbers")


def _moved(p: Source, x: str, shape: Shape) -> Expression:
    ways = (
        f"F.flip({x}, axes=({len(shape) - 1},))",
        f"F.shift({x}, shifts={tuple(p.random.randint(-2, 2) for _ in shape)})",
        f"F.pad({x}, pad_width={(0, 0) * (len(shape) - 1) + (1, 2)}, mode='constant', constant_value=0.5)",
    )
    return Expression(p.random.choice(ways), "flip, shift, pad")


def _affine(p: Source, x: str, shape: Shape) -> Expression:
    depth = 1
    for size in shape[1:]:
        depth *= size
    maps = p.random.choice((3, 8, 8, 16, 33))
    scale = (1.0 / depth) ** 0.5 * 1.5
    if p.random.random() < 0.3:
        firsts = f"w_init=draw({p.number()}, ({depth}, {maps})) * {scale:.3f}, b_init=draw({p.number()}, ({maps},))"
        return Expression(f"PF.affine({x}, {maps}, name='{p.layer()}x{depth}x{maps}', {firsts})", "PF.affine")
    weight = p.parameter((depth, maps), scale)
    bias = f", {p.parameter((maps,))}" if p.random.random() < 0.6 else ""
    return Expression(f"F.affine({x}, {weight}{bias})", "affine")


def _product(p: Source, x: str, shape: Shape) -> Expression:
    if len(shape) == 2:
        both = f"F.reshape({x}, shape={(1, *shape)})"
        return Expression(f"F.batch_matmul({both}, {both}, transpose_b=True) * 0.1", "batch_matmul")
    weight = p.parameter((shape[0], shape[2], 5), 0.5)
    return Expression(f"F.batch_matmul({x}, {weight})", "batch_matmul")


def _normalization(p: Source, x: str, shape: Shape) -> Expression:
    inner = tuple(size if axis == 1 else 1 for axis, size in enumerate(shape))
    # Of one value per channel all is rounding: the gradient is 0, and no difference from it is small.
    training = p.random.random() < 0.75 and shape[0] * math.prod(shape[2:]) > 1
    if p.random.random() < 0.3:
        name = f"{p.layer()}x{shape[1]}x{len(shape)}"
        return Expression(
            f"PF.batch_normalization({x}, name='{name}', batch_stat={training}, eps=0.1)", "PF.batch_norm"
        )
    given = [p.parameter(inner), p.parameter(inner), p.statistic(inner, 0.0, "m"), p.statistic(inner, 1.0, "s")]
    text = f"F.batch_normalization({x}, {', '.join(given)}, batch_stat={training}, eps=0.1)"
    return Expression(text, "batch_norm training" if training else "batch_norm inference")


def _mean_subtraction(p: Source, x: str, shape: Shape) -> Expression:
    mean, count = p.statistic(shape[1:], 0.0, "m"), p.statistic((1,), 0.0, "n")
    return Expression(f"F.mean_subtraction({x}, {mean}, {count})", "mean_subtraction")


def _prelu(p: Source, x: str, shape: Shape) -> Expression:
    ways = (f"F.prelu({x}, {p.parameter((shape[1],))})", f"F.crelu({x}, axis=1)", f"F.celu({x}, axis=1)")
    return Expression(p.random.choice(ways), "prelu, crelu, celu")


def _embed(p: Source, x: str, shape: Shape) -> Expression:
    table = p.parameter((7, shape[-1]))
    return Expression(f"{x} + F.embed({p.indices(shape[:-1], 7)}, {table})", "embed")


def _top_k(p: Source, x: str, shape: Shape) -> Expression:
    return Expression(f"F.top_k_data({x}, k=2, base_axis={len(shape) - 1})", "top_k")


def _python(p: Source, x: str, shape: Shape) -> Expression:
    return Expression(p.random.choice((f"Scaled()({x})", f"Product()({x}, {p.other(shape)})")), "PythonFunction")


def _convolution(p: Source, x: str, shape: Shape) -> Expression:
    _, channels, height, width = shape
    kernel = p.random.choice(((3, 3), (1, 1), (2, 2), (3, 1), (5, 5)))
    pad = p.random.choice(((0, 0), (1, 1), (1, 0)))
    stride = p.random.choice(((1, 1), (1, 1), (2, 2), (1, 2)))
    if kernel[0] > height + 2 * pad[0] or kernel[1] > width + 2 * pad[1]:
        return _unary(p, x, shape)
    maps = p.random.choice((2, 4, 8))
    group = 2 if channels % 2 == 0 and p.random.random() < 0.15 else 1
    w_shape = (maps, channels // group, *kernel)
    scale = 1.5 / (channels * kernel[0] * kernel[1]) ** 0.5
    options = f"pad={pad}, stride={stride}"
    if group == 1 and p.random.random() < 0.3:
        firsts = f"w_init=draw({p.number()}, {w_shape}) * {scale:.3f}, b_init=draw({p.number()}, ({maps},))"
        name = f"{p.layer()}x{channels}x{maps}x{kernel[0]}x{kernel[1]}"
        return Expression(
            f"PF.convolution({x}, {maps}, {kernel}, name='{name}', {firsts}, {options})", "PF.convolution"
        )
    bias = f", {p.parameter((maps,))}" if p.random.random() < 0.5 else ""
    return Expression(
        f"F.convolution({x}, {p.parameter(w_shape, scale)}{bias}, {options}, group={group})", "convolution"
    )


def _deconvolution(p: Source, x: str, shape: Shape) -> Expression:
    channels = shape[1]
    kernel, stride = p.random.choice((((2, 2), (2, 2)), ((3, 3), (1, 1)), ((1, 2), (1, 1))))
    weight = p.parameter((channels, 3, *kernel), 0.4)
    return Expression(f"F.deconvolution({x}, {weight}, {p.parameter((3,))}, stride={stride})", "deconvolution")


def _depthwise(p: Source, x: str, shape: Shape) -> Expression:
    channels = shape[1]
    if shape[2] < 3 or shape[3] < 3 or p.random.random() < 0.3:
        weight = p.parameter((channels, 2, 2), 0.5)
        return Expression(f"F.depthwise_deconvolution({x}, {weight}, stride=(2, 2))", "depthwise")
    weight = p.parameter((channels, 3, 3), 0.5)
    return Expression(f"F.depthwise_convolution({x}, {weight}, pad=(1, 1))", "depthwise")


def _pooling(p: Source, x: str, shape: Shape) -> Expression:
    if shape[2] < 2 or shape[3] < 2:
        return Expression(f"F.unpooling({x}, kernel=(2, 2))", "pooling")
    name = p.random.choice(("max", "max", "average", "sum"))
    stride = p.random.choice(((2, 2), (1, 1), (2, 1)))
    border = f", ignore_border={p.random.random() < 0.7}"
    ways = [f"F.{name}_pooling({x}, kernel=(2, 2), stride={stride}{border})"] * 4
    ways += [f"F.global_average_pooling({x})", f"F.unpooling({x}, kernel=(2, 1))"]
    return Expression(p.random.choice(ways), "pooling")


def _channel_last(p: Source, x: str, shape: Shape) -> Expression:
    _, height, width, channels = shape
    kernel = (p.random.choice((1, 2, 3)[: min(height, 3)]), p.random.choice((1, 2, 3)[: min(width, 3)]))
    stride = p.random.choice(((1, 1), (1, 1), (2, 1)))
    way = p.random.randrange(6)
    if way < 3:
        maps = p.random.choice((2, 4))
        weight = p.parameter((maps, *kernel, channels), 1.5 / (channels * kernel[0] * kernel[1]) ** 0.5)
        bias = f", {p.parameter((maps,))}" if p.random.random() < 0.5 else ""
        text = f"F.convolution({x}, {weight}{bias}, stride={stride}, channel_last=True)"
    elif way == 3:
        weight = p.parameter((channels, *kernel, 3), 0.4)
        text = f"F.deconvolution({x}, {weight}, stride={stride}, channel_last=True)"
    elif way == 4:
        name = p.random.choice(("max", "average", "sum"))
        text = f"F.{name}_pooling({x}, kernel={kernel}, stride={stride}, channel_last=True)"
    else:
        text = f"F.transpose({x}, axes={p.random.choice(((0, 2, 3, 1), (0, 3, 1, 2)))})"
    return Expression(text, "channel_last")


def _cell(p: Source, x: str, shape: Shape) -> Expression:
    """A recurrent cell, three times."""
    size = shape[1]
    w = p.parameter((2 * size, size), 0.7 / size**0.5)
    h = f"F.tanh({x})"
    for _ in range(p.random.randint(2, 3)):
        h = f"F.tanh(F.affine(F.concatenate({x}, {h}, axis=1), {w}))"
    return Expression(h, "recurrent cell")


def _sequence(p: Source, x: str, shape: Shape) -> Expression:
    _, batch, depth = shape
    name, gates, states = p.random.choice((("lstm", (4,), 2), ("gru", (3,), 1), ("rnn", (), 1)))
    size = p.random.choice((3, 8))
    given = [p.other((1, 1, batch, size)) for _ in range(states)]
    weight = p.parameter((1, *gates, size, depth + size), 0.5)
    return Expression(f"F.{name}({x}, {', '.join(given)}, {weight})", f"F.{name}", 1 + states)


_ANY: tuple[Maker, ...] = (
    _unary, _unary, _chain, _chain, _binary, _binary, _gated, _gated, _gated, _broadcast,
    _broadcast_to, _reduced, _centered, _softmax,
    _transpose, _reshape, _reshape, _unlink, _slice, _concatenate, _stack, _split, _dropout, _noise, _moved, _python,
    _top_k,
)  # fmt: skip
_OF_AXES: dict[int, tuple[Maker, ...]] = {
    2: (_affine, _affine, _affine, _affine, _normalization, _mean_subtraction, _prelu, _embed, _cell, _cell, _product),
    3: (_product, _sequence, _sequence, _sequence, _affine, _embed, _normalization),
    4: (_convolution, _convolution, _convolution, _deconvolution, _depthwise, _pooling, _pooling, _pooling,
        _normalization, _normalization, _prelu, _affine),
}  # fmt: skip


def expression(p: Source, x: str, shape: Shape) -> Expression:
    """A call on an array, drawn."""
    if not shape or 0 in shape:
        return Expression(p.random.choice(_UNARY[:8]).format(x=x), "elementwise")
    makers = _OF_AXES.get(len(shape), ())
    if p.is_on_device and len(shape) == 4:
        makers = (*makers, _channel_last, _channel_last)
    if makers and p.random.random() < 0.5:
        return p.random.choice(makers)(p, x, shape)
    return p.random.choice(_ANY)(p, x, shape)


def elementwise(p: Source, x: str, shape: Shape) -> Expression:
    """A call that computes element by element."""
    return p.random.choice((_gated, _gated, _unary, _chain, _binary))(p, x, shape)


def loss(p: Source, x: str, shape: Shape) -> Expression:
    """One number of an array."""
    ways = [
        Expression(f"F.mean({x} * {x})", "loss"),
        Expression(f"F.sum({x}) * 0.1", "loss"),
        Expression(f"F.mean(F.squared_error({x}, {p.other(shape)}))", "loss"),
        Expression(f"F.mean(F.huber_loss({x}, {p.other(shape)}))", "loss"),
    ]
    if len(shape) == 2 and shape[1] > 1:
        labels = p.indices((shape[0], 1), shape[1])
        ways += [Expression(f"F.mean(F.softmax_cross_entropy({x}, {labels}))", "softmax_cross_entropy")] * 3
    return p.random.choice(ways)
