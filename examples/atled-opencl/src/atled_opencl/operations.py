"""The ops with kernels of their own: products of matrices, convolution, pooling, sums, softmax, batch normalization."""

from __future__ import annotations

import functools
import importlib.resources
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.plugin import ArrayDesc, Call, Prepared, Registrar
from atled_opencl.runtime import Launch, device

_ROWS, _MAPS_EACH = 8, 4  # as in kernels.cl: results that one work item computes
_PART = 4096  # elements that one work item sums; longer sums are cut into parts
_MOST_PARTS = 64
_KERNELS = {
    "Convolution": "convolution",
    "ConvolutionDataGrad": "convolution_data_grad",
    "ConvolutionWeightGrad": "convolution_weight_grad",
    "MaxPooling": "max_pooling",
    "AveragePooling": "average_pooling",
    "AveragePoolingGrad": "average_pooling_grad",
}
Shape = Sequence[int]


@functools.cache
def _source() -> str:
    return importlib.resources.files("atled_opencl").joinpath("kernels.cl").read_text("utf-8")


def _launch(
    call: Call, name: str, grid: Shape, sizes: Shape, numbers: Sequence[type] = (), *, checks: bool = False
) -> Launch:
    return Launch(device(call.device_id), _source(), name, grid, sizes, numbers, checks=checks)


def _present(call: Call) -> list[ArrayDesc]:
    return [desc for desc in (*call.inputs, *call.outputs) if desc is not None]


def accepts(call: Call) -> bool | str:
    """True for float32 arrays, and int64 indices, of less than 2**31 elements; else the reason."""
    for desc in _present(call):
        if desc.dtype not in (np.float32, np.int64):
            return f"the kernels compute in float32, not in {desc.dtype}"
        if desc.size >= 2**31:
            return "the kernels count elements in 32 bits"
    return True


# Matrices


def prepare_affine(call: Call) -> Prepared:
    """y = x w + bias, x seen as (rows, depth)."""
    x, weight = _present(call)[:2]
    rows, depth = math.prod(x.shape[: call.attributes["base_axis"]]), weight.shape[0]
    return Prepared(_gemm(call, 1, rows, depth, math.prod(weight.shape[1:]), (depth, 1), False))


def prepare_matmul(call: Call) -> Prepared:
    """One product per batch entry."""
    a, y = call.inputs[0], call.outputs[0]
    assert a is not None
    batch, (rows, columns) = math.prod(y.shape[:-2]), y.shape[-2:]
    inner = a.shape[-2] if call.attributes["transpose_a"] else a.shape[-1]
    strides = (1, rows) if call.attributes["transpose_a"] else (inner, 1)
    run = _gemm(call, batch, rows, inner, columns, strides, call.attributes["transpose_b"])
    return Prepared(lambda a, b, y: run(a, b, None, y))


