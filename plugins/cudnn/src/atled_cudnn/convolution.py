"""Convolution, its gradients, deconvolution; bias, a residual and a rectifier fused behind a convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from atled.plugin import ArrayDesc, Call, Prepared, Program, Registrar, parse_formula
from atled_cudnn import graphs, launching
from atled_cudnn.constants import Kind
from atled_cudnn.descriptors import Node
from atled_cudnn.graphs import Windows
from atled_cudnn.launching import Problem

_X, _W, _Y, _BIAS, _RESIDUAL, _FIRST_VIRTUAL = 1, 2, 3, 4, 5, 10  # unique ids
_MOST_AXES = 3
_FAST_CHANNELS = {"float16": 8, "bfloat16": 8, "float32": 4}
"""Of what the channels are a multiple where tensor cores read them in whole vectors of 16 bytes."""


class Behind(NamedTuple):
    """What is fused behind a convolution. residual: place of the array that is added, or None."""

    residual: int | None
    is_rectified: bool


def register(registrar: Registrar) -> None:
    """Hand all of them over."""
    for op in ("Convolution", "ConvolutionDataGrad", "ConvolutionWeightGrad", "Deconvolution"):
        attaches = ("y",) if op == "Convolution" else ()
        registrar.implementation(
            op, "cudnn", prepare, accepts=accepts, note="cuDNN", layout=preferred_layout, attaches=attaches
        )


def accepts(call: Call) -> bool | str:
    """True where cuDNN has an engine for the call, else the reason."""
    return launching.answer(call, describe)


def prepare(call: Call) -> Prepared:
    """One execution of a plan."""
    return launching.prepared(call, describe)


def preferred_layout(call: Call) -> str:
    """Channels behind the other axes where tensor cores compute: else cuDNN transposes within each operation."""
    dtype = call.outputs[0].dtype.name
    multiple = _FAST_CHANNELS.get(dtype, 0)
    if dtype == "float32" and call.precision != "tf32":
        return ""
    if not multiple or call.attributes["group"] > 1:
        return ""
    channels = [_channels(desc, call) for desc in (call.inputs[0], call.outputs[0]) if desc is not None]
    weight_grad = call.spec.name == "ConvolutionWeightGrad" and call.inputs[1] is not None
    channels = [_channels(call.inputs[0], call), _channels(call.inputs[1], call)] if weight_grad else channels
    return "channel_last" if all(count % multiple == 0 for count in channels) else ""


def _channels(desc: ArrayDesc | None, call: Call) -> int:
    assert desc is not None
    return desc.shape[-1 if call.channel_last else call.attributes["base_axis"]]


def describe(call: Call) -> Problem | str:
    """The call as a graph, or why there is none."""
    spatial = len(call.attributes["pad"])
    if spatial > _MOST_AXES:
        return f"cuDNN convolves over {_MOST_AXES} spatial axes at most, not over {spatial}"
    if call.spec.name == "Convolution":
        return _forward(call)
    return _backward(call)


def _backward(call: Call) -> Problem | str:
    if len(call.inputs) == 3 and call.inputs[2] is not None:
        return "cuDNN adds no bias behind a deconvolution"
    first, second, made = call.inputs[0], call.inputs[1], call.outputs[0]
    assert first is not None and second is not None
    if call.spec.name == "ConvolutionWeightGrad":
        kind, images, weight, maps = Kind.CONVOLUTION_WEIGHT, first, made, second
        places = {_X: 0, _Y: 1, _W: 2}
    else:
        kind, images, weight, maps = Kind.CONVOLUTION_DATA, made, second, first
        places = {_Y: 0, _W: 1, _X: len(call.reads)}
    tensors = _images(_X, images, call), _weight(weight, call), _images(_Y, maps, call)
    operation = graphs.convolution(kind, *tensors, windows=_windows(call, weight), dtype=made.dtype)
    return Problem(graphs.graph(operation), places)


def _forward(call: Call) -> Problem | str:
    x, weight, bias = call.inputs
    (y,) = call.outputs
    assert x is not None and weight is not None
    behind = _behind(call)
    if isinstance(behind, str):
        return behind
    places = {_X: 0, _W: 1, _Y: len(call.reads) + len(call.writes) - 1}
    dtype, steps = y.dtype, []
    if behind.residual is not None:
        places[_RESIDUAL] = behind.residual
        steps.append(_images(_RESIDUAL, y, call))
    if bias is not None:
        places[_BIAS] = 2
        dims = (1, y.shape[_channel_axis(call, y)], *(1 for _ in range(_stored_axes(call))))
        steps.append(graphs.tensor(_BIAS, dims, dtype, call.channel_last))
    count = len(steps) + behind.is_rectified
    values = [_images(_FIRST_VIRTUAL + n, y, call, is_virtual=True) for n in range(count)] + [_images(_Y, y, call)]
    operations = [
        graphs.convolution(
            Kind.CONVOLUTION_FORWARD,
            _images(_X, x, call),
            _weight(weight, call),
            values[0],
            _windows(call, weight),
            dtype,
        )
    ]
    operations += [graphs.added(values[n], step, values[n + 1], dtype) for n, step in enumerate(steps)]
    if behind.is_rectified:
        operations.append(graphs.rectified(values[-2], values[-1], dtype))
    return Problem(graphs.graph(*operations), places)


def _behind(call: Call) -> Behind | str:
    """The formula behind the convolution as cuDNN has it: residual and rectifier, where there is a bias between."""
    if call.before:
        return "cuDNN computes no formula before a convolution"
    if not call.after:
        return Behind(None, False)
    formula, program = call.after[0], call.after[0].spec.program
    if call.inputs[2] is None:
        return "cuDNN fuses a formula behind a convolution that has a bias only"
    if call.wanted[0]:
        return "cuDNN does not store what it computes a formula of"
    assert program is not None
    shape = _recognized(program)
    if shape is None or len(formula.outputs) > 1:
        return "cuDNN fuses maximum(y, 0), y + residual and maximum(y + residual, 0) only"
    adds, is_rectified = shape
    if adds and formula.inputs[1] is not None and formula.inputs[1].size != call.outputs[0].size:
        return "cuDNN adds a residual of the output's shape only"
    return Behind(len(call.inputs) if adds else None, is_rectified)


def _recognized(program: Program) -> tuple[bool, bool] | None:
    """Whether a formula adds its second input to the first, and whether it cuts off below 0; None: it is another."""
    if program.attributes or len(program.output_names) != 1:
        return None
    (expression,) = program.expressions
    y, *others = program.inputs
    if not others:
        return (False, True) if expression is parse_formula(f"maximum({y}, 0)") else None
    if len(others) > 1:
        return None
    for text in (f"{y} + {others[0]}", f"{others[0]} + {y}"):
        if expression is parse_formula(text):
            return True, False
        if expression is parse_formula(f"maximum({text}, 0)"):
            return True, True
    return None


# cuDNN has no convolution over one axis alone that knows both layouts: a first axis of size 1 goes along.


def _stored_axes(call: Call) -> int:
    return max(2, len(call.attributes["pad"]))


def _spread(values: Sequence[int], call: Call, neutral: int) -> tuple[int, ...]:
    return (*(neutral for _ in range(_stored_axes(call) - len(values))), *values)


def _channel_axis(call: Call, desc: ArrayDesc) -> int:
    return desc.ndim - 1 if call.channel_last else desc.ndim - 1 - len(call.attributes["pad"])


def _images(number: int, desc: ArrayDesc, call: Call, *, is_virtual: bool = False) -> Node:
    """(B..., C, S...) or (B..., S..., C) as a tensor (N, C, S...)."""
    spatial, axis = len(call.attributes["pad"]), _channel_axis(call, desc)
    first = axis - spatial if call.channel_last else axis
    sizes = desc.shape[first : first + spatial] if call.channel_last else desc.shape[axis + 1 :]
    dims = (math.prod(desc.shape[:first]), desc.shape[axis], *_spread(sizes, call, 1))
    return graphs.tensor(number, dims, desc.dtype, call.channel_last, is_virtual=is_virtual)


def _weight(desc: ArrayDesc, call: Call) -> Node:
    """(O, C / group, K...) or (O, K..., C / group) as a tensor (O, C / group, K...)."""
    channels = desc.shape[-1 if call.channel_last else 1]
    dims = (desc.shape[0], channels, *_spread(_kernel(desc, call), call, 1))
    return graphs.tensor(_W, dims, desc.dtype, call.channel_last)


def _kernel(weight: ArrayDesc, call: Call) -> tuple[int, ...]:
    return weight.shape[1:-1] if call.channel_last else weight.shape[2:]


def _windows(call: Call, weight: ArrayDesc) -> Windows:
    pad = _spread(call.attributes["pad"], call, 0)
    stride, dilation = (_spread(call.attributes[name], call, 1) for name in ("stride", "dilation"))
    return Windows(_spread(_kernel(weight, call), call, 1), pad, pad, stride, dilation)
