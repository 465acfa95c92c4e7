"""Which convolutions in half and bf16 are filters of planes that are taken as they are, see `planes` and `lines`."""

from __future__ import annotations

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.convolution.problem import problem_of, task_of
from atled_cpu_numba.kernels.depthwise import lines, planes
from atled_cpu_numba.kernels.depthwise.plane_tasks import in_planes, in_rows
from atled_cpu_numba.kernels.shared.launch import has_strides, narrow_dtypes

_NAMES = ("Convolution", "DepthwiseConvolution", "ConvolutionDataGrad", "Deconvolution", "DepthwiseDeconvolution")


def prepare(call: Call) -> Prepared | None:
    """The call, all of whose floats are of one narrow dtype; None where it is no such filter."""
    if call.spec.name not in _NAMES or call.attributes.get("channel_last") or has_strides(call):
        return None
    names = {desc.dtype.name for desc in (*call.inputs, *call.outputs) if desc is not None}
    if len(names) > 1 or not names <= {*narrow_dtypes()}:
        return None
    problem = problem_of(call)
    if len(problem.axes) > 2:
        return None
    task = task_of(problem)
    near = in_planes(task)
    if near is not None:
        return planes.prepare(near, problem.biases) if planes.suits(near) else None
    rows = in_rows(task)
    return None if rows is None else lines.prepare(rows, problem.biases)
