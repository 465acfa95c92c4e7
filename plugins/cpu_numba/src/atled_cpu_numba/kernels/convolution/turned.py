"""The adjoint of a convolution with stride 1 as a convolution: with the kernel turned around, and another padding."""

from __future__ import annotations

from atled_cpu_numba.kernels.convolution.problem import Task
from atled_cpu_numba.kernels.shared.geometry import Pair


def forward_pad(task: Task) -> Pair:
    """The padding of the task as a convolution."""
    if task.forward:
        return task.pad
    reach_h, reach_w = ((k - 1) * d for k, d in zip(task.kernel, task.dilation, strict=True))
    return reach_h - task.pad[0], reach_w - task.pad[1]
