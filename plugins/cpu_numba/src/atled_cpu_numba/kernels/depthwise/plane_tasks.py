"""Which convolutions and adjoints are filters of single planes, and by kernels of 3 x 3 or of one row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atled_cpu_numba.kernels.convolution.problem import Task
from atled_cpu_numba.kernels.convolution.turned import forward_pad
from atled_cpu_numba.on_demand import on_demand

if TYPE_CHECKING:
    from atled_cpu_numba.kernels.depthwise import lines, padded, planes
else:
    lines, padded, planes = on_demand("kernels.depthwise", "lines", "padded", "planes")


def in_planes(task: Task) -> planes.Problem | None:
    """The task as such filters, if it is that and they compute it."""
    is_filter = task.groups > 1 and task.channels == 1 and (task.forward or task.maps == 1)
    has_kernel = (task.kernel, task.dilation) == ((3, 3), (1, 1))
    has_steps = task.stride == (1, 1) or (task.forward and task.stride == (2, 2))
    if not (is_filter and has_kernel and has_steps):
        return None
    found = planes.Problem(
        task.images,
        task.source,
        task.groups * task.maps,
        task.maps,
        task.result,
        forward_pad(task),
        task.stride[0],
        turned=not task.forward,
        dtype=task.dtype,
    )
    return found if planes.can(found) else None


def whole_filter(task: Task) -> padded.Problem | None:
    """The task as filters of single planes by kernels of any size, if it is that."""
    is_filter = task.groups > 1 and task.channels == 1
    if not is_filter or not (task.forward or (task.maps == 1 and task.stride == (1, 1))):
        return None
    return padded.Problem(
        task.images,
        task.source,
        task.groups * task.maps,
        task.maps,
        task.result,
        task.kernel,
        forward_pad(task),
        task.stride,
        task.dilation,
        turned=not task.forward,
        dtype=task.dtype,
    )


def in_rows(task: Task) -> padded.Problem | None:
    """The task as filters of rows, if it is that and they compute it."""
    found = whole_filter(task)
    return found if found is not None and lines.suits(found) else None
