"""The ops: everything with a formula by a walk of it, the others by the functions of torch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from atled.plugin import Call, Prepared, compile_formula

Compute = Callable[..., Sequence[Tensor]]
"""`compute(*inputs, *floats)` of one call: tensors in, new tensors out."""

_SAME_NAMES = """acos acosh asin asinh atan atanh ceil cos erf exp exp2 expm1 floor log log1p log2
    maximum minimum sigmoid sin sqrt tan tanh trunc where"""
# round, rint and sign are written in simpler ones: the round of torch goes to even, its sign of NaN is 0.
_TABLE = {name: getattr(torch, name) for name in _SAME_NAMES.split()}


def _late(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """torch's sinh or cosh, with an overflow where the result has one, not where its double has."""

    def compute(x: Tensor) -> Tensor:
        y, half = function(x), (x.abs() / 2).exp()
        return torch.where(x.abs() > 80, (half / 2 * half).copysign(y), y)

    return compute


_TABLE |= {"cosh": _late(torch.cosh), "sinh": _late(torch.sinh)}


def prepared(call: Call, compute: Compute) -> Prepared:
    """A call by a function without side effects, whose results are stored; float16 is computed in float32."""
    first, floats = len(call.inputs), len(call.inputs) + len(call.outputs)

    def run(*arguments: Any) -> None:  # Any: tensors, then floats
        inputs = [x.float() if x is not None and x.dtype == torch.float16 else x for x in arguments[:first]]
        results = compute(*inputs, *arguments[floats:])
        for y, result in zip(arguments[first:floats], results, strict=True):
            y.copy_(result)

    return Prepared(run)


def formula(call: Call) -> Compute:
    """Any formula; it computes in float64 where an input is that or none is a float, else in float32."""
    program = call.spec.program
    assert program is not None
    dtypes = [desc.dtype for desc in call.inputs if desc is not None and desc.dtype.kind == "f"]
    real = torch.float32 if dtypes and np.float64 not in dtypes else torch.float64
    walk = compile_formula(program, _TABLE, literal=lambda value: torch.tensor(value, dtype=real))
    floats = [len(program.inputs) + call.spec.float_names.index(name) for name in program.attributes]

    def compute(*arguments: Any) -> Sequence[Tensor]:  # Any: as above
        inputs = [x.to(real) for x in arguments[: len(program.inputs)]]
        return walk(*inputs, *(arguments[position] for position in floats))

    return compute


def copied(call: Call) -> Compute:
    """Ops that copy: storing the input broadcasts and casts it."""
    return lambda x: (x,)


def check_range(name: str, index: Tensor, stop: int) -> None:
    """IndexError for what does not index `stop` elements, which torch would refuse otherwise or not at all."""
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < stop:
        raise IndexError(f"{name} {int(index.min())} to {int(index.max())} is out of range: there are {stop}")


def affine(call: Call) -> Compute:
    """y = x w + bias, x seen as (rows, depth)."""
    axis, shape = call.attributes["base_axis"], call.outputs[0].shape

    def compute(x: Tensor, w: Tensor, bias: Tensor | None) -> Sequence[Tensor]:
        y = x.reshape(math.prod(x.shape[:axis]), len(w)) @ w.reshape(len(w), math.prod(w.shape[1:]))
        return ((y if bias is None else y + bias.reshape(-1)).reshape(shape),)

    return compute


def matmul(call: Call) -> Compute:
    """One product per batch entry."""
    shape, turned = call.outputs[0].shape, (call.attributes["transpose_a"], call.attributes["transpose_b"])

    def compute(*factors: Tensor) -> Sequence[Tensor]:
        # The axes of the batch may be cut in other ways in the two.
        a, b = (x.reshape(math.prod(shape[:-2]), *x.shape[-2:]) for x in factors)
        return (((a.mT if turned[0] else a) @ (b.mT if turned[1] else b)).reshape(shape),)

    return compute


def reduction(call: Call) -> Compute:
    """Sums and means."""
    function, axes = getattr(torch, call.spec.name.lower()), call.attributes["axes"]
    # No axes would mean all of them.
    return lambda x: (function(x, axes, keepdim=call.attributes["keep_dims"]) if axes else x,)


def convolution(call: Call) -> Compute:
    """Convolution, and its gradients by data and by weight."""
    base, axes = call.attributes["base_axis"], len(call.attributes["pad"])
    stride, pad, dilation = (call.attributes[name] for name in ("stride", "pad", "dilation"))
    rest = (stride, pad, dilation, False, [0] * axes, call.attributes["group"])
    shape, gradients = call.outputs[0].shape, torch.ops.aten.convolution_backward

    def images(x: Tensor) -> Tensor:
        return x.reshape(math.prod(x.shape[:base]), *x.shape[base:])

    def forward(x: Tensor, w: Tensor, bias: Tensor | None) -> Sequence[Tensor]:
        return (torch.convolution(images(x), w, bias, *rest).reshape(shape),)

    def by_data(gy: Tensor, w: Tensor) -> Sequence[Tensor]:
        found = gradients(images(gy), images(gy.new_empty(shape)), w, None, *rest, [True, False, False])
        return (found[0].reshape(shape),)

    def by_weight(x: Tensor, gy: Tensor) -> Sequence[Tensor]:
        return (gradients(images(gy), images(x), gy.new_empty(shape), None, *rest, [False, True, False])[1],)

    return {"ConvolutionDataGrad": by_data, "ConvolutionWeightGrad": by_weight}.get(call.spec.name, forward)


