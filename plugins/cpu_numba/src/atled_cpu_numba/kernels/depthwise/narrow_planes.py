"""Which convolutions in half and bf16 are filters of single planes that are taken as they are, see `planes`."""

from __future__ import annotations

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.convolution.problem import problem_of, task_of
from atled_cpu_numba.kernels.depthwise import planes
from atled_cpu_numba.kernels.depthwise.plane_tasks import in_planes
from atled_cpu_numba.kernels.shared.launch import has_strides, narrow_dtypes

_NAMES = ("Convolution", "DepthwiseConvolution", "ConvolutionDataGrad")


def prepare(call: Call) -> Prepared | None:
    """The call, all of whose floats are of one narrow dtype; None where it is no such filter."""
    if call.spec.name not in _NAMES or call.attributes.get("channel_last") or has_strides(call):
        return None
    names = {desc.dtype.name for desc in (*call.inputs, *call.outputs) if desc is not None}
    if len(names) > 1 or not names <= {*narrow_dtypes()}:
        return None
    problem = problem_of(call)
    found = in_planes(task_of(problem)) if len(problem.axes) <= 2 else None
    return planes.prepare(found, problem.biases) if found is not None and planes.suits(found) else None
