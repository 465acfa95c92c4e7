"""SumPooling and its gradient as averages, times the elements of a window; with channels behind as sums."""

from __future__ import annotations

import math

from atled.plugin import ArrayDesc, Call, Prepared, Program, op_spec
from atled_cpu_numba import elementwise
from atled_cpu_numba.kernels.pooling import channel_last, planes, turned
from atled_cpu_numba.kernels.rows_of_kernels import Rows
from atled_cpu_numba.kernels.shared.launch import REALS, refuse_floats

_TIMES = Program(("x",), ("val",), (("y", "x * val"),))


def accepts(call: Call) -> bool | str:
    """Whether all windows have as many elements, counting the padding, and there are some; and what averages take."""
    refused = refuse_floats(call, REALS, floats=(0,), empty=False)
    if refused:
        return refused
    if call.attributes.get("channel_last"):
        return channel_last.accepts(call)
    if not call.attributes["ignore_border"]:
        return "takes windows that are not cut at the border"
    return planes.accepts(_averages(call))


def prepare(call: Call) -> Prepared:
    """SumPooling: x -> y.  SumPoolingGrad: gy -> gx."""
    if call.attributes.get("channel_last"):
        return channel_last.prepare(call)
    first, result = call.inputs[0], call.outputs[0]
    assert first is not None
    if turned.fits(call, planes.axes_of(call)):
        return turned.prepare(call)
    rows = Rows(call)
    source, target = rows.arguments
    count = math.prod(call.attributes["kernel"])
    if call.spec.name == "SumPooling":
        rows.add(planes.prepare(_averages(call)), source, target)
        rows.add(_times(result), target, target, val=count)
    else:
        larger = rows.between(first)
        rows.add(_times(first), source, larger, val=count)
        rows.add(planes.prepare(_averages(call)), larger, target)
    return rows.finished("averages")


def _averages(call: Call) -> Call:
    op = call.spec.name.replace("Sum", "Average")
    return Call(op_spec(op), call.inputs, call.outputs, {**call.attributes, "including_pad": True})


def _times(desc: ArrayDesc) -> Prepared:
    flat = ArrayDesc((desc.size,), desc.dtype)
    return elementwise.prepare_program(_TIMES, (flat,), (flat,))
