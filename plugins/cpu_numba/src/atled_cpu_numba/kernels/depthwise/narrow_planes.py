"""Which convolutions in half and bf16 are filters of single planes that are taken as they are, see `planes`."""

from __future__ import annotations

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.convolution.problem import problem_of, task_of
from atled_cpu_numba.kernels.depthwise import planes
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
    task = task_of(problem)
    pad = task.pad if task.forward else (2 - task.pad[0], 2 - task.pad[1])
    is_filter = task.groups > 1 and task.channels == 1 and (task.forward or task.maps == 1)
    is_taken = task.kernel == (3, 3) and task.dilation == (1, 1) and task.stride in ((1, 1), (2, 2))
    if len(problem.axes) > 2 or not is_filter or not is_taken or (task.stride != (1, 1) and not task.forward):
        return None
    count, turned = task.groups * task.maps, not task.forward
    sizes = task.images, task.source, count, task.maps, task.result
    found = planes.Problem(*sizes, pad, task.stride[0], turned=turned, dtype=task.dtype)
    return planes.prepare(found, problem.biases) if planes.suits(found) else None
