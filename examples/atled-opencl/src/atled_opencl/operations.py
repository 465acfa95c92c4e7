"""The ops with kernels of their own: products, convolution, pooling, sums, softmax, batch normalization, streams."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from atled.plugin import OPENCL, ArrayDesc, Call, Prepared, Program, Registrar, write_attached_c, write_stream_c
from atled_opencl.elementwise import launch_formula
from atled_opencl.runtime import NUMBERS, Launch, device, queued

_SOURCE = write_stream_c(OPENCL) + Path(__file__).with_name("kernels.cl").read_text("utf-8")
_ROWS, _MAPS_EACH = 8, 8  # as in kernels.cl: results that one work item computes
_PART, _MOST_PARTS = 4096, 64  # elements that one work item sums; into how many parts longer sums are cut, at most
Shape = Sequence[int]


def _launch(call: Call, name: str, grid: Shape, sizes: Shape) -> Launch:
    """A kernel, with the formula behind output 0."""
    where = device(call.device_id)
    widest: dict[str, Any] = {"attribute_real": where.widest, "numbers": NUMBERS}
    source = write_attached_c(call, stores=(0,), dialect=OPENCL, **widest)
    source += re.sub(rf"__kernel void (?!{name}\().*?\n}}\n", "", _SOURCE, flags=re.DOTALL)  # the others take long
    return Launch(where, source, name, grid, sizes, call.float_count > 0 and name != "moments")


def _prepared(call: Call, name: str, grid: Shape, sizes: Shape, absent: Sequence[None] = ()) -> Prepared:
    """One launch; absent: what the kernel takes and the op has not, behind the first two arrays."""
    launch = _launch(call, name, grid, sizes)

    def steps(*arguments: Any) -> Sequence[Any]:  # Any: arrays of this device
        arrays, attached, _ = call.split(arguments)
        return [(launch, (*arrays[:2], *absent, *arrays[2:], *attached), 0)]

    return queued(call, steps)


def _checked(call: Call, grid: Shape, sizes: Shape) -> Prepared:
    """A kernel that gets the device's flag, and the number that it writes there for an index out of range."""
    launch = _launch(call, call.spec.name, grid, sizes)
    return queued(call, lambda *given: [(launch, given, 0)], may_fail="an index is out of range")


def _present(call: Call) -> list[ArrayDesc]:
    return [desc for desc in (*call.inputs, *call.outputs) if desc is not None]


def accepts(call: Call) -> bool | str:
    """True for what the kernels compute, else the reason."""
    for desc in (*_present(call), *filter(None, (*call.reads, *call.writes))):
        if desc.dtype not in (np.float32, np.int64, np.int32, np.uint8):
            return f"the kernels compute in float32, not in {desc.dtype}"
        if desc.size >= 2**31:
            return "the kernels count elements in 32 bits"
    if call.spec.name in ("MaxPooling", "MaxPoolingGrad") and math.prod(call.attributes["kernel"]) > 256:
        return "the kernels count the places of a window in 8 bits"
    if len(call.attributes.get("pad", ())) > 3:
        return "the kernels know three spatial axes at most"
    if call.spec.name in ("Sum", "Mean") and len(_merged(call)) > 4:
        return "the kernel sums over two groups of neighbouring axes at most"
    return True


