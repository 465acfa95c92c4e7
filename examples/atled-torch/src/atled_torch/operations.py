"""The ops: everything with a formula by a walk of it, the others by the functions of torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from atled.plugin import Call, Prepared, compile_formula

Compute = Callable[..., Sequence[Tensor]]
"""`compute(*inputs, *floats)` of one call: tensors in, new tensors out."""

_SAME_NAMES = """acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor log log1p
    maximum minimum sigmoid sin sinh sqrt tan tanh trunc where"""
# round and sign are written in simpler ones: those of torch round to even, and give 0 for NaN.
_TABLE = {name: getattr(torch, name) for name in _SAME_NAMES.split()}


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


def affine(call: Call) -> Compute:
    """y = x w + bias, x seen as (rows, depth)."""
    rows, shape = math.prod(call.inputs[0].shape[: call.attributes["base_axis"]]), call.outputs[0].shape

    def compute(x: Tensor, w: Tensor, bias: Tensor | None) -> Sequence[Tensor]:
        y = x.reshape(rows, len(w)) @ w.reshape(len(w), math.prod(w.shape[1:]))
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
    shape = call.outputs[0].shape

    def images(x: Tensor) -> Tensor:
        return x.reshape(math.prod(x.shape[:base]), *x.shape[base:])

    def forward(x: Tensor, w: Tensor, bias: Tensor | None) -> Sequence[Tensor]:
        return (torch.convolution(images(x), w, bias, *rest).reshape(shape),)

    def by_data(gy: Tensor, w: Tensor) -> Sequence[Tensor]:
        gy, gx = images(gy), images(gy.new_empty(shape))
        found = torch.ops.aten.convolution_backward(gy, gx, w, None, *rest, [True, False, False])
        return (found[0].reshape(shape),)

    def by_weight(x: Tensor, gy: Tensor) -> Sequence[Tensor]:
        gw = gy.new_empty(shape)
        return (torch.ops.aten.convolution_backward(images(gy), images(x), gw, None, *rest, [False, True, False])[1],)

    return {"ConvolutionDataGrad": by_data, "ConvolutionWeightGrad": by_weight}.get(call.spec.name, forward)


def windows(call: Call, sizes: Sequence[int], counts: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Of each window (row) and place: the element's flat index, that of one more in the padding; how many count."""
    index, real, within = torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, 1).bool(), torch.ones(1, 1).bool()
    geometry = zip(*(call.attributes[name] for name in ("kernel", "stride", "pad")), strict=True)
    for n, count, (k, s, p) in zip(sizes, counts, geometry, strict=True):
        at = torch.arange(count)[:, None] * s - p + torch.arange(k)
        shape = (len(index) * count, index.shape[1] * k)
        index = (index[:, None, :, None] * n + at[:, None]).reshape(shape)
        real = (real[:, None, :, None] & ((at >= 0) & (at < n))[:, None]).reshape(shape)
        within = (within[:, None, :, None] & (at < n + p)[:, None]).reshape(shape)
    counted = (within if call.attributes.get("including_pad", True) else real).sum(1).clamp(min=1)
    return torch.where(real, index, math.prod(sizes)), real, counted


def pooling(call: Call) -> Compute:
    """Maxima and averages of windows, their gradients, and the gradient of those of maxima."""
    spec, axes = call.spec.name, len(call.attributes["kernel"])
    back = spec.endswith("PoolingGrad")
    image, pooled = (call.outputs[0], call.inputs[0]) if back else (call.inputs[0], call.outputs[0])
    sizes, shape = image.shape[-axes:], call.outputs[0].shape
    rows, size = math.prod(image.shape[:-axes]), math.prod(sizes)
    index, real, counted = windows(call, sizes, pooled.shape[-axes:])

    def padded(x: Tensor, value: float) -> Tensor:
        return torch.cat((x.reshape(rows, size), x.new_full((rows, 1), value)), 1)

    def scattered(at: Tensor, values: Tensor) -> Sequence[Tensor]:
        sums = values.new_zeros(rows, size + 1).scatter_add_(1, at.expand(values.shape), values)
        return (sums[:, :size].reshape(shape),)

    def chosen(place: Tensor) -> Tensor:
        at = place.reshape(rows, len(index)).long()
        if at.numel() and not 0 <= int(at.min()) <= int(at.max()) < index.shape[1]:
            raise IndexError(f"{spec}: place {int(at.min())} to {int(at.max())} is out of range: {index.shape[1]}")
        return index[torch.arange(len(index)), at]

    def maxima(x: Tensor) -> Sequence[Tensor]:
        values = padded(x, -math.inf)[:, index]
        best = values.amax(2, keepdim=True)
        place = (real & ((values == best) | values.isnan())).byte().argmax(2)  # the first one
        return best.reshape(shape), place.reshape(shape)

    computes: dict[str, Compute] = {
        "MaxPooling": maxima,
        "MaxPoolingGrad": lambda gy, place: scattered(chosen(place), gy.reshape(rows, len(index))),
        "MaxPoolingGather": lambda x, place: (padded(x, 0.0).gather(1, chosen(place)).reshape(shape),),
        "AveragePooling": lambda x: ((padded(x, 0.0)[:, index].sum(2) / counted).reshape(shape),),
        "AveragePoolingGrad": lambda gy: scattered(
            index.reshape(1, -1), (gy.reshape(rows, len(index)) / counted).repeat_interleave(index.shape[1], 1)
        ),
    }
    return computes[spec]


def softmax(call: Call) -> Compute:
    """Softmax along an axis, its loss, the gradient of that."""
    axis = call.attributes["axis"]

    def checked(target: Tensor, classes: int) -> Tensor:
        if target.numel() and not 0 <= int(target.min()) <= int(target.max()) < classes:
            wrong = f"target {int(target.min())} to {int(target.max())} is out of range"
            raise IndexError(f"{call.spec.name}: {wrong}: there are {classes} classes")
        return target

    def loss(x: Tensor, target: Tensor) -> Sequence[Tensor]:
        log_p = torch.log_softmax(x, axis)
        found = log_p.gather(axis, checked(target, x.shape[axis]))
        return -found.clamp(min=math.log(2.0**-126)), log_p.exp()

    def gradient(gy: Tensor, p: Tensor, target: Tensor) -> Sequence[Tensor]:
        hit = torch.zeros_like(p).scatter_(axis, checked(target, p.shape[axis]), 1.0)
        return (gy * (p - hit),)

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
        through = gy - gbeta / count - xhat * (ggamma / count) if batch_stat else gy
        return gamma * scale * through, gbeta, ggamma

    return backward if call.spec.name.endswith("Grad") else forward