def pooling(call: Call) -> Compute:
    """Maxima and averages of windows, their gradients, and the gradient of those of maxima.

    One place of all windows at a time: a slice of the image, which is padded for that.
    """
    name, axes = call.spec.name, len(call.attributes["kernel"])
    back = name.endswith("PoolingGrad")
    (given, *_), (output, *_) = call.inputs, call.outputs
    assert given is not None
    image, pooled = (output, given) if back else (given, output)
    sizes, counts, leading = image.shape[-axes:], pooled.shape[-axes:], image.shape[:-axes]
    kernel, stride, pad = (call.attributes[name] for name in ("kernel", "stride", "pad"))
    inner = (..., *(slice(p, p + n) for n, p in zip(sizes, pad, strict=True)))
    within = (..., *(slice(n + 2 * p) for n, p in zip(sizes, pad, strict=True)))
    steps = [(s, (count - 1) * s + 1) for s, count in zip(stride, counts, strict=True)]
    extents = [max(n + 2 * p, k + last - 1) for n, p, k, (_, last) in zip(sizes, pad, kernel, steps, strict=True)]

    def places(padded: Tensor) -> Iterator[tuple[int, Tensor]]:
        for place, starts in enumerate(itertools.product(*map(range, kernel))):
            slices = (slice(k, k + last, s) for k, (s, last) in zip(starts, steps, strict=True))
            yield place, padded[(..., *slices)]

    def padded(x: Tensor) -> Tensor:
        y = x.new_zeros(*x.shape[:-axes], *extents)
        y[inner] = x
        return y

    def spread(like: Tensor, values: Callable[[int], Tensor]) -> Sequence[Tensor]:
        sums = like.new_zeros(*leading, *extents)
        for place, at in places(sums):
            at += values(place)
        return (sums[inner],)

    def by_place(place: Tensor) -> Callable[[int, Tensor], Tensor]:
        check_range(f"{name}: place", place, math.prod(kernel))
        return lambda number, values: torch.where(place == number, values, 0.0)

    def maxima(x: Tensor) -> Sequence[Tensor]:
        best, found = x.new_zeros(*leading, *counts), torch.full((*leading, *counts), -1)
        for (place, values), (_, inside) in zip(places(padded(x)), places(real), strict=True):
            wins = inside & ((found < 0) | (values > best) | (values.isnan() & ~best.isnan()))
            best, found = torch.where(wins, values, best), torch.where(wins, place, found)
        return best, found

    def back_to_maxima(gy: Tensor, place: Tensor) -> Sequence[Tensor]:
        kept = by_place(place)
        return spread(gy, lambda number: kept(number, gy))

    def gathered(x: Tensor, place: Tensor) -> Sequence[Tensor]:
        kept = by_place(place)
        return (sum(kept(number, values) for number, values in places(padded(x))),)

    real, counting = padded(torch.ones(sizes, dtype=torch.bool)), torch.zeros(extents)
    counting[within if call.attributes.get("including_pad", True) else inner] = 1
    divisors = sum(values for _, values in places(counting)).clamp(min=1)
    computes: dict[str, Compute] = {
        "MaxPooling": maxima,
        "MaxPoolingGrad": back_to_maxima,
        "MaxPoolingGather": gathered,
        "AveragePooling": lambda x: (sum(values for _, values in places(padded(x))) / divisors,),
        "AveragePoolingGrad": lambda gy: spread(gy, lambda place: gy / divisors),
    }
    return computes[name]


def softmax(call: Call) -> Compute:
    """Softmax along an axis, its loss, the gradient of that."""
    axis = call.attributes["axis"]

    def loss(x: Tensor, target: Tensor) -> Sequence[Tensor]:
        check_range(f"{call.spec.name}: target", target, x.shape[axis])
        log_p = torch.log_softmax(x, axis)
        return -log_p.gather(axis, target).clamp(min=math.log(2.0**-126)), log_p.exp()

    def gradient(gy: Tensor, p: Tensor, target: Tensor) -> Sequence[Tensor]:
        check_range(f"{call.spec.name}: target", target, p.shape[axis])
        return (gy * (p - torch.zeros_like(p).scatter_(axis, target, 1.0)),)

    computes: dict[str, Compute] = {"SoftmaxCrossEntropy": loss, "SoftmaxCrossEntropyGrad": gradient}
    return computes.get(call.spec.name, lambda x: (torch.softmax(x, axis),))


def batch_normalization(call: Call) -> Compute:
    """Batch normalization and its gradient; sums over the batch in float64."""
    batch_stat, x = call.attributes["batch_stat"], call.outputs[0]
    others = [axis for axis in range(len(x.shape)) if axis not in call.attributes["axes"]]
    count = math.prod(x.shape[axis] for axis in others)

    def forward(
        x: Tensor, beta: Tensor, gamma: Tensor, mean: Tensor, variance: Tensor, decay: float, eps: float
    ) -> Any:
        m, v = mean, variance
        if batch_stat:
            m = x.mean(others, keepdim=True, dtype=torch.float64)
            v = (x - m).square().mean(others, keepdim=True)
            mean.copy_(decay * mean + (1 - decay) * m)
            variance.copy_(decay * variance + (1 - decay) * v * (count / max(count - 1, 1)))
        return gamma * (x - m) / (v + eps).sqrt() + beta, m.clone(), v.clone()

    def backward(gy: Tensor, x: Tensor, gamma: Tensor, m: Tensor, v: Tensor, eps: float) -> Any:
        scale = (v + eps).rsqrt()
        xhat = (x - m) * scale
        gbeta = gy.sum(others, keepdim=True, dtype=torch.float64)
        ggamma = (gy * xhat).sum(others, keepdim=True, dtype=torch.float64)
        gx = gy - gbeta / count - xhat * (ggamma / count) if batch_stat else gy
        return gamma * scale * gx, gbeta, ggamma

    return backward if call.spec.name.endswith("Grad") else forward