def prepare_affine(call: Call) -> Prepared:
    """y = x w + bias, x seen as (rows, depth)."""
    x, weight = _present(call)[:2]
    rows, depth = math.prod(x.shape[: call.attributes["base_axis"]]), weight.shape[0]
    columns = math.prod(weight.shape[1:])
    return _prepared(call, "gemm", (columns, -(-rows // _ROWS), 1), (columns, rows, depth, depth, 1, columns, 1, 0, 0))


def prepare_matmul(call: Call) -> Prepared:
    """One product per batch entry."""
    a, _, y = _present(call)
    batch, (rows, columns) = math.prod(y.shape[:-2]), y.shape[-2:]
    inner = a.shape[-2] if call.attributes["transpose_a"] else a.shape[-1]
    a_strides = (1, rows) if call.attributes["transpose_a"] else (inner, 1)
    b_strides = (1, inner) if call.attributes["transpose_b"] else (columns, 1)
    sizes = (columns, rows, inner, *a_strides, *b_strides, rows * inner, inner * columns)
    return _prepared(call, "gemm", (columns, -(-rows // _ROWS), batch), sizes, absent=(None,))


def _windows(call: Call, first: int, channels: Shape, sizes: Shape, counts: Shape, kernel: Shape) -> list[int]:
    """The sizes of kernels over windows, for three spatial axes; missing ones have size 1."""
    missing = 3 - len(kernel)
    geometry = [(sizes, 1), (counts, 1), (kernel, 1)]
    for name, neutral in (("pad", 0), ("stride", 1), ("dilation", 1)):
        geometry.append((call.attributes.get(name, [1] * len(kernel)), neutral))
    return [first, *channels, *(word for values, neutral in geometry for word in (*[neutral] * missing, *values))]


def prepare_convolution(call: Call) -> Prepared:
    """The convolution and its gradient by data, which walks the same windows backwards."""
    axis, group, back = call.attributes["base_axis"], call.attributes["group"], call.spec.name != "Convolution"
    given, weight, output = _present(call)[0], _present(call)[1], call.outputs[0]
    image, maps = (output, given) if back else (given, output)
    depth, each, taps = weight.shape[1], weight.shape[0] // group, math.prod(weight.shape[2:])
    count, batch = math.prod(output.shape[axis + 1 :]), math.prod(output.shape[:axis])
    channels = (each, depth, group) if back else (depth, each, group)
    steps = (taps, depth * taps) if back else (depth * taps, taps)
    words = _windows(call, count, channels, image.shape[axis + 1 :], maps.shape[axis + 1 :], weight.shape[2:])
    grid = (count, -(-channels[1] // _MAPS_EACH), batch * group)
    return _prepared(call, "convolution", grid, [*words, back, *steps], absent=[None] * back)


def prepare_convolution_weight_grad(call: Call) -> Prepared:
    """The gradient by weight."""
    axis, group = call.attributes["base_axis"], call.attributes["group"]
    x, gy, gw = _present(call)
    depth, each, kernel = gw.shape[1], gw.shape[0] // group, gw.shape[2:]
    first = depth * math.prod(kernel)
    words = _windows(call, first, (depth, each, group), x.shape[axis + 1 :], gy.shape[axis + 1 :], kernel)
    grid = (first, -(-each // _MAPS_EACH), group)
    return _prepared(call, "ConvolutionWeightGrad", grid, [*words, math.prod(x.shape[:axis])])


def prepare_pooling(call: Call) -> Prepared:
    """Maxima and averages of windows, and the gradient of averages."""
    kernel, back = call.attributes["kernel"], call.spec.name == "AveragePoolingGrad"
    given, output, axes = _present(call)[0], call.outputs[0], len(kernel)
    image, pooled = (output, given) if back else (given, output)
    first = math.prod(output.shape[-axes:])
    words = _windows(call, first, (1, 1, 1), image.shape[-axes:], pooled.shape[-axes:], kernel)
    name = "MaxPooling" if call.spec.name == "MaxPooling" else "average"
    grid = (first, math.prod(image.shape[:-axes]))
    return _prepared(call, name, grid, [*words, back, call.attributes.get("including_pad", False)])


def prepare_max_pooling_grad(call: Call) -> Prepared:
    """Each gradient goes to the place of its maximum."""
    (gy, _, gx), axes = _present(call), len(call.attributes["kernel"])
    rows = math.prod(gy.shape[:-axes])
    words = _windows(call, rows, (1, 1, 1), gx.shape[-axes:], gy.shape[-axes:], call.attributes["kernel"])
    return _checked(call, (rows,), words)


def _merged(call: Call) -> list[int]:
    """Sizes (kept, summed, kept, summed ...) with neighbouring axes of one kind merged; four at least."""
    sizes = [1]
    for axis, size in enumerate(_present(call)[0].shape):
        is_summed = axis in call.attributes["axes"]
        if size != 1 and is_summed == (len(sizes) % 2 == 0):
            sizes[-1] *= size
        elif size != 1:
            sizes.append(size)
    return [*sizes, *[1] * (4 - len(sizes))]


def prepare_sum(call: Call) -> Prepared:
    """Sums and means; long sums are cut into parts, which a second launch adds up."""
    _, outer, kept, inner = _merged(call)
    results = call.outputs[0].size
    parts = min(-(-outer * inner // _PART), _MOST_PARTS)
    divisor = outer * inner if call.spec.name == "Mean" else 1
    if parts <= 1:
        return _prepared(call, "reduce", (results, 1), (results, outer, kept, inner, 1, 1, divisor))
    strides = (parts, 1) if outer > inner else (1, parts)
    plain = call.attached({}, {}, call.wanted)
    first = _launch(plain, "reduce", (results, parts), (results, outer, kept, inner, *strides, 1))
    second = _launch(call, "reduce", (results, 1), (results, 1, 1, parts, 1, 1, divisor))

    def steps(*arguments: Any) -> Sequence[Any]:  # Any: arrays of this device
        (x, y), attached, (workspace,) = call.split(arguments)
        return [(first, (x, workspace), 0), (second, (workspace, y, *attached), 0)]

    return queued(call, steps, workspace=4 * results * parts, note=f"{parts} parts")


def prepare_softmax(call: Call) -> Prepared:
    """Softmax along an axis, its loss, the gradient of that. A label out of range is told when the host waits."""
    shape, axis = call.outputs[-1].shape, call.attributes["axis"]
    rows, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    make = partial(_prepared, name="Softmax") if call.spec.name == "Softmax" else _checked
    return make(call, grid=(rows * inner,), sizes=(rows * inner, shape[axis], inner))


def prepare_batch_normalization(call: Call) -> Prepared:
    """Sums in parts, one number per channel from them, then the elements by a formula; the same for the gradient."""
    x, axis, batch_stat = call.outputs[0], call.attributes["axes"][0], call.attributes["batch_stat"]
    outer, channels, inner = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    parts = max(1, min(outer, _MOST_PARTS))
    sizes = (channels, channels, inner, outer, parts, batch_stat)
    back = call.spec.name == "BatchNormalizationGrad"
    sums = _launch(call, "moments", (channels, parts), sizes)
    totals = _launch(call, "gradient_totals" if back else "statistics", (channels,), sizes)
    inputs = ("gy", "x", "gamma", "m", "v", "gbeta", "ggamma") if back else ("x", "beta", "gamma", "m", "v")
    formula = "gamma * (x - m) / sqrt(v + eps) + beta"
    if back:
        through_sums = f" - (gbeta + (x - m) * ggamma / sqrt(v + eps)) / {outer * inner}" if batch_stat else ""
        formula = f"gamma / sqrt(v + eps) * (gy{through_sums})"
    program = Program(inputs, ("eps",), (("y", formula),))
    elements = launch_formula(call, program, [*(x if name in ("x", "gy") else call.outputs[1] for name in inputs), x])

    def steps(x: Any, beta: Any, gamma: Any, mean: Any, variance: Any, y: Any, m: Any, v: Any, *others: Any) -> Any:
        workspace, flag = others
        made = [(totals, (x, workspace, mean, variance, m, v, flag), 0), (elements, (x, beta, gamma, m, v, y), 1)]
        return [(sums, (None, x, None, workspace), 0), *made] if batch_stat else made

    def steps_back(gy: Any, x: Any, gamma: Any, m: Any, v: Any, gx: Any, gbeta: Any, ggamma: Any, parts: Any) -> Any:
        made = [(sums, (gy, x, m, parts), 0), (totals, (parts, v, gbeta, ggamma), 0)]
        return [*made, (elements, (gy, x, gamma, m, v, gbeta, ggamma, gx), 0)]

    return queued(call, steps_back if back else steps, workspace=8 * channels * parts, heeds_failure=not back)


def prepare_streams(call: Call) -> Prepared:
    """Random numbers, a work item for each stream."""
    streams = _present(call)[0].shape[0]
    launch = _launch(call, "MRGUniform", (streams,), (streams, call.outputs[0].size))
    return queued(call, lambda *given: [(launch, given, 0)])


_OPS = {
    prepare_affine: "Affine",
    prepare_batch_normalization: "BatchNormalization BatchNormalizationGrad",
    prepare_convolution: "Convolution ConvolutionDataGrad",
    prepare_convolution_weight_grad: "ConvolutionWeightGrad",
    prepare_matmul: "BatchMatmul",
    prepare_max_pooling_grad: "MaxPoolingGrad",
    prepare_pooling: "AveragePooling AveragePoolingGrad MaxPooling",
    prepare_softmax: "Softmax SoftmaxCrossEntropy SoftmaxCrossEntropyGrad",
    prepare_streams: "MRGUniform",
    prepare_sum: "Mean Sum",
}


_STORES = (prepare_affine, prepare_convolution, prepare_matmul, prepare_sum)  # by STORE_0


def register(registrar: Registrar) -> None:
    """Hand all of them over."""
    for prepare, ops in _OPS.items():
        for op in ops.split():
            attaches = ("gx" if op.endswith("Grad") else "y",) if prepare in _STORES else ()
            registrar.implementation(op, "opencl", prepare, accepts=accepts, note="kernel", attaches=attaches)