def _gemm(
    call: Call, batch: int, rows: int, inner: int, columns: int, a_strides: Shape, transpose_b: bool
) -> Callable[..., None]:
    b_strides = (1, inner) if transpose_b else (columns, 1)
    sizes = (columns, rows, inner, *a_strides, *b_strides, rows * inner, inner * columns)
    launch = _launch(call, "gemm", (columns, -(-rows // _ROWS), batch), sizes)
    return lambda *arrays: launch(arrays)


# Windows: convolution and pooling


def _cubic(values: Shape | None, fill: int) -> list[int]:
    """One value per spatial axis, for three axes."""
    return [*[fill] * (3 - len(values)), *values] if values is not None else [fill] * 3


def _windows(call: Call, first: int, channels: Shape, sizes: Shape, counts: Shape, kernel: Shape) -> list[int]:
    """The sizes of kernels over windows."""
    given = call.attributes
    words = [first, *channels, *_cubic(sizes, 1), *_cubic(counts, 1), *_cubic(kernel, 1), *_cubic(given["pad"], 0)]
    words += [*_cubic(given["stride"], 1), *_cubic(given.get("dilation"), 1)]
    return [*words, given.get("including_pad", False)]


def accepts_windows(call: Call) -> bool | str:
    """As `accepts`, for up to three spatial axes."""
    return accepts(call) if len(call.attributes["pad"]) <= 3 else "the kernels know three spatial axes at most"


def prepare_convolution(call: Call) -> Prepared:
    """The convolution and its two gradients: all of them read the same geometry from their arrays."""
    axis, group, name = call.attributes["base_axis"], call.attributes["group"], call.spec.name
    first, second, output = _present(call)[0], _present(call)[1], call.outputs[0]
    image, weight, maps = {
        "Convolution": (first, second, output),
        "ConvolutionDataGrad": (output, second, first),
        "ConvolutionWeightGrad": (first, output, second),
    }[name]
    batch, sizes, counts = math.prod(image.shape[:axis]), image.shape[axis + 1 :], maps.shape[axis + 1 :]
    depth, each, kernel = weight.shape[1], weight.shape[0] // group, weight.shape[2:]
    grids = {
        "Convolution": (math.prod(counts), -(-each // _MAPS_EACH) * group, batch),
        "ConvolutionDataGrad": (math.prod(sizes), -(-depth // _MAPS_EACH) * group, batch),
        "ConvolutionWeightGrad": (depth * math.prod(kernel), -(-each // _MAPS_EACH), group),
    }
    words = _windows(call, grids[name][0], (depth, each, group), sizes, counts, kernel)
    launch = _launch(call, _KERNELS[name], grids[name], [*words[:-1], batch])
    return Prepared(lambda *arrays: launch(arrays))


def prepare_pooling(call: Call) -> Prepared:
    """Maxima and averages of windows, and the gradient of averages."""
    axes = len(call.attributes["kernel"])
    given, output = _present(call)[0], call.outputs[0]
    image, pooled = (output, given) if call.spec.name.endswith("Grad") else (given, output)
    sizes, counts = image.shape[-axes:], pooled.shape[-axes:]
    first = math.prod(output.shape[-axes:])
    words = _windows(call, first, (1, 1, 1), sizes, counts, call.attributes["kernel"])
    launch = _launch(call, _KERNELS[call.spec.name], (first, math.prod(image.shape[:-axes])), words)
    return Prepared(lambda *arrays: launch(arrays))


def prepare_max_pooling_grad(call: Call) -> Prepared:
    """Each gradient goes to the place of its maximum."""
    axes, gy = len(call.attributes["shape"]), _present(call)[0]
    rows, windows = math.prod(gy.shape[:-axes]), math.prod(gy.shape[-axes:])
    sizes = (rows, windows, math.prod(call.attributes["shape"]), device(call.device_id).watch(call))
    launch = _launch(call, "max_pooling_grad", (rows,), sizes, checks=True)
    return Prepared(lambda *arrays: launch(arrays))


# Sums


def _merged(shape: Shape, axes: Shape) -> list[int]:
    """Sizes (kept, reduced, kept, reduced ...) with neighbouring axes of one kind merged; empty axes of size 1 left out."""
    sizes = [1]
    is_reduced = False
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        if (axis in axes) == is_reduced:
            sizes[-1] *= size
        else:
            sizes.append(size)
            is_reduced = not is_reduced
    return [*sizes, *[1] * (4 - len(sizes))]


def accepts_sum(call: Call) -> bool | str:
    """As `accepts`, for axes that are kept and summed in turns twice at most."""
    x = call.inputs[0]
    assert x is not None
    is_simple = len(_merged(x.shape, call.attributes["axes"])) == 4
    return accepts(call) if is_simple else "the kernel sums over two groups of neighbouring axes at most"


def prepare_sum(call: Call) -> Prepared:
    """Sums and means; a few long sums are cut into parts, which a second launch adds up."""
    x, y = call.inputs[0], call.outputs[0]
    assert x is not None
    _, outer, kept, inner = _merged(x.shape, call.attributes["axes"])
    count = outer * inner
    parts = min(-(-count // _PART), _MOST_PARTS)
    mean = (1, count) if call.spec.name == "Mean" else (0, 1)
    if parts <= 1:
        launch = _launch(call, "reduce", (y.size, 1), (y.size, outer, kept, inner, 1, 1, *mean))
        return Prepared(lambda x, y: launch((x, y)))
    steps = (parts, 1) if outer > inner else (1, parts)
    first = _launch(call, "reduce", (y.size, parts), (y.size, outer, kept, inner, *steps, 0, 1))
    second = _launch(call, "reduce", (y.size, 1), (y.size, 1, 1, parts, 1, 1, *mean))

    def run(x: Any, y: Any, workspace: Any) -> None:  # Any: arrays of this device
        first((x, workspace))
        second((workspace, y))

    return Prepared(run, workspace=4 * y.size * parts, note=f"{parts} parts")


# Softmax and its loss


def _along_axis(call: Call, name: str, scores: ArrayDesc) -> Prepared:
    axis, checks = call.attributes["axis"], name != "softmax"
    rows, inner = math.prod(scores.shape[:axis]), math.prod(scores.shape[axis + 1 :])
    number = device(call.device_id).watch(call) if checks else 0
    sizes = (rows * inner, scores.shape[axis], inner, number)
    launch = _launch(call, name, (rows * inner,), sizes, checks=checks)
    return Prepared(lambda *arrays: launch(arrays))


def prepare_softmax(call: Call) -> Prepared:
    """Softmax along an axis."""
    return _along_axis(call, "softmax", call.outputs[0])


def prepare_softmax_cross_entropy(call: Call) -> Prepared:
    """The loss; a label out of range is told at the next download or synchronize."""
    return _along_axis(call, "softmax_cross_entropy", call.outputs[1])


def prepare_softmax_cross_entropy_grad(call: Call) -> Prepared:
    """The gradient of the loss."""
    return _along_axis(call, "softmax_cross_entropy_grad", call.outputs[0])


# Batch normalization


def _channels(call: Call, x: ArrayDesc) -> tuple[list[int], int, int]:
    """Sizes behind the first one; how many channels there are; into how many parts their sums are cut."""
    (axis,) = call.attributes["axes"]
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    parts = max(1, min(outer, _MOST_PARTS))
    return [x.shape[axis], inner, outer, parts, call.attributes["batch_stat"]], x.shape[axis], parts


def prepare_batch_normalization(call: Call) -> Prepared:
    """Sums in parts, statistics, elements."""
    x = call.outputs[0]
    sizes, channels, parts = _channels(call, x)
    sums = _launch(call, "moments", (channels, parts), (channels, *sizes))
    statistics = _launch(call, "statistics", (channels,), (channels, *sizes), [np.float32])
    elements = _launch(call, "normalize_batch", (x.size,), (x.size, *sizes), [np.float32])

    def run(*arguments: Any) -> None:  # Any: arrays of this device, then floats
        x, beta, gamma, mean, variance, y, m, v, workspace, decay, eps = arguments
        if call.attributes["batch_stat"]:
            sums((x, workspace))
        statistics((x, workspace, mean, variance, m, v), decay)
        elements((x, beta, gamma, m, v, y), eps)

    return Prepared(run, workspace=8 * channels * parts)


def prepare_batch_normalization_grad(call: Call) -> Prepared:
    """Sums in parts, the gradients of beta and gamma, elements."""
    x = call.outputs[0]
    sizes, channels, parts = _channels(call, x)
    sums = _launch(call, "gradient_sums", (channels, parts), (channels, *sizes), [np.float32])
    totals = _launch(call, "gradient_totals", (channels,), (channels, *sizes))
    elements = _launch(call, "normalize_batch_grad", (x.size,), (x.size, *sizes), [np.float32])

    def run(*arguments: Any) -> None:  # Any: as above
        gy, x, gamma, m, v, gx, gbeta, ggamma, workspace, eps = arguments
        sums((gy, x, m, v, workspace), eps)
        totals((workspace, gbeta, ggamma))
        elements((gy, x, gamma, m, v, gx, gbeta, ggamma), eps)

    return Prepared(run, workspace=8 * channels * parts)


_OPERATIONS = (
    (("Affine",), prepare_affine, accepts),
    (("BatchMatmul",), prepare_matmul, accepts),
    (("Convolution", "ConvolutionDataGrad", "ConvolutionWeightGrad"), prepare_convolution, accepts_windows),
    (("MaxPooling", "AveragePooling", "AveragePoolingGrad"), prepare_pooling, accepts_windows),
    (("MaxPoolingGrad",), prepare_max_pooling_grad, accepts),
    (("Sum", "Mean"), prepare_sum, accepts_sum),
    (("Softmax",), prepare_softmax, accepts),
    (("SoftmaxCrossEntropy",), prepare_softmax_cross_entropy, accepts),
    (("SoftmaxCrossEntropyGrad",), prepare_softmax_cross_entropy_grad, accepts),
    (("BatchNormalization",), prepare_batch_normalization, accepts),
    (("BatchNormalizationGrad",), prepare_batch_normalization_grad, accepts),
)


def register(registrar: Registrar) -> None:
    """Hand all of them over."""
    for ops, prepare, accepting in _OPERATIONS:
        for op in ops:
            registrar.implementation(op, "opencl", prepare, accepts=accepting, note="kernel")
